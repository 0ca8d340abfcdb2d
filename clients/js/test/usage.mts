// What the declarations must allow.
import { type BlockBegin, type BlockDecided, type BlockEnded, EventParser, Problem, Stile, type Event, type Outcome, type RollbackBegin, type Run, type Session, type SimpleEvent } from "../stile.js";

const host: Stile = new Stile(new URL("http://localhost:8471"), { token: async () => "t", attempts: 3 });
const agent: Session = host.agent("plain");
try {
  for await (const event of agent.stream("hello", { stream: "token", policy: "reject", signal: AbortSignal.timeout(1000) })) {
    const one: Event = event;
    if (one.type === "respond") console.log(one.content?.length, one.unit, one.text);
    if (one.type === "call") console.log(one.block?.length, one.compensates?.length);
    if (one.type === "block.begin") console.log((one.body as BlockBegin).kind === "if");
    if (one.type === "block.decided") console.log((one.body as BlockDecided).branch);
    if (one.type === "block.ended") console.log((one.body as BlockEnded).state === "ok");
    if (one.type === "rollback.begin") console.log((one.body as RollbackBegin).cause === "asked");
    if (one.type === "run.end") console.log(one.body.decision);
  }
  const run: Run = await agent.submit("hello", { key: "k", policy: "enqueue" });
  const outcome: Outcome = await run.outcome({ wait: 1000, signal: AbortSignal.timeout(2000) });
  if (outcome.state === "waiting") console.log(run.number, run.session.id, outcome.usage?.cost_micro_usd);
  console.log((await host.session("x").run(1).text()).length);
  for await (const event of run.simple({ tokens: false })) {
    const one: SimpleEvent = event;
    if (one.type === "result") console.log(one.payload?.success_count, one.content, one.block, one.compensates);
  }
  for await (const session of host.sessions()) console.log(session.state === "suspended");
  for (const asked of await agent.approvals()) await agent.answer(asked, false, { reason: "no" });
  await host.session("x").cancel(1);
  const whole: Record<string, string>[] = new EventParser().push(new Uint8Array(3));
  console.log(whole);
} catch (err) {
  if (err instanceof Problem && err.code === "ERR_BUSY") console.log(err.status, err.retryAfter, err.outcome?.text);
}

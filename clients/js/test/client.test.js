import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { EventParser, Problem, Stile } from "../stile.js";
import { pieces, random, startHost, startProxy } from "./host.js";

const seed = Number(process.env.STILE_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.log(`seed ${seed}`);

const said = pieces.join("");

/** What a page keeps of a stream. */
async function keep(stream) {
  const out = { events: [], texts: {}, joined: "" };
  for await (const e of stream) {
    out.events.push(e);
    if (e.unit) out.texts[e.unit] = e.text;
    if (e.type === "respond") out.joined += e.content;
  }
  return out;
}

const types = (got) => got.events.map((e) => e.type);

/** Records come once each and in order, and the last one is the run's end. */
function whole(got) {
  const seqs = got.events.filter((e) => e.body).map((e) => e.seq);
  assert.deepEqual(seqs, seqs.map((_, i) => seqs[0] + i));
  assert.equal(got.events.at(-1).type, "run.end");
}

test("a run as it grows, and as whole texts", async (t) => {
  const host = await startHost(t);
  const agent = new Stile(host.url).agent("talker", "ada");
  const token = await keep(agent.stream("hello", { stream: "token" }));
  whole(token);
  assert.equal(token.events[0].type, "user");
  assert.equal(token.events[0].content, "hello");
  assert.equal(token.joined, said);
  assert.deepEqual(token.texts, { "1.0": said });
  assert.ok(token.events.filter((e) => e.type === "respond").length > 10, "it came in pieces");
  assert.equal(token.events.at(-1).body.decision, "DONE");

  const event = await keep(agent.stream("again", { stream: "event" }));
  whole(event);
  const texts = event.events.filter((e) => e.type === "respond");
  assert.equal(texts.length, 1);
  assert.equal(texts[0].content, said);
  assert.equal(texts[0].complete, true);
  assert.equal(texts[0].run, 2);
});

test("without a stream there is one event", async (t) => {
  const host = await startHost(t);
  const agent = new Stile(host.url).agent("talker", "ada");
  for (const stream of ["none", null]) {
    const got = await keep(agent.stream("hello", { stream }));
    assert.deepEqual(types(got), ["respond"]);
    assert.equal(got.joined, said);
    assert.equal(got.events[0].body.decision, "DONE");
    assert.equal(got.events[0].body.units[0].text, said);
    assert.ok(got.events[0].body.usage);
  }
});

test("an answer that fits a schema comes decoded, and none that does not", async (t) => {
  const host = await startHost(t);
  const client = new Stile(host.url);
  for (const stream of ["token", "event", "none"]) {
    const got = await keep(client.agent("biller", "bill-" + stream).stream("the bill", { stream }));
    const end = got.events.at(-1);
    assert.deepEqual(end.output, { total: 2.5 }, stream);
    assert.ok(!JSON.stringify(Object.values(got.texts)).includes("secret"), "an answer that does not fit is shown");
    assert.equal(got.joined, '{"total": 2.5}', stream);
    if (stream === "none") continue;
    whole(got);
    assert.equal(got.events.filter((e) => e.output).length, 1);
    assert.equal(types(got).filter((type) => type === "run.end").length, 1);
    assert.ok(got.events.some((e) => e.type === "turn.decided" && e.body.repair), "it was mended");
  }
});

test("a run is waited for, and has what it said", async (t) => {
  const host = await startHost(t);
  const client = new Stile(host.url);
  const run = await client.agent("talker", "ada").submit("hello", { key: "k" });
  assert.equal(run.number, 1);
  assert.ok(["queued", "running"].includes((await run.outcome({ wait: 1 })).state), "it has only begun");
  assert.equal(await run.text(), said);
  const outcome = await run.outcome();
  assert.equal(outcome.state, "ended");
  assert.equal(outcome.decision, "DONE");
  assert.deepEqual(outcome.units, [{ kind: "response", text: said }]);
  assert.ok(outcome.usage && Date.parse(outcome.ended_at) >= Date.parse(outcome.began_at), JSON.stringify(outcome));
  assert.equal((await client.session("ada").submit("hello", { key: "k" })).number, 1, "the same key is the same run");
  assert.deepEqual((await (await client.agent("biller", "bill").submit("the bill")).outcome()).output, { total: 2.5 });

  const slow = await client.agent("slow", "sue").submit("hello");
  assert.deepEqual([(await slow.outcome({ wait: 20 })).ended, (await slow.outcome({ wait: 0 })).state], [false, "running"]);
  const left = new AbortController();
  const waits = assert.rejects(slow.text({ signal: left.signal }), { name: "AbortError" });
  left.abort();
  await waits;
  await slow.cancel();
  await assert.rejects(slow.text(), (err) => {
    assert.ok(err instanceof Problem);
    assert.deepEqual([err.code, err.status, err.outcome.decision], ["ERR_CANCELLED", 0, "HALT"]);
    return true;
  });
  await assert.rejects(client.session("ada").run(9).text(), { code: "ERR_NOT_FOUND", status: 404 });
});

test("a wait goes on when the host is away for a while", async (t) => {
  const host = await startHost(t);
  const client = new Stile(host.url, { maxPause: 30, attempts: 100 });
  const run = await client.agent("talker", "ada").submit("hello");
  const text = run.text();
  const address = host.url.slice("http://".length);
  await host.stop("SIGKILL");
  await host.start(address);
  assert.equal(await text, said);
});

test("simple events, whole and as they grow, cut at random bytes", async (t) => {
  const rnd = random(seed);
  const host = await startHost(t);
  const proxy = await startProxy(t, new URL(host.url), () => 300 + rnd(3000));
  const session = new Stile(proxy.url, { maxPause: 3, attempts: 100 }).session("ada");
  const run = session.run((await new Stile(host.url).agent("talker", "ada").submit("hello")).number);
  const collect = async (stream) => {
    const out = { events: [], texts: {}, joined: "" };
    for await (const e of stream) {
      out.events.push(e);
      if (e.unit) out.texts[e.unit] = e.text;
      if (e.type === "respond") out.joined += e.content;
    }
    return out;
  };
  const tokens = await collect(run.simple());
  assert.equal(tokens.joined, said);
  assert.deepEqual(Object.values(tokens.texts), [said]);
  assert.deepEqual([tokens.events[0].type, tokens.events.at(-1).type], ["user", "end"]);
  assert.ok(tokens.events.filter((e) => e.type === "respond").length > 1, "it came in pieces");
  assert.ok(proxy.cuts > 0, "nothing was cut");
  const texts = await collect(run.simple({ tokens: false }));
  assert.deepEqual(texts.events.map((e) => e.type), ["user", "respond", "metric", "end"]);
  assert.equal(texts.joined, said.trim());
  const rest = await collect(run.simple({ tokens: false, after: texts.events[1].id }));
  assert.deepEqual(rest.events.map((e) => e.id), texts.events.slice(2).map((e) => e.id));
  for await (const e of session.simple({ tokens: false })) {
    if (e.type === "respond") assert.equal(e.text, said.trim());
    if (e.type === "end") break;
  }
  // A text that is replaced: what was shown of it is taken back.
  const clerk = new Stile(host.url).agent("clerk", "eve");
  const asked = await clerk.submit("trains?");
  const shown = {};
  for await (const e of asked.simple()) {
    if (e.unit) shown[e.unit] = e.text;
    if (e.type === "interrupt") await clerk.answer((await clerk.approvals())[0], true);
  }
  assert.deepEqual(Object.values(shown).filter(Boolean), ["There are trains."]);
  assert.equal(await asked.text(), "There are trains.");
});

test("the user's time zone goes with a submit, streamed or not", async (t) => {
  const host = await startHost(t);
  const client = new Stile(host.url);
  for (const stream of ["event", "none"]) {
    const session = client.agent("zoned", "zone-" + stream);
    await keep(session.stream("what time is it?", { stream, zone: "Asia/Tokyo" }));
    const all = [];
    for await (const e of session.follow({ stream: "event" })) {
      all.push(e);
      if (e.type === "run.end") break;
    }
    assert.equal(all.find((e) => e.type === "user").body.zone, "Asia/Tokyo", stream);
  }
});

test("cut at random bytes, the joined stream is the uncut one", async (t) => {
  const rnd = random(seed);
  const host = await startHost(t);
  const proxy = await startProxy(t, new URL(host.url), () => 1 + rnd(5000));
  const client = new Stile(proxy.url, { maxPause: 3, attempts: 100 });
  const straight = new Stile(host.url);
  for (let i = 0; i < 12; i++) {
    const id = `cut-${i}`;
    await straight.agent("talker", id).open();
    const got = await keep(client.session(id).stream("hello", { stream: rnd(4) ? "token" : "event" }));
    whole(got);
    assert.equal(got.joined, said);
    assert.deepEqual(got.texts, { "1.0": said });
    assert.equal((await straight.session(id).call("GET", "")).run, 1, "the repeated submit made no second run");
  }
  assert.ok(proxy.cuts > 12, `${proxy.cuts} cuts`);
});

test("a host that is killed and comes back goes on with the run", async (t) => {
  const host = await startHost(t);
  const address = new URL(host.url).host;
  const agent = new Stile(host.url, { maxPause: 50, attempts: 1000 }).agent("talker");
  let killed;
  const got = { events: [], texts: {} };
  for await (const e of agent.stream("hello")) {
    got.events.push(e);
    if (e.unit) got.texts[e.unit] = e.text;
    if (e.type === "respond" && !killed) killed = host.stop("SIGKILL").then(() => host.start(address));
  }
  await killed;
  whole(got);
  assert.equal(Object.values(got.texts).at(-1), said);
  assert.ok(got.events.some((e) => e.type === "turn.decided" && e.body.resumed), "a turn ended by the crash");
  // What was shown of the broken turn and is not in its record was taken back.
  const recorded = {};
  for (const e of got.events) if (e.body?.unit) recorded[e.body.unit] = e.body.text;
  for (const [unit, text] of Object.entries(got.texts)) assert.equal(text, recorded[unit] ?? "");
});

test("an approval is answered, and a replaced text is taken back", async (t) => {
  const host = await startHost(t);
  const agent = new Stile(host.url).agent("clerk");
  const got = { events: [], texts: {} };
  for await (const e of agent.stream("trains?")) {
    got.events.push(e);
    if (e.unit) got.texts[e.unit] = e.text;
    if (e.type !== "turn.suspended") continue;
    const [asked] = await agent.approvals();
    assert.equal(asked.name, "search");
    await assert.rejects(agent.answer({ ...asked, digest: "0".repeat(64) }, true), { name: "Problem", code: "ERR_APPROVAL", reason: "CHANGED" });
    await agent.answer(asked, true);
  }
  whole(got);
  assert.deepEqual(got.texts, { "1.0": "", "2.0": "There are trains." });
  for (const type of ["call", "action.approval", "result", "retract", "metric"]) assert.ok(types(got).includes(type), type);
});

test("a session is followed from any event on", async (t) => {
  const host = await startHost(t);
  const agent = new Stile(host.url).agent("talker", "f");
  const first = await keep(agent.stream("hello"));
  const pieced = first.events.flatMap((e, i) => (e.type === "respond" && !e.body ? [i] : []));
  const at = pieced[Math.floor(pieced.length / 2)];
  const rest = [];
  for await (const e of agent.follow({ after: first.events[at].id })) {
    rest.push(e);
    if (e.type === "run.end") break;
  }
  assert.equal(first.events[at].text + rest.map((e) => (e.type === "respond" && !e.body ? e.content : "")).join(""), said);
  assert.deepEqual((await collect(new Stile(host.url).sessions())).map((s) => s.id), ["f"]);
  const session = new Stile(host.url).session("f");
  assert.deepEqual((await session.describe({ title: "a title", add: ["arm=a", "new"] })).tags, ["arm=a", "new"]);
  for (const [filter, want] of [[{ tag: "arm" }, 1], [[["tag", "arm"], ["tag", "none"]], 0], [{ q: "TITLE" }, 1], [{ state: "suspended" }, 0]])
    assert.equal((await collect(new Stile(host.url).sessions({ filter }))).length, want, JSON.stringify(filter));
  assert.equal((await session.runs()).runs[0]?.run ?? 0, (await session.call("GET", "")).run);
  assert.deepEqual((await new Stile(host.url).agents()).map((a) => a.name), ["biller", "clerk", "slow", "talker", "zoned"]);
});

async function collect(all) {
  const out = [];
  for await (const one of all) out.push(one);
  return out;
}

test("a signal ends the stream and not the run, cancel ends the run", async (t) => {
  const host = await startHost(t);
  const agent = new Stile(host.url).agent("slow", "s");
  const why = new Error("enough");
  const stop = new AbortController();
  await assert.rejects(
    (async () => {
      for await (const e of agent.stream("go", { signal: stop.signal })) if (e.type === "respond") stop.abort(why);
    })(),
    why,
  );
  assert.equal((await agent.call("GET", "/runs/1")).ended, false);
  await agent.cancel(1);
  let end;
  for await (const e of agent.follow()) {
    if (e.type === "run.end") {
      end = e.body;
      break;
    }
  }
  assert.equal(end.reason, "ERR_CANCELLED");
  await assert.rejects(keep(agent.stream("go", { signal: AbortSignal.abort(why) })), why);
});

test("refusals are problems, and are not tried again", async (t) => {
  const host = await startHost(t);
  const client = new Stile(host.url);
  const problem = (code, status, field) => (err) => {
    assert.ok(err instanceof Problem && err instanceof Error);
    assert.deepEqual([err.code, err.status, err.field], [code, status, field]);
    assert.ok(err.message);
    return true;
  };
  await assert.rejects(keep(client.session("nobody").stream("hello")), problem("ERR_NOT_FOUND", 404, "session"));
  await assert.rejects(client.agent("nobody", "x").open(), problem("ERR_NOT_FOUND", 404, "body.agent"));
  const slow = client.agent("slow", "busy");
  const running = slow.stream("go");
  await running.next();
  await assert.rejects(keep(slow.stream("go", { policy: "reject" })), problem("ERR_BUSY", 409, undefined));
  await running.return();
  await slow.cancel(1);
});

/** A server of answers that no real host gives at will. */
async function answers(t, handle) {
  const seen = [];
  const server = http.createServer((req, res) => {
    seen.push({ path: req.url, headers: req.headers });
    handle(seen.length, res, req);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, seen };
}

const frame = (id, data) => `event: x\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;

test("what passes is waited for, within bounds", async (t) => {
  const server = await answers(t, (n, res) => {
    if (n === 1) return res.writeHead(502, { "Content-Type": "text/html" }).end("<h1>Bad Gateway</h1>");
    if (n === 2) return res.writeHead(429, { "Content-Type": "application/problem+json", "Retry-After": "1" }).end('{"code":"ERR_QUOTA","title":"x"}');
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    if (n === 3) return res.write("retry: 1\n\n" + frame("7", { type: "note", seq: 7, run: 3, body: { text: "a" } })); // and then silence
    if (n === 4) return res.end('event: error\ndata: {"code":"ERR_JOURNAL","title":"x","status":503}\n\n');
    if (n === 5) return res.end('event: leaving\ndata: {}\n\n');
    if (n === 6) return res.end('event: problem\ndata: {"code":"ERR_JOURNAL","title":"x","status":503}\n\n');
    res.end(frame("8", { type: "run.end", seq: 8, run: 3, body: { decision: "DONE" } }));
  });
  const began = Date.now();
  const got = await keep(new Stile(server.url + "/", { attempts: 5, maxPause: 2, patience: 300, token: async () => "secret" }).session("s").stream("hello", { key: "k" }));
  assert.deepEqual(types(got), ["note", "run.end"]);
  assert.ok(Date.now() - began >= 990, "Retry-After is kept");
  assert.deepEqual(
    server.seen.map((r) => [r.path, r.headers["idempotency-key"], r.headers["last-event-id"], r.headers.authorization]),
    [
      ...Array(3).fill(["/v1/sessions/s/runs?stream=token", "k", undefined, "Bearer secret"]),
      ...Array(4).fill(["/v1/sessions/s/runs/3/events?stream=token", undefined, "7", "Bearer secret"]),
    ],
  );
  const gone = await answers(t, (n, res) => res.destroy());
  await assert.rejects(keep(new Stile(gone.url, { maxPause: 1, attempts: 5 }).session("s").stream("hello")), { name: "Problem", code: "NETWORK", status: 0, retryable: true });
  assert.equal(gone.seen.length, 5);
});

test("an abort while waiting ends at once", async (t) => {
  const gone = await answers(t, (n, res) => res.writeHead(503, { "Retry-After": "3600" }).end());
  const stop = new AbortController();
  const reading = keep(new Stile(gone.url).session("s").follow({ signal: stop.signal }));
  while (!gone.seen.length) await new Promise((r) => setImmediate(r));
  stop.abort();
  await assert.rejects(reading, { name: "AbortError" });
});

test("what was merged too late is followed into the next run", async (t) => {
  const server = await answers(t, (n, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    const u = (seq, run, type, body = {}) => frame(String(seq), { type, seq, run, body });
    if (n === 1) return res.end("retry: 1\n\n" + u(5, 1, "input", { text: "more" }) + u(6, 1, "turn.begin", { merged: [4] }) + u(7, 1, "run.end", { next: 2 }));
    res.end(u(8, 2, "run.begin") + u(9, 2, "run.end"));
  });
  const got = await keep(new Stile(server.url).session("s").stream("more", { policy: "merge" }));
  assert.deepEqual(got.events.map((e) => e.seq), [5, 6, 7, 8, 9]);
  assert.equal(server.seen[1].path, "/v1/sessions/s/runs/2/events?stream=token");
  const taken = await answers(t, (n, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    const u = (seq, type, body) => frame(String(seq), { type, seq, run: 1, body });
    res.end(u(5, "input", { text: "more" }) + u(6, "turn.begin", { merged: [5] }) + u(7, "run.end", { next: 2 }));
  });
  await keep(new Stile(taken.url).session("s").stream("more", { policy: "merge" }));
  assert.equal(taken.seen.length, 1);
});

test("the parser gives the same events at every cut", () => {
  const text = "retry: 5\n\n: comment\n\nevent: ä\r\nid: 1.1.0.3\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nid: 2\rdata\r\rdata: 🦀\n\ndata: never whole";
  const bytes = new TextEncoder().encode(text);
  const want = [{ retry: "5" }, { event: "ä", id: "1.1.0.3", data: '{"a":\n1}' }, { id: "2", data: "" }, { data: "🦀" }];
  for (let a = 0; a <= bytes.length; a++) {
    for (let b = a; b <= bytes.length; b += 7) {
      const p = new EventParser();
      assert.deepEqual([...p.push(bytes.subarray(0, a)), ...p.push(bytes.subarray(a, b)), ...p.push(bytes.subarray(b))], want, `cut at ${a}, ${b}`);
    }
  }
  const p = new EventParser();
  assert.deepEqual([...bytes].flatMap((_, i) => p.push(bytes.subarray(i, i + 1))), want, "byte by byte");
});

test("a retract counts bytes", async (t) => {
  const server = await answers(t, (n, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    const d = (type, off, text) => frame(`1.1.0.${off}`, { type, kind: "response", unit: "1.0", seq: 1, run: 1, off, text });
    res.end(d("delta", 9, "aü🦀zz") + d("retract", 7) + d("delta", 8, "!") + frame("2", { type: "response", seq: 2, run: 1, body: { unit: "1.0", text: "aü🦀!?", complete: true } }) + frame("3", { type: "run.end", seq: 3, run: 1 }));
  });
  const got = await keep(new Stile(server.url).session("s").stream("x"));
  assert.deepEqual(got.events.map((e) => [e.type, e.content, e.text]), [
    ["respond", "aü🦀zz", "aü🦀zz"],
    ["retract", "", "aü🦀"],
    ["respond", "!", "aü🦀!"],
    ["respond", "?", "aü🦀!?"],
    ["run.end", undefined, undefined],
  ]);
});

test("a result that grows is whole for those who come late", async (t) => {
  const server = await answers(t, (n, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    let seq = 1;
    const record = (type, body) => frame(String(++seq), { type, seq, run: 1, turn: 1, body });
    const started = (attempt) => record("action.started", { id: "a", attempt });
    const chunk = (off, text) => record("action.chunk", { id: "a", off, bytes: Buffer.from(text).toString("base64") });
    const delta = (off, text, type = "delta") => frame(`${seq}.${off}`, { type, kind: "result", action: "a", seq, run: 1, turn: 1, off, text });
    res.end(
      started(1) + chunk(0, "öld") + started(2) + // all of it from records
        chunk(0, "aü") + chunk(3, "🦀") + delta(8, "b") + delta(9, "c") + // then as it comes
        chunk(7, "b") + chunk(8, "cd") + // what was shown, and more
        delta(9, "", "retract") + started(3) + delta(1, "x") + chunk(0, "x") +
        record("run.end", {}),
    );
  });
  const got = await keep(new Stile(server.url).session("s").stream("x"));
  assert.deepEqual(got.events.filter((e) => e.action).map((e) => [e.type, e.action, e.content, e.text]), [
    ["chunk", "a", "öld", "öld"],
    ["chunk", "a", "aü", "aü"],
    ["chunk", "a", "🦀", "aü🦀"],
    ["chunk", "a", "b", "aü🦀b"],
    ["chunk", "a", "c", "aü🦀bc"],
    ["chunk", "a", "", "aü🦀bc"],
    ["chunk", "a", "d", "aü🦀bcd"],
    ["retract", "a", "", "aü🦀bc"],
    ["chunk", "a", "x", "x"],
    ["chunk", "a", "", "x"],
  ]);
});

test("numbered thoughts say where they stand", async (t) => {
  const server = await answers(t, (n, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    const thought = { unit: "1.0", text: "old news", complete: true, n: 2, parent: 1, depth: 2, label: "risk" };
    res.end(
      frame("1.1.0.3", { type: "delta", kind: "thought", unit: "1.0", seq: 1, run: 1, off: 3, text: "old", n: 2, parent: 1, depth: 2, label: "risk" }) +
        frame("2", { type: "thought", seq: 2, run: 1, body: thought }) +
        frame("3", { type: "thought", seq: 3, run: 1, body: { unit: "1.1", text: "x", complete: true, n: 3, depth: 1 } }) +
        frame("4", { type: "thought", seq: 4, run: 1, body: { unit: "1.2", text: "y", complete: true } }) +
        frame("5", { type: "run.end", seq: 5, run: 1 }),
    );
  });
  const got = await keep(new Stile(server.url).session("s").stream("x"));
  const inner = { n: 2, parent: 1, depth: 2, label: "risk" };
  assert.deepEqual(got.events.map((e) => e.thought), [inner, inner, { n: 3, parent: 0, depth: 1, label: null }, undefined, undefined]);
});

test("blocks and rollbacks say where they stand", async (t) => {
  const server = await answers(t, (n, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    const records = [
      ["block.begin", { id: "c", kind: "if", test: "exists($l)" }],
      ["block.begin", { id: "p", kind: "parallel", block: "c" }],
      ["block.decided", { id: "c", branch: "then" }],
      ["action.declared", { id: "a", name: "book", args: "{}", block: "p", group: "trip" }],
      ["block.ended", { id: "p", state: "failed", failed: 1, reason: "child_failed:a" }],
      ["rollback.begin", { group: "trip", cause: "error:a" }],
      ["action.declared", { id: "undo:b", name: "drop", args: "{}", compensates: "b" }],
      ["run.end", { decision: "DONE" }],
    ];
    res.end(records.map(([type, body], i) => frame(String(i + 1), { type, seq: i + 1, run: 1, body })).join(""));
  });
  const got = await keep(new Stile(server.url).session("s").stream("x"));
  assert.deepEqual(got.events.map((e) => [e.type, e.block, e.compensates, e.body.id ?? e.body.group]), [
    ["block.begin", undefined, undefined, "c"],
    ["block.begin", "c", undefined, "p"],
    ["block.decided", undefined, undefined, "c"],
    ["call", "p", undefined, "a"],
    ["block.ended", undefined, undefined, "p"],
    ["rollback.begin", undefined, undefined, "trip"],
    ["call", undefined, "b", "undo:b"],
    ["run.end", undefined, undefined, undefined],
  ]);
});

test("simple events of calls in blocks and of compensations", async (t) => {
  const server = await answers(t, (n, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    const call = (id, more) => frame(id, { type: "call", content: "{}", timestamp: 1, ...more });
    res.end(call("1", { block: "p" }) + call("2", { compensates: "b" }) + frame("3", { type: "end", content: "", timestamp: 2 }));
  });
  const got = [];
  for await (const e of new Stile(server.url).session("s").run(1).simple()) got.push([e.type, e.block, e.compensates]);
  assert.deepEqual(got, [["call", "p", undefined], ["call", undefined, "b"], ["end", undefined, undefined]]);
});

test("a running action says how far it is", async (t) => {
  const server = await answers(t, (n, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    const at = (done, more) => frame("2", { type: "progress", action: "i", done, run: 1, seq: 2, turn: 1, ...more });
    res.end(at(1, { total: 3, text: "one file" }) + at(2) + frame("3", { type: "run.end", seq: 3, run: 1 }));
  });
  const got = await keep(new Stile(server.url).session("s").stream("x"));
  assert.deepEqual(got.events.slice(0, 2).map((e) => [e.type, e.action, e.done, e.total, e.content, e.id]), [
    ["progress", "i", 1, 3, "one file", "2"],
    ["progress", "i", 2, undefined, "", "2"],
  ]);
});

test("the examples of the pages run", async (t) => {
  const host = await startHost(t);
  const dir = mkdtempSync(join(tmpdir(), "stile-examples-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const root = new URL("../../../", import.meta.url);
  copyFileSync(new URL("clients/js/stile.js", root), join(dir, "stile.js"));
  writeFileSync(join(dir, "package.json"), '{"type": "module"}');
  for (const page of ["clients/js/README.md", "docs/http.md"]) {
    const [, code] = /```js\n(import .*?)```/s.exec(readFileSync(new URL(page, root), "utf8"));
    writeFileSync(join(dir, "example.js"), code.replaceAll("http://localhost:8471", host.url).replaceAll('"plain"', '"talker"'));
    const { stdout } = await promisify(execFile)(process.execPath, [join(dir, "example.js")]);
    assert.equal(stdout.replaceAll("\n", ""), said.replaceAll("\n", ""), page);
  }
});

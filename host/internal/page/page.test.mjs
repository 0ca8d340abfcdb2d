// The pure parts of the console.
import assert from "node:assert/strict";
import { test } from "node:test";
import { align, lines, messages } from "./diff.js";
import * as format from "./format.js";
import { named, nested } from "./nest.js";
import { canonical } from "./proof.js";
import * as route from "./route.js";
import { samples } from "./samples.js";
import { instant, lanes, ticks } from "./spans.js";
import { childrenOf, head, nameOf, Story, taken } from "./story.js";
import { ended, why } from "./why.js";

const t0 = Date.parse("2026-01-02T15:04:05Z");
const ts = (ms) => new Date(t0 + ms).toISOString().replace("Z", "000000Z");

/** Records of a run with one turn, by milliseconds, type and body. */
function story(...recs) {
  const s = new Story();
  recs.forEach(([ms, type, body = {}, run = 1, turn = 1], i) => s.add({ seq: i + 1, ts: ts(ms), type, body, run, turn: type.startsWith("run.") || type === "input" ? 0 : turn, hash: "", prev: "", sig: type === "turn.decided" ? {} : undefined }));
  return s;
}

test("numbers and times", () => {
  const cases = [
    [format.span, 0.4, "0.4 ms"], [format.span, 8, "8.0 ms"], [format.span, 999.4, "999 ms"], [format.span, 1240, "1.24 s"], [format.span, 200000, "3 min 20 s"], [format.span, 3720000, "1 h 2 min"], [format.span, NaN, "–"],
    [format.money, 0, "$0"], [format.money, 690, "$0.00069"], [format.money, 1234567, "$1.23"], [format.money, 12000, "$0.012"],
    [format.bytes, 812, "812 B"], [format.bytes, 14541, "14.2 KiB"], [format.bytes, 3 << 20, "3.0 MiB"],
    [format.brief, 9999, "9,999"], [format.brief, 1250000, "1.3M"],
  ];
  for (const [f, n, want] of cases) assert.equal(f(n), want);
  assert.equal(format.ago(ts(0), t0 + 61000), "1 min");
  assert.equal(format.ago("nothing"), "");
});

test("JSON gets space and nothing else", () => {
  assert.equal(format.pretty('{"n":12345678901234567890,"n":1e999,"s":"a{b,\\"c: ","e":{},"l":[ ],"t":[true,null]}'), `{
  "n": 12345678901234567890,
  "n": 1e999,
  "s": "a{b,\\"c: ",
  "e": {},
  "l": [ ],
  "t": [
    true,
    null
  ]
}`);
  assert.equal(format.pretty("{not, json"), "{not, json");
});

test("addresses", () => {
  for (const at of [{ page: "inbox" }, { page: "costs" }, { id: "ada" }, { id: "a.b_c-d", tab: "time", turn: 3 }, { id: "ada", record: 12 }, { id: "ada", tab: "compare", other: "ben" }]) {
    const { page = "sessions", id = "", tab = "talk", turn = 0, record = 0, other = "" } = at;
    assert.deepEqual(route.parse(route.format(at)), { page, id, tab, turn, record, other, run: 0 });
  }
  assert.equal(route.parse("#ada").id, "ada");
  assert.equal(route.parse("#%E0%A4%A").id, "");
  assert.equal(route.parse("#/s/x?record=-5&turn=NaN").record, 0);
});

test("canonical JSON", () => {
  assert.equal(canonical(JSON.parse('{"b": [1, {"d": null, "c": "\\u20ac"}], "a": 1e2}')), '{"a":100,"b":[1,{"c":"€","d":null}]}');
});

test("a story is runs, turns and what was said", () => {
  const s = story(
    [0, "input", { text: "hello" }],
    [1, "run.begin", { input: 1 }],
    [2, "turn.begin", { pass: 1 }],
    [3, "model.request", { provider: "p", model: "m" }],
    [10, "model.chunk", {}],
    [11, "thought", { unit: "1.1", text: "hm" }],
    [20, "action.declared", { id: "a", name: "read", args: "{}" }],
    [21, "action.started", { id: "a", attempt: 1 }],
    [25, "action.started", { id: "a", attempt: 2, failure: "TIMEOUT" }],
    [30, "action.ended", { id: "a", state: "ok", result: '"x"', cost_micro_usd: 5 }],
    [40, "model.reply", { finish: "complete", usage: { input: 7, output: 3 }, cost_micro_usd: 11 }],
    [41, "response", { unit: "1.2", text: "Ahoy.", complete: true }],
    [42, "turn.decided", { decision: "DONE" }],
    [43, "run.end", { decision: "DONE" }],
  );
  const [run] = s.list();
  assert.deepEqual(run.items.filter((i) => !i.hidden).map((i) => i.kind), ["user", "call", "said"]);
  assert.deepEqual([run.decision, run.state, run.turns.length], ["DONE", "ended", 1]);
  assert.deepEqual(taken(run.turns[0]), { input: 7, output: 3, cached: 0, cost: 16, requests: 1, unpriced: false });
  const { total, rows, live } = lanes(run.turns[0]);
  assert.equal(total, 40);
  assert.equal(live, false);
  const row = (id) => rows.find((r) => r.id === id);
  assert.deepEqual(row("model0").bars.map((b) => [b.kind, b.from, b.to]), [["first", 1, 8], ["stream", 8, 38]]);
  assert.deepEqual(row("a").bars.map((b) => [b.kind, b.from, b.to]), [["queue", 18, 19], ["failed", 19, 23], ["run", 23, 28]]);
  assert.deepEqual(row("commit").marks.map((m) => [m.kind, m.at]), [["commit", 40]]);
});

test("a message in an envelope is its text", () => {
  const said = (userdata) => story([0, "input", { userdata }]).list()[0].items[0].text;
  assert.equal(said('{"subject":"message","fields":{"text":"Go on."}}'), "Go on.");
  const more = '{"subject":"order","fields":{"text":"Go on.","n":1}}';
  assert.equal(said(more), more);
  assert.equal(said("{"), "{");
});

test("growing text becomes its record, and is taken back at a byte", () => {
  const s = story([0, "input", {}], [0, "run.begin"], [0, "turn.begin"], [0, "model.request"]);
  s.grow({ type: "delta", kind: "response", unit: "1.1", off: 4, text: "für ", run: 1 });
  s.grow({ type: "delta", kind: "response", unit: "1.1", off: 8, text: "Ada", run: 1 });
  const said = () => s.list()[0].items.filter((i) => i.kind === "said").map((i) => i.text);
  assert.deepEqual(said(), ["für Ada"]);
  s.grow({ type: "retract", unit: "1.1", off: 3, run: 1 });
  assert.deepEqual(said(), ["fü"]);
  const again = Story.before([], s);
  assert.equal(again.list()[0].items.at(-1).text, "fü");
  s.add({ seq: 9, ts: ts(5), type: "response", body: { unit: "1.1", text: "für Ben" }, run: 1, turn: 1 });
  assert.deepEqual(said(), ["für Ben"]);
  s.add({ seq: 9, ts: ts(5), type: "response", body: { unit: "1.9", text: "twice" }, run: 1, turn: 1 });
  assert.deepEqual(said(), ["für Ben"]); // a record comes once
  assert.equal(head("aü", 3), "aü");
});

test("what waits for a person, blocks and what stands in them", () => {
  const s = story(
    [0, "turn.begin"],
    [1, "block.begin", { id: "p", kind: "parallel" }],
    [2, "action.declared", { id: "a", name: "pay", block: "p" }],
    [3, "action.approval", { id: "a", state: "confirm" }],
    [4, "turn.suspended", {}],
    [500, "action.approval", { id: "a", state: "deny", by: "ann", reason: "no" }],
    [501, "action.ended", { id: "a", state: "failed", reason: "denied" }],
    [502, "block.ended", { id: "p", state: "failed", ok: 0, failed: 1 }],
    [503, "turn.restored", { cause: "approval" }],
    [504, "turn.decided", { decision: "HALT", reason: "ERR_DENIED" }],
  );
  const { rows } = lanes(s.turns.get(1));
  assert.deepEqual(rows.map((r) => [r.id, r.depth]), [["block p", 0], ["a", 1], ["waits", 0], ["events", 0], ["commit", 0]]);
  const a = rows[1];
  assert.deepEqual(a.bars[1] && [a.bars[1].kind, a.bars[1].from, a.bars[1].to], ["wait", 3, 500]);
  assert.deepEqual(a.marks.map((m) => m.text), ["denied by ann no"]);
});

test("why it stopped", () => {
  assert.equal(why({ decision: "HALT", code: "ERR_QUOTA", detail: "gas" }), "A limit of the agent was used up. (gas)");
  assert.equal(why({ decision: "HALT", code: "ERR_NEW" }), "Stopped by the host.");
  assert.equal(ended({ state: "failed", reason: "dep_failed:a" }), "Failed: what it needs, a, failed");
  assert.equal(ended({ state: "ok" }), "");
});

test("an axis has round steps", () => {
  assert.deepEqual(ticks(100), [0, 20, 40, 60, 80, 100]);
  assert.ok(ticks(0.3).length < 10 && ticks(86400000).length < 10);
  assert.equal(instant("2026-01-02T15:04:05.123456789Z"), t0 + 123.456789);
});

test("two lists side by side", () => {
  const rows = (a, b) => align([...a], [...b], (x) => x).map((r) => (r.same ? r.after : `${r.before ?? ""}/${r.after ?? ""}`)).join(" ");
  for (const [a, b, want] of [["", "", ""], ["abc", "abc", "a b c"], ["abc", "axc", "a b/x c"], ["abcd", "bd", "a/ b c/ d"], ["bd", "abcd", "/a b /c d"], ["ab", "xyz", "a/x b/y /z"], ["aab", "ab", "a a/ b"]]) assert.equal(rows(a, b), want, `${a} ${b}`);
  // Whatever is cut: both lists come out as they went in, and what is the same is the same.
  let seed = 7;
  const draw = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (let n = 0; n < 2000; n++) {
    const [a, b] = [0, 1].map(() => Array.from({ length: draw(9) }, () => "abc"[draw(3)]));
    const all = align(a, b, (x) => x);
    assert.deepEqual(all.filter((r) => r.before !== undefined).map((r) => r.before), a);
    assert.deepEqual(all.filter((r) => r.after !== undefined).map((r) => r.after), b);
    for (const r of all) assert.equal(r.same, r.before === r.after, `${a} ${b}`);
  }
  // A text that is too long for the table is compared by its ends.
  const long = (c) => ["begin", ...Array.from({ length: 3000 }, (_, i) => c + i), "end"];
  assert.equal(align(long("a"), long("b"), (x) => x).filter((r) => r.same).length, 2);
});

test("lines that stayed are folded", () => {
  const text = Array.from({ length: 20 }, (_, i) => `line ${i}`);
  const other = text.with(10, "another");
  const got = lines(text.join("\n"), other.join("\n"), 2).map(({ kind, text }) => `${kind} ${text}`);
  assert.deepEqual(got, ["fold 8 lines as before", "same line 8", "same line 9", "gone line 10", "new another", "same line 11", "same line 12", "fold 7 lines as before"]);
  assert.deepEqual(lines("a", "a"), [{ kind: "same", text: "a" }]);
});

test("what became of messages", () => {
  const m = (role, text) => ({ role, text });
  const before = [m("system", "you"), m("user", "go"), m("assistant", "call"), m("user", "result")];
  const states = (after) => messages(before, after).map((x) => `${x.role} ${x.state}`);
  assert.deepEqual(states([...before, m("assistant", "done")]), ["system same", "user same", "assistant same", "user same", "assistant new"]);
  assert.deepEqual(states([m("system", "you"), m("user", "go\n\nresult"), m("user", "more")]), ["system same", "user changed", "assistant gone", "user new", "user gone"]);
  assert.deepEqual(states([]), ["system gone", "user gone", "assistant gone", "user gone"]);
});

test("samples of metrics", () => {
  const text = '# HELP a b\n# TYPE a counter\na 1\nb{x="1",y="a\\"b,}\\n\\\\"} 2.5e3 1700000000\nc{le="+Inf"} +Inf\n\nnonsense\n';
  assert.deepEqual(samples(text), [
    { name: "a", labels: {}, value: 1 },
    { name: "b", labels: { x: "1", y: 'a"b,}\n\\' }, value: 2500 },
    { name: "c", labels: { le: "+Inf" }, value: Infinity },
  ]);
});

test("children of a session, and its values", () => {
  const s = story(
    [1, "turn.begin", {}],
    [2, "action.declared", { id: "a", name: "reporter", args: "{}" }],
    [3, "action.started", { id: "a", attempt: 1, child: "t:u:x.reporter.1" }],
    [4, "relic.changed", { relic: "notes", args: '{"operation":"set"}', result: "{}" }],
    [5, "action.ended", { id: "a", state: "ok", children: [{ sid: "t:u:x.reporter.1" }, { sid: "t:u:x.other:2" }] }],
  );
  assert.deepEqual(childrenOf(s), [{ id: "x.reporter.1", by: "reporter, turn 1" }, { id: "x.other:2", by: "reporter, turn 1" }]);
  assert.equal(nameOf("t:u:a:b"), "a:b");
  assert.deepEqual(s.relics.map((r) => [r.relic, r.turn]), [["notes", 1]]);
});

test("sessions that work for another one stand behind it", () => {
  const order = (...all) => nested(all.map(([id, parent]) => ({ id, parent }))).map((s) => (s.depth ? "-".repeat(s.depth) : "") + s.id).join(" ");
  assert.equal(order(["a"], ["b"]), "a b");
  assert.equal(order(["c1", "p"], ["a"], ["p"], ["c2", "p"], ["g", "c2"]), "a p -c1 -c2 --g");
  assert.equal(order(["c", "gone"], ["a"]), "c a");
  assert.equal(order(["a", "b"], ["b", "a"], ["x", "x"]), "x a -b");
});

test("the name of a copy", () => {
  assert.equal(named({ title: "Oslo in May" }, "trip", 3, "Fork of"), "Fork of Oslo in May at turn 3");
  assert.equal(named({ title: "Fork of Oslo in May at turn 3" }, "x", 5, "Edited:"), "Edited: Oslo in May at turn 5");
  assert.equal(named(null, "trip", 1, "Fork of"), "Fork of trip at turn 1");
  assert.ok(new TextEncoder().encode(named({ title: "\u{1F426}".repeat(60) }, "x", 123456, "Fork of")).length <= 200);
});

// The pure parts of the console.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "./format.js";
import { canonical } from "./proof.js";
import * as route from "./route.js";
import { instant, lanes, ticks } from "./spans.js";
import { head, Story, taken } from "./story.js";
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
  for (const at of [{ page: "inbox" }, { id: "ada" }, { id: "a.b_c-d", tab: "time", turn: 3 }, { id: "ada", record: 12 }, { id: "ada", tab: "compare", other: "ben" }]) {
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

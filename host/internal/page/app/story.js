// What records say, put together as a person reads it: runs, their turns, and in each run the
// items of the conversation. Pure: it has records and pieces of growing text put in, in order.

/**
 * @typedef {{type: string, seq: number, run: number, turn: number, ts: string, body: any, hash: string, prev: string, sig?: {kid: string, sig: string}}} Rec
 * @typedef {{key: string, kind: string, seq: number, turn: number, ts: string, text: string, hidden: boolean, done: boolean, label?: string, message?: boolean, parts?: Part[], action?: Action, code?: string}} Item
 * @typedef {{digest: string, name?: string, size: number, type: string}} Part
 * @typedef {{id: string, turn: number, name: string, type: string, args: string, needs: string[], block: string, group: string, undoes: string, declared: string, seq: number, seqs: number[], attempts: {at: string, seq: number, failure?: string, child?: string}[], asked: {at: string, seq: number, state: string, by?: string, reason?: string}[], ended: string, state: string, result: string, reason: string, error_code?: string, text: string, done?: number, total?: number, tokens: number, cost: number, children: any[]}} Action
 * @typedef {{id: string, kind: string, block: string, needs: string[], at: string, ended: string, state: string, seq: number, seqs: number[], test?: string, branch?: string, count?: number, ok?: number, failed?: number, reason?: string}} Block
 * @typedef {{seq: number, at: string, first: string, ended: string, provider: string, model: string, mode: string, finish: string, usage: any, cost: number, error: string, length: number, replySeq: number}} Request
 * @typedef {{n: number, run: number, pass: number, at: string, ended: string, seq: number, endSeq: number, decision: string, code: string, detail: string, requests: Request[], actions: Map<string, Action>, blocks: Map<string, Block>, marks: {at: string, seq: number, kind: string, text: string}[], waits: {from: string, to: string, seq: number}[], signed: boolean}} Turn
 * @typedef {{n: number, items: Item[], turns: Turn[], at: string, ended: string, state: string, decision: string, code: string, detail: string, seq: number, endSeq: number, withdrawn: boolean, version: number}} Run
 */

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** The first bytes of a text. */
export const head = (text, bytes) => decoder.decode(encoder.encode(text).subarray(0, bytes));

const shown = new Set(["response", "emit"]);
const texts = new Set(["response", "thought", "text", "emit", "whisper"]);

export class Story {
  constructor() {
    /** @type {Rec[]} */
    this.records = [];
    /** @type {Map<number, Run>} */
    this.runs = new Map();
    /** @type {Map<number, Turn>} */
    this.turns = new Map();
    this.units = new Map(); // items of growing texts, by run and unit
    this.version = 0;
    this.about = {};
    /** Changes of the values that the session keeps. @type {{seq: number, turn: number, ts: string, relic: string, args: string, result: string}[]} */
    this.relics = [];
    this.seq = 0;
  }

  /** All of it again, with older records in front. @param {Rec[]} older */
  static before(older, story) {
    const s = new Story();
    for (const r of older) s.add(r);
    for (const r of story.records) s.add(r);
    for (const [key, item] of story.units) if (!item.done && !s.units.has(key)) s.#live(item.run, item.turn, key, item);
    return s;
  }

  /** The runs in order. */
  list() {
    return [...this.runs.values()].sort((a, b) => a.n - b.n);
  }

  /** @returns {Run} */
  run(n) {
    let r = this.runs.get(n);
    if (!r) this.runs.set(n, (r = { n, items: [], turns: [], at: "", ended: "", state: "", decision: "", code: "", detail: "", seq: 0, endSeq: 0, withdrawn: false, version: 0 }));
    return r;
  }

  /** @returns {Turn} */
  turn(n, run, r) {
    let t = this.turns.get(n);
    if (t) return t;
    t = { n, run, pass: 0, at: r?.ts ?? "", ended: "", seq: r?.seq ?? 0, endSeq: 0, decision: "", code: "", detail: "", requests: [], actions: new Map(), blocks: new Map(), marks: [], waits: [], signed: false };
    this.turns.set(n, t);
    this.run(run).turns.push(t);
    return t;
  }

  #touch(n) {
    const r = this.runs.get(n);
    if (r) r.version++;
    this.version++;
  }

  #item(r, kind, more) {
    const item = { key: `${r.seq}`, kind, seq: r.seq, turn: r.turn, ts: r.ts, text: "", hidden: false, done: true, ...more };
    this.run(r.run).items.push(item);
    return item;
  }

  #live(run, turn, key, like) {
    const item = { key, kind: like.kind, seq: 0, run, turn, ts: "", text: like.text, hidden: like.hidden, done: false, label: like.label };
    this.units.set(key, item);
    this.run(run).items.push(item);
    return item;
  }

  /** A record. @param {Rec} r */
  add(r) {
    if (r.seq <= this.seq) return; // a stream may repeat what a page had
    this.seq = r.seq;
    this.records.push(r);
    const b = r.body ?? {};
    const t = r.turn ? this.turn(r.turn, r.run, r) : undefined;
    if (t && r.sig) t.signed = true;
    if (texts.has(r.type)) this.#said(r, b, t);
    else this[r.type.replace(".", "_")]?.(r, b, t);
    this.#touch(r.run);
  }

  /** A piece of growing text, a piece taken back, or how far an action is. */
  grow(d) {
    if (d.type === "progress") {
      const a = this.turns.get(d.turn)?.actions.get(d.action);
      if (a) Object.assign(a, { done: d.done, total: d.total ?? 0, progress: d.text ?? "" });
      return this.#touch(d.run);
    }
    if (d.action) {
      const a = this.turns.get(d.turn)?.actions.get(d.action);
      if (a) a.text = (d.type === "retract" ? "" : head(a.text, d.off - bytesOf(d.text ?? ""))) + (d.text ?? "");
      return this.#touch(d.run);
    }
    const key = `${d.run} ${d.unit}`;
    let item = this.units.get(key);
    if (d.type === "retract") {
      if (item) item.text = head(item.text, d.off);
      return this.#touch(d.run);
    }
    const turn = [...this.turns.values()].filter((t) => t.run === d.run).at(-1)?.n ?? 0;
    item ??= this.#live(d.run, turn, key, { kind: said(d.kind), text: "", hidden: !shown.has(d.kind), label: d.label });
    item.text += d.text ?? "";
    const t = this.turns.get(turn);
    const q = t?.requests.at(-1);
    if (q && !q.first && !q.ended) q.first = new Date().toISOString();
    this.#touch(d.run);
  }

  #said(r, b, t) {
    const key = `${r.run} ${b.unit}`;
    const q = t?.requests.at(-1);
    if (q && !q.first && !q.ended && r.type !== "emit") q.first = r.ts;
    let item = b.unit && this.units.get(key);
    const hidden = !shown.has(r.type) || Boolean(b.candidate || b.held);
    if (item) Object.assign(item, { seq: r.seq, ts: r.ts, text: b.text ?? "", hidden, done: true });
    else {
      item = this.#item(r, said(r.type), { text: b.text ?? "", hidden, label: b.label || b.target });
      if (b.unit) this.units.set(key, Object.assign(item, { key, run: r.run }));
    }
    if (t && r.type === "thought") t.marks.push({ at: r.ts, seq: r.seq, kind: "thought", text: b.text ?? "" });
  }

  session_opened(r, b) {
    this.about = { ...b, seq: r.seq, ts: r.ts };
  }

  input(r, b) {
    this.run(r.run).seq ||= r.seq;
    const text = b.text ?? message(b.userdata ?? "");
    this.#item(r, "user", { text, label: b.user, message: b.text !== undefined || text !== b.userdata, parts: b.parts ?? [] });
  }

  run_begin(r) {
    Object.assign(this.run(r.run), { at: r.ts, state: "running" });
    this.run(r.run).seq ||= r.seq;
  }

  run_withdrawn(r, b) {
    this.run(r.run).withdrawn = true;
    this.#item(r, "note", { text: `Taken back: run ${b.by} is in its place.` });
  }

  run_end(r, b) {
    Object.assign(this.run(r.run), { ended: r.ts, state: "ended", decision: b.decision ?? "", code: b.reason ?? "", detail: b.detail ?? "", endSeq: r.seq });
    if (b.output !== undefined) this.#item(r, "output", { text: b.output });
    for (const [key, item] of this.units) {
      if (item.run === r.run) {
        item.done = true;
        this.units.delete(key);
      }
    }
  }

  turn_begin(r, b, t) {
    Object.assign(t, { at: r.ts, seq: r.seq, pass: b.pass ?? 0 });
  }

  turn_decided(r, b, t) {
    Object.assign(t, { ended: r.ts, endSeq: r.seq, decision: b.decision ?? "", code: b.reason ?? "", detail: b.detail ?? "" });
    closeWait(t, r.ts);
    this.#item(r, "turn", { hidden: true, code: b.reason });
  }

  turn_suspended(r, b, t) {
    t.waits.push({ from: r.ts, to: "", seq: r.seq });
    this.run(r.run).state = "waiting";
  }

  turn_restored(r, b, t) {
    closeWait(t, r.ts);
    this.run(r.run).state = "running";
    t.marks.push({ at: r.ts, seq: r.seq, kind: "restored", text: { crash: "taken up after a crash", approval: "goes on after an answer", rollback: "undoes what was done" }[b.cause] ?? b.cause });
  }

  model_request(r, b, t) {
    t.requests.push({ seq: r.seq, at: r.ts, first: "", ended: "", provider: b.provider ?? "", model: b.model ?? "", mode: b.mode ?? "", finish: "", usage: {}, cost: 0, error: "", length: 0, replySeq: 0, messages: b.messages ?? 0 });
  }

  model_chunk(r, b, t) {
    const q = t?.requests.at(-1);
    if (q && !q.first) q.first = r.ts;
  }

  model_reply(r, b, t) {
    const q = t?.requests.at(-1);
    if (q) Object.assign(q, { ended: r.ts, replySeq: r.seq, finish: b.finish ?? "", usage: b.usage ?? {}, cost: b.cost_micro_usd ?? 0, unpriced: Boolean(b.unpriced), error: b.error ?? "", length: b.length ?? 0 });
  }

  model_fallback(r, b, t) {
    t?.marks.push({ at: r.ts, seq: r.seq, kind: "retry", text: `asks ${b.to} in place of ${b.from}: ${b.reason}` });
  }

  action_declared(r, b, t) {
    const q = t.requests.at(-1);
    if (q && !q.first && !q.ended) q.first = r.ts;
    const a = { id: b.id, turn: r.turn, name: b.name ?? "", type: b.type ?? "", args: b.args ?? "", needs: b.depends_on ?? [], block: b.block ?? "", group: b.group ?? "", undoes: b.compensates ?? "", declared: r.ts, seq: r.seq, seqs: [r.seq], attempts: [], asked: [], ended: "", state: "", result: "", reason: "", text: "", tokens: 0, cost: 0, children: [] };
    t.actions.set(b.id, a);
    this.#item(r, "call", { action: a });
  }

  #action(r, b, t) {
    const a = t?.actions.get(b.id);
    a?.seqs.push(r.seq);
    return a;
  }

  action_approval(r, b, t) {
    this.#action(r, b, t)?.asked.push({ at: r.ts, seq: r.seq, state: b.state, by: b.by, reason: b.reason });
  }

  action_started(r, b, t) {
    const a = this.#action(r, b, t);
    if (!a) return;
    a.text = "";
    if (b.args) a.args = b.args;
    a.attempts.push({ at: r.ts, seq: r.seq, failure: b.failure, child: b.child });
  }

  action_chunk(r, b, t) {
    const a = this.#action(r, b, t);
    if (a) a.text = head(a.text, b.off) + decoder.decode(Uint8Array.from(atob(b.bytes), (c) => c.charCodeAt(0)));
  }

  action_ended(r, b, t) {
    const a = this.#action(r, b, t);
    if (a) Object.assign(a, { ended: r.ts, state: b.state ?? "", result: b.result ?? "", reason: b.reason ?? "", error_code: b.error_code, tokens: b.tokens ?? 0, cost: b.cost_micro_usd ?? 0, children: b.children ?? [] });
  }

  block_begin(r, b, t) {
    t.blocks.set(b.id, { id: b.id, kind: b.kind, block: b.block ?? "", needs: b.depends_on ?? [], at: r.ts, ended: "", state: "", seq: r.seq, seqs: [r.seq], test: b.test ?? b.in });
  }

  block_decided(r, b, t) {
    const block = t.blocks.get(b.id);
    if (!block) return;
    block.seqs.push(r.seq);
    Object.assign(block, { branch: b.branch, count: b.count });
  }

  block_ended(r, b, t) {
    const block = t.blocks.get(b.id);
    if (!block) return;
    block.seqs.push(r.seq);
    Object.assign(block, { ended: r.ts, state: b.state, ok: b.ok, failed: b.failed, reason: b.reason });
  }

  feed_injected(r, b, t) {
    t?.marks.push({ at: r.ts, seq: r.seq, kind: "feed", text: [b.id, b.stale && "stale", b.error].filter(Boolean).join(" · ") });
  }

  rollback_begin(r, b, t) {
    t?.marks.push({ at: r.ts, seq: r.seq, kind: "rollback", text: `${b.group}: ${b.cause}` });
    this.#item(r, "note", { text: `Undoes the group ${b.group}: ${b.cause.replace(/^error:/, "failed at ")}.` });
  }

  parse_error(r, b, t) {
    t?.marks.push({ at: r.ts, seq: r.seq, kind: "error", text: [b.code, b.detail].filter(Boolean).join(": ") });
    this.#item(r, "error", { text: b.detail ?? "", code: b.code, hidden: true });
  }

  lint(r, b) {
    this.#item(r, "lint", { text: b.detail ?? "", code: b.code, hidden: true });
  }

  control(r, b, t) {
    t?.marks.push({ at: r.ts, seq: r.seq, kind: "control", text: [b.what, b.name, b.code, b.by && `by ${b.by}`].filter(Boolean).join(" ") });
  }

  note(r, b) {
    this.#item(r, "note", { text: b.text ?? "" });
  }

  retract(r, b) {
    const item = this.units.get(`${r.run} ${b.unit}`);
    if (item) item.text = head(item.text, b.off ?? 0);
  }

  relic_changed(r, b) {
    this.relics.push({ seq: r.seq, turn: r.turn, ts: r.ts, relic: b.relic ?? "", args: b.args ?? "", result: b.result ?? "" });
  }

  session_closed(r, b) {
    this.closed = b.reason ?? "closed";
  }
}

const bytesOf = (text) => encoder.encode(text).length;
const said = (kind) => ({ response: "said", emit: "said", thought: "thought", text: "thought", whisper: "whisper" })[kind] ?? "thought";

/** The text of a message that the host put into an envelope; other objects are as they came. */
function message(userdata) {
  try {
    const { subject, fields } = JSON.parse(userdata);
    if (subject === "message" && Object.keys(fields).join() === "text") return fields.text;
  } catch {} // it stays as it is
  return userdata;
}

function closeWait(t, ts) {
  const w = t.waits.at(-1);
  if (w && !w.to) w.to = ts;
}

/** The name of a session in its full id, which has the tenant and the user in front. */
export const nameOf = (sid = "") => sid.split(":").slice(2).join(":");

/**
 * The sessions of the agents that were asked, in order. @param {Story} story
 * @returns {{id: string, by: string}[]}
 */
export function childrenOf(story) {
  const all = new Map();
  for (const t of [...story.turns.values()].sort((a, b) => a.n - b.n)) {
    for (const a of t.actions.values()) {
      const by = `${a.name || a.type}, turn ${t.n}`;
      for (const sid of [...a.attempts.map((x) => x.child), ...a.children.map((c) => c.sid)]) if (sid && !all.has(sid)) all.set(sid, { id: nameOf(sid), by });
    }
  }
  return [...all.values()];
}

/** What a turn's replies and actions took. @param {Turn} t */
export function taken(t) {
  const sum = { input: 0, output: 0, cached: 0, cost: 0, requests: t.requests.length, unpriced: false };
  for (const q of t.requests) {
    sum.input += q.usage.input ?? 0;
    sum.output += q.usage.output ?? 0;
    sum.cached += q.usage.cache_read ?? 0;
    sum.cost += q.cost;
    sum.unpriced ||= q.unpriced;
  }
  for (const a of t.actions.values()) sum.cost += a.cost;
  return sum;
}

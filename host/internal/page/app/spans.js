// The time line of a turn as data: rows of bars and marks, times in milliseconds from its
// beginning. Pure.

/**
 * @typedef {{from: number, to: number, kind: string, text: string, seq: number}} Bar
 * @typedef {{at: number, kind: string, text: string, seq: number}} Mark
 * @typedef {{id: string, label: string, note: string, depth: number, kind: string, state: string, seq: number, bars: Bar[], marks: Mark[], needs: string[]}} Row
 */

const time = (ts) => Date.parse(ts.replace(/(\.\d{3})\d+Z$/, "$1Z"));

/** Milliseconds with the fraction that the record has. */
export function instant(ts) {
  const m = /\.(\d{3})(\d*)Z$/.exec(ts);
  return time(ts) + (m?.[2] ? Number("0." + m[2]) : 0);
}

/**
 * @param {import("./story.js").Turn} t
 * @param {number} now for what has not ended
 * @returns {{total: number, rows: Row[], live: boolean}}
 */
export function lanes(t, now = Date.now()) {
  const begin = t.at ? instant(t.at) : now;
  const live = !t.ended;
  let last = t.ended ? instant(t.ended) : now;
  const at = (ts) => Math.max(0, (ts ? instant(ts) : last) - begin);
  for (const a of t.actions.values()) if (a.ended) last = Math.max(last, instant(a.ended));
  const rows = [];
  t.requests.forEach((q, i) => rows.push(model(q, i, at)));
  const thoughts = t.marks.filter((m) => m.kind === "thought");
  if (thoughts.length) rows.push(marks("thoughts", "Thoughts", thoughts, at));
  const feeds = t.marks.filter((m) => m.kind === "feed");
  if (feeds.length) rows.push(marks("feeds", "Feeds", feeds, at));
  rows.push(...tree(t, at));
  if (t.waits.length) {
    rows.push({ ...empty("waits", "Waits for a person", "wait"), seq: t.waits[0].seq, bars: t.waits.map((w) => ({ from: at(w.from), to: at(w.to), kind: "wait", text: "waits for an answer", seq: w.seq })) });
  }
  const other = t.marks.filter((m) => m.kind !== "thought" && m.kind !== "feed");
  if (other.length) rows.push(marks("events", "Events", other, at));
  if (t.ended) {
    rows.push({ ...empty("commit", "Decision", "commit"), note: t.code || t.decision, seq: t.endSeq, marks: [{ at: at(t.ended), kind: t.signed ? "commit" : "mark", text: `${t.decision}${t.signed ? ", signed" : ""}`, seq: t.endSeq }] });
  }
  return { total: Math.max(1, last - begin), rows, live };
}

const empty = (id, label, kind) => ({ id, label, note: "", depth: 0, kind, state: "", seq: 0, bars: [], marks: [], needs: [] });

function marks(id, label, list, at) {
  return { ...empty(id, label, id), seq: list[0].seq, note: list.length > 1 ? String(list.length) : "", marks: list.map((m) => ({ at: at(m.at), kind: m.kind, text: m.text, seq: m.seq })) };
}

/** A request: until its first byte it waits, then it streams. */
function model(q, i, at) {
  const row = { ...empty("model" + i, q.model || q.provider || "Model", "model"), seq: q.seq, state: q.error ? "failed" : "", note: q.mode === "resume" ? "resumed" : "" };
  const from = at(q.at);
  const to = at(q.ended);
  const first = q.first ? Math.min(to, Math.max(from, at(q.first))) : to;
  if (first > from) row.bars.push({ from, to: first, kind: "first", text: "until the first byte", seq: q.seq });
  if (to > first) row.bars.push({ from: first, to, kind: q.error ? "failed" : "stream", text: q.error || "the reply streams", seq: q.replySeq || q.seq });
  if (q.first) row.marks.push({ at: first, kind: "byte", text: "first byte", seq: q.seq });
  return row;
}

/** Actions and blocks, what stands in a block below it. */
function tree(t, at) {
  const rows = [];
  const all = [...t.blocks.values(), ...t.actions.values()].sort((a, b) => a.seq - b.seq);
  const ids = new Set(t.blocks.keys());
  const put = (parent, depth) => {
    for (const x of all) {
      if ((ids.has(x.block) ? x.block : "") !== parent) continue;
      rows.push("kind" in x ? block(x, depth, at) : action(x, depth, at));
      if ("kind" in x && depth < 32) put(x.id, depth + 1);
    }
  };
  put("", 0);
  return rows;
}

function block(b, depth, at) {
  const note = [b.branch && `takes ${b.branch}`, b.count !== undefined && `${b.count} items`, b.failed && `${b.failed} failed`].filter(Boolean).join(", ");
  return { ...empty("block " + b.id, `${b.kind} ${b.test ?? ""}`.trim(), "block"), depth, note, state: b.state, seq: b.seq, needs: b.needs, bars: [{ from: at(b.at), to: at(b.ended), kind: "block", text: b.state || "runs", seq: b.seq }] };
}

function action(a, depth, at) {
  const row = { ...empty(a.id, a.name || a.type, "action"), depth, note: a.undoes ? `undoes ${a.undoes}` : a.id.startsWith("#") ? "" : a.id, state: a.state, seq: a.seq, needs: a.needs };
  let from = at(a.declared);
  const began = a.attempts[0];
  for (const q of a.asked) {
    if (q.state === "confirm") continue;
    row.marks.push({ at: at(q.at), kind: "approval", text: [q.state === "approve" ? "allowed" : q.state === "deny" ? "denied" : q.state, q.by && `by ${q.by}`, q.reason].filter(Boolean).join(" "), seq: q.seq });
  }
  const asked = a.asked.find((q) => q.state === "confirm");
  if (asked) {
    const answer = a.asked.find((q) => q.seq > asked.seq);
    const until = answer ? at(answer.at) : at(a.ended);
    if (at(asked.at) > from) row.bars.push({ from, to: at(asked.at), kind: "queue", text: "waits for what it needs", seq: a.seq });
    row.bars.push({ from: at(asked.at), to: until, kind: "wait", text: "waits for a person", seq: asked.seq });
    from = until;
  }
  const to = at(a.ended);
  if (!began) {
    if (to > from || !row.bars.length) row.bars.push({ from, to, kind: a.ended ? "skipped" : "queue", text: a.state || "waits", seq: a.seq });
    return row;
  }
  if (at(began.at) > from) row.bars.push({ from, to: at(began.at), kind: "queue", text: "waits for what it needs", seq: a.seq });
  a.attempts.forEach((x, i) => {
    const next = a.attempts[i + 1];
    const kind = next ? "failed" : { failed: "failed", cancelled: "skipped", unknown: "failed" }[a.state] ?? "run";
    row.bars.push({ from: at(x.at), to: next ? at(next.at) : to, kind, text: next ? `attempt ${i + 1} failed: ${next.failure ?? ""}` : a.attempts.length > 1 ? `attempt ${i + 1}` : a.state || "runs", seq: x.seq });
    if (i) row.marks.push({ at: at(x.at), kind: "retry", text: `attempt ${i + 1}: ${x.failure ?? ""}`, seq: x.seq });
  });
  return row;
}

/** Round times for an axis over total milliseconds. */
export function ticks(total, most = 6) {
  const raw = total / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= raw) ?? raw;
  const out = [];
  for (let x = 0; x <= total; x += step) out.push(x);
  return out;
}

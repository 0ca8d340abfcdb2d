// What is new, gone or as before between two lists or texts. Pure.

const most = 4_000_000; // cells of a table; beyond it only the two ends are compared

/**
 * Two lists side by side. What has the same key stands in one row as the same; what was
 * replaced stands beside what replaced it.
 * @template T
 * @param {T[]} before
 * @param {T[]} after
 * @param {(x: T) => string} key
 * @returns {{same: boolean, before?: T, after?: T}[]}
 */
export function align(before, after, key) {
  const a = before.map(key);
  const b = after.map(key);
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  let tail = 0;
  while (tail < a.length - from && tail < b.length - from && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const rows = [];
  const both = (i, j) => rows.push({ same: true, before: before[i], after: after[j] });
  for (let i = 0; i < from; i++) both(i, i);
  let gone = [];
  let come = [];
  const flush = () => {
    for (let i = 0; i < Math.max(gone.length, come.length); i++) rows.push({ same: false, before: gone[i], after: come[i] });
    gone = [];
    come = [];
  };
  const ends = { a: a.length - tail, b: b.length - tail };
  let i = from;
  let j = from;
  for (const [x, y] of common(a.slice(from, ends.a), b.slice(from, ends.b))) {
    gone.push(...before.slice(i, from + x));
    come.push(...after.slice(j, from + y));
    flush();
    both(from + x, from + y);
    i = from + x + 1;
    j = from + y + 1;
  }
  gone.push(...before.slice(i, ends.a));
  come.push(...after.slice(j, ends.b));
  flush();
  for (let n = tail; n > 0; n--) both(a.length - n, b.length - n);
  return rows;
}

/** The places of the longest list that both have, in order. */
function common(a, b) {
  const wide = b.length + 1;
  if (!a.length || !b.length || (a.length + 1) * wide > most) return [];
  const table = new Uint32Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * wide + j] = a[i] === b[j] ? table[(i + 1) * wide + j + 1] + 1 : Math.max(table[(i + 1) * wide + j], table[i * wide + j + 1]);
    }
  }
  const places = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) places.push([i++, j++]);
    else if (table[(i + 1) * wide + j] >= table[i * wide + j + 1]) i++;
    else j++;
  }
  return places;
}

/**
 * The lines of a text with what became of them; long stretches that stayed are folded.
 * @returns {{kind: "same" | "new" | "gone" | "fold", text: string}[]}
 */
export function lines(before, after, around = 3) {
  const out = [];
  let come = [];
  const flush = () => {
    out.push(...come);
    come = [];
  };
  for (const row of align(before.split("\n"), after.split("\n"), (x) => x)) {
    if (row.same) {
      flush();
      out.push({ kind: "same", text: row.after });
      continue;
    }
    if (row.before !== undefined) out.push({ kind: "gone", text: row.before });
    if (row.after !== undefined) come.push({ kind: "new", text: row.after });
  }
  flush();
  return folded(out, around);
}

function folded(list, around) {
  const out = [];
  for (let i = 0; i < list.length; ) {
    let end = i;
    while (end < list.length && list[end].kind === "same") end++;
    const head = i === 0 ? 0 : around;
    const foot = end === list.length ? 0 : around;
    const hidden = end - i - head - foot;
    if (hidden > 1) {
      out.push(...list.slice(i, i + head), { kind: "fold", text: `${hidden} lines as before` }, ...list.slice(end - foot, end));
    } else out.push(...list.slice(i, end));
    if (end < list.length) out.push(list[end++]);
    i = end;
  }
  return out;
}

/** Whether a text may be called a change of another one: a third of the lines of the shorter one stayed. */
function alike(before, after) {
  const [a, b] = [before, after].map((text) => text.split("\n").filter((line) => line.trim()));
  const stayed = align(a, b, (x) => x).filter((row) => row.same).length;
  return stayed > 0 && stayed * 3 >= Math.min(a.length, b.length);
}

/**
 * The messages of a prompt with what became of each since the prompt before.
 * @param {{role: string, text: string}[]} before
 * @param {{role: string, text: string}[]} after
 * @returns {{role: string, text: string, was?: string, state: "same" | "new" | "changed" | "gone"}[]}
 */
export function messages(before, after) {
  return align(before, after, (m) => m.role + "\n" + m.text).flatMap(({ same, before: was, after: is }) => {
    if (same) return [{ ...is, state: "same" }];
    if (!is) return [{ ...was, state: "gone" }];
    if (!was) return [{ ...is, state: "new" }];
    return was.role === is.role && alike(was.text, is.text) ? [{ ...is, was: was.text, state: "changed" }] : [{ ...was, state: "gone" }, { ...is, state: "new" }];
  });
}

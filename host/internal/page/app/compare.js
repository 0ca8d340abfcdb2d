// Two runs side by side: what was said and done in each, turn by turn, and what both took.
import { align } from "./diff.js";
import { count, money, span } from "./format.js";
import { cls, html, useEffect, useState } from "./html.js";
import { useLive } from "./live.js";
import { plainly } from "./plain.js";
import { go } from "./route.js";
import { instant } from "./spans.js";
import { nameOf, taken } from "./story.js";

/** What a run says and does, an item a line, by turn. @param {import("./story.js").Run} run */
export function course(run) {
  return run.items
    .filter((i) => !i.hidden && i.kind !== "turn" && (i.kind === "call" || i.text.trim() || i.code))
    .map((i) => {
      const text = i.kind === "call" ? [i.action.args, i.action.result || i.action.reason].filter(Boolean).join("\n→ ") : i.text.trim();
      return { kind: i.kind, name: i.kind === "call" ? i.action.name : "", state: i.kind === "call" ? i.action.state : "", text, seq: i.seq };
    });
}

/** What a run took. @param {import("./story.js").Run} run */
function sums(run) {
  const all = run.turns.map(taken);
  const sum = (name) => all.reduce((n, t) => n + t[name], 0);
  return {
    Decision: [run.decision || run.state, run.code].filter(Boolean).join(" "),
    Time: run.ended && run.at ? span(instant(run.ended) - instant(run.at)) : "",
    Turns: count(run.turns.length),
    Calls: count(run.turns.reduce((n, t) => n + t.actions.size, 0)),
    Tokens: `${count(sum("input"))} → ${count(sum("output"))}`,
    Cost: money(sum("cost")),
  };
}

function Cell({ item, id }) {
  if (!item) return html`<div class="cell empty"></div>`;
  const what = { user: "asked", said: "said", call: item.name, output: "output", note: "note" }[item.kind] ?? item.kind;
  return html`<div class="cell" data-kind=${item.kind}><a class="link" href=${`#/s/${encodeURIComponent(id)}?record=${item.seq}`}>${plainly(what)}</a>${item.state && item.state !== "ok" ? html` <span class="bad">${item.state}</span>` : ""}<div class="text">${plainly(item.text)}</div></div>`;
}

/** Of a session the run that is meant: the named one, else the last. */
function useRun(live, n) {
  const runs = live ? live.story.list().filter((r) => r.n > 0) : [];
  const run = n ? runs.find((r) => r.n === n) : runs.at(-1);
  useEffect(() => {
    if (live && n && !run && live.next) live.earlier();
  });
  return [run, runs];
}

function Pick({ label, runs, value, pick }) {
  return html`<select aria-label=${label} value=${value} onChange=${(e) => pick(Number(e.target.value))}>${runs.map((r) => html`<option value=${r.n} selected=${r.n === value}>run ${r.n}</option>`)}</select>`;
}

/** @param {{live: import("./live.js").Live, at: import("./route.js").Route}} p */
export function Compare({ live, at }) {
  const origin = live.story.about.origin ? nameOf(live.story.about.origin.sid) : "";
  const id = at.other || origin || live.id;
  const beside = useLive(id);
  const [mine, own] = useRun(live, at.run);
  const before = id === live.id ? own[own.indexOf(mine) - 1]?.n : beside?.story.runs.has(mine?.n) ? mine.n : 0;
  const [other, runs] = useRun(beside, at.turn || before);
  const [text, type] = useState(id);
  const look = (e) => {
    e.preventDefault();
    go({ other: text.trim(), turn: 0 });
  };
  const rows = mine && other && (id !== live.id || mine.n !== other.n) ? align(course(other), course(mine), (x) => [x.kind, x.name, x.state, x.text].join("\n")) : [];
  const differ = rows.filter((r) => !r.same).length;
  const [left, right] = [other ? sums(other) : {}, mine ? sums(mine) : {}];
  return html`<div class="compare" tabindex="0">
    <form class="runpick" onSubmit=${look}>
      <input aria-label="Session to compare with" value=${text} maxlength="128" onInput=${(e) => type(e.target.value)} spellcheck="false" autocomplete="off" />
      <button class="small">Compare</button>
      ${beside && !beside.missing && other && html`<${Pick} label="Run of the other session" runs=${runs} value=${other.n} pick=${(n) => go({ turn: n })} />`}
      <span class="quiet">with</span>
      ${mine && html`<${Pick} label="Run of this session" runs=${own} value=${mine.n} pick=${(n) => go({ run: n })} />`}
      <span class="space"></span>
      ${rows.length > 0 && html`<span class="quiet" id="differ">${differ ? `${differ} of ${rows.length} rows differ` : "no difference"}</span>`}
    </form>
    ${beside?.missing && html`<p class="trouble" role="alert">${beside.missing.code}: ${beside.missing.message}</p>`}
    ${rows.length === 0 && !beside?.missing && html`<p class="none">${mine && other ? "Name another session, or pick two runs." : !mine && !live.loading ? "This session has no run yet." : "…"}</p>`}
    ${rows.length > 0 &&
    html`<table class="sums"><thead><tr><td></td><th scope="col">${id}</th><th scope="col">${live.id}</th></tr></thead>
        <tbody>${Object.keys(right).map((k) => html`<tr class=${cls(left[k] !== right[k] && "differs")}><th scope="row">${k}</th><td class="num">${left[k]}</td><td class="num">${right[k]}</td></tr>`)}</tbody></table>
      <div class="pairs">${rows.map((r, i) => html`<div class=${cls("pair", !r.same && "differs")} key=${i}><${Cell} item=${r.before} id=${id} /><${Cell} item=${r.after} id=${live.id} /></div>`)}</div>`}
  </div>`;
}

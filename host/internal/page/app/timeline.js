// The time line of turns: bars for what took time, marks for what happened, and lines from an
// action to what it waited for.
import { count, moment, money, span } from "./format.js";
import { cls, html, useEffect, useState } from "./html.js";
import { plainly } from "./plain.js";
import { go } from "./route.js";
import { instant, lanes, ticks } from "./spans.js";
import { taken } from "./story.js";
import { why } from "./why.js";

const rowHeight = 26;
const shownRows = 400; // of a turn, until more are asked for

const axis = (ms) => (ms < 1000 ? `${+ms.toPrecision(3)} ms` : `${+(ms / 1000).toPrecision(3)} s`);
const percent = (x, total) => `${Math.min(100, Math.max(0, (x / total) * 100))}%`;

function Bar({ bar, total, row }) {
  const text = `${bar.text}, ${span(bar.to - bar.from)}`;
  return html`<button class=${"bar " + bar.kind} style=${{ left: percent(bar.from, total), width: `max(3px, ${percent(bar.to - bar.from, total)})` }} title=${plainly(text)} aria-label=${plainly(`${row.label}: ${text}`)} onClick=${() => go({ record: bar.seq })}></button>`;
}

function Mark({ mark, total, row }) {
  return html`<button class=${"mark " + mark.kind} style=${{ left: percent(mark.at, total) }} title=${plainly(`${mark.text}, at ${span(mark.at)}`)} aria-label=${plainly(`${row.label}: ${mark.text || mark.kind}, at ${span(mark.at)}`)} onClick=${() => go({ record: mark.seq })}></button>`;
}

/** Lines from the end of what a row needs to where the row's work begins. */
function Needs({ rows, total }) {
  const place = new Map(rows.map((r, i) => [r.id, i]));
  const lines = [];
  rows.forEach((row, to) => {
    for (const need of row.needs) {
      const from = place.get(need) ?? place.get("block " + need);
      const source = from === undefined ? undefined : rows[from].bars.at(-1);
      const work = row.bars.find((b) => b.kind !== "queue") ?? row.bars.at(-1);
      if (!source || !work) continue;
      const x1 = (source.to / total) * 1000;
      const x2 = (work.from / total) * 1000;
      const y1 = from * rowHeight + rowHeight / 2;
      const y2 = to * rowHeight + rowHeight / 2;
      lines.push(`M${x1},${y1} C${x1 + 8},${y1} ${x2 - 8},${y2} ${x2},${y2}`);
    }
  });
  if (!lines.length) return null;
  return html`<svg class="needs" aria-hidden="true" viewBox=${`0 0 1000 ${rows.length * rowHeight}`} preserveAspectRatio="none">${lines.map((d) => html`<path d=${d} vector-effect="non-scaling-stroke" />`)}</svg>`;
}

/** One turn. @param {{t: import("./story.js").Turn, id: string, open: boolean, toggle: () => void, selected: number}} p */
function TurnLine({ t, id, open, toggle, selected }) {
  const [all, more] = useState(false);
  const { total, rows, live } = lanes(t);
  const sum = taken(t);
  const shown = all ? rows : rows.slice(0, shownRows);
  return html`<section class=${cls("turnline", t.decision)} data-turn=${t.n}>
    <button class="head" aria-expanded=${open} onClick=${toggle}>
      <b>Turn ${t.n}</b><span class="num">${live ? "…" : span(total)}</span>
      <span class="quiet">${moment(t.at)}</span>
      <span class="quiet num">${sum.input + sum.output ? `${count(sum.input)} → ${count(sum.output)} tokens` : ""}${sum.cost ? ` · ${money(sum.cost)}` : ""}</span>
      <span class=${cls("decision", t.decision)}>${t.code || t.decision || "in flight"}</span>
    </button>
    ${open &&
    html`<div class="lanes">
      <div class="axis" aria-hidden="true"><span class="name"></span><div class="track">${ticks(total).map((x) => html`<i style=${{ left: percent(x, total) }}>${x ? axis(x) : "0"}</i>`)}</div></div>
      <div class="rows">
        <div class="grid" aria-hidden="true">${ticks(total).map((x) => html`<i style=${{ left: percent(x, total) }}></i>`)}<${Needs} rows=${shown} total=${total} /></div>
        ${shown.map(
          (row) => html`<div class=${cls("lane", row.kind, row.state)} key=${row.id} data-selected=${row.seq === selected}>
            <button class="name" style=${{ paddingLeft: `${8 + row.depth * 14}px` }} title=${plainly(row.label)} onClick=${() => go({ record: row.seq })}><span>${plainly(row.label)}</span>${row.note && html`<em>${plainly(row.note)}</em>`}</button>
            <div class="track">${row.bars.map((bar) => html`<${Bar} bar=${bar} total=${total} row=${row} />`)}${row.marks.map((mark) => html`<${Mark} mark=${mark} total=${total} row=${row} />`)}</div>
          </div>`,
        )}
      </div>
      ${rows.length > shown.length && html`<button class="link" onClick=${() => more(true)}>${rows.length - shown.length} more rows</button>`}
      ${t.requests.length > 0 && html`<p><a class="link" href=${`#/s/${encodeURIComponent(id)}/prompt?turn=${t.n}`}>Prompt and reply</a></p>`}
      ${t.decision && t.decision !== "DONE" && html`<p class="quiet">${plainly(why(t))}</p>`}
    </div>`}
  </section>`;
}

/** @param {{live: import("./live.js").Live, at: import("./route.js").Route}} p */
export function Timeline({ live, at }) {
  const runs = live.story.list().filter((r) => r.turns.length);
  const wanted = live.story.turns.get(at.turn);
  const run = runs.find((r) => r.n === (wanted?.run ?? at.run)) ?? runs.at(-1);
  const [open, set] = useState(/** @type {Record<number, boolean>} */ ({}));
  const running = run && !run.ended;
  const [, tick] = useState(0);
  useEffect(() => {
    if (!running) return;
    const t = setInterval(() => document.hidden || tick((n) => n + 1), 250);
    return () => clearInterval(t);
  }, [running]);
  useEffect(() => {
    if (at.turn && !wanted && live.next) live.earlier();
    if (at.run && !runs.some((r) => r.n === at.run) && live.next) live.earlier();
  });
  if (!run) return html`<p class="none">No turn yet.</p>`;
  const i = runs.indexOf(run);
  const total = (run.ended ? instant(run.ended) : Date.now()) - instant(run.at || run.turns[0].at);
  const isOpen = (t) => open[t.n] ?? (t.n === at.turn || run.turns.length <= 4 || t === run.turns.at(-1));
  return html`<div class="timeline" tabindex="0">
    <header class="runpick">
      <button class="plain small" disabled=${i <= 0} onClick=${() => go({ run: runs[i - 1].n, turn: 0 })} aria-label="Run before">‹</button>
      <b>Run ${run.n}</b>
      <button class="plain small" disabled=${i >= runs.length - 1} onClick=${() => go({ run: runs[i + 1].n, turn: 0 })} aria-label="Run after">›</button>
      <span class="num">${span(total)}</span>
      <span class=${cls("decision", run.decision)}>${run.code || run.decision || run.state}</span>
      <span class="legend" aria-hidden="true"><i class="first"></i>first byte<i class="stream"></i>stream<i class="run"></i>action<i class="queue"></i>queued<i class="wait"></i>waits for a person<i class="failed"></i>failed</span>
    </header>
    ${run.turns.map((t) => html`<${TurnLine} key=${t.n} t=${t} id=${live.id} open=${isOpen(t)} toggle=${() => set({ ...open, [t.n]: !isOpen(t) })} selected=${at.record} />`)}
  </div>`;
}

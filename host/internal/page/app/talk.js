// The conversation as a person reads it: what was said, what was done, why it stopped. Thoughts
// and other internals are there when they are asked for.
import { Acts } from "./acts.js";
import { cell, useCell } from "./cell.js";
import { brief, money, pretty, span } from "./format.js";
import { cls, Component, html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Parts } from "./parts.js";
import { plainly } from "./plain.js";
import { go } from "./route.js";
import { again, fork } from "./steer.js";
import { instant } from "./spans.js";
import { nameOf, taken } from "./story.js";
import { ended, why } from "./why.js";

/** Whether internals are shown. */
export const internals = cell(false);

const oneLine = (text, n = 110) => {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > n ? line.slice(0, n) + "…" : line;
};

function Call({ a }) {
  const [open, turn] = useState(false);
  const took = a.ended && a.attempts.length ? span(instant(a.ended) - instant(a.attempts[0].at)) : "";
  const denied = a.asked.findLast((q) => q.state === "deny");
  const waits = a.asked.some((q) => q.state === "confirm") && !a.asked.some((q) => q.state !== "confirm") && !a.ended;
  const state = a.state || (waits ? "waiting" : a.attempts.length ? "running" : "queued");
  return html`<div class=${cls("call", state)}>
    <button class="head" aria-expanded=${open} onClick=${() => turn(!open)}>
      <span class="dot" aria-hidden="true"></span><b>${plainly(a.name || a.type)}</b><code>${plainly(oneLine(a.args, 90))}</code>
      <span class="end">${state === "ok" ? took : state}${a.total ? ` ${Math.round((a.done / a.total) * 100)} %` : ""}</span>
    </button>
    ${denied && html`<p class="why">${plainly(["Denied", denied.by && `by ${denied.by}`].filter(Boolean).join(" ") + (denied.reason ? ": " + denied.reason : ""))}</p>`}
    ${!denied && a.state && a.state !== "ok" && html`<p class="why">${plainly(ended(a))}</p>`}
    ${open &&
    html`<div class="inside">
      <h4>Arguments</h4><pre tabindex="0">${plainly(pretty(a.args))}</pre>
      ${(a.result || a.text) && html`<h4>Result</h4><pre tabindex="0">${plainly(pretty(a.result || a.text))}</pre>`}
      <button class="link" onClick=${() => go({ record: a.seq })}>Records and hashes</button>
      ${a.attempts.filter((x) => x.child).map((x) => html`<a class="link" href=${"#/s/" + encodeURIComponent(nameOf(x.child))}>Session of the agent</a>`)}
    </div>`}
    ${!open && a.text && !a.ended && html`<pre class="growing" tabindex="0">${plainly(a.text.slice(-2000))}</pre>`}
  </div>`;
}

/** The foot of a turn: how long it took, what it used, how it ended. */
function Foot({ t, id }) {
  const sum = taken(t);
  return html`<div class=${cls("foot", t.decision === "HALT" && "halt")}>
    <a class="link" href=${`#/s/${encodeURIComponent(id)}/time?turn=${t.n}`} title="Time line of the turn">turn ${t.n}</a>
    <span>${t.ended ? span(instant(t.ended) - instant(t.at)) : "…"}</span>
    ${sum.requests > 0 && html`<span>${brief(sum.input)} → ${brief(sum.output)} tokens</span>`}
    ${sum.cost > 0 && html`<span>${money(sum.cost)}</span>`}
    <span>${t.code || t.decision.toLowerCase()}</span>
    <button class="link" onClick=${() => go({ record: t.endSeq || t.seq })}>record</button>
    ${t.requests.length > 0 && html`<a class="link" href=${`#/s/${encodeURIComponent(id)}/prompt?turn=${t.n}`}>prompt</a>`}
    ${t.ended && html`<${Acts}><button class="link" onClick=${() => fork(id, t.n)}>fork here</button></${Acts}>`}
  </div>`;
}

function Said({ item }) {
  const label = item.label ? html`<span class="label">${plainly(item.label)}</span>` : null;
  return html`<div class=${cls("said", item.kind, !item.done && "growing")} data-kind=${item.kind}>${label}${item.text.replace(/\n+$/, "")}</div>`;
}

/** What a person has said. It can be said otherwise, in a copy that begins in front of it. */
function Asked({ item, turn, id }) {
  const [edit, set] = useState(false);
  const box = useRef(null);
  if (!edit) {
    return html`<div class="user" data-kind="user">${item.text}${item.parts?.length > 0 && html`<${Parts} id=${id} parts=${item.parts} />`}</div>
      ${turn > 0 && item.message && html`<${Acts}><button class="link edit" onClick=${() => set(true)} title="Say it otherwise in a copy of the session, which begins in front of it">Edit and run again</button></${Acts}>`}`;
  }
  const run = async (e) => {
    e.preventDefault();
    if (await again(id, turn, box.current.value)) set(false);
  };
  return html`<form class="again" onSubmit=${run}>
    <textarea aria-label="Message, edited" maxlength="524288" ref=${(e) => e && !box.current && (box.current = e).focus()} onKeyDown=${(e) => {
      if (e.key === "Enter" && !e.shiftKey && !e.isComposing) run(e);
      else if (e.key === "Escape") (e.stopPropagation(), (box.current = null), set(false));
    }}>${item.text}</textarea>
    <div class="row"><button class="primary small">Run in a copy</button><button type="button" class="plain small" onClick=${() => ((box.current = null), set(false))}>Not now</button></div>
  </form>`;
}

function ItemOf({ item, turns, id, run }) {
  switch (item.kind) {
    case "call":
      return html`<${Call} a=${item.action} />`;
    case "user":
      return html`<${Asked} item=${item} turn=${run.turns[0]?.n ?? 0} id=${id} />`;
    case "turn":
      return html`<${Foot} t=${turns.get(item.turn)} id=${id} />`;
    case "output":
      return html`<pre class="output" tabindex="0">${plainly(pretty(item.text))}</pre>`;
    case "error":
    case "lint":
      return html`<div class=${"internal " + item.kind}><b>${item.code}</b> ${plainly(item.text)}</div>`;
    case "note":
      return html`<div class="note">${plainly(item.text)}</div>`;
    default:
      return html`<${Said} item=${item} />`;
  }
}

/** One run; it renders only when it changed. */
class RunOf extends Component {
  shouldComponentUpdate(next) {
    const was = this.props;
    return next.version !== was.version || next.inside !== was.inside || next.id !== was.id || next.run !== was.run;
  }

  render({ run, turns, inside, id }) {
    const items = run.items.filter((i) => (inside || !i.hidden) && (i.kind === "call" || i.kind === "turn" || i.kind === "user" || i.text.trim() || i.code));
    const bad = run.state === "ended" && run.decision !== "DONE";
    const last = run.turns.at(-1);
    return html`<section class=${cls("run", run.withdrawn && "withdrawn")} aria-label=${"Run " + run.n} data-run=${run.n}>
      ${items.map((item) => html`<${ItemOf} key=${item.key} item=${item} turns=${turns} id=${id} run=${run} />`)}
      ${run.state === "running" && html`<div class="working" role="status"><span></span><span></span><span></span>${last && !last.requests.length ? " begins" : ""}</div>`}
      ${bad &&
      html`<div class=${cls("stopped", run.decision)} role="note">
        <p>${plainly(why(run))}</p>
        <p class="quiet"><b>${[run.decision, run.code].filter(Boolean).join(" ")}</b>${last ? html` in <button class="link" onClick=${() => go({ record: last.endSeq || run.endSeq })}>turn ${last.n}</button>` : ""}</p>
      </div>`}
      ${run.state === "ended" && html`<${RunFoot} run=${run} id=${id} />`}
    </section>`;
  }
}

function RunFoot({ run, id }) {
  const sum = run.turns.map(taken).reduce((a, b) => ({ input: a.input + b.input, output: a.output + b.output, cost: a.cost + b.cost }), { input: 0, output: 0, cost: 0 });
  return html`<div class="foot runfoot">
    <a class="link" href=${`#/s/${encodeURIComponent(id)}/time?run=${run.n}`} title="Time line">${run.at ? span(instant(run.ended) - instant(run.at)) : "never began"}</a>
    ${run.turns.length > 1 && html`<span>${run.turns.length} turns</span>`}
    ${sum.input + sum.output > 0 && html`<span>${brief(sum.input)} → ${brief(sum.output)} tokens</span>`}
    ${sum.cost > 0 && html`<span>${money(sum.cost)}</span>`}
    ${run.decision === "DONE" && html`<span class="done">done</span>`}
    ${run.turns.length > 0 && html`<${Acts}><button class="link" onClick=${() => fork(id, run.turns.at(-1).n)} title="A copy of the session that ends here">Fork here</button></${Acts}>`}
  </div>`;
}

const slice = 20; // runs that are put into the document at once

/** @param {{live: import("./live.js").Live, at: import("./route.js").Route}} p */
export function Talk({ live, at }) {
  const inside = useCell(internals);
  const box = useRef(null);
  const end = useRef(true);
  const before = useRef({ height: 0, first: 0, seq: 0 });
  const { story } = live;
  const runs = story.list().filter((r) => r.n > 0);
  const [oldest, show] = useState(0); // ordinal of the first run in the document; 0 before it is chosen
  const wanted = at.record > 0 ? (runs.findLast((r) => r.seq <= at.record)?.n ?? 0) : 0;
  let from = oldest ? runs.findIndex((r) => r.n >= oldest) : runs.length - slice;
  if (wanted) from = Math.min(from, runs.findIndex((r) => r.n === wanted) - 2);
  from = Math.max(0, from);
  const first = runs[from]?.n ?? 0;
  const seq = story.records[0]?.seq ?? 0;
  const seen = runs.slice(from);
  const earlier = () => (from > 0 ? show(runs[Math.max(0, from - slice)].n) : void live.earlier());
  useLayoutEffect(() => {
    if (first && first !== oldest) show(first);
    const e = box.current;
    if (first > 0 && (before.current.first > first || before.current.seq > seq)) e.scrollTop += e.scrollHeight - before.current.height; // older ones came in front
    else if (end.current) e.scrollTop = e.scrollHeight;
    before.current = { height: e.scrollHeight, first, seq };
  });
  useEffect(() => {
    if (at.record > 0) live.back(at.record);
  }, [at.record, live.loading]);
  useEffect(() => {
    const e = wanted && box.current.querySelector(`[data-run="${wanted}"]`);
    if (!e) return;
    const [top, bottom] = [e.getBoundingClientRect().top - box.current.getBoundingClientRect().top, e.getBoundingClientRect().bottom - box.current.getBoundingClientRect().top];
    if (bottom > 0 && top < box.current.clientHeight) return; // it is in sight
    end.current = false;
    e.scrollIntoView({ block: "start" });
  }, [wanted]);
  const scrolled = (e) => {
    const el = e.target;
    end.current = el.scrollHeight - el.scrollTop - el.clientHeight < 60;
    if (el.scrollTop < 400) earlier();
  };
  useEffect(() => {
    const e = box.current;
    // Until they fill what is in sight. A page may bring no further run: nothing is scrolled then.
    if (e.scrollTop < 400 && (from > 0 || (live.next && (!end.current || e.scrollHeight <= e.clientHeight)))) earlier();
  });
  return html`<div class="talk" ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-label="Conversation">
    ${(from > 0 || live.next > 0) && html`<p class="none"><button class="link" onClick=${earlier}>Earlier</button></p>`}
    ${seen.map((r) => html`<${RunOf} key=${r.n} run=${r} version=${r.version} turns=${story.turns} inside=${inside} id=${live.id} />`)}
    ${!live.loading && !runs.length && html`<p class="none">Nothing was said yet.</p>`}
  </div>`;
}

// What a session works with: the sessions of its agents as a tree, its feeds, and the values
// that it keeps, as they change.
import { Acts } from "./acts.js";
import { ago, moment, pretty } from "./format.js";
import { api, failed } from "./host.js";
import { cls, html, useEffect, useState } from "./html.js";
import { plainly } from "./plain.js";
import { go } from "./route.js";
import { childrenOf, nameOf, Story } from "./story.js";

const every = 2000; // milliseconds between looks at feeds and child sessions
const most = 50; // children of a session that are shown at first
const shownValues = 200;

/** Calls look at once and again and again while the page is seen, until the part has gone. */
function useLooks(look, deps) {
  useEffect(() => {
    const leave = new AbortController();
    const { signal } = leave;
    let timer = 0;
    const again = async () => {
      try {
        if (!document.hidden) await look(signal);
      } catch (err) {
        if (signal.aborted) return;
        failed(err);
      }
      if (!signal.aborted) timer = setTimeout(again, every);
    };
    again();
    return () => {
      leave.abort();
      clearTimeout(timer);
    };
  }, deps);
}

/** A child session: its state, and below it those of its own agents. */
function Child({ id, by, depth }) {
  const [view, say] = useState(null);
  const [below, put] = useState([]);
  const [gone, lose] = useState(false);
  useLooks(
    async (signal) => {
      if (gone || (view && view.state !== "running" && view.state !== "suspended")) return;
      try {
        const now = await api.session(id, { signal });
        const page = await api.records(id, { limit: 500, kind: ["action.declared", "action.started", "action.ended", "run.end"] }, { signal });
        const story = new Story();
        for (const r of page.records) story.add(r);
        put(childrenOf(story));
        say({ ...now, decision: story.list().at(-1)?.decision });
      } catch (err) {
        if (err.status !== 404) throw err;
        lose(true);
      }
    },
    [id, gone, view?.state],
  );
  const state = gone ? "deleted" : (view?.state ?? "…");
  const word = state === "idle" ? (view.decision ?? "idle").toLowerCase() : state === "suspended" ? "waiting" : state;
  return html`<li>
    <p class="node">${gone ? html`<span>${id}</span>` : html`<a class="link" href=${"#/s/" + encodeURIComponent(id)}>${view?.title || view?.agent || id}</a>`}<span class=${cls("state", state, view?.decision === "HALT" && state === "idle" && "halt")}>${word}</span><span class="quiet">${plainly(by)}</span></p>
    <${Tree} list=${below} depth=${depth + 1} />
  </li>`;
}

function Tree({ list, depth }) {
  const [all, more] = useState(false);
  if (!list.length || depth > 8) return null;
  return html`<ul class="tree">${(all ? list : list.slice(0, most)).map((c) => html`<${Child} key=${c.id} id=${c.id} by=${c.by} depth=${depth} />`)}
    ${!all && list.length > most && html`<li><button class="link" onClick=${() => more(true)}>${list.length - most} more</button></li>`}
  </ul>`;
}

function Feeds({ id }) {
  const [list, set] = useState(/** @type {any[] | null} */ (null));
  useLooks(async (signal) => set((await api.feeds(id, { signal })).feeds ?? []), [id]);
  if (!list) return html`<p class="quiet">…</p>`;
  if (!list.length) return html`<p class="quiet">The agent has no feeds.</p>`;
  return html`<ul class="cards" aria-label="Feeds">${list.map(
    (f) => html`<li class=${cls("feed", f.stale && "stale")} key=${f.id} data-feed=${f.id}>
      <p class="row"><b>${plainly(f.id)}</b><span class="quiet">${f.trigger === "periodic" ? `every ${f.interval_ms / 1000} s` : "when it is asked for"}</span>${f.added && html`<span class="tag">added by the model</span>`}${f.disabled && html`<span class="tag">off</span>`}${f.stale && html`<span class="tag">stale</span>`}<span class="space"></span><time class="quiet" dateTime=${f.updated}>${f.updated ? ago(f.updated) : ""}</time></p>
      ${f.source && html`<p class="quiet">${plainly(f.source)}</p>`}
      ${f.reason && html`<p class="bad">${plainly(f.reason)}</p>`}
      ${f.value && html`<pre tabindex="0">${plainly(pretty(f.value))}</pre>`}
    </li>`,
  )}</ul>`;
}

function Values({ story }) {
  const list = story.relics.slice(-shownValues).reverse();
  if (!list.length) return html`<p class="quiet">No value was changed${story.records[0]?.seq > 1 ? " in the records that are here" : ""}.</p>`;
  return html`<div class="scroll"><table class="values"><thead><tr><th scope="col">turn</th><th scope="col">relic</th><th scope="col">change</th><th scope="col">result</th><th scope="col">time</th></tr></thead>
    <tbody>${list.map((v) => html`<tr key=${v.seq}><td class="num">${v.turn || "–"}</td><td><button class="link" onClick=${() => go({ record: v.seq })}>${plainly(v.relic)}</button></td><td><code>${plainly(v.args)}</code></td><td><code>${plainly(v.result)}</code></td><td class="quiet num">${moment(v.ts)}</td></tr>`)}</tbody></table></div>`;
}

/** @param {{live: import("./live.js").Live}} p */
export function Context({ live }) {
  const { about } = live.story;
  const children = childrenOf(live.story);
  return html`<div class="context" tabindex="0">
    <section><h2>Sessions of its agents</h2>
      ${about.parent && html`<p class="quiet">It works for <a class="link" href=${"#/s/" + encodeURIComponent(nameOf(about.parent.sid))}>${nameOf(about.parent.sid)}</a>, turn ${about.parent.turn}.</p>`}
      ${children.length ? html`<${Tree} list=${children} depth=${0} />` : html`<p class="quiet">It has asked no other agent.</p>`}
    </section>
    <${Acts}><section><h2>Feeds</h2><${Feeds} id=${live.id} /></section></${Acts}>
    <section><h2>Values</h2><${Values} story=${live.story} /></section>
  </div>`;
}

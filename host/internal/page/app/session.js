// A session: its head, its views, the questions that wait in it, and the field to speak to it.
import { Acts, rests } from "./acts.js";
import { Approval } from "./approvals.js";
import { useCell } from "./cell.js";
import { Compare } from "./compare.js";
import { Context } from "./context.js";
import { SessionCosts } from "./costs.js";
import { attempt } from "./host.js";
import { cls, html, useRef, useState } from "./html.js";
import { Copy, Inspect } from "./inspect.js";
import { useLive } from "./live.js";
import { Records } from "./log.js";
import { Chosen, sent } from "./parts.js";
import { Prompt } from "./prompt.js";
import { go, route } from "./route.js";
import { freshen } from "./sessions.js";
import { nameOf } from "./story.js";
import { internals, Talk } from "./talk.js";
import { Timeline } from "./timeline.js";

/** The views, in the order of their keys. */
export const tabs = [
  ["talk", "Conversation"],
  ["time", "Time line"],
  ["records", "Records"],
  ["prompt", "Prompt"],
  ["context", "Context"],
  ["costs", "Costs"],
  ["compare", "Compare"],
];

/** The session that is shown, for keys. @type {{live: import("./live.js").Live | null}} */
export const shown = { live: null };

const show = (live, was) => {
  if (live) shown.live = live;
  else if (shown.live === was) shown.live = null;
};

export async function cancel(live) {
  const run = live?.view?.run;
  if (run) await attempt(() => live.session.cancel(run));
  await live?.refresh();
}

function Title({ live }) {
  const [edit, set] = useState(false);
  const view = live.view;
  const save = async (e) => {
    e.preventDefault();
    const title = new FormData(e.target).get("title");
    set(false);
    await attempt(() => live.session.describe({ title }));
    await live.refresh();
    freshen();
  };
  if (useCell(rests)) return html`<h1 id="name">${view?.title || live.id}</h1>`;
  if (edit) return html`<form class="title" onSubmit=${save}><input name="title" aria-label="Title" maxlength="200" value=${view.title ?? ""} onKeyDown=${(e) => e.key === "Escape" && set(false)} ref=${(e) => e?.focus()} /><button class="small">Save</button></form>`;
  return html`<h1 id="name"><button class="quietly" title="Give a title" onClick=${() => set(true)}>${view?.title || live.id}</button></h1>`;
}

/** Where a session comes from. */
function From({ about, id }) {
  const { origin, parent } = about;
  const link = (sid) => html`<a class="link" href=${"#/s/" + encodeURIComponent(nameOf(sid))}>${nameOf(sid)}</a>`;
  if (origin) return html`<p class="quiet" id="origin"><span>continues ${link(origin.sid)}</span><a class="link" href=${`#/s/${encodeURIComponent(id)}/compare?with=${encodeURIComponent(nameOf(origin.sid))}`}>compare</a></p>`;
  return parent ? html`<p class="quiet" id="parent"><span>works for ${link(parent.sid)}</span></p>` : null;
}

function Head({ live }) {
  const view = live.view;
  const at = useCell(route);
  const inside = useCell(internals);
  const busy = view && (view.state === "running" || view.state === "suspended");
  return html`<header class="head">
    <button class="plain small back" onClick=${() => go({ page: "sessions", id: "" })} aria-label="All sessions">‹</button>
    <div class="who">
      <${Title} live=${live} />
      <p class="quiet">
        ${view && html`<span id="state" class=${cls("state", view.state)}>${view.state === "suspended" ? "waiting" : view.state}</span><span>${view.agent}</span>`}
        ${view?.title && html`<span class="mono">${live.id}</span>`}<${Copy} text=${live.id} what="the id" />
        ${(view?.tags ?? []).map((t) => html`<span class="tag">${t}</span>`)}
      </p>
      <${From} about=${live.story.about} id=${live.id} />
    </div>
    <div class="acts">
      <${Acts}>${busy && html`<button id="cancel" class="danger small" onClick=${() => cancel(live)} title="Cancel the run (.)">Cancel</button>`}</${Acts}>
      <button class="small" aria-pressed=${inside} onClick=${() => internals.set(!inside)} title="Thoughts and other internals (i)">Internals</button>
    </div>
    <nav class="tabs" aria-label="Views">${tabs.map(([tab, name], i) => html`<a href=${`#/s/${encodeURIComponent(live.id)}${tab === "talk" ? "" : "/" + tab}`} aria-current=${at.tab === tab ? "page" : undefined} title=${`${name} (${i + 1})`}>${name}</a>`)}</nav>
  </header>`;
}

function Say({ live }) {
  const box = useRef(null);
  const [sending, set] = useState(false);
  const [files, choose] = useState(/** @type {File[]} */ ([]));
  const send = async () => {
    const text = box.current.value;
    if (!text.trim() || sending) return;
    set(true);
    const ok = await attempt(async () => {
      await live.session.call("POST", "/runs", { body: { input: text, parts: files.length ? await sent(files) : undefined } });
      return true;
    });
    set(false);
    if (ok) (box.current.value = ""), choose([]);
    await live.refresh();
    freshen();
  };
  const key = (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      send();
    }
  };
  const gone = live.view && !live.view.agent_known;
  return html`<form class="say" onSubmit=${(e) => (e.preventDefault(), send())}>
    <textarea id="say" ref=${box} rows="1" maxlength="524288" aria-label="Message" placeholder=${gone ? "The host does not have this session's agent any more" : "Message (Enter sends, Shift+Enter breaks the line)"} disabled=${gone} onKeyDown=${key}></textarea>
    <${Chosen} files=${files} set=${choose} disabled=${sending || gone} />
    <button class="primary" disabled=${sending || gone}>Send</button>
  </form>`;
}

function View({ live, at }) {
  switch (at.tab) {
    case "time":
      return html`<${Timeline} live=${live} at=${at} />`;
    case "records":
      return html`<${Records} live=${live} at=${at} />`;
    case "prompt":
      return html`<${Prompt} live=${live} at=${at} />`;
    case "context":
      return html`<${Context} live=${live} />`;
    case "costs":
      return html`<${SessionCosts} live=${live} />`;
    case "compare":
      return html`<${Compare} key=${at.other} live=${live} at=${at} />`;
    default:
      return html`<${Talk} live=${live} at=${at} />`;
  }
}

export function Session({ id }) {
  const live = useLive(id, show);
  const at = useCell(route);
  if (!live) return html`<main class="pane"></main>`;
  if (live.missing) {
    return html`<main class="pane"><header class="head"><button class="plain small back" onClick=${() => go({ page: "sessions", id: "" })} aria-label="All sessions">‹</button><h1 id="name">${id}</h1></header>
      <p class="trouble" role="alert">${live.missing.code}: ${live.missing.message}</p></main>`;
  }
  return html`<main class=${cls("pane", at.record > 0 && "open")}>
    <${Head} live=${live} />
    <div class="body">
      <div class="view">
        <${View} key=${at.tab} live=${live} at=${at} />
        ${live.approvals.length > 0 && html`<div class="approvals" aria-live="polite">${live.approvals.map((a) => html`<${Approval} key=${a.id + a.digest} session=${id} call=${a} done=${() => live.refresh()} />`)}</div>`}
        ${at.tab === "talk" && html`<${Acts}><${Say} live=${live} /></${Acts}>`}
      </div>
      ${at.record > 0 && html`<${Inspect} live=${live} at=${at} />`}
    </div>
  </main>`;
}

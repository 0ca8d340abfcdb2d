// The list of sessions: the one that changed last first, searched and filtered by the host,
// page by page as it is scrolled, and alive.
import { Acts, rests } from "./acts.js";
import { cell, useCell } from "./cell.js";
import { ago } from "./format.js";
import { api, attempt, failed, host, token, wanted } from "./host.js";
import { cls, html, useCallback, useEffect, useState } from "./html.js";
import { nested } from "./nest.js";
import { plainly } from "./plain.js";
import { go, route } from "./route.js";
import { Virtual } from "./virtual.js";

const pageSize = 100;
const rowHeight = 58;
const every = 2500; // milliseconds between looks at what changed

const none = { q: "", agent: "", state: "", decision: "", tag: "" };
export const filter = cell(none);
/** What is listed. @type {ReturnType<typeof cell<{items: any[], next: string, loading: boolean, begun: boolean}>>} */
export const listed = cell({ items: [], next: "", loading: false, begun: false });
export const agents = cell([]);
/** Sessions in which what is searched for was said. @type {ReturnType<typeof cell<{found: any[], more: boolean, behind: boolean} | null>>} */
const texts = cell(null);
const lookAfter = 80; // milliseconds behind the last letter that texts are searched

/** Looks for what is searched in all that was said, until the index has all sessions. */
async function look(q, agent, signal) {
  try {
    for (let behind = true; behind && !signal.aborted; ) {
      const page = await api.search({ q, agent, limit: 50 }, { signal });
      behind = page.behind === true;
      texts.set({ found: page.found, more: page.more === true, behind });
    }
  } catch (err) {
    if (!signal.aborted) failed(err);
  }
}

let round = 0;

/** The list from the beginning. */
export async function list() {
  const mine = ++round;
  listed.set({ ...listed.get(), loading: true });
  try {
    const page = await pageOf("");
    if (mine === round) listed.set({ ...page, loading: false, begun: true });
  } catch (err) {
    if (mine === round) listed.set({ ...listed.get(), loading: false, begun: true });
    failed(err);
  }
}

async function pageOf(after, limit = pageSize) {
  const page = await api.sessions({ ...filter.get(), last: true, limit, after });
  return { items: page.sessions, next: page.next ?? "" };
}

/** The next page, when the end comes in sight. */
async function more() {
  const now = listed.get();
  if (now.loading || !now.next) return;
  const mine = round;
  listed.set({ ...now, loading: true });
  try {
    const page = await pageOf(now.next);
    if (mine !== round) return;
    const known = new Set(now.items.map((s) => s.id));
    listed.set({ items: [...listed.get().items, ...page.items.filter((s) => !known.has(s.id))], next: page.next, loading: false, begun: true });
  } catch (err) {
    if (mine === round) listed.set({ ...listed.get(), loading: false });
    failed(err);
  }
}

/** What changed since: those sessions come to the front. */
export async function freshen() {
  const now = listed.get();
  if (!now.begun || now.loading || wanted.get()) return;
  const mine = round;
  try {
    const page = await pageOf("", 50);
    if (mine !== round) return;
    const items = listed.get().items;
    const old = new Map(items.map((s) => [s.id, s]));
    if (page.items.every((s, i) => items[i]?.id === s.id && items[i].seq === s.seq && items[i].state === s.state && items[i].title === s.title) && (page.next || page.items.length === items.length)) return;
    if (!page.next) return listed.set({ ...listed.get(), items: page.items, next: "" });
    // All of the page is new: what lies between it and the list is not known.
    if (items.length && !page.items.some((s) => old.has(s.id))) return listed.set({ ...page, loading: false, begun: true });
    const fresh = new Set(page.items.map((s) => s.id));
    listed.set({ ...listed.get(), items: [...page.items, ...items.filter((s) => !fresh.has(s.id))] });
  } catch (err) {
    failed(err);
  }
}

const stateWord = (s) => (s.state === "suspended" ? "waiting" : s.state === "idle" ? (s.decision ?? "idle").toLowerCase() : s.state);

function Row({ s, current }) {
  const what = s.title || s.id;
  return html`<a class=${cls("session", s.depth && "child")} href=${"#/s/" + encodeURIComponent(s.id)} aria-current=${s.id === current ? "page" : undefined}>
    <span class="line"><b>${what}</b><time dateTime=${s.updated}>${ago(s.updated)}</time></span>
    <span class="line quiet">
      <span class=${cls("state", s.state, s.decision === "HALT" && s.state === "idle" && "halt")}>${stateWord(s)}</span>
      <span class="agent">${s.agent}${s.agent_known || rests.get() ? "" : " (gone)"}</span>
      ${(s.tags ?? []).map((t) => html`<span class="tag">${t}</span>`)}
      ${s.parent && !s.depth && html`<span class="id">works for ${s.parent}</span>`}
      ${s.title && html`<span class="id">${s.id}</span>`}
    </span>
  </a>`;
}

/** A session in which something was said that is searched for: the link leads to the place. */
function Text({ f }) {
  return html`<a class="session text" href=${`#/s/${encodeURIComponent(f.session)}?record=${f.seq}`}>
    <span class="line"><b>${f.title || f.session}</b><time dateTime=${f.at}>${ago(f.at)}</time></span>
    <span class="line quiet"><span class="excerpt">${f.role === "user" ? "asked: " : "said: "}${plainly(f.before ?? "").slice(-24)}<mark>${plainly(f.match)}</mark>${plainly(f.after ?? "")}</span></span>
  </a>`;
}

function Begin({ close }) {
  const all = useCell(agents);
  const submit = async (e) => {
    e.preventDefault();
    const data = new FormData(e.target);
    await attempt(async () => {
      const s = host.agent(data.get("agent"), data.get("id") || undefined);
      await s.open();
      close();
      go({ id: s.id });
      await freshen();
    });
  };
  return html`<form class="begin" onSubmit=${submit}>
    <label>Agent <select name="agent" required>${all.map((a) => html`<option value=${a.name} title=${a.summary ?? ""}>${a.name}</option>`)}</select></label>
    <label>Id <input name="id" maxlength="128" pattern="[A-Za-z0-9._\\-]*" placeholder="a new one" autocomplete="off" /></label>
    <div class="row"><button class="primary">Begin</button><button type="button" class="plain" onClick=${close}>Not now</button></div>
  </form>`;
}

/** A choice of the filter. */
function Choice({ name, label, values }) {
  const now = useCell(filter);
  return html`<select aria-label=${label} class=${cls(now[name] && "set")} value=${now[name]} onChange=${(e) => filter.set({ ...filter.get(), [name]: e.target.value })}>
    <option value="">${label}</option>
    ${values.map(([v, text]) => html`<option value=${v} selected=${now[name] === v}>${text}</option>`)}
  </select>`;
}

export function Sessions() {
  const { items, loading, begun } = useCell(listed);
  const at = useCell(route);
  const now = useCell(filter);
  const all = useCell(agents);
  const [beginning, begin] = useState(false);
  const [, tick] = useState(0);
  useEffect(() => {
    const wait = setTimeout(list, now.q || now.tag ? 15 : 0); // while a person types
    return () => clearTimeout(wait);
  }, [now]);
  const said = useCell(texts);
  const words = now.q.trim();
  useEffect(() => {
    texts.set(null);
    if (words.length < 2) return;
    const leave = new AbortController();
    const wait = setTimeout(() => look(words, now.agent, leave.signal), lookAfter);
    return () => {
      clearTimeout(wait);
      leave.abort();
    };
  }, [words, now.agent]);
  useEffect(() => {
    const t = setInterval(() => {
      if (document.hidden) return;
      tick((n) => n + 1);
      freshen();
    }, every);
    return () => clearInterval(t);
  }, []);
  const end = useCallback(() => void more(), []);
  const filtered = Object.values(now).some(Boolean);
  const search = (e) => {
    const text = e.target.value;
    const tag = /^#?([\w.-]+=[^\s,]*)$/.exec(text) ?? /^#([^\s,]+)$/.exec(text);
    filter.set({ ...filter.get(), q: tag ? "" : text, tag: tag ? tag[1] : "" });
  };
  const openId = (e) => {
    const id = e.target.value.trim();
    if (e.key === "Enter" && id && !items.length && shownToo.length) go({ id: shownToo[0].text.session, record: shownToo[0].text.seq });
    else if (e.key === "Enter" && id) go({ id: items.length && !items.some((s) => s.id === id) ? items[0].id : id });
  };
  const rows = nested(items);
  const shownToo = words.length < 2 || !said ? [] : said.found.map((f) => ({ id: "text " + f.session, text: f }));
  const Frame = at.id ? "aside" : "main";
  return html`<${Frame} class="list" aria-label="Sessions">
    ${!at.id && html`<h1 class="unseen">Sessions</h1>`}
    <div class="tools">
      <input id="search" type="search" placeholder="Search titles and texts, or #tag" aria-label="Search" maxlength="128" onInput=${search} onKeyDown=${openId} autocomplete="off" />
      <${Acts}><button class="primary small" id="new" onClick=${() => begin(!beginning)} aria-expanded=${beginning} title="Begin a session (n)">New</button></${Acts}>
    </div>
    <div class="filters">
      <${Choice} name="agent" label="Agent" values=${[...new Set([...all.map((a) => a.name), ...items.map((s) => s.agent ?? "")])].filter(Boolean).sort().map((n) => [n, n])} />
      <${Choice} name="state" label="State" values=${[["running", "running"], ["suspended", "waiting"], ["idle", "idle"], ["interrupted", "interrupted"]]} />
      <${Choice} name="decision" label="Decision" values=${[["DONE", "done"], ["HALT", "halt"], ["ABORT", "abort"]]} />
    </div>
    ${beginning && html`<${Begin} close=${() => begin(false)} />`}
    ${shownToo.length > 0 && html`<p class="note" id="texts" role="status">${items.length === 0 ? "No title" : items.length === 1 ? "1 title" : `${items.length}${now.q && listed.get().next ? "+" : ""} titles`}, ${shownToo.length}${said.more ? "+" : ""} ${shownToo.length === 1 ? "session" : "sessions"} by what was said${said.behind ? " so far…" : ""}</p>`}
    ${begun && !items.length && !shownToo.length && !loading && html`<p class="none">${filtered ? "No session fits." : token.get() || all.length ? "No session yet." : ""}</p>`}
    <${Virtual} items=${[...rows, ...shownToo]} height=${rowHeight} label="Sessions" onEnd=${end} selected=${rows.findIndex((s) => s.id === at.id)} row=${(s) => (s.text ? html`<${Text} f=${s.text} />` : html`<${Row} s=${s} current=${at.id} />`)} />
  </${Frame}>`;
}

/** The session next to the one that is shown, in the list. */
export function beside(step) {
  const items = nested(listed.get().items);
  const i = items.findIndex((s) => s.id === route.get().id);
  const s = items[i < 0 ? 0 : Math.min(items.length - 1, Math.max(0, i + step))];
  if (s) go({ id: s.id });
}

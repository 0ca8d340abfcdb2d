// The console: what a person opens to understand and steer agents. It is a client like any
// other, over the public API; what comes from the host is put into the page as text.
import { rests } from "./acts.js";
import { Admin } from "./admin.js";
import { useCell } from "./cell.js";
import { Costs } from "./costs.js";
import { Health } from "./health.js";
import { api, failed, reached, token, trouble, wanted } from "./host.js";
import { cls, html, render, useEffect, useState } from "./html.js";
import { Inbox, look, useInbox } from "./inbox.js";
import { Keys } from "./keys.js";
import { route } from "./route.js";
import { Session } from "./session.js";
import { agents, list, Sessions } from "./sessions.js";

const themes = ["auto", "light", "dark"];

function useTheme() {
  const [theme, set] = useState(localStorage.getItem("stile-theme") ?? "auto");
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem("stile-theme", theme);
  }, [theme]);
  return [theme, () => set(themes[(themes.indexOf(theme) + 1) % themes.length])];
}

function Access() {
  const state = useCell(wanted);
  if (!state) return null;
  const enter = (e) => {
    e.preventDefault();
    token.set(new FormData(e.target).get("token"));
    start();
  };
  return html`<form id="access" class="access" onSubmit=${enter}>
    <h1>${state === "refused" ? "The token is not good any more" : "This host wants a token"}</h1>
    <p class="quiet">${state === "refused" ? "It is wrong, has expired or was revoked. Nothing that you sent is lost; show another one to go on." : "An administrator makes one with stile tokens create."}</p>
    <label>Token <input name="token" type="password" autocomplete="off" required ref=${(e) => e?.focus()} /></label>
    <button class="primary">Go on</button>
  </form>`;
}

function Notices() {
  const what = useCell(trouble);
  const there = useCell(reached);
  return html`<div class="notices">
    ${!there && html`<p class="notice" role="status">The host does not answer; the console goes on as soon as it does.</p>`}
    ${what && html`<p class="notice trouble" id="trouble" role="alert"><span>${[what.code, what.text].filter(Boolean).join(": ")}</span><button class="plain small" aria-label="Close" onClick=${() => trouble.set(null)}>✕</button></p>`}
  </div>`;
}

function Bar({ theme, turn, help }) {
  const at = useCell(route);
  const waits = useInbox();
  const current = (page) => (at.page === page ? "page" : undefined);
  return html`<header class="bar">
    <a class="mark" href="#/">stile</a>
    <nav aria-label="Pages"><a href="#/" aria-current=${current("sessions")}>Sessions</a><a href="#/inbox" aria-current=${current("inbox")} title="Calls that wait for an answer (a)">Inbox${waits?.calls.length > 0 && html`<span class="count">${waits.calls.length}${waits.more ? "+" : ""}</span>`}</a><a href="#/costs" aria-current=${current("costs")} title="Tokens and money (c)">Costs</a><a href="#/health" aria-current=${current("health")} title="Charts of the host (h)">Health</a><a href="#/admin" aria-current=${current("admin")} title="Tokens, and erasure">Admin</a></nav>
    <span class="space"></span>
    ${useCell(rests) && html`<span class="tag" id="rests" title="The host only shows this journal: nothing in it runs or is changed">only shown</span>`}
    <button class="plain small" onClick=${turn} title="Light or dark">${theme}</button>
    <button class="plain small" onClick=${help} title="Keys (?)">Keys</button>
  </header>`;
}

function App() {
  const at = useCell(route);
  const want = useCell(wanted);
  const [help, setHelp] = useState(false);
  const [theme, turn] = useTheme();
  useEffect(() => {
    const name = at.id || { inbox: "Inbox", costs: "Costs", health: "Health", admin: "Administration" }[at.page];
    document.title = name ? name + " · stile" : "stile";
  }, [at.id, at.page]);
  return html`<div class=${cls("app", at.page, at.id && "one")}>
    <${Bar} theme=${theme} turn=${turn} help=${() => setHelp(true)} />
    <${Notices} />
    ${want ? html`<main class="pane"><${Access} /></main>` : at.page === "inbox" ? html`<${Inbox} />` : at.page === "costs" ? html`<${Costs} />` : at.page === "health" ? html`<${Health} />` : at.page === "admin" ? html`<${Admin} />` : html`<${Sessions} />${at.id ? html`<${Session} key=${at.id} id=${at.id} />` : html`<aside class="pane" aria-label="Session"><p class="none" id="hint">Pick a session, or begin one.</p></aside>`}`}
    <${Keys} help=${help} setHelp=${setHelp} />
  </div>`;
}

async function start() {
  try {
    const { list: all, resting } = await api.agents();
    rests.set(resting);
    agents.set(all);
    if (!wanted.get()) await Promise.all([list(), look()]);
  } catch (err) {
    failed(err);
  }
}

render(html`<${App} />`, document.getElementById("app"));
start();

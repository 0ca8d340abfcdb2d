// Tokens of the tenant, and what is erased of a person: for who has the scope admin.
import { Acts, rests } from "./acts.js";
import { useCell } from "./cell.js";
import { ago, moment } from "./format.js";
import { attempt, failed, host, token } from "./host.js";
import { cls, html, useEffect, useState } from "./html.js";
import { Copy } from "./inspect.js";
import { plainly } from "./plain.js";
import { Sure } from "./sure.js";

const scopes = ["read", "submit", "approve", "admin", "users", "metrics", "feeds", "operator"];
const day = 24 * 3600;

function Make({ made }) {
  const submit = async (e) => {
    e.preventDefault();
    const data = new FormData(e.target);
    const days = Number(data.get("days"));
    const body = { scopes: data.getAll("scope"), user: data.get("user") || undefined, note: data.get("note") || undefined, expires_in_s: days > 0 ? days * day : undefined };
    const one = await attempt(() => host.call("POST", "/tokens", { body }));
    if (one) made(one);
  };
  return html`<form class="make" onSubmit=${submit}>
    <fieldset><legend>It may</legend>${scopes.map((s) => html`<label class="tick"><input type="checkbox" name="scope" value=${s} defaultChecked=${s === "read"} />${s}</label>`)}</fieldset>
    <div class="row">
      <label>User <input name="user" maxlength="256" placeholder="you" autocomplete="off" /></label>
      <label>Note <input name="note" maxlength="200" autocomplete="off" /></label>
      <label>Days <input name="days" type="number" min="0" max="3650" placeholder="90" /></label>
      <button class="primary">Make a token</button>
    </div>
  </form>`;
}

function Tokens() {
  const [all, set] = useState(/** @type {any[] | null} */ (null));
  const [next, more] = useState("");
  const [fresh, show] = useState(null);
  const load = async (after = "") => {
    const page = await attempt(() => host.call("GET", "/tokens?limit=200" + (after && "&after=" + encodeURIComponent(after))));
    if (!page) return;
    set((was) => (after ? [...(was ?? []), ...page.tokens] : page.tokens));
    more(page.next ?? "");
  };
  useEffect(() => void load(), []);
  const revoke = async (id) => {
    await attempt(() => host.call("DELETE", "/tokens/" + encodeURIComponent(id)));
    await load();
  };
  if (!all) return html`<p class="quiet">…</p>`;
  return html`<${Make} made=${(one) => (show(one), load())} />
    ${fresh && html`<p class="fresh" role="status"><span>This is shown once:</span> <code id="secret">${fresh.secret}</code> <${Copy} text=${fresh.secret} what="the token" /> <button class="plain small" onClick=${() => show(null)}>Done</button></p>`}
    <div class="scroll"><table class="sums" id="tokens"><thead><tr><th scope="col">token</th><th scope="col">user</th><th scope="col">may</th><th scope="col">note</th><th scope="col">made</th><th scope="col">until</th><th scope="col">state</th></tr></thead>
      <tbody>${all.map((t) => html`<tr key=${t.id} class=${cls(t.state !== "good" && "over")}><td class="mono">${t.id}</td><td>${t.user}</td><td>${t.scopes.join(" ")}</td><td>${t.note ?? ""}</td><td><time dateTime=${t.created} title=${moment(t.created)}>${ago(t.created)}</time></td><td>${t.expires ? moment(t.expires) : "for ever"}</td><td>${t.state === "good" ? html`<${Sure} what="Revoke" sure="Refuse it from now on?" act=${() => revoke(t.id)} />` : t.state}</td></tr>`)}</tbody></table></div>
    ${next && html`<button class="small" onClick=${() => load(next)}>More</button>`}`;
}

/** What was done in the tenant, the newest first. */
function Audit() {
  const [all, set] = useState(/** @type {any[] | null} */ (null));
  const [next, more] = useState("");
  const [none, lack] = useState("");
  const load = async (before = "") => {
    try {
      const page = await host.call("GET", "/audit?limit=100" + (before && "&before=" + encodeURIComponent(before)));
      set((was) => (before ? [...(was ?? []), ...page.entries] : page.entries));
      more(page.next ?? "");
    } catch (err) {
      if (err.status === 409) lack(err.message);
      else failed(err);
    }
  };
  useEffect(() => void load(), []);
  if (none) return html`<p class="quiet">${none}</p>`;
  if (!all) return html`<p class="quiet">…</p>`;
  const what = (e) => [e.action, e.tool, e.approval].filter(Boolean).join(" ");
  const whence = (e) => (e.session ? html`<a class="link" href=${"#/s/" + encodeURIComponent(e.session)}>${plainly(e.session)}</a>${e.run ? " run " + e.run : ""}` : "");
  return html`<p><button class="small" onClick=${() => load()}>Look again</button></p>
    <div class="scroll" tabindex="0" role="region" aria-label="Audit log"><table class="sums" id="audit"><thead><tr>${["when", "who", "did", "session", "result", "detail"].map((n) => html`<th scope="col">${n}</th>`)}</tr></thead>
      <tbody>${all.map((e) => html`<tr key=${(e.request ?? "") + e.at}><td><time dateTime=${e.at} title=${e.at}>${moment(e.at)}</time></td><td>${plainly(e.user)} <span class="quiet mono">${plainly(e.token)}</span></td><td>${plainly(what(e))}</td><td>${whence(e)}</td><td class=${cls("num", e.status >= 400 && "bad")}>${[e.status, e.code, e.reason].filter(Boolean).join(" ")}</td><td>${plainly(e.detail ?? "")}</td></tr>`)}</tbody></table></div>
    ${!all.length && html`<p class="quiet">Nothing yet.</p>`}
    ${next && html`<button class="small" id="older" onClick=${() => load(next)}>Older</button>`}`;
}

function Erase() {
  const [user, type] = useState("");
  const [done, say] = useState("");
  const erase = async () => {
    const what = await attempt(() => host.call("DELETE", "/users/" + encodeURIComponent(user)));
    if (what) say(`${what.sessions} ${what.sessions === 1 ? "session" : "sessions"} of ${what.user} erased.`);
  };
  return html`<form class="row" onSubmit=${(e) => e.preventDefault()}><label>User <input value=${user} maxlength="256" onInput=${(e) => type(e.target.value)} autocomplete="off" /></label>${user && html`<${Sure} what="Erase" sure=${`All sessions of ${user}, and what was learned of them?`} act=${erase} />`}</form>
    ${done && html`<p role="status">${done}</p>`}`;
}

export function Admin() {
  return html`<main class="pane page" aria-label="Administration">
    <h1>Administration</h1>
    ${useCell(rests) && html`<p class="quiet">The host only shows this journal: nothing in it is changed.</p>`}
    <${Acts}><h2>Tokens</h2>
    ${token.get() ? html`<${Tokens} />` : html`<p class="quiet">This host asks for no token.</p>`}
    <h2>What was done</h2>
    <${Audit} />
    <h2>Erase a person</h2>
    <${Erase} /></${Acts}>
  </main>`;
}

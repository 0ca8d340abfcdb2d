// The prompt of a turn as the model saw it, with what is new since the turn before, and the
// reply as it came.
import { lines, messages } from "./diff.js";
import { brief, bytes, money } from "./format.js";
import { api, failed } from "./host.js";
import { cls, html, useEffect, useState } from "./html.js";
import { plainly } from "./plain.js";
import { go } from "./route.js";

const size = (text) => bytes(new TextEncoder().encode(text).length);
const states = { same: "as before", new: "new", changed: "changed", gone: "gone" };

function Lines({ was, is }) {
  return html`<pre class="diff" tabindex="0">${lines(was, is).map(({ kind, text }) => html`<span class=${kind}>${kind === "fold" ? `… ${text} …` : plainly(text) + "\n"}</span>`)}</pre>`;
}

function Message({ m, first, all }) {
  const [open, set] = useState(/** @type {boolean | null} */ (null));
  const shown = open ?? (all || first || m.state === "new" || m.state === "changed");
  return html`<li class=${cls("message", !first && m.state)} data-role=${m.role}>
    <button class="head" aria-expanded=${shown} onClick=${() => set(!shown)}><b>${m.role}</b><span class="quiet num">${size(m.text)}</span>${!first && html`<span class="what">${states[m.state]}</span>`}</button>
    ${shown && (m.state === "changed" && !all ? html`<${Lines} was=${m.was} is=${m.text} />` : html`<pre tabindex="0">${plainly(m.text)}</pre>`)}
  </li>`;
}

function Reply({ reply }) {
  if (!reply) return html`<p class="quiet">There is no reply yet.</p>`;
  const { usage = {} } = reply;
  return html`<p class="facts-line quiet"><span>${reply.finish}</span><span class="num">${brief(usage.input ?? 0)} → ${brief(usage.output ?? 0)} tokens</span>${reply.cost_micro_usd && html`<span>${money(reply.cost_micro_usd)}</span>`}</p>
    ${reply.error && html`<p class="trouble">${plainly(reply.error)}</p>`}
    ${reply.lost ? html`<p class="note">${plainly(reply.lost)}</p>` : html`<pre class="raw" tabindex="0">${plainly(reply.text)}</pre>`}`;
}

/** The prompts of a turn and of the one before it; null while they are made again. */
function usePrompts(id, turn, before, version) {
  const [got, set] = useState(/** @type {{key: string, now: any[], was: any[], why?: string} | null} */ (null));
  const key = `${id} ${turn} ${before}`;
  useEffect(() => {
    if (!turn) return;
    const leave = new AbortController();
    const { signal } = leave;
    const load = async () => {
      try {
        const [now, was] = await Promise.all([api.prompt(id, turn, true, { signal }), before ? api.prompt(id, before, false, { signal }) : { requests: [] }]);
        set({ key, now: now.requests ?? [], was: was.requests ?? [] });
      } catch (err) {
        if (signal.aborted) return;
        set({ key, now: [], was: [], why: err.message });
        if (err.status === 401) failed(err);
      }
    };
    load();
    return () => leave.abort();
  }, [key, version]);
  return got?.key === key ? got : null;
}

/** @param {{live: import("./live.js").Live, at: import("./route.js").Route}} p */
export function Prompt({ live, at }) {
  const turns = [...live.story.turns.values()].filter((t) => t.requests.length).sort((a, b) => a.n - b.n);
  const i = at.turn ? turns.findIndex((t) => t.n === at.turn) : turns.length - 1;
  const t = turns[i];
  useEffect(() => {
    if (at.turn && !t && live.next) live.earlier();
  });
  const got = usePrompts(live.id, t?.n, turns[i - 1]?.n, `${t?.requests.length} ${t?.requests.at(-1)?.ended}`);
  const [all, show] = useState(false);
  const [which, pick] = useState(-1);
  if (!t) return html`<p class="none">${live.next && at.turn ? "…" : "No model was asked yet."}</p>`;
  const p = got?.now.at(which);
  const was = got?.was.at(-1);
  const first = !was;
  return html`<div class="prompt" tabindex="0">
    <header class="runpick">
      <button class="plain small" disabled=${i <= 0} onClick=${() => go({ turn: turns[i - 1].n })} aria-label="Turn before">‹</button>
      <b>Turn ${t.n}</b>
      <button class="plain small" disabled=${i >= turns.length - 1} onClick=${() => go({ turn: turns[i + 1].n })} aria-label="Turn after">›</button>
      ${p && html`<span>${[p.provider, p.model].filter(Boolean).join(" · ")}</span><span class=${cls("exact", p.exact ? "good" : "bad")} title=${p.exact ? "Its digest is the recorded one" : plainly(p.why ?? "")}>${p.exact ? "exact" : "rebuilt, differs"}</span>`}
      ${got?.now.length > 1 && html`<select aria-label="Request" value=${which} onChange=${(e) => pick(Number(e.target.value))}>${got.now.map((_, n) => html`<option value=${n - got.now.length} selected=${n - got.now.length === which}>request ${n + 1}</option>`)}</select>`}
      <span class="space"></span>
      ${!first && html`<button class="small" aria-pressed=${all} onClick=${() => show(!all)} title="All messages whole, in place of what is new">Whole</button>`}
      ${p && html`<button class="link" onClick=${() => go({ record: p.seq })}>record</button>`}
    </header>
    ${!got && html`<p class="none">The prompt is made again from the records …</p>`}
    ${got?.why && html`<p class="trouble" role="alert">${got.why}</p>`}
    ${p &&
    html`${!p.exact && p.why && html`<p class="note">${plainly(p.why)}</p>`}
      <ol class="messages" aria-label="Messages">${messages(was?.messages ?? [], p.messages).map((m, n) => html`<${Message} key=${n} m=${m} first=${first} all=${all} />`)}</ol>
      ${p.tools?.length > 0 && html`<details><summary>${p.tools.length} tools were offered</summary><pre tabindex="0">${plainly(JSON.stringify(p.tools, null, 2))}</pre></details>`}
      <h2>Reply</h2>
      <${Reply} reply=${p.reply} />`}
  </div>`;
}

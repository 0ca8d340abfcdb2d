// All records of a session, one a line.
import { Acts } from "./acts.js";
import { api, attempt, host, save } from "./host.js";
import { cls, html, useCallback, useState } from "./html.js";
import { plainly } from "./plain.js";
import { proveAll } from "./proof.js";
import { go } from "./route.js";
import { list } from "./sessions.js";
import { Sure } from "./sure.js";
import { words } from "./words.js";
import { Virtual } from "./virtual.js";

const names = { input: "user", response: "respond", thought: "think", "action.declared": "call", "action.ended": "result", "model.reply": "metric" };

/** What a record says, in a line. */
export function lineOf(r) {
  const body = r.body ?? {};
  const [, text] = words({ type: names[r.type] ?? r.type, text: body.text, body });
  if (text) return text;
  return Object.entries(body)
    .filter(([, v]) => typeof v !== "object")
    .map(([k, v]) => `${k} ${v}`)
    .join("  ");
}

export function Records({ live, at }) {
  const [text, set] = useState("");
  const { records } = live.story;
  const want = text.toLowerCase();
  const items = want ? records.filter((r) => r.type.includes(want) || lineOf(r).toLowerCase().includes(want)) : records;
  const rows = items.map((r) => ({ id: r.seq, r }));
  const end = useCallback(() => {}, []);
  const [proof, say] = useState(null);
  const verify = () =>
    attempt(async () => {
      say({ ok: true, text: "…" });
      await live.back(1);
      say(await proveAll([...live.story.records], await api.keys()));
    });
  const remove = () =>
    attempt(async () => {
      await host.session(live.id).call("DELETE", "");
      go({ id: "" });
      await list();
    });
  return html`<div class="records">
    <div class="tools"><input type="search" aria-label="Search records" placeholder="Type or text" value=${text} onInput=${(e) => set(e.target.value)} />
      <span class="quiet num">${items.length} records</span>
      ${live.next > 0 && html`<button class="small" onClick=${() => live.earlier()}>Earlier</button>`}
      <button class="small" onClick=${() => attempt(() => save(live.id))}>Export</button>
      <button class="small" onClick=${verify} title="Hashes, chain and receipts of the session, checked in this browser">Verify</button>
      <${Acts}><${Sure} what="Delete" sure="Erase what it said?" act=${remove} /></${Acts}></div>
    ${proof && html`<p class=${cls("proof", proof.ok ? "good" : "bad")} role="status">${proof.text}</p>`}
    <${Virtual} items=${rows} height=${30} label="Records" onEnd=${end} selected=${rows.findIndex((x) => x.id === at.record)}
      row=${({ r }) => html`<button class="record" aria-pressed=${r.seq === at.record} onClick=${() => go({ record: r.seq })}><span class="num quiet">${r.seq}</span><span class="time num quiet">${r.ts.slice(11, 23)}</span><b>${r.type}</b><span class="what">${plainly(lineOf(r).replace(/\s+/g, " ").slice(0, 300))}</span>${r.sig ? html`<span class="signed" title="signed">✓</span>` : ""}</button>`} />
  </div>`;
}

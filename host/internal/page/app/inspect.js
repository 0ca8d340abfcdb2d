// A record, opened: what it says, its hash, and its proof.
import { api, attempt } from "./host.js";
import { cls, html, useEffect, useRef, useState } from "./html.js";
import { moment, pretty } from "./format.js";
import { plainly } from "./plain.js";
import { prove } from "./proof.js";
import { go } from "./route.js";

/** A text to take along. */
export function Copy({ text, what }) {
  const [done, say] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).then(() => say(true), () => say(false));
    setTimeout(() => say(false), 1200);
  };
  return html`<button class="copy" title=${"Copy " + what} aria-label=${"Copy " + what} onClick=${copy}>${done ? "copied" : "copy"}</button>`;
}

// Members that are texts of JSON or of many lines have a block of their own.
const blocks = { args: "Arguments", result: "Result", text: "Text", userdata: "Message", output: "Output", state: "", basis: "Rests on" };

/** The records that belong together with one: those of the same action or block. */
function together(story, r) {
  const t = story.turns.get(r.turn);
  const of = t && r.body?.id ? (t.actions.get(r.body.id) ?? t.blocks.get(r.body.id)) : undefined;
  return of ? of.seqs : [];
}

function Fact({ name, value }) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return html`<dt>${name}</dt><dd class=${cls(/digest|hash|key|prompt|blob|manifest/.test(name) && "mono")}>${plainly(text)}</dd>`;
}

export function Inspect({ live, at }) {
  const box = useRef(null);
  const { story } = live;
  const [proof, say] = useState(null);
  const r = find(story.records, at.record);
  useEffect(() => {
    say(null);
    if (!r) live.back(at.record);
    box.current?.focus();
  }, [at.record, Boolean(r)]);
  const close = () => go({ record: 0 });
  if (!r) {
    return html`<aside class="inspect" aria-label="Record" tabindex="-1" ref=${box}><header><h2>Record ${at.record}</h2><button class="plain small" onClick=${close} aria-label="Close">✕</button></header><p class="none">${live.next || live.loading ? "…" : "There is no such record."}</p></aside>`;
  }
  const check = () =>
    attempt(async () => {
      const i = story.records.indexOf(r);
      let end = i;
      while (end < story.records.length - 1 && !story.records[end].sig) end++;
      say(await prove(story.records.slice(i, end + 1), await api.keys()));
    });
  const body = r.body ?? {};
  const big = Object.keys(blocks).filter((k) => typeof body[k] === "string" && body[k] && (blocks[k] || body[k].length > 40));
  const facts = Object.entries(body).filter(([k, v]) => !big.includes(k) && v !== "");
  const set = together(story, r);
  return html`<aside class="inspect" aria-label="Record" tabindex="-1" ref=${box}>
    <header>
      <h2>${r.type}</h2>
      <span class="quiet num">#${r.seq}</span>
      <button class="plain small" disabled=${!find(story.records, r.seq - 1)} onClick=${() => go({ record: r.seq - 1 }, { replace: true })} aria-label="Record before">‹</button>
      <button class="plain small" disabled=${!find(story.records, r.seq + 1)} onClick=${() => go({ record: r.seq + 1 }, { replace: true })} aria-label="Record after">›</button>
      <button class="plain small" onClick=${close} aria-label="Close">✕</button>
    </header>
    ${set.length > 1 && html`<nav class="set" aria-label="Records of the same action">${set.map((seq) => html`<button class="chip" aria-pressed=${seq === r.seq} onClick=${() => go({ record: seq }, { replace: true })}>${find(story.records, seq)?.type.replace(/^(action|block)\./, "") ?? seq}</button>`)}</nav>`}
    ${r.body === null && html`<p class="note">What it said was erased; its hash stays and verifies.</p>`}
    ${big.map((k) => html`<h3>${blocks[k] || k}</h3><pre tabindex="0" data-member=${k}>${plainly(pretty(body[k]))}</pre>`)}
    <dl class="facts">
      ${facts.map(([k, v]) => html`<${Fact} name=${k} value=${v} />`)}
      <dt>time</dt><dd>${moment(r.ts)} <span class="quiet num">${r.ts.slice(11)}</span></dd>
      <dt>run, turn</dt><dd class="num">${r.run || "–"}, ${r.turn || "–"}</dd>
      <dt>hash</dt><dd class="mono" data-hash>${r.hash} <${Copy} text=${r.hash} what="the hash" /></dd>
      <dt>before</dt><dd class="mono">${r.prev}</dd>
      ${r.sig && html`<dt>receipt</dt><dd class="mono">${r.sig.kid}</dd>`}
    </dl>
    <div class="row"><button class="primary" onClick=${check}>Check the proof</button></div>
    ${proof && html`<p class=${cls("proof", proof.ok ? "good" : "bad")} role="status">${proof.text}</p>`}
  </aside>`;
}

/** The record at a position: records have no gaps. */
function find(records, seq) {
  const i = seq - (records[0]?.seq ?? 1);
  return records[i]?.seq === seq ? records[i] : records.find((r) => r.seq === seq);
}

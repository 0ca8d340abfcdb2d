// What it costs: a session by its turns and models, and the host by tenant, agent and model.
import { brief, bytes, count, money } from "./format.js";
import { api, failed, metrics, wanted } from "./host.js";
import { cls, html, useEffect, useState } from "./html.js";
import { plainly } from "./plain.js";
import { go } from "./route.js";
import { samples } from "./samples.js";
import { taken } from "./story.js";

const every = 5000; // milliseconds between looks

/** What models took in turns, by model. @param {import("./story.js").Turn[]} turns */
export function byModel(turns) {
  const all = new Map();
  const add = (name, sum) => {
    const was = all.get(name) ?? { name, requests: 0, input: 0, cached: 0, output: 0, cost: 0 };
    for (const [k, n] of Object.entries(sum)) was[k] += n;
    all.set(name, was);
  };
  for (const t of turns) {
    for (const q of t.requests) add([q.provider, q.model].filter(Boolean).join(" · ") || "?", { requests: 1, input: q.usage.input ?? 0, cached: q.usage.cache_read ?? 0, output: q.usage.output ?? 0, cost: q.cost });
    for (const a of t.actions.values()) if (a.tokens || a.cost) add(a.name || a.type, { requests: 1, input: a.tokens, cost: a.cost });
  }
  return [...all.values()].sort((a, b) => b.cost - a.cost || b.input + b.output - a.input - a.output);
}

const head = (...names) => html`<thead><tr>${names.map((n, i) => html`<th scope="col" class=${cls(i && "n")}>${n}</th>`)}</tr></thead>`;
const figures = (s) => html`<td class="n num">${count(s.requests)}</td><td class="n num">${count(s.input)}</td><td class="n num">${count(s.cached)}</td><td class="n num">${count(s.output)}</td><td class="n num">${money(s.cost)}</td>`;

/** The costs of a session. @param {{live: import("./live.js").Live}} p */
export function SessionCosts({ live }) {
  const turns = [...live.story.turns.values()].filter((t) => t.requests.length || t.actions.size).sort((a, b) => b.n - a.n);
  const models = byModel(turns);
  const total = models.reduce((a, b) => ({ requests: a.requests + b.requests, input: a.input + b.input, cached: a.cached + b.cached, output: a.output + b.output, cost: a.cost + b.cost }), { requests: 0, input: 0, cached: 0, output: 0, cost: 0 });
  if (!turns.length) return html`<p class="none">Nothing was used yet.</p>`;
  const unpriced = turns.some((t) => taken(t).unpriced);
  return html`<div class="costs" tabindex="0">
    ${live.next > 0 && html`<p class="note">Of the turns from ${turns.at(-1).n} on. <button class="link" onClick=${() => live.back(1)}>All turns</button></p>`}
    ${unpriced && html`<p class="note">A model without a price counts with its tokens alone.</p>`}
    <div class="scroll"><table class="sums" id="models">${head("Model", "requests", "input", "of it cached", "output", "cost")}
      <tbody>${models.map((m) => html`<tr key=${m.name}><th scope="row">${plainly(m.name)}</th>${figures(m)}</tr>`)}</tbody>
      <tfoot><tr><th scope="row">Session</th>${figures(total)}</tr></tfoot></table></div>
    <div class="scroll"><table class="sums" id="turns">${head("Turn", "requests", "input", "of it cached", "output", "cost")}
      <tbody>${turns.slice(0, 1000).map((t) => html`<tr key=${t.n}><th scope="row"><button class="link" onClick=${() => go({ tab: "time", turn: t.n })}>${t.n}</button> <span class="quiet">run ${t.run}</span></th>${figures(taken(t))}</tr>`)}</tbody></table></div>
  </div>`;
}

function Limit({ name, used, most, show }) {
  const part = most ? Math.min(1, used / most) : 0;
  return html`<tr><th scope="row">${name}</th><td class="n num">${show(used)}</td><td class="n num">${most ? show(most) : "no limit"}</td><td class="gauge">${most ? html`<meter min="0" max="1" high=".8" value=${part} aria-label=${`${name}: ${Math.round(part * 100)} % of the limit`}></meter><span class="num quiet">${Math.round(part * 100)} %</span>` : ""}</td></tr>`;
}

/** Sums of the host's metrics, by some of their labels. */
function table(all, names, ...labels) {
  const rows = new Map();
  for (const [member, metric, also] of names) {
    for (const s of all) {
      if (s.name !== metric || (also && s.labels.kind !== also)) continue;
      const key = labels.map((l) => s.labels[l]).filter(Boolean).join(" · ");
      const row = rows.get(key) ?? { key, input: 0, cached: 0, output: 0, cost: 0 };
      row[member] += s.value;
      rows.set(key, row);
    }
  }
  return [...rows.values()].sort((a, b) => b.cost - a.cost || b.input + b.output - a.input - a.output);
}

const kinds = [["input", "stile_model_tokens_total", "input"], ["input", "stile_model_tokens_total", "total"], ["cached", "stile_model_tokens_total", "cache_read"], ["output", "stile_model_tokens_total", "output"], ["cost", "stile_model_cost_usd_total"]];

function Sums({ id, title, rows }) {
  if (!rows.length) return null;
  return html`<div class="scroll"><table class="sums" id=${id}>${head(title, "input", "of it cached", "output", "cost")}
    <tbody>${rows.slice(0, 200).map((r) => html`<tr key=${r.key}><th scope="row">${plainly(r.key || "–")}</th><td class="n num">${brief(r.input)}</td><td class="n num">${brief(r.cached)}</td><td class="n num">${brief(r.output)}</td><td class="n num">${money(r.cost * 1e6)}</td></tr>`)}</tbody></table></div>`;
}

/** The costs of the tenant, and of the host where its metrics may be read. */
export function Costs() {
  const [usage, say] = useState(null);
  const [all, put] = useState(/** @type {any[] | null} */ (null));
  useEffect(() => {
    const leave = new AbortController();
    const { signal } = leave;
    let timer = 0;
    let open = true; // the metrics may be read
    const look = async () => {
      if (!document.hidden && !wanted.get()) {
        try {
          say(await api.usage({ signal }));
          if (open) put(samples(await metrics({ signal })));
        } catch (err) {
          if (signal.aborted) return;
          if (err.status === 403) open = false;
          else failed(err);
        }
      }
      timer = setTimeout(look, every);
    };
    look();
    return () => {
      leave.abort();
      clearTimeout(timer);
    };
  }, []);
  return html`<main class="pane costs page" aria-label="Costs">
    <h1>Costs</h1>
    ${!usage && html`<p class="none">…</p>`}
    ${usage &&
    html`<h2>${usage.tenant || "This host"}, ${usage.day}</h2>
      <div class="scroll"><table class="sums" id="limits"><thead><tr><th scope="col">today</th><th scope="col" class="n">used</th><th scope="col" class="n">limit</th><th scope="col">part</th></tr></thead><tbody>
        <${Limit} name="Tokens" used=${usage.tokens} most=${usage.max_tokens} show=${count} />
        <${Limit} name="Cost" used=${usage.cost_micro_usd} most=${usage.max_cost_micro_usd} show=${money} />
        <${Limit} name="Journal" used=${usage.bytes} most=${usage.max_bytes} show=${bytes} />
        <${Limit} name="Runs in flight" used=${usage.runs} most=${usage.max_runs} show=${count} />
        ${usage.max_journal_bytes > 0 && html`<${Limit} name="Journal, all days" used=${usage.journal_bytes ?? 0} most=${usage.max_journal_bytes} show=${bytes} />`}
      </tbody></table></div>`}
    ${all &&
    html`<h2>Since the host began</h2>
      <${Sums} id="agents" title="Agent" rows=${table(all, kinds, "agent")} />
      <${Sums} id="models" title="Model" rows=${table(all, kinds, "provider", "model")} />
      ${!all.some((s) => s.name === "stile_model_tokens_total") && html`<p class="none">No model was asked yet.</p>`}`}
    ${usage && !all && html`<p class="quiet">Sums by agent and model need a token with the scope metrics.</p>`}
  </main>`;
}

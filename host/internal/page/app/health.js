// The health of the host over time: charts of what it keeps in its own rings, each with its values
// as text and as a table.
import { cell, useCell } from "./cell.js";
import { brief, bytes, moment, span } from "./format.js";
import { failed, host, wanted } from "./host.js";
import { cls, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import uPlot from "./uplot.js";

const every = 10000; // milliseconds between looks
const plotHeight = 140;
const tableRows = 120;
const spans = { hour: ["Hour", 3600], day: ["Day", 86400], week: ["Week", 7 * 86400] };

/** What the charts show: a title, and series by name with what they are called here. */
const charts = [
  ["turns", "Turns and runs", [["turns", "turns"], ["runs", "runs ended"]]],
  ["flight", "In flight", [["turns_in_flight", "turns"], ["sessions_awake", "sessions awake"], ["streams", "streams"]]],
  ["latency", "Time to decision and first text", [["turn_p50", "turn, half within"], ["turn_p95", "turn, 95 % within"], ["first_text_p50", "first text, half within"], ["first_text_p95", "first text, 95 % within"]]],
  ["tokens", "Tokens", [["input_tokens", "input"], ["output_tokens", "output"]]],
  ["errors", "Errors", [["halted_runs", "runs halted"], ["failed_model_calls", "model calls"], ["failed_tool_calls", "tool calls"], ["refused_requests", "requests refused"]]],
  ["requests", "Time of requests and commits", [["request_p95", "request, 95 % within"], ["commit_p95", "commit, 95 % within"]]],
  ["writes", "Writes of the journal", [["records", "records"], ["commits", "commits"], ["syncs", "waits for the disk"]]],
  ["size", "Size of the journal", [["journal_file", "file"], ["journal_log", "log"]]],
  ["memory", "Memory", [["memory", "taken"]]],
];

const shows = {
  "1/s": (v) => `${v >= 10000 ? brief(v) : +v.toPrecision(3)}/s`,
  s: (v) => (v ? span(v * 1000) : "0"),
  bytes,
};
const show = (unit, v) => (v === null || v === undefined ? "–" : (shows[unit] ?? brief)(v));

/**
 * The points of two answers: those of a later one behind the others, as many as the span has room for.
 * @param {any} was @param {any} now
 */
export function joined(was, now) {
  if (!was || was.span !== now.span || was.since !== now.since) return now;
  if (!now.times.length) return was;
  const from = was.times.findIndex((t) => t > now.times.at(-1) - spans[now.span][1]);
  const keep = (list) => (from < 0 ? [] : list.slice(from));
  return { ...now, times: [...keep(was.times), ...now.times], series: now.series.map((s, i) => ({ ...s, values: [...keep(was.series[i].values), ...s.values] })) };
}

/** Which point the hand or the keys are at, in all charts; null is the last. */
const point = cell(/** @type {number | null} */ (null));

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const powers = Array.from({ length: 50 }, (_, i) => 2 ** i);

/** Makes a plot whose colours are those of the page: what they are is asked for at each drawing. */
function plot(box, figure, names, unit, length) {
  const colour = (e, what) => getComputedStyle(e)[what];
  const swatches = [...figure.querySelectorAll(".swatch")];
  const axis = { stroke: () => colour(box, "color"), font: "11px system-ui, sans-serif", grid: { stroke: () => colour(box, "borderTopColor"), width: 1 }, ticks: { show: false } };
  const dashes = [[], [6, 3], [2, 3], [10, 3, 2, 3]];
  return new uPlot(
    {
      width: Math.max(200, box.clientWidth),
      height: plotHeight,
      legend: { show: false },
      cursor: { y: false, sync: { key: "health" }, drag: { x: false, y: false } },
      scales: {
        x: { range: (u, from, to) => [(to ?? Date.now() / 1000) - length, to ?? Date.now() / 1000] },
        y: { range: (u, from, to) => [0, to > 0 ? to * 1.1 : 1] },
      },
      axes: [
        { ...axis, size: 28, space: 70, values: (u, at) => at.map((t) => (length > 86400 ? date : clock).format(t * 1000)), incrs: length > 86400 ? [86400, 2 * 86400] : undefined },
        { ...axis, size: 66, space: 32, incrs: unit === "bytes" ? powers : undefined, values: (u, at) => at.map((v) => show(unit, v)) },
      ],
      series: [{}, ...names.map((name, i) => ({ label: name, width: 1.5, stroke: () => colour(swatches[i], "borderTopColor"), dash: dashes[i] }))],
      hooks: { setCursor: [(u) => point.set(u.cursor.left >= 0 ? (u.cursor.idx ?? null) : null)] },
    },
    [[]],
    box,
  );
}

/** A chart with its legend, which says the values at the point where the hand is. */
function Chart({ chart: [id, title, lines], data, length, round }) {
  const figure = useRef(null);
  const box = useRef(null);
  const made = useRef(null);
  const [table, open] = useState(false);
  const [told, tell] = useState("");
  const at = useCell(point);
  const series = lines.map(([name, text]) => ({ text, ...data.series.find((s) => s.name === name) })).filter((s) => s.values);
  const unit = series[0]?.unit;
  const last = data.times.length - 1;
  const here = at === null || at > last ? last : at;
  useLayoutEffect(() => {
    const u = plot(box.current, figure.current, series.map((s) => s.text), unit, length);
    made.current = u;
    const fits = new ResizeObserver(() => u.setSize({ width: Math.max(200, box.current.clientWidth), height: plotHeight }));
    fits.observe(box.current);
    const turned = () => u.redraw();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const theme = new MutationObserver(turned);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    dark.addEventListener("change", turned);
    return () => {
      fits.disconnect();
      theme.disconnect();
      dark.removeEventListener("change", turned);
      u.destroy();
    };
  }, [length]);
  useEffect(() => made.current?.setData([data.times, ...series.map((s) => s.values)]), [data, round]);
  const key = (e) => {
    const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: last }[e.key];
    if (to === undefined || last < 0) return;
    e.preventDefault();
    const i = Math.min(last, Math.max(0, to));
    made.current.setCursor({ left: made.current.valToPos(data.times[i], "x"), top: 0 });
    point.set(i);
    tell(`${moment(data.times[i] * 1000)}: ${series.map((s) => `${s.text} ${show(unit, s.values[i])}`).join(", ")}`);
  };
  // The legend keeps its lines whatever the values are at the point: else the chart moves under the hand.
  const wide = useMemo(() => series.map((s) => s.values.reduce((n, v) => Math.max(n, show(unit, v).length), 1)), [data]);
  const time = (i) => moment(new Date(data.times[i] * 1000).toISOString());
  return html`<figure class="chart" id=${"chart-" + id} ref=${figure}>
    <figcaption><h2>${title}</h2><span class="quiet num">${at !== null && last >= 0 ? time(here) : ""}</span></figcaption>
    <ul class="lines" aria-label=${title}>${series.map((s, i) => html`<li key=${s.name}><i class=${"swatch s" + i}></i>${s.text} <b class="num" style=${{ minWidth: wide[i] + 1 + "ch" }}>${last < 0 ? "–" : show(unit, s.values[here])}</b></li>`)}</ul>
    <div class="plot" ref=${box} tabindex="0" role="group" aria-label=${`${title}: the arrow keys go through its points`} onKeyDown=${key} onBlur=${() => (point.set(null), tell(""))}></div>
    <p class="unseen" role="status">${told}</p>
    <details onToggle=${(e) => open(e.target.open)}><summary>As a table</summary>
      ${table && html`<div class="scroll" tabindex="0" role="region" aria-label=${`${title}, as a table`}><table class="sums"><thead><tr><th scope="col">time</th>${series.map((s) => html`<th scope="col" class="n" title=${s.doc}>${s.text}</th>`)}</tr></thead>
        <tbody>${data.times.map((t, i) => i).slice(-tableRows).reverse().map((i) => html`<tr key=${data.times[i]}><th scope="row" class="num">${time(i)}</th>${series.map((s) => html`<td class="n num">${show(unit, s.values[i])}</td>`)}</tr>`)}</tbody></table></div>`}
    </details>
  </figure>`;
}

/** The charts, of the span that was picked last. */
export function Health() {
  const [of, pick] = useState("hour");
  const [data, put] = useState(null);
  const [denied, deny] = useState(false);
  useEffect(() => {
    const leave = new AbortController();
    const { signal } = leave;
    let timer = 0;
    let have = null;
    const look = async () => {
      if (!document.hidden && !wanted.get()) {
        try {
          const after = have?.times.at(-1);
          const now = await host.call("GET", `/health?span=${of}${after ? "&after=" + after : ""}`, { signal });
          if (have && now.since !== have.since) have = await host.call("GET", `/health?span=${of}`, { signal }); // the host began anew
          else have = joined(have, now);
          put(have);
        } catch (err) {
          if (signal.aborted) return;
          if (err.status === 403) return deny(true);
          failed(err);
        }
      }
      timer = setTimeout(look, every);
    };
    look();
    return () => {
      leave.abort();
      clearTimeout(timer);
      point.set(null);
    };
  }, [of]);
  const there = data?.span === of;
  return html`<main class="pane page" aria-label="Health">
    <h1>Health</h1>
    ${denied && html`<p class="quiet">The charts need a token with the scope metrics.</p>`}
    ${!denied &&
    html`<p class="row spans">${Object.entries(spans).map(([name, [text]]) => html`<button class="small" aria-pressed=${of === name} onClick=${() => pick(name)}>${text}</button>`)}
      <span class="quiet">${there && data.since ? `The host keeps this in memory, since ${moment(data.since)}.` : ""}</span></p>
      ${!there ? html`<p class="none">…</p>` : html`<div class=${cls("charts", !data.times.length && "empty")}>${charts.map((c) => html`<${Chart} key=${c[0] + of} chart=${c} data=${data} length=${spans[of][1]} />`)}</div>`}`}
  </main>`;
}

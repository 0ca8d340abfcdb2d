// Numbers and times as a person reads them.

const number = new Intl.NumberFormat("en-GB");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const year = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export const count = (n) => number.format(n);
export const brief = (n) => (n < 10000 ? number.format(n) : short.format(n));

/** Milliseconds: 8 ms, 1.24 s, 3 min 20 s. */
export function span(ms) {
  if (!(ms >= 0)) return "–";
  if (ms < 10) return `${ms < 0.05 ? 0 : ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** Millionths of a dollar. */
export function money(micro) {
  if (!micro) return "$0";
  const d = micro / 1e6;
  return "$" + (d >= 100 ? d.toFixed(0) : d >= 1 ? d.toFixed(2) : d.toFixed(d >= 0.01 ? 3 : 6).replace(/0+$/, ""));
}

/** Bytes: 812 B, 14.2 KiB. */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${i && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** How long ago: now, 12 s, 4 min, 3 h, 12 Apr. */
export function ago(ts, now = Date.now()) {
  const t = Date.parse(ts);
  const s = (now - t) / 1000;
  if (!(s >= 5)) return Number.isNaN(s) ? "" : "now";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return (new Date(t).getFullYear() === new Date(now).getFullYear() ? day : year).format(t);
}

/** The time of day, and the date unless it is today's. */
export function moment(ts, now = Date.now()) {
  const t = new Date(Date.parse(ts));
  if (Number.isNaN(+t)) return "";
  return (t.toDateString() === new Date(now).toDateString() ? "" : day.format(t) + ", ") + clock.format(t);
}

/**
 * JSON with indents, where it is JSON: only space is added, so that a number or name is shown as
 * it was written, and not as this browser would read it.
 */
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (part) => {
    switch (part) {
      case "{":
      case "[":
        depth++;
        return part + line();
      case "}":
      case "]":
        depth--;
        return line() + part;
      case ",":
        return part + line();
      case ":":
        return ": ";
    }
    return part.trim();
  });
}

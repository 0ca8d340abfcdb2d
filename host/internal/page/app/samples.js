// The samples of a text in Prometheus' format. Pure.

/** @returns {{name: string, labels: Record<string, string>, value: number}[]} */
export function samples(text) {
  const out = [];
  for (const line of text.split("\n")) {
    const m = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!m) continue;
    const labels = {};
    for (const [, name, value] of (m[2] ?? "").matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    out.push({ name: m[1], labels, value: Number(m[3].replace("Inf", "Infinity")) });
  }
  return out;
}

// The address of what is shown: everything that a person may want to come back to or send to
// another one is in the fragment of the address.
import { cell } from "./cell.js";

/**
 * @typedef {{page: "sessions"|"inbox"|"costs"|"health"|"admin", id: string, tab: string, run: number, turn: number, record: number, other: string}} Route
 */

const pages = ["inbox", "costs", "health", "admin"];
const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
};

/** @returns {Route} */
export function parse(hash) {
  const text = hash.replace(/^#/, "");
  const [path, query = ""] = text.split("?");
  const q = new URLSearchParams(query);
  const number = (name) => Math.max(0, Math.trunc(Number(q.get(name)))) || 0;
  const at = { page: "sessions", id: "", tab: "talk", run: number("run"), turn: number("turn"), record: number("record"), other: q.get("with") ?? "" };
  if (!path.startsWith("/")) return { ...at, id: decode(path) }; // an id alone
  const [, page, id = "", tab = "talk"] = path.split("/");
  if (pages.includes(page)) return { ...at, page };
  return { ...at, id: page === "s" ? decode(id) : "", tab };
}

/** @param {Partial<Route>} to */
export function format({ page = "sessions", id = "", tab = "talk", run, turn, record, other }) {
  if (page !== "sessions") return "#/" + page;
  if (!id) return "#/";
  const q = new URLSearchParams();
  if (run) q.set("run", String(run));
  if (turn) q.set("turn", String(turn));
  if (record) q.set("record", String(record));
  if (other) q.set("with", other);
  return `#/s/${encodeURIComponent(id)}${tab === "talk" ? "" : "/" + tab}${q.size ? "?" + q : ""}`;
}

export const route = cell(parse(globalThis.location?.hash ?? ""));
globalThis.addEventListener?.("hashchange", () => route.set(parse(location.hash)));

/** Goes to another place; what is not said stays, as long as the session does. */
export function go(to, { replace = false } = {}) {
  const now = route.get();
  const next = format("page" in to || ("id" in to && to.id !== now.id) ? to : { ...now, ...to });
  if (next === location.hash) return;
  if (!replace) location.hash = next;
  else {
    history.replaceState(null, "", next);
    route.set(parse(next));
  }
}

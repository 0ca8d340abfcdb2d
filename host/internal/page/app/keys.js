// Keys: all that the mouse reaches is reached without it.
import { html, useEffect, useRef } from "./html.js";
import { go, route } from "./route.js";
import { beside } from "./sessions.js";
import { cancel, shown, tabs } from "./session.js";
import { internals } from "./talk.js";

/** The keys, for the page that tells of them. */
export const table = [
  ["j, k", "next and previous session"],
  ["/", "search"],
  ["n", "begin a session"],
  ["m", "write a message"],
  ["1 … " + tabs.length, "the views of a session"],
  ["a", "the inbox: what waits for an answer"],
  ["c", "costs"],
  ["h", "the health of the host, as charts"],
  ["t", "tokens, and other administration"],
  ["i", "thoughts and other internals"],
  [".", "cancel the run"],
  ["[ , ]", "record before and after"],
  ["g", "all sessions"],
  ["Esc", "close"],
  ["?", "these keys"],
];

const focus = (id) => {
  const e = document.getElementById(id);
  e?.focus();
  return Boolean(e);
};

const acts = {
  j: () => beside(1),
  k: () => beside(-1),
  "/": () => focus("search"),
  n: () => document.getElementById("new")?.click(),
  m: () => go({ tab: "talk" }) || setTimeout(() => focus("say")),
  i: () => internals.set(!internals.get()),
  ".": () => cancel(shown.live),
  "[": () => step(-1),
  "]": () => step(1),
  a: () => go({ page: "inbox" }),
  c: () => go({ page: "costs" }),
  h: () => go({ page: "health" }),
  t: () => go({ page: "admin" }),
  g: () => go({ page: "sessions", id: "" }),
};
tabs.forEach(([tab], i) => (acts[i + 1] = () => route.get().id && go({ tab })));

function step(by) {
  const at = route.get();
  const last = shown.live?.story.seq ?? 0;
  if (last) go({ record: Math.min(last, Math.max(1, (at.record || last - by) + by)) }, { replace: at.record > 0 });
}

/** @param {{help: boolean, setHelp: (on: boolean) => void}} p */
export function Keys({ help, setHelp }) {
  const box = useRef(null);
  useEffect(() => {
    const press = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "Escape") {
        if (help) setHelp(false);
        else if (route.get().record) go({ record: 0 });
        else document.activeElement?.blur();
        return;
      }
      if (e.target.closest?.("input, textarea, select")) return;
      if (e.key === "?") setHelp(!help);
      else if (Object.hasOwn(acts, e.key)) {
        e.preventDefault();
        acts[e.key]();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [help]);
  useEffect(() => {
    if (help) box.current?.showModal();
    else box.current?.close();
  }, [help]);
  return html`<dialog ref=${box} class="help" aria-label="Keys" onClose=${() => setHelp(false)}>
    <h2>Keys</h2>
    <dl>${table.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
    <button class="small" onClick=${() => setHelp(false)}>Close</button>
  </dialog>`;
}

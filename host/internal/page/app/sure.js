// A button for what cannot be taken back: it asks once more.
import { html, useState } from "./html.js";

/** @param {{what: string, sure: string, act: () => any}} p */
export function Sure({ what, sure, act }) {
  const [asked, ask] = useState(false);
  if (!asked) return html`<button type="button" class="danger small" onClick=${() => ask(true)}>${what}</button>`;
  return html`<span class="sure" role="group" aria-label=${sure}><span>${sure}</span><button type="button" class="danger small" onClick=${() => (ask(false), act())}>Yes</button><button type="button" class="plain small" ref=${(e) => e?.focus()} onClick=${() => ask(false)}>No</button></span>`;
}

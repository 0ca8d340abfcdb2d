// The inbox: the calls of all sessions that wait for an answer.
import { Approval } from "./approvals.js";
import { cell, useCell } from "./cell.js";
import { ago } from "./format.js";
import { api, failed, wanted } from "./host.js";
import { html, useEffect } from "./html.js";

const every = 2500; // milliseconds between looks

/** What waits; null until the host has said so, and where the caller may not know. */
export const waiting = cell(/** @type {{calls: any[], more: boolean} | null} */ (null));

export async function look() {
  if (wanted.get()) return;
  try {
    const page = await api.waiting();
    waiting.set({ calls: page.approvals, more: Boolean(page.next) });
  } catch (err) {
    if (err.status !== 403) failed(err);
  }
}

/** Looks at once, and again and again while the page is seen. */
export function useInbox() {
  useEffect(() => {
    look();
    const t = setInterval(() => document.hidden || look(), every);
    return () => clearInterval(t);
  }, []);
  return useCell(waiting);
}

export function Inbox() {
  const now = useCell(waiting);
  return html`<main class="pane page inboxes" aria-label="Inbox">
    <h1>Inbox</h1>
    ${now?.calls.length === 0 && html`<p class="none">Nothing waits for an answer.</p>`}
    ${now?.calls.map(
      (c) => html`<article key=${c.session + c.id + c.digest}>
        <p class="from"><a class="link" href=${"#/s/" + encodeURIComponent(c.session)}>${c.title || c.session}</a><span class="quiet">${c.agent}</span><time class="quiet" dateTime=${c.since}>${ago(c.since)}</time></p>
        <${Approval} title="h2" session=${c.session} call=${c} done=${look} />
      </article>`,
    )}
    ${now?.more && html`<p class="none">There are more; they come when these are answered.</p>`}
  </main>`;
}

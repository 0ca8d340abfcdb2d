// Calls that wait for a person: shown whole, with nothing hidden, and answered under the digest
// of what was shown.
import { Acts } from "./acts.js";
import { pretty } from "./format.js";
import { attempt, host } from "./host.js";
import { html, useState } from "./html.js";
import { plainly } from "./plain.js";

/** @param {{session: string, call: any, done: () => void, title?: "h2" | "h3"}} p */
export function Approval({ session, call, done, title = "h3" }) {
  const [busy, work] = useState(false);
  const [reason, say] = useState("");
  const answer = async (allow) => {
    work(true);
    await attempt(() => host.session(session).answer(call, allow, { reason: allow ? undefined : reason || undefined }));
    await done();
    work(false);
  };
  return html`<section class="approval" aria-label=${"Approval of " + plainly(call.name)}>
    <${title} class="asks"><b>${plainly(call.name)}</b> waits for an answer</${title}>
    <pre class="args" tabindex="0">${plainly(pretty(call.args))}</pre>
    <dl class="facts">
      ${call.basis && html`<dt>rests on</dt><dd>${plainly(call.basis)}</dd>`}
      <dt>digest</dt><dd class="mono">${call.digest}</dd>
      ${call.expires && html`<dt>until</dt><dd>${new Date(Date.parse(call.expires)).toLocaleString("en-GB")}</dd>`}
    </dl>
    <${Acts}><div class="row">
      <button class="primary" disabled=${busy} onClick=${() => answer(true)}>Allow</button>
      <button class="danger" disabled=${busy} onClick=${() => answer(false)}>Deny</button>
      <input aria-label="Reason" maxlength="1024" placeholder="Reason of a refusal, for the model" value=${reason} onInput=${(e) => say(e.target.value)} />
    </div></${Acts}>
  </section>`;
}

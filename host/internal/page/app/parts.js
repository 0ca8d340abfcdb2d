// Pictures and files of messages: shown with what a person has said, and chosen for what is said
// next. A picture is an address that has its bytes, which the policy of the page allows, and never
// markup; any other file is a name.
import { attempt, keep, part } from "./host.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { plainly } from "./plain.js";

const pictures = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** The bytes as an address. @param {Blob} bytes @returns {Promise<string>} */
const addressOf = (bytes) =>
  new Promise((done, failed) => {
    const r = new FileReader();
    r.onload = () => done(String(r.result));
    r.onerror = () => failed(r.error);
    r.readAsDataURL(bytes);
  });

/** How many bytes there are, for a person. */
export const sizeOf = (n) => (n < 1024 ? n + " B" : n < 1 << 20 ? Math.ceil(n / 1024) + " KB" : (n / (1 << 20)).toFixed(1) + " MB");

/** One part. Its picture comes when it is seen. @param {{id: string, p: import("./story.js").Part}} props */
function PartOf({ id, p }) {
  const [src, set] = useState("");
  const box = useRef(null);
  const picture = pictures.has(p.type);
  useEffect(() => {
    if (!picture) return;
    const leave = new AbortController();
    const seen = new IntersectionObserver(async (all) => {
      if (!all.some((e) => e.isIntersecting)) return;
      seen.disconnect();
      try {
        const bytes = await part(id, p.digest, leave.signal);
        const address = pictures.has(bytes.type) ? await addressOf(bytes) : "";
        if (!leave.signal.aborted) set(address);
      } catch {} // its name stands there
    });
    seen.observe(box.current);
    return () => (leave.abort(), seen.disconnect());
  }, [id, p.digest]);
  const name = p.name || (picture ? "picture" : "file");
  return html`<li class="part" ref=${box}>
    ${src && html`<img src=${src} alt=${plainly(name)} />`}
    <button class="link" title=${"sha256:" + p.digest} onClick=${() => attempt(async () => keep(await part(id, p.digest), name))}>${plainly(name)}</button>
    <span class="quiet">${plainly(p.type)} · ${sizeOf(p.size)} · <code>${p.digest.slice(0, 12)}</code></span>
  </li>`;
}

/** The parts of a message. */
export const Parts = ({ id, parts }) => html`<ul class="parts" aria-label="Pictures and files">${parts.map((p) => html`<${PartOf} key=${p.digest} id=${id} p=${p} />`)}</ul>`;

/** The files that go with the next message. @param {{files: File[], set: (files: File[]) => void, disabled: boolean}} props */
export function Chosen({ files, set, disabled }) {
  return html`<label class="attach" title="Attach pictures or files">
      <input type="file" multiple aria-label="Attach" disabled=${disabled} onChange=${(e) => (set([...files, ...e.target.files]), (e.target.value = ""))} /><span aria-hidden="true">+</span>
    </label>
    ${files.length > 0 &&
    html`<ul class="chosen" aria-label="Attached">${files.map((f, i) => html`<li>${plainly(f.name)} <span class="quiet">${sizeOf(f.size)}</span> <button type="button" class="link" aria-label=${"Leave out " + plainly(f.name)} onClick=${() => set(files.filter((_, k) => k !== i))}>×</button></li>`)}</ul>`}`;
}

/** Files in the form of the API. Its names have no characters of paths or markup. */
export const sent = (files) =>
  Promise.all(files.map(async (f) => ({ name: f.name.replace(/[<>[\]{}/\\"'`\p{C}]/gu, "_").slice(-40), data: (await addressOf(f)).replace(/^[^,]*,/, "") })));

// The proof of a record, checked here and not by the host: its hash is computed again from body,
// salt and header, the chain is followed to the next receipt, and the receipt's signature is
// verified with a public key (docs/records.md, Header).

const utf8 = new TextEncoder();
const hex = (buf) => Array.from(new Uint8Array(buf), (b) => (b + 256).toString(16).slice(1)).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (b) => parseInt(b, 16));
const bytes = (base64) => Uint8Array.from(atob(base64.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));

/** JSON in the canonical form of RFC 8785, of values that JSON.parse gave. */
export function canonical(v) {
  if (Array.isArray(v)) return "[" + v.map(canonical).join(",") + "]";
  if (v && typeof v === "object") {
    const names = Object.keys(v).sort();
    return "{" + names.map((n) => JSON.stringify(n) + ":" + canonical(v[n])).join(",") + "}";
  }
  return JSON.stringify(v);
}

const sha256 = async (...parts) => {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return hex(await crypto.subtle.digest("SHA-256", all));
};

/** What is wrong with the hashes of a record; "" if nothing is. */
export async function wrongHash(r) {
  if (r.body !== null && r.salt) {
    if ((await sha256(unhex(r.salt), utf8.encode(canonical(r.body)))) !== r.body_digest) return "its body is not the one of its digest";
  }
  const header = { body: r.body_digest, epoch: r.epoch, inc: r.inc, prev: r.prev, run: r.run, seq: r.seq, sid: r.sid, ts: r.ts, turn: r.turn, type: r.type };
  return (await sha256(utf8.encode(canonical(header)))) === r.hash ? "" : "its header is not the one of its hash";
}

const blind = { ok: false, text: "This browser checks proofs over https or on localhost alone; stile verify checks them anywhere." };

/** What is wrong with a record behind the one before it; "" if nothing is. */
async function wrongLink(r, before) {
  if (before && (r.prev !== before.hash || r.seq !== before.seq + 1)) return `Record ${r.seq} does not follow record ${before.seq}: the chain is broken.`;
  const wrong = await wrongHash(r);
  return wrong && `Record ${r.seq} is not what was recorded: ${wrong}.`;
}

/** What is wrong with the receipt of a record; "" if nothing is. */
async function wrongReceipt(r, jwks) {
  const jwk = jwks.keys.find((k) => k.kid === r.sig.kid);
  if (!jwk) return `The receipt of record ${r.seq} names a key that the host does not publish.`;
  const key = await crypto.subtle.importKey("jwk", { kty: jwk.kty, crv: jwk.crv, x: jwk.x }, "Ed25519", false, ["verify"]);
  const good = await crypto.subtle.verify("Ed25519", key, bytes(r.sig.sig), utf8.encode(`stile-receipt/1\n${r.inc}\n${r.seq}\n${r.hash}`));
  return good ? "" : `The signature of record ${r.seq} is wrong.`;
}

/**
 * Checks a record by the receipt that covers it.
 * @param {any[]} chain the record and those behind it, without gaps
 * @param {{keys: any[]}} jwks
 * @returns {Promise<{ok: boolean, text: string}>}
 */
export async function prove(chain, jwks) {
  if (!globalThis.crypto?.subtle) return blind;
  for (let i = 0; i < chain.length; i++) {
    const r = chain[i];
    const wrong = (await wrongLink(r, chain[i - 1])) || (r.sig && (await wrongReceipt(r, jwks)));
    if (wrong) return { ok: false, text: wrong };
    if (!r.sig) continue;
    const covered = i ? `; ${i} ${i === 1 ? "record" : "records"} further, record ${r.seq} is signed` : "; it is signed";
    return { ok: true, text: `Proved here: the hash is that of what you see${covered} by key ${r.sig.kid}.` };
  }
  return { ok: false, text: "The hashes are right; no receipt covers the record yet." };
}

/**
 * Checks a session whole.
 * @param {any[]} all its records from the first one on
 * @param {{keys: any[]}} jwks
 * @returns {Promise<{ok: boolean, text: string}>}
 */
export async function proveAll(all, jwks) {
  if (!globalThis.crypto?.subtle) return blind;
  const first = all[0];
  if (!first || first.seq !== 1 || first.prev !== (await sha256(utf8.encode(`stile/1\n${first.sid}\n${first.inc}`)))) return { ok: false, text: "Its first record is not the beginning of a session." };
  let signed = 0;
  let last = 0;
  let erased = 0;
  for (const [i, r] of all.entries()) {
    const wrong = (await wrongLink(r, all[i - 1])) || (r.sig && (await wrongReceipt(r, jwks)));
    if (wrong) return { ok: false, text: wrong };
    if (r.body === null) erased++;
    if (r.sig) [signed, last] = [signed + 1, r.seq];
  }
  if (!signed) return { ok: false, text: `The hashes of its ${all.length} records are right; none of them is signed.` };
  const open = all.at(-1).seq - last;
  const rest = [open && `${open} behind it are not signed yet`, erased && `${erased} were erased and have their hashes`].filter(Boolean);
  return { ok: true, text: `Proved here: ${all.length} records follow each other as they were recorded, and ${signed} are signed, up to record ${last}${rest.length ? "; " + rest.join(", ") : ""}. stile verify finds a cut tail too, with a head that is kept elsewhere.` };
}

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

/**
 * Checks a record by the receipt that covers it.
 * @param {any[]} chain the record and those behind it, without gaps
 * @param {{keys: any[]}} jwks
 * @returns {Promise<{ok: boolean, text: string}>}
 */
export async function prove(chain, jwks) {
  if (!globalThis.crypto?.subtle) return { ok: false, text: "This browser checks proofs over https or on localhost alone; stile verify checks them anywhere." };
  for (let i = 0; i < chain.length; i++) {
    const r = chain[i];
    if (i > 0 && (r.prev !== chain[i - 1].hash || r.seq !== chain[i - 1].seq + 1)) return { ok: false, text: `Record ${r.seq} does not follow record ${chain[i - 1].seq}: the chain is broken.` };
    const wrong = await wrongHash(r);
    if (wrong) return { ok: false, text: `Record ${r.seq} is not what was recorded: ${wrong}.` };
    if (!r.sig) continue;
    const jwk = jwks.keys.find((k) => k.kid === r.sig.kid);
    if (!jwk) return { ok: false, text: `The receipt of record ${r.seq} names a key that the host does not publish.` };
    const key = await crypto.subtle.importKey("jwk", { kty: jwk.kty, crv: jwk.crv, x: jwk.x }, "Ed25519", false, ["verify"]);
    const good = await crypto.subtle.verify("Ed25519", key, bytes(r.sig.sig), utf8.encode(`stile-receipt/1\n${r.inc}\n${r.seq}\n${r.hash}`));
    if (!good) return { ok: false, text: `The signature of record ${r.seq} is wrong.` };
    const covered = i ? `; ${i} ${i === 1 ? "record" : "records"} further, record ${r.seq} is signed` : "; it is signed";
    return { ok: true, text: `Proved here: the hash is that of what you see${covered} by key ${r.sig.kid}.` };
  }
  return { ok: false, text: "The hashes are right; no receipt covers the record yet." };
}

// The host as the console reaches it: the JavaScript client, a token of the browser's tab,
// and what is known of the connection.
import { cell } from "./cell.js";
import { Stile } from "./stile.js";

const tokenKey = "stile-token";

/** What went wrong last, or null. @type {ReturnType<typeof cell<{code?: string, text: string} | null>>} */
export const trouble = cell(null);
/** Whether the host wants a token that it was not shown: "", "missing" or "refused". */
export const wanted = cell("");
/** Whether the host answers. */
export const reached = cell(true);

export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? "",
  set(secret) {
    if (secret) sessionStorage.setItem(tokenKey, secret);
    else sessionStorage.removeItem(tokenKey);
    wanted.set("");
    trouble.set(null);
  },
};

async function watched(...args) {
  try {
    const res = await fetch(...args);
    reached.set(true);
    return res;
  } catch (err) {
    if (!args[1]?.signal?.aborted) reached.set(false);
    throw err;
  }
}

export const host = new Stile(".", { token: token.get, attempts: Infinity, maxPause: 5000, fetch: watched });

/** Says what failed. A token that is wrong or revoked is asked for anew. */
export function failed(err) {
  if (err?.name === "AbortError" || err === undefined) return;
  if (err.status === 401) return wanted.set(token.get() ? "refused" : "missing");
  if (err.code === "NETWORK") return reached.set(false);
  trouble.set({ code: err.code, text: err.message || String(err) });
}

/** Does something for a person, who is told of its failure; undefined then. */
export async function attempt(what) {
  try {
    trouble.set(null);
    return await what();
  } catch (err) {
    failed(err);
  }
}

const query = (o) => {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(o)) for (const one of [v].flat()) if (one !== undefined && one !== "" && one !== false) q.append(k, String(one));
  return q.size ? "?" + q : "";
};

/** Requests of the public API that the client has no method of its own for. */
export const api = {
  agents: async (o) => {
    const all = await host.call("GET", "/agents", o);
    return { list: all.agents, resting: all.read_only === true };
  },
  sessions: (filter, o) => host.call("GET", "/sessions" + query(filter), o),
  search: (what, o) => host.call("GET", "/search" + query(what), o),
  session: (id, o) => host.session(id).call("GET", "", o),
  records: (id, filter, o) => host.session(id).call("GET", "/records" + query(filter), o),
  prompt: (id, turn, reply, o) => host.session(id).call("GET", `/turns/${turn}/prompt` + query({ reply }), o),
  fork: (id, body, o) => host.session(id).call("POST", "/fork", { body, ...o }),
  feeds: (id, o) => host.session(id).call("GET", "/feeds", o),
  waiting: (o) => host.call("GET", "/approvals?limit=200", o),
  usage: (o) => host.call("GET", "/usage", o),
  keys: (o) => host.call("GET", "/keys", o),
};

/** An answer of the host that is no JSON, or no part of its versioned API. */
async function plain(path, signal) {
  const secret = token.get();
  const res = await watched(path, { signal, headers: secret ? { Authorization: "Bearer " + secret } : {} });
  if (!res.ok) throw Object.assign(new Error("The answer was " + res.status), { status: res.status });
  return res;
}

/** The bytes of a picture or a file of a session. @returns {Promise<Blob>} */
export const part = async (id, digest, signal) => (await plain(`v1/sessions/${encodeURIComponent(id)}/parts/${digest}`, signal)).blob();

/** Has a person keep bytes as a file. */
export function keep(bytes, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(bytes), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** The host's metrics, as a text. */
export const metrics = async ({ signal } = {}) => (await plain("metrics", signal)).text();

/** The records of a session as a file: a link could not show a token. */
export async function save(id) {
  const res = await plain(`v1/sessions/${encodeURIComponent(id)}/export`);
  keep(await res.blob(), id + ".jsonl");
}

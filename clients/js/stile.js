// The client of a stile host: no dependencies, one file for browsers and Node.
// A stream outlives cuts anywhere: it comes back with the id of the last whole event
// and goes on behind it, so nothing is lost or repeated. stile.d.ts describes all.

// Every failure: the host's problem document; status 0 without an answer.
export class Problem extends Error {
  constructor(doc, cause) {
    super(doc.detail || doc.title, cause && { cause });
    Object.assign(this, { status: 0, retryable: false, detail: "" }, doc, { name: "Problem" });
  }
}

const network = (cause) =>
  new Problem({ code: "NETWORK", title: "The host cannot be reached.", detail: String(cause?.message ?? cause), retryable: true }, cause);

async function refused(res) {
  let doc;
  try {
    doc = await res.json();
  } catch {} // a proxy's page
  if (!doc?.code) doc = { code: "HTTP_" + res.status, title: "The answer was " + res.status };
  const problem = new Problem({ ...doc, status: res.status });
  const wait = res.headers.get("Retry-After");
  if (wait) problem.retryAfter = (/^\d+$/.test(wait) ? wait * 1000 : Date.parse(wait) - Date.now()) || 0;
  return problem;
}

const passing = (status) => status === 0 || status === 429 || status > 501;

// Not randomUUID: pages over HTTP have none.
const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => (b + 256).toString(16).slice(1)).join("");

// Calls stop when the signal aborts; what it returns undoes that.
function onAbort(signal, stop) {
  signal?.addEventListener("abort", stop, { once: true });
  return () => signal?.removeEventListener("abort", stop);
}

const sleep = (ms, signal) =>
  new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      off();
      resolve();
    };
    const timer = setTimeout(done, ms);
    const off = onAbort(signal, done);
  });

export class EventParser {
  #text = new TextDecoder();
  #rest = "";
  #event = {};

  push(bytes) {
    const out = [];
    const lines = (this.#rest + this.#text.decode(bytes, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    if (this.#rest.length > 64 << 20) throw network("a line of the stream is over 64 MiB");
    for (const line of lines) {
      if (line === "") {
        if (Object.keys(this.#event).length) out.push(this.#event);
        this.#event = {};
        continue;
      }
      const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
      if (field) this.#event[field] = field === "data" && "data" in this.#event ? this.#event.data + "\n" + value : value;
    }
    return out;
  }
}

// What people call some records; others keep their type.
const names = { input: "user", response: "respond", thought: "think", "action.declared": "call", "action.ended": "result", "model.reply": "metric" };

const cut = (text, bytes) => new TextDecoder().decode(new TextEncoder().encode(text).subarray(0, bytes));

// Makes events of updates, and keeps growing texts by unit.
class Texts {
  #units = new Map();

  event({ id, data }) {
    const { type, kind, unit, off, text = "", seq, run, turn, ts, body, ...place } = JSON.parse(data);
    const event = { type: names[kind ?? type] ?? kind ?? type, id, seq, run, turn, ts, body, block: body?.block, compensates: body?.compensates };
    if (type === "progress") return Object.assign(event, { action: place.action, done: place.done, total: place.total, content: text });
    const { n, parent = 0, depth, label = null } = body ?? place;
    if (event.type === "think" && n) event.thought = { n, parent, depth, label };
    const action = place.action ?? body?.id;
    const grows = type === "action.chunk" || kind === "result"; // it has no unit
    const at = grows ? `${turn} ${action}` : (unit ?? body?.unit);
    if (grows) Object.assign(event, { type: "chunk", action });
    const shown = this.#units.get(at) ?? "";
    const show = (text, content) => {
      this.#units.set(at, text);
      return Object.assign(event, { unit: at, text, content });
    };
    if (type === "run.end") {
      this.#units.clear();
      if (body?.output) event.output = JSON.parse(body.output);
    }
    if (type === "action.started") this.#units.delete(`${turn} ${action}`);
    if (type === "action.chunk") {
      const all = cut(shown, body.off) + new TextDecoder().decode(Uint8Array.from(atob(body.bytes), (c) => c.charCodeAt()));
      return show(all[shown.length] ? all : shown, all.slice(shown.length));
    }
    if (body?.held) event.type = "text";
    if (type === "delta") return show(shown + text, text);
    if (type === "retract") {
      event.type = type;
      return show(cut(shown, off ?? body.off), ""); // off counts bytes
    }
    if (typeof body?.text !== "string") return event;
    event.complete = body.complete;
    return show(body.text, at && body.text.startsWith(shown) ? body.text.slice(shown.length) : body.text);
  }
}

export class Stile {
  #base;
  #o;

  constructor(base = "", options) {
    this.#base = String(base).replace(/\/+$/, "");
    this.#o = { attempts: 8, patience: 45000, maxPause: 30000, ...options };
  }

  async call(method, path, o) {
    const res = await this.#fetch(method, path, o);
    return res.status === 204 ? undefined : res.json();
  }

  async agents(o) {
    return (await this.call("GET", "/agents", o)).agents;
  }

  async *sessions({ filter, ...o } = {}) {
    for (let after = ""; ; ) {
      const page = await this.call("GET", `/sessions?limit=1000&after=${after}&` + new URLSearchParams(filter), o);
      yield* page.sessions;
      if (!(after = page.next)) return;
    }
  }

  session(id) {
    return new Session(this, id);
  }

  agent(name, id = fresh()) {
    return new Session(this, id, name);
  }

  async #fetch(method, path, { body, signal, headers } = {}) {
    const { token, fetch = globalThis.fetch } = this.#o;
    const h = { ...this.#o.headers, ...headers };
    if (body) h["Content-Type"] = "application/json";
    const bearer = typeof token === "function" ? await token() : token;
    if (bearer) h.Authorization = "Bearer " + bearer;
    let res;
    try {
      res = await fetch(this.#base + "/v1" + path, { method, headers: h, signal, body: body && JSON.stringify(body) });
    } catch (err) {
      signal?.throwIfAborted();
      throw network(err);
    }
    if (!res.ok) throw await refused(res);
    return res;
  }

  // Yields what open(last id) says to ask for, again and again: until the reader has
  // enough, a 204, a refusal that time does not heal, or too many tries in vain.
  async *follow(open, signal) {
    let last = "";
    let pause = 1000;
    for (let tries = 1; ; tries++) {
      signal?.throwIfAborted();
      const stop = new AbortController();
      const off = onAbort(signal, () => stop.abort(signal.reason));
      let clock;
      const awake = () => {
        clearTimeout(clock);
        clock = setTimeout(() => stop.abort(network("the host is silent")), this.#o.patience);
      };
      let failure;
      try {
        awake();
        const [method, path, o] = open(last);
        const res = await this.#fetch(method, path, { ...o, signal: stop.signal });
        if (res.status === 204) return;
        const reader = res.body.getReader();
        const parser = new EventParser();
        for (let chunk; !(chunk = await reader.read()).done; ) {
          awake();
          for (const e of parser.push(chunk.value)) {
            if (/^(problem|error)$/.test(e.event)) throw new Problem(JSON.parse(e.data));
            if (e.retry) pause = +e.retry || pause;
            if (!e.id) continue;
            last = e.id;
            tries = 1;
            yield e;
          }
        }
        failure = network("the stream was cut");
      } catch (err) {
        signal?.throwIfAborted();
        failure = err instanceof Problem ? err : network(err);
      } finally {
        clearTimeout(clock);
        off();
        stop.abort();
      }
      await this.#pause(failure, tries, pause, signal);
    }
  }

  // Waits before the next try, or throws the failure.
  async #pause(failure, tries, pause, signal) {
    if (!passing(failure.status) || tries >= this.#o.attempts) throw failure;
    // Full jitter: clients of a host that was gone must not come back at once.
    await sleep(failure.retryAfter || Math.random() * Math.min(this.#o.maxPause, pause * 2 ** (tries - 1)), signal);
  }

  // Asks for what only waits, again while failures pass, for at most ms at once.
  async look(path, ms, signal) {
    ms = Math.max(0, Math.min(ms, 30000, this.#o.patience / 2)) | 0;
    for (let tries = 1; ; tries++) {
      signal?.throwIfAborted();
      const stop = new AbortController();
      const off = onAbort(signal, () => stop.abort(signal.reason));
      const clock = setTimeout(() => stop.abort(network("the host is silent")), this.#o.patience);
      try {
        return await this.call("GET", `${path}?wait=${ms}ms`, { signal: stop.signal });
      } catch (err) {
        signal?.throwIfAborted();
        await this.#pause(err instanceof Problem ? err : network(err), tries, 1000, signal);
      } finally {
        clearTimeout(clock);
        off();
      }
    }
  }

  // Yields simple events of a path, up to the one that last accepts.
  async *simple(path, { after = "", tokens = true, signal } = {}, last = () => false) {
    const texts = new Map();
    const open = (id) => ["GET", `${path}?format=simple&stream=${tokens ? "token" : "event"}`, { headers: { "Last-Event-ID": id || after } }];
    for await (const { id, data } of this.follow(open, signal)) {
      const event = { id, ...JSON.parse(data) };
      if (event.unit) {
        const shown = texts.get(event.unit) ?? "";
        event.text = event.keep === undefined ? shown + event.content : cut(shown, event.keep);
        texts.set(event.unit, event.text);
      }
      yield event;
      if (last(event)) return;
    }
  }
}

export class Session {
  #host;
  #agent;
  #path;

  constructor(host, id, agent) {
    this.id = id;
    this.#host = host;
    this.#agent = agent;
    this.#path = "/sessions/" + encodeURIComponent(id);
  }

  call(method, path, o) {
    return this.#host.call(method, this.#path + path, o);
  }

  describe(change, o) {
    return this.call("PATCH", "", { ...o, body: change });
  }

  runs(before = 0, o) {
    return this.call("GET", "/runs?before=" + before, o);
  }

  async open(o) {
    if (!this.#agent) return;
    try {
      await this.#host.call("POST", "/sessions", { ...o, body: { agent: this.#agent, id: this.id } });
    } catch (err) {
      if (err.status !== 409) throw err; // it is there already
    }
    this.#agent = "";
  }

  async *stream(input, { stream = "token", policy, zone, key = fresh(), signal } = {}) {
    await this.open({ signal });
    // Asked again, under its key, while the run goes on or waits for an approval.
    for (let body; !stream || stream === "none"; await sleep(1000, signal)) {
      body = await this.call("POST", "/runs?wait=60s", { headers: { "Idempotency-Key": key }, body: { input, policy, zone }, signal });
      if (body.ended) return yield { type: "respond", id: body.position, run: body.run, content: body.text, text: body.text, complete: true, output: body.output, body };
    }
    const texts = new Texts();
    const path = this.#path + "/runs";
    let run, mine, taken;
    const open = (last) =>
      run
        ? ["GET", `${path}/${run}/events?stream=${stream}`, { headers: { "Last-Event-ID": last } }]
        : ["POST", `${path}?stream=${stream}`, { headers: { "Idempotency-Key": key }, body: { input, policy, zone } }];
    for await (const update of this.#host.follow(open, signal)) {
      const event = texts.event(update);
      run ??= event.run;
      if (event.type === "user") mine ??= event.seq;
      if (event.type === "turn.begin") taken ||= event.body?.merged?.includes(mine);
      yield event;
      if (event.type !== "run.end") continue;
      // What was merged too late for a turn of the run is taken up by the next one.
      if (policy !== "merge" || taken || !event.body?.next) return;
      run = event.body.next;
    }
  }

  async *follow({ after = "", stream = "token", signal } = {}) {
    const texts = new Texts();
    const open = (last) => ["GET", `${this.#path}/events?stream=${stream}&after=${last || after}`];
    for await (const update of this.#host.follow(open, signal)) yield texts.event(update);
  }

  async submit(input, { policy, zone, key = fresh(), signal } = {}) {
    await this.open({ signal });
    return this.run((await this.call("POST", "/runs", { headers: { "Idempotency-Key": key }, body: { input, policy, zone }, signal })).run);
  }

  run(number) {
    return new Run(this.#host, this, `${this.#path}/runs/${number}`, number);
  }

  simple(o) {
    return this.#host.simple(this.#path + "/events", o);
  }

  cancel(run, o) {
    return this.call("POST", `/runs/${run}/cancel`, o);
  }

  async approvals(o) {
    return (await this.call("GET", "/approvals", o)).approvals;
  }

  answer({ id, digest }, allow, { reason, signal } = {}) {
    return this.call("POST", "/approvals/" + encodeURIComponent(id), { body: { allow, digest, reason }, signal });
  }
}

export class Run {
  #host;
  #path;

  constructor(host, session, path, number) {
    Object.assign(this, { session, number });
    this.#host = host;
    this.#path = path;
  }

  async outcome({ wait = Infinity, signal } = {}) {
    for (const until = Date.now() + wait; ; ) {
      const began = Date.now();
      const view = await this.#host.look(this.#path, until - began, signal);
      if (view.ended || Date.now() >= until) return view;
      // Answered at once: it came to wait for an approval, or the host stops.
      if (Date.now() - began < 1000) await sleep(Math.min(1000, until - Date.now()), signal);
    }
  }

  async text(o) {
    const outcome = await this.outcome({ signal: o?.signal });
    const { decision, code, detail, text } = outcome;
    if (decision === "DONE") return text;
    throw Object.assign(new Problem({ code: code || decision, title: "The run ended " + decision, detail }), { outcome });
  }

  simple(o) {
    return this.#host.simple(this.#path + "/events", o, (event) => event.type === "end");
  }

  cancel(o) {
    return this.session.cancel(this.number, o);
  }
}

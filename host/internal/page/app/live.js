// A session that is watched: its records from the last page on, then what comes. Renders come
// once a frame, however much comes.
import { api, failed, host } from "./host.js";
import { useEffect, useState } from "./html.js";
import { Story } from "./story.js";

const firstPage = 200; // records that a session is shown with at first
const pageSize = 500;
const states = new Set(["run.begin", "run.end", "turn.suspended", "turn.restored", "action.approval", "session.described", "input", "session.closed"]);

export class Live {
  #leave = new AbortController();
  #frame = 0;
  #watchers = new Set();
  story = new Story();
  view = null; // as GET /v1/sessions/{id} says
  approvals = [];
  next = 0; // where the page in front begins
  missing = null; // why there is no session
  loading = true;

  constructor(id) {
    this.id = id;
    this.session = host.session(id);
  }

  watch(f) {
    this.#watchers.add(f);
    return () => this.#watchers.delete(f);
  }

  close() {
    this.#leave.abort();
    cancelAnimationFrame(this.#frame);
  }

  /** Says that something changed; a hidden tab has no frames. */
  #changed() {
    if (this.#frame) return;
    const tell = () => {
      this.#frame = 0;
      for (const f of this.#watchers) f();
    };
    this.#frame = document.hidden ? setTimeout(tell, 250) : requestAnimationFrame(tell);
  }

  async run() {
    const { signal } = this.#leave;
    try {
      this.view = await api.session(this.id, { signal });
      const page = await api.records(this.id, { limit: firstPage }, { signal });
      for (const r of page.records) this.story.add(r);
      this.next = page.next ?? 0;
      this.loading = false;
      this.#changed();
      this.#ask();
      await this.#follow(signal);
    } catch (err) {
      if (signal.aborted) return;
      this.loading = false;
      if (!this.view && err.status !== 401) this.missing = err;
      else failed(err);
      this.#changed();
    }
  }

  async #follow(signal) {
    const after = String(this.story.seq);
    const open = (last) => ["GET", `/sessions/${encodeURIComponent(this.id)}/events?stream=token&after=${encodeURIComponent(last || after)}`];
    for await (const { data } of host.follow(open, signal)) {
      const d = JSON.parse(data);
      if (d.type === "delta" || d.type === "progress" || (d.type === "retract" && !d.hash)) this.story.grow(d);
      else this.story.add(d);
      this.#changed();
      if (states.has(d.type)) this.#ask();
    }
  }

  #asking = false;
  #again = false;

  /** What the host says of the session and of what waits in it; one question at a time. */
  async #ask() {
    if (this.#asking) return void (this.#again = true);
    this.#asking = true;
    const { signal } = this.#leave;
    try {
      do {
        this.#again = false;
        this.view = await api.session(this.id, { signal });
        this.approvals = this.view.state === "suspended" || this.view.state === "running" ? await this.session.approvals({ signal }) : [];
      } while (this.#again);
    } catch (err) {
      if (!signal.aborted) failed(err);
    } finally {
      this.#asking = false;
    }
    this.#changed();
  }

  refresh() {
    return this.#ask();
  }

  #older = null;

  /** The page in front of what is here. */
  earlier() {
    if (!this.next || this.#older) return this.#older;
    const { signal } = this.#leave;
    this.#older = api
      .records(this.id, { before: this.next, limit: pageSize }, { signal })
      .then((page) => {
        this.story = Story.before(page.records, this.story);
        this.next = page.next ?? 0;
        this.#changed();
      })
      .catch((err) => signal.aborted || failed(err))
      .finally(() => (this.#older = null));
    return this.#older;
  }

  /** All pages back to a record. */
  async back(seq) {
    while (this.next && (this.story.records[0]?.seq ?? 0) > seq) await this.earlier();
  }
}

/** A session that is watched as long as a part shows it; told gets it, and null at the end. */
export function useLive(id, told) {
  const [live, set] = useState(/** @type {Live | null} */ (null));
  const [, tick] = useState(0);
  useEffect(() => {
    const l = new Live(id);
    const off = l.watch(() => tick((n) => n + 1));
    set(l);
    told?.(l);
    l.run();
    return () => {
      off();
      l.close();
      told?.(null, l);
    };
  }, [id]);
  return live?.id === id ? live : null;
}

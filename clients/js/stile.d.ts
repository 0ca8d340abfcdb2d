/** What is asked of every call: signal stops it. */
export interface Options {
  signal?: AbortSignal;
}

/**
 * A failure. What the host answered is its problem document (RFC 9457): code is one of
 * the product's, such as ERR_BUSY, and field, line, column or offset name the place.
 * Without an answer status is 0 and code NETWORK; an answer that is no document, of a
 * proxy for example, has the code HTTP_ and the status.
 */
export class Problem extends Error {
  readonly name: "Problem";
  readonly code: string;
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** The same request may succeed later. */
  readonly retryable: boolean;
  /** A narrower name than the code. */
  readonly reason?: string;
  readonly type?: string;
  readonly field?: string;
  readonly line?: number;
  readonly column?: number;
  readonly offset?: number;
  /** Milliseconds, when the host says how long to wait. */
  readonly retryAfter?: number;
  /** Of Run.text: the run that ended HALT or ABORT, with what it said. Status is 0, code that of the HALT, or ABORT. */
  readonly outcome?: Outcome;
}

/**
 * What happened, in the order of the session's journal. type is one of the names below,
 * or the type of the record that says it: turn.begin, action.started, action.approval,
 * turn.decided and so on.
 *
 * With stream "token" texts come in pieces: each event has the new piece in content and
 * the unit's whole text in text. The last of a unit comes with its record (body): its
 * content is what was not shown before, mostly "". To append content is right as long as
 * no retract comes; to show text, by unit, always is.
 */
export interface Event {
  type:
    | "user" // an input was submitted; content is the text
    | "respond" | "think" | "text" // texts of the model
    | "retract" // of the unit only text stays: the rest was shown and is no more
    | "emit" // a program's output
    | "call" | "result" // an action was asked for; it ended
    | "block.begin" | "block.decided" | "block.ended" // a control block was read; what it does is fixed; it ended: body is a BlockBegin, BlockDecided, BlockEnded
    | "rollback.begin" // a group of actions is undone from now on: body is a RollbackBegin
    | "progress" // how far a running action is; content is a line about it
    | "chunk" // the next piece of the result of an action; content is the piece, "" for a record of what was shown
    | "metric" // a reply ended: body.usage
    | "run.end" // body.decision is DONE, ABORT or HALT, body.reason a code
    | (string & {});
  /** Where a stream is resumed behind this event. */
  id: string;
  /** Position of the record, or of the last one before a piece of text. */
  seq: number;
  /** Ordinal of the run; 0 for none. */
  run: number;
  turn?: number;
  /** Of records: when, RFC 3339 in UTC. */
  ts?: string;
  /** Of texts: which one it is, the new piece, the whole so far, and whether it was finished. */
  unit?: string;
  content?: string;
  text?: string;
  complete?: boolean;
  /** Of think, where the extension sub_thoughts numbers the thoughts of a reply: n from 1, parent the n of the thought around or 0, depth from 1. */
  thought?: { n: number; parent: number; depth: number; label: string | null };
  /** Of call and block.begin: the id of the control block around. */
  block?: string;
  /** Of call: the id of the action that this one undoes. */
  compensates?: string;
  /** Of progress: the id of the action, and how much of how many is done; total is left out when it is not known. */
  action?: string;
  done?: number;
  total?: number;
  /** Of run.end, and of the one event of stream "none": the answer, of an agent that wants one that fits a schema. */
  output?: any;
  /** Of records: what they hold. */
  body?: any;
}

/** Body of block.begin: id is that of the block, test of an if, in and as of a foreach. */
export interface BlockBegin {
  id: string;
  kind: "if" | "foreach" | "parallel";
  /** The id of the block around. */
  block?: string;
  test?: string;
  in?: string;
  as?: string;
  max?: number;
  fail?: "fast" | "all";
  timeout_ms?: number;
}

/** Body of block.decided. The children that run are those of the branch. */
export interface BlockDecided {
  id: string;
  /** Of an if: then, elif1 …, else or none. */
  branch?: string;
  /** Of a foreach: how many items it has. */
  count?: number;
}

/** Body of block.ended. */
export interface BlockEnded {
  id: string;
  /** As in block.begin; sessions of earlier versions do not say it. */
  kind?: "if" | "foreach" | "parallel";
  state: "ok" | "failed" | "skipped" | "cancelled" | "unknown";
  reason?: string;
  /** Children, or iterations, by their ends. */
  ok?: number;
  failed?: number;
}

/** Body of rollback.begin. cause is error: with the id of the member that failed, asked, halt or cancel. */
export interface RollbackBegin {
  group: string;
  cause: `error:${string}` | "asked" | "halt" | "cancel";
}

/** How a run stands, and what it said when it has ended: text and what follows are there then. */
export interface Outcome {
  session: string;
  run: number;
  state: "queued" | "running" | "waiting" | "interrupted" | "ended";
  ended: boolean;
  decision?: "DONE" | "ABORT" | "HALT";
  /** Why, for HALT. */
  code?: string;
  detail?: string;
  turns?: number;
  /** What the run said: the responses and emissions of all turns that were not taken back. */
  text?: string;
  units?: { kind: "response" | "emit"; text: string }[];
  /** Tokens of the run's replies; the cost is that of its actions as well. */
  usage?: { input: number; output: number; cache_read?: number; cost_micro_usd?: number; estimated?: boolean };
  /** The answer, of an agent that wants one that fits a schema. */
  output?: any;
  /** RFC 3339 in UTC. */
  began_at?: string;
  ended_at?: string;
  duration_ms?: number;
}

/** What happened, in a few words: an event of the host's simple format. */
export interface SimpleEvent {
  type: "user" | "think" | "respond" | "call" | "execute" | "result" | "metric" | "error" | "cancelled" | "interrupt" | "end";
  /** Where a stream is resumed behind this event. */
  id: string;
  content: string;
  /** Seconds since the epoch. */
  timestamp: number;
  /** Of think and respond: which text the piece is of, and all of that text so far. */
  unit?: number;
  text?: string;
  /** Of think, and of a call in a thought, where the extension sub_thoughts numbers thoughts. */
  thought?: { n: number; parent?: number; depth?: number; label?: string };
  /** Of call: the id of the control block around, and of the action that this one undoes. */
  block?: string;
  compensates?: string;
  /** The text was cut. */
  partial?: boolean;
  /** Of the text only so many bytes stay: text is what is left of it. */
  keep?: number;
  code?: string;
  payload?: { tools_executed: number; success_count: number; failure_count: number };
  step?: { input: number; output: number; duration: number };
  total?: { input: number; output: number; duration: number };
}

export interface SimpleOptions extends Options {
  /** The id of the last event seen; "" is the beginning. */
  after?: string;
  /** With texts while they grow; true. */
  tokens?: boolean;
}

export interface Settings {
  /** Bearer token, or what gives one for each request. */
  token?: string | (() => string | Promise<string>);
  headers?: Record<string, string>;
  fetch?: typeof globalThis.fetch;
  /** How often in a row a stream tries in vain; 8. */
  attempts?: number;
  /** Milliseconds without a byte after which a stream counts as dead; 45000. The host sends a heartbeat every 15 s. */
  patience?: number;
  /** The longest pause between tries, in milliseconds; 30000. */
  maxPause?: number;
}

export interface StreamOptions extends Options {
  /**
   * With texts as they grow ("token"), or whole ("event"). With "none" or null there is one
   * event when the run has ended: respond, with all its text as content, and in body
   * decision, code, detail, units and usage.
   */
  stream?: "token" | "event" | "none" | null;
  /** When a run is in flight; the agent's own when it is left out. */
  policy?: "reject" | "enqueue" | "interrupt" | "rollback" | "merge" | "debounce" | "answer";
  /** The user's time zone, such as Europe/Oslo or UTC+2; the session keeps the last one. */
  zone?: string;
  /** Idempotency key; a fresh one when it is left out. With it a repeated submit joins the first one's run. */
  key?: string;
}

export interface SessionView {
  id: string;
  incarnation: string;
  state: "idle" | "running" | "suspended" | "interrupted" | "closed";
  seq: number;
  run: number;
  turn: number;
  queued: number;
  hash: string;
  agent?: string;
  /** The host has that agent; without it the session takes no input. */
  agent_known: boolean;
  created?: string;
  updated?: string;
  title?: string;
  tags?: string[];
}

export interface RunEntry {
  run: number;
  state: "queued" | "running" | "waiting" | "interrupted" | "ended";
  decision?: "DONE" | "ABORT" | "HALT";
  code?: string;
  turns?: number;
  accepted?: string;
  began?: string;
  ended?: string;
}

export interface AgentView {
  name: string;
  dialect: string;
  summary?: string;
}

export interface Approval {
  id: string;
  action: string;
  /** Of the tool. */
  name: string;
  /** Canonical JSON. */
  args: string;
  /** Of the arguments: an answer names what was seen. */
  digest: string;
  expires?: string;
}

/** A host. base is its address without /v1; "" is the page's own. */
export class Stile {
  constructor(base?: string | URL, settings?: Settings);
  agents(o?: Options): Promise<AgentView[]>;
  /** The caller's sessions, the one that changed last first. filter: agent, state, tag (also repeated, as pairs), q, created_after, updated_after. */
  sessions(o?: Options & { filter?: Record<string, string> | [string, string][] }): AsyncGenerator<SessionView, void, void>;
  /** A session that exists. */
  session(id: string): Session;
  /** The session of that id, or a new one; the first stream begins it with the agent if there is none. */
  agent(name: string, id?: string): Session;
  /** Any request: path is what follows /v1, body is sent as JSON. */
  call(method: string, path: string, o?: Options & { body?: unknown }): Promise<any>;
}

/** A session of a host. */
export class Session {
  readonly id: string;
  /** Changes the title and the tags: tags and title take the place of those before, then remove goes and add comes. */
  describe(change: { title?: string; tags?: string[]; add?: string[]; remove?: string[] }, o?: Options): Promise<SessionView>;
  /** A page of the runs, the newest first; next is the before of the page after it. */
  runs(before?: number, o?: Options): Promise<{ runs: RunEntry[]; next?: number }>;
  /** Begins the session if its agent is known and there is none. Streams do so by themselves. */
  open(o?: Options): Promise<void>;
  /**
   * Submits, and yields the events of the run up to its run.end. A stream that is cut
   * resumes by itself, and a submit whose answer was lost is repeated under the same
   * key. It throws a Problem, or the signal's reason. To stop reading cancels nothing.
   */
  stream(input: string, o?: StreamOptions): AsyncGenerator<Event, void, void>;
  /** Follows the session behind the id of an event ("" is the beginning), without an end. */
  follow(o?: Options & { after?: string; stream?: "token" | "event" }): AsyncGenerator<Event, void, void>;
  /** Submits and returns when the host has the message; to wait for the run is the Run's. */
  submit(input: string, o?: Omit<StreamOptions, "stream">): Promise<Run>;
  /** A run by its number in the session. */
  run(number: number): Run;
  /** Follows the session in simple events, without an end. */
  simple(o?: SimpleOptions): AsyncGenerator<SimpleEvent, void, void>;
  cancel(run: number, o?: Options): Promise<void>;
  approvals(o?: Options): Promise<Approval[]>;
  answer(approval: Pick<Approval, "id" | "digest">, allow: boolean, o?: Options & { reason?: string }): Promise<void>;
  /** Any request below the session. */
  call(method: string, path: string, o?: Options & { body?: unknown }): Promise<any>;
}

/** A run of a session. Of a submit that was merged it is the run in flight, whatever becomes of what was merged. */
export class Run {
  readonly session: Session;
  readonly number: number;
  /**
   * Waits for the end, at most for wait milliseconds, and gives how the run stands then. A host
   * that is away for a while is asked again.
   */
  outcome(o?: Options & { wait?: number }): Promise<Outcome>;
  /** What the run said, at its end. One that ended HALT or ABORT throws a Problem with its outcome. */
  text(o?: Options): Promise<string>;
  /** The run's simple events, up to end. */
  simple(o?: SimpleOptions): AsyncGenerator<SimpleEvent, void, void>;
  cancel(o?: Options): Promise<void>;
}

/** Server-sent events from chunks of bytes, cut anywhere: push gives those that became whole. */
export class EventParser {
  push(bytes: Uint8Array): Record<string, string>[];
}

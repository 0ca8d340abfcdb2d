// The built-in page: lists sessions, follows one live, and lets a person answer for
// approvals. What comes from the host is put into the page as text and nothing else.
import { plainly } from "./plain.js";
import { Stile } from "./stile.js";
import { words } from "./words.js";

const maxRows = 1000; // of the log; older ones go
const recall = 500; // records of the past that are shown of a session
const pageSize = 100; // sessions of a list

const $ = (id) => document.getElementById(id);
const tokenKey = "stile-token";
const host = new Stile(".", { token: () => sessionStorage.getItem(tokenKey) ?? "", attempts: Infinity, maxPause: 5000 });

/** An element; children are elements or texts. */
function element(name, props, ...children) {
  const e = Object.assign(document.createElement(name), props);
  e.append(...children);
  return e;
}

function trouble(err) {
  $("access").hidden = err?.status !== 401;
  $("trouble").hidden = !err || err.status === 401;
  $("trouble").textContent = err ? [err.code, err.message].filter(Boolean).join(": ") : "";
}

/** Does something for a person, who is told of its failure. */
async function attempt(what) {
  try {
    trouble();
    return await what();
  } catch (err) {
    trouble(err);
  }
}

// The list of sessions.

let first = ""; // the list begins behind this id
let shown = pageSize;
let listing = 0;

async function list() {
  const mine = ++listing;
  const items = [];
  let after = first;
  let more = false;
  try {
    do {
      const page = await host.call("GET", `/sessions?limit=${Math.min(1000, shown - items.length)}&after=${encodeURIComponent(after)}`);
      items.push(...page.sessions);
      more = Boolean((after = page.next));
    } while (more && items.length < shown);
  } catch (err) {
    return trouble(err);
  }
  if (mine !== listing) return; // a newer list is on its way
  $("more").hidden = !more;
  $("sessions").replaceChildren(
    ...items.map((s) => {
      const pick = element("button", { type: "button", onclick: () => (location.hash = encodeURIComponent(s.id)) }, element("span", {}, s.id), element("span", { className: "state " + s.state }, s.state));
      pick.setAttribute("aria-current", String(s.id === current?.id));
      return element("li", {}, pick);
    }),
  );
  const own = items.find((s) => s.id === current?.id);
  if (own) state(own);
}

function state({ state, run }) {
  $("state").textContent = state;
  $("state").className = "state " + state;
  $("cancel").hidden = state !== "running" && state !== "suspended";
  $("cancel").onclick = () => attempt(() => current.cancel(run));
}

// The session that is followed.

let current;
let leave = new AbortController();

async function follow(id) {
  leave.abort();
  const mine = (leave = new AbortController());
  const { signal } = mine;
  $("session").hidden = !id;
  $("hint").hidden = Boolean(id);
  $("log").replaceChildren();
  $("approvals").replaceChildren();
  $("name").textContent = id;
  current = id ? host.session(id) : undefined;
  list();
  if (!id) return;
  const rows = new Map(); // of units
  await attempt(async () => {
    const view = await current.call("GET", "", { signal });
    if (signal.aborted) return;
    state(view);
    asked(signal);
    for await (const event of current.follow({ after: String(Math.max(0, view.seq - recall)), signal })) {
      show(event, rows);
      if (["turn.suspended", "action.approval", "run.end", "run.begin"].includes(event.type)) {
        asked(signal);
        list();
      }
    }
  }).finally(() => mine === leave && mine.abort());
}

function show(event, rows) {
  const log = $("log");
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const key = event.unit && `${event.run} ${event.unit}`;
  let row = rows.get(key);
  if (row) {
    row.lastChild.textContent = event.text;
  } else if (event.type !== "retract") {
    const [kind, text] = words(event);
    row = element("li", { className: kind }, element("span", { className: "kind" }, [event.type, plainly(event.thought?.label ?? "")].filter(Boolean).join(" ")), element("span", {}, text));
    row.title = event.ts ? `${event.seq} · ${event.ts}` : "";
    log.append(row);
    if (key) rows.set(key, row);
  }
  if (event.type === "run.end") rows.clear();
  while (log.childElementCount > maxRows) log.firstChild.remove();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

async function asked(signal) {
  let all;
  try {
    all = await current.approvals({ signal });
  } catch (err) {
    return signal.aborted ? undefined : trouble(err);
  }
  if (signal.aborted) return;
  // A card that is shown already stays: a reason may be half written in it.
  const cards = new Map([...$("approvals").children].map((card) => [card.dataset.key, card]));
  $("approvals").replaceChildren(...all.map((a) => cards.get(cardKey(a)) ?? approvalCard(a, signal)));
}

const cardKey = (a) => JSON.stringify([a.id, a.digest]);

function approvalCard(a, signal) {
  const reason = element("input", { maxLength: 1024, placeholder: "reason of a refusal", ariaLabel: "Reason" });
  const answer = (allow) => () => attempt(() => current.answer(a, allow, { reason: allow ? undefined : reason.value || undefined }).then(() => asked(signal)));
  const card = element(
    "div",
    { className: "approval" },
    element("strong", {}, plainly(a.name)),
    " waits for an answer",
    a.expires ? ` until ${a.expires}` : "",
    element("pre", {}, plainly(a.args)),
    element("small", {}, [plainly(a.basis ?? ""), `digest ${a.digest}`].filter(Boolean).join(" · ")),
    element("div", {}, element("button", { type: "button", onclick: answer(true) }, "Allow"), element("button", { type: "button", onclick: answer(false) }, "Deny"), reason),
  );
  card.dataset.key = cardKey(a);
  return card;
}

// Forms.

function onSubmit(id, act) {
  $(id).addEventListener("submit", (e) => {
    e.preventDefault();
    attempt(() => act(e.target, new FormData(e.target)));
  });
}

onSubmit("begin", async (form, data) => {
  const agent = host.agent(data.get("agent"), data.get("id") || undefined);
  await agent.open();
  form.elements.id.value = "";
  location.hash = encodeURIComponent(agent.id);
});
onSubmit("from", (form, data) => {
  first = data.get("after");
  shown = pageSize;
  return list();
});
onSubmit("submit", async (form, data) => {
  await current.call("POST", "/runs", { body: { input: data.get("input") } });
  form.reset();
  await list();
});
onSubmit("access", (form, data) => {
  sessionStorage.setItem(tokenKey, data.get("token"));
  form.reset();
  return start();
});
$("more").onclick = () => {
  shown += pageSize;
  list();
};
$("submit").elements.input.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) $("submit").requestSubmit();
});

function chosen() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

async function start() {
  await attempt(async () => {
    const agents = await host.agents();
    $("begin").elements.agent.replaceChildren(...agents.map((a) => element("option", { value: a.name, title: a.summary ?? "" }, a.name)));
    follow(chosen());
  });
}

addEventListener("hashchange", () => follow(chosen()));
setInterval(() => document.hidden || !$("access").hidden || list(), 5000);
start();

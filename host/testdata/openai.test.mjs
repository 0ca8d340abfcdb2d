// OpenAI's client for Node against the host that chat_test.go serves.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

const OpenAI = createRequire(join(process.env.STILE_TEST_NODE_PACKAGES, "node_modules", "x"))("openai");
const client = new OpenAI({ baseURL: process.env.STILE_URL + "/v1", apiKey: "none" });
const messages = [
  { role: "user", content: "I am Ada." },
  { role: "assistant", content: "Good day." },
  { role: "user", content: [{ type: "text", text: "Who am I?" }] },
];
const whole = "[user: I am Ada.][assistant: Good day.][user: Who am I?]";

test("a completion", async () => {
  const got = await client.chat.completions.create({ model: "echo", messages, temperature: 0 });
  assert.equal(got.choices[0].message.content, whole);
  assert.equal(got.choices[0].finish_reason, "stop");
  assert.equal(got.usage.total_tokens, 19);
});

test("a stream, and the client's own accumulation of it", async () => {
  const stream = client.chat.completions.stream({ model: "echo", messages, stream_options: { include_usage: true } });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
  assert.equal(text, whole);
  assert.equal(await stream.finalContent(), whole);
  assert.equal((await stream.totalUsage()).total_tokens, 19);
});

test("a session, and a user that is none", async () => {
  for (const want of ["[user: Who am I?]", "[user: Who am I?][assistant: [user: Who am I?]][user: Who am I?]"]) {
    const { data, response } = await client.chat.completions.create({ model: "echo", messages, user: "ann" }, { headers: { "X-Stile-Session": "node" } }).withResponse();
    assert.equal(data.choices[0].message.content, want);
    assert.equal(response.headers.get("x-stile-session"), "node");
  }
  for (let n = 0; n < 2; n++) {
    const got = await client.chat.completions.create({ model: "echo", messages, user: "ann" });
    assert.equal(got.choices[0].message.content, whole);
  }
});

test("a halt is an error, also in a stream, and is not tried again", async () => {
  await assert.rejects(client.chat.completions.create({ model: "broken", messages }, { headers: { "X-Stile-Session": "halts" } }), (err) => {
    assert.ok(err instanceof OpenAI.APIError);
    assert.deepEqual([err.status, err.code, err.type], [400, "ERR_MODEL", "stile_halt"]);
    return true;
  });
  const session = await (await fetch(process.env.STILE_URL + "/v1/sessions/halts")).json();
  assert.equal(session.run, 1);
  await assert.rejects(
    (async () => {
      for await (const _ of await client.chat.completions.create({ model: "broken", messages, stream: true }));
    })(),
    { code: "ERR_MODEL", type: "stile_halt" },
  );
});

test("a call whose connection fails is asked again, and is one run", async () => {
  const url = process.env.STILE_URL + "/v1";
  for (const session of [undefined, "repeated"]) {
    const runs = [];
    let tries = 0;
    const cut = async (input, init) => {
      if (++tries > 1) {
        const answer = fetch(input, init);
        await client.chat.completions.create({ model: "bell", messages: [{ role: "user", content: "ring" }] });
        runs.push((await answer).headers.get("x-stile-run"));
        return answer;
      }
      const abort = new AbortController();
      const answer = fetch(input, { ...init, signal: abort.signal });
      answer.catch(() => {});
      for (let running = false; !running; ) {
        running = (await (await fetch(url + "/sessions?agent=patient&state=running&ephemeral=true")).json()).sessions.length > 0;
      }
      abort.abort();
      throw new TypeError("fetch failed");
    };
    const impatient = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 1, fetch: cut });
    const headers = session ? { "X-Stile-Session": session } : {};
    const got = await impatient.chat.completions.create({ model: "patient", messages: [{ role: "user", content: "go" }] }, { headers });
    assert.equal(got.choices[0].message.content, "at last");
    assert.deepEqual([tries, runs], [2, ["1"]]);
  }
  const { sessions } = await (await fetch(url + "/sessions?agent=patient")).json();
  assert.deepEqual(sessions.map((s) => s.id), ["repeated"]); // a session of a call without one is in no list
});

test("what there is not is an error with a text", async () => {
  await assert.rejects(client.embeddings.create({ model: "echo", input: "x" }), (err) => {
    assert.deepEqual([err.status, err.code, err.type], [404, "ERR_NOT_FOUND", "invalid_request_error"]);
    assert.match(err.message, /\/v1\/embeddings.*\/v1\/chat\/completions.*\/v1\/responses/);
    return true;
  });
  const astray = new OpenAI({ baseURL: process.env.STILE_URL, apiKey: "none" });
  await assert.rejects(astray.chat.completions.create({ model: "echo", messages }), { status: 404, message: /must end with \/v1/ });
});

test("tools of the client are refused, models are listed", async () => {
  const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
  await assert.rejects(client.chat.completions.create({ model: "echo", messages, tools }), { status: 400, code: "ERR_INVALID", param: "tools" });
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.deepEqual(names, ["bell", "broken", "echo", "kitsu", "patient"]);
});

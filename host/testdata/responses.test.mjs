// The Responses API by OpenAI's client for Node, against the host that responses_sdk_test.go serves.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

const OpenAI = createRequire(join(process.env.STILE_TEST_NODE_PACKAGES, "node_modules", "x"))("openai");
const client = new OpenAI({ baseURL: process.env.STILE_URL + "/v1", apiKey: "none" });

test("a response, and what goes on with it", async () => {
  const first = await client.responses.create({ model: "echo", input: "I am Ada.", instructions: "Be brief.", temperature: 0, metadata: { a: "b" } });
  assert.equal(first.output_text, "[user: Be brief.][user: I am Ada.]");
  assert.deepEqual([first.status, first.object, first.error, first.usage.total_tokens, first.usage.input_tokens_details.cached_tokens], ["completed", "response", null, 19, 3]);
  const next = await client.responses.create({ model: "echo", input: "Who am I?", instructions: "Be brief.", previous_response_id: first.id });
  const whole = first.output_text + `[assistant: ${first.output_text}][user: Who am I?]`;
  assert.equal(next.output_text, whole);
  assert.equal(next.previous_response_id, first.id);
  assert.equal(next.stile.session, first.stile.session);
  // The first one is not the head any more: what goes on with it is a fork.
  const fork = await client.responses.create({ model: "echo", input: "Who are you?", previous_response_id: first.id });
  assert.equal(fork.output_text, first.output_text + `[assistant: ${first.output_text}][user: Who are you?]`);
  assert.notEqual(fork.stile.session, first.stile.session);
  const again = await client.responses.create({ model: "echo", input: "And now?", previous_response_id: next.id });
  assert.ok(again.output_text.startsWith(whole));
});

test("a stream, and the client's own accumulation of it", async () => {
  const input = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "I am Ada." },
    { role: "assistant", content: [{ type: "output_text", text: "Good day." }] },
    { role: "user", content: [{ type: "input_text", text: "Who am I?" }] },
  ];
  const whole = "[user: Be brief.][user: I am Ada.][assistant: Good day.][user: Who am I?]";
  const stream = client.responses.stream({ model: "echo", input });
  let text = "";
  const types = new Set();
  let at = 0;
  for await (const event of stream) {
    assert.equal(event.sequence_number, at++);
    types.add(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.equal(text, whole);
  const final = await stream.finalResponse();
  assert.deepEqual([final.output_text, final.status, final.usage.total_tokens, final.output.length], [whole, "completed", 19, 1]);
  assert.deepEqual([...types], ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    "response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"]);
});

test("a conversation is a session", async () => {
  for (const want of ["[user: hello]", "[user: hello][assistant: [user: hello]][user: hello]"]) {
    const got = await client.responses.create({ model: "echo", input: "hello", conversation: "talk" });
    assert.deepEqual([got.output_text, got.conversation.id], [want, "talk"]);
  }
  const session = await (await fetch(process.env.STILE_URL + "/v1/sessions/talk")).json();
  assert.equal(session.run, 2);
});

test("what is not stored cannot be gone on with", async () => {
  const got = await client.responses.create({ model: "echo", input: "hello", store: false });
  assert.equal(got.output_text, "[user: hello]");
  await assert.rejects(client.responses.create({ model: "echo", input: "and?", previous_response_id: got.id }), { status: 404, code: "ERR_NOT_FOUND", param: "previous_response_id" });
});

test("a halt is an error, and in a stream a failed response; neither is tried again", async () => {
  await assert.rejects(client.responses.create({ model: "broken", input: "x", conversation: "halts" }), { status: 400, code: "ERR_MODEL", type: "stile_halt" });
  const session = await (await fetch(process.env.STILE_URL + "/v1/sessions/halts")).json();
  assert.equal(session.run, 1);
  let last;
  for await (const event of await client.responses.create({ model: "broken", input: "x", stream: true })) last = event;
  assert.deepEqual([last.type, last.response.status, last.response.error.code, last.response.error.type], ["response.failed", "failed", "ERR_MODEL", "stile_halt"]);
  assert.equal(last.response.output[0].content[0].text, "I beg");
});

test("options are named that are passed over, and tools refused", async () => {
  const tools = [{ type: "function", name: "f", parameters: {}, strict: true }];
  const { response } = await client.responses.create({ model: "echo", input: "x", temperature: 1, max_output_tokens: 5, tools, tool_choice: "none", user: null }).withResponse();
  assert.equal(response.headers.get("x-stile-passed-over"), "max_output_tokens, temperature, tools");
  await assert.rejects(client.responses.create({ model: "echo", input: "x", tools }), { status: 400, param: "tools" });
  await assert.rejects(client.responses.create({ model: "nobody", input: "x" }), { status: 404, param: "model" });
  await assert.rejects(client.responses.retrieve("resp_1"), { status: 404, message: /there is nothing at/ });
});

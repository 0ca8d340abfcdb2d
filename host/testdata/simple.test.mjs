// The front ends of the architecture's document against the host that simple_test.go serves,
// with nothing but fetch between them.
import assert from "node:assert/strict";
import { test } from "node:test";

const headers = { "Content-Type": "application/json" };
const session = process.env.STILE_URL + "/v1/sessions";

const agentOf = (id) => ({
  async *stream(input, { stream }) {
    await fetch(session, { method: "POST", headers, body: JSON.stringify({ agent: "agent", id }) });
    const res = await fetch(`${session}/${id}/runs?format=simple&stream=${stream}`, { method: "POST", headers, body: JSON.stringify({ input }) });
    assert.equal(res.status, 200);
    for (const line of (await res.text()).split("\n")) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
  },
});

const query = "look";

test("a typewriter", async () => {
  const agent = agentOf("typewriter");
  let text = "";
  const appendText = (content) => (text += content);
  for await (const event of agent.stream(query, { stream: "token" })) {
    if (event.type === "respond") {
      appendText(event.content); // Stream each token
    }
  }
  assert.equal(text, "Let me see.\nIt is done.");
});

test("blocks of messages", async () => {
  const agent = agentOf("blocks");
  const blocks = [];
  const displayMessage = (content) => blocks.push(content);
  const types = [];
  for await (const event of agent.stream(query, { stream: "event" })) {
    if (event.type === "respond") {
      displayMessage(event.content); // Show complete response
    }
    types.push(event.type);
    assert.equal(typeof event.timestamp, "number");
    if (event.type === "call") assert.deepEqual(Object.keys(JSON.parse(event.content)), ["name", "args"]);
    if (event.type === "result") assert.equal(JSON.parse(event.content).length, 3);
  }
  assert.deepEqual(blocks, ["Let me see.", "It is done."]);
  assert.deepEqual(types.filter((type) => type !== "metric"), ["user", "think", "respond", "call", "call", "call", "execute", "result", "respond", "end"]);
});

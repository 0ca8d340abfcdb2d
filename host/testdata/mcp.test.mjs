// The MCP client for Node against the host that tools_test.go serves.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

const require = createRequire(join(process.env.STILE_TEST_NODE_PACKAGES, "node_modules", "x"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

test("agents are tools", async (t) => {
  const client = new Client({ name: "test", version: "1" });
  t.after(() => client.close());
  await client.connect(new StreamableHTTPClientTransport(new URL(process.env.STILE_URL + "/mcp")));
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((t) => t.name), ["broken", "echo", "kitsu"]);
  const grown = [];
  const got = await client.callTool({ name: "echo", arguments: { message: "hello" } }, undefined, { onprogress: (p) => grown.push(p.message) });
  assert.deepEqual(got.content, [{ type: "text", text: "[user: hello]" }]);
  assert.equal(got.structuredContent.decision, "DONE");
  assert.equal(grown[0], `session ${got.structuredContent.session}, run 1`);
  assert.equal(grown.slice(1).join(""), "[user: hello]");
  const again = await client.callTool({ name: "echo", arguments: { message: "again", session: got.structuredContent.session } });
  assert.equal(again.content[0].text, "[user: hello][assistant: [user: hello]][user: again]");
  const halt = await client.callTool({ name: "broken", arguments: { message: "x" } });
  assert.ok(halt.isError && halt.content[0].text.includes("ERR_MODEL"));
});

// The official clients of OpenAI and of the Model Context Protocol in pages of other origins, in a real
// browser: that of an allowed one works, another is kept out. origin_test.go serves host and pages.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const { STILE_URL: url, STILE_TOKEN: token, STILE_PAGES: pages, STILE_ALLOWED: allowed, STILE_FOREIGN: foreign, STILE_BROWSER: executablePath, STILE_TEST_NODE_PACKAGES: packages } = process.env;
const require = createRequire(join(packages, "node_modules", "x"));
const { chromium } = require("playwright-core");

let browser;
before(async () => {
  require("esbuild").buildSync({
    stdin: {
      contents: `export { default as OpenAI } from "openai";
        export { Client } from "@modelcontextprotocol/sdk/client/index.js";
        export { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";`,
      resolveDir: packages,
    },
    bundle: true, format: "esm", platform: "browser", logLevel: "error", outfile: join(pages, "clients.js"),
  });
  writeFileSync(join(pages, "index.html"), "<!doctype html><title>another origin</title>");
  browser = await chromium.launch({ executablePath, args: ["--no-first-run", "--disable-gpu"], chromiumSandbox: process.getuid?.() !== 0 });
});
after(() => browser.close());

async function open(origin) {
  const page = await browser.newPage();
  page.setDefaultTimeout(20000);
  await page.goto(origin + "/index.html");
  return page;
}

// What runs in the page: one call of each door, and the headers that the page may read.
const asks = async ({ url, token }) => {
  const { OpenAI, Client, StreamableHTTPClientTransport } = await import("/clients.js");
  const out = {};
  const openai = new OpenAI({ baseURL: url + "/v1", apiKey: token, dangerouslyAllowBrowser: true, maxRetries: 0 });
  try {
    const { data, response } = await openai.chat.completions.create({ model: "echo", messages: [{ role: "user", content: "hi" }] }, { headers: { "X-Stile-Session": "from-a-page" } }).withResponse();
    out.chat = data.choices[0].message.content;
    out.session = response.headers.get("X-Stile-Session");
    out.request = response.headers.get("X-Request-Id");
    out.pieces = 0;
    for await (const chunk of await openai.chat.completions.create({ model: "echo", stream: true, messages: [{ role: "user", content: "hi" }] })) {
      if (chunk.choices[0]?.delta?.content) out.pieces++;
    }
    out.response = (await openai.responses.create({ model: "echo", input: "hi" })).output_text;
    out.models = (await openai.models.list()).data.map((m) => m.id);
  } catch (err) {
    out.openai = String(err);
  }
  const mcp = new Client({ name: "page", version: "1" });
  try {
    await mcp.connect(new StreamableHTTPClientTransport(new URL(url + "/mcp"), { requestInit: { headers: { Authorization: "Bearer " + token } } }));
    out.tools = (await mcp.listTools()).tools.map((t) => t.name);
    out.called = (await mcp.callTool({ name: "echo", arguments: { message: "hi" } })).content[0].text;
    await mcp.close();
  } catch (err) {
    out.mcp = String(err);
  }
  return out;
};

test("clients in a page of an allowed origin", async () => {
  const page = await open(allowed);
  const out = await page.evaluate(asks, { url, token });
  assert.equal(out.openai, undefined);
  assert.equal(out.mcp, undefined);
  assert.equal(out.chat, "hi");
  assert.equal(out.response, "hi");
  assert.ok(out.pieces >= 1);
  assert.ok(out.models.includes("echo"));
  assert.equal(out.session, "from-a-page");
  assert.match(out.request, /^[0-9a-f]{24}$/);
  assert.ok(out.tools.includes("echo"));
  assert.match(out.called, /hi/);
  await page.close();
});

test("clients in a page of another origin", async () => {
  const page = await open(foreign);
  const out = await page.evaluate(asks, { url, token });
  assert.match(out.openai, /Connection error|Failed to fetch/);
  assert.match(out.mcp, /Failed to fetch/);
  assert.equal(out.chat, undefined);
  assert.equal(out.tools, undefined);
  await page.close();
});

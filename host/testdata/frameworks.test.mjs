// The AI SDK and LangChain, unchanged, against the host that frameworks_test.go serves.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { test } from "node:test";

const require = createRequire(join(process.env.STILE_TEST_NODE_PACKAGES, "node_modules", "x"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { generateText, streamText } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { ChatOpenAI } = await load("@langchain/openai");

const url = process.env.STILE_URL + "/v1";
const vercel = createOpenAI({ baseURL: url, apiKey: "none" });
const compatible = createOpenAICompatible({ name: "stile", baseURL: url, apiKey: "none" });
const langchain = (model, options) => new ChatOpenAI({ model, apiKey: "none", configuration: { baseURL: url }, ...options });

// How many sessions ran an agent: a call without a session is one, and so is each repeat of it.
const runs = async (agent) => (await (await fetch(`${url}/sessions?ephemeral=true&limit=1000&agent=${agent}`)).json()).sessions.length;

const doors = { responses: (m) => vercel(m), chat: (m) => vercel.chat(m), compatible: (m) => compatible(m) };

for (const [name, model] of Object.entries(doors)) {
  test(`AI SDK, ${name}: a text, a stream, and a second message`, async () => {
    const messages = [{ role: "user", content: "I am Ada." }];
    const first = await generateText({ model: model("echo"), system: "Be brief.", messages });
    assert.equal(first.text, "[user: Be brief.][user: I am Ada.]");
    assert.equal(first.usage.totalTokens, 19);
    messages.push(...first.response.messages, { role: "user", content: "Who am I?" });
    const want = `[user: Be brief.][user: I am Ada.][assistant: ${first.text}][user: Who am I?]`;
    const second = streamText({ model: model("echo"), system: "Be brief.", messages });
    let text = "";
    for await (const piece of second.textStream) text += piece;
    assert.equal(text, want);
  });

  test(`AI SDK, ${name}: what is halted or waits is one run`, async () => {
    for (const [agent, code] of [["broken", "ERR_MODEL"], ["asks", "ERR_APPROVAL"]]) {
      const before = await runs(agent);
      await assert.rejects(generateText({ model: model(agent), prompt: "go" }), (err) => {
        assert.match(err.message, new RegExp(code));
        return true;
      });
      let failure;
      for await (const part of streamText({ model: model(agent), prompt: "go", onError() {} }).fullStream) if (part.type === "error") failure = part.error;
      assert.ok(failure);
      assert.equal((await runs(agent)) - before, 2);
    }
  });
}

for (const useResponsesApi of [false, true]) {
  test(`LangChain, responses ${useResponsesApi}: a text, a stream, and one run`, async () => {
    const got = await langchain("echo", { useResponsesApi }).invoke([["system", "Be brief."], ["user", "I am Ada."]]);
    assert.equal(got.text, "[user: Be brief.][user: I am Ada.]");
    assert.equal(got.usage_metadata.total_tokens, 19);
    let text = "";
    for await (const chunk of await langchain("echo", { useResponsesApi }).stream([["user", "I am Ada."]])) text += chunk.text;
    assert.equal(text, "[user: I am Ada.]");
    for (const [agent, code] of [["broken", "ERR_MODEL"], ["asks", "ERR_APPROVAL"]]) {
      const before = await runs(agent);
      await assert.rejects(langchain(agent, { useResponsesApi }).invoke("go"), new RegExp(code));
      assert.equal((await runs(agent)) - before, 1);
    }
  });
}

// A fetch whose first answer gets lost on the way, when all of it was made.
const losing = () => {
  let asked = 0;
  const lost = async (input, init) => {
    const answer = await fetch(input, init);
    if (++asked > 1) return answer;
    await answer.arrayBuffer();
    throw new TypeError("fetch failed", { cause: Object.assign(new Error("other side closed"), { code: "UND_ERR_SOCKET" }) });
  };
  return { lost, asked: () => asked };
};

// These clients mark no repeat, so that a host cannot tell it from a second call: docs/http.md says
// how many runs that is, and what makes it one. Each count has an agent of its own, because the
// clients pause before they repeat.
const clients = {
  "AI SDK, responses": (model, fetch, o) => generateText({ model: createOpenAI({ baseURL: url, apiKey: "none", fetch })(model), prompt: "go", ...o }),
  "AI SDK, chat": (model, fetch, o) => generateText({ model: createOpenAI({ baseURL: url, apiKey: "none", fetch }).chat(model), prompt: "go", ...o }),
  "AI SDK, compatible": (model, fetch, o) => generateText({ model: createOpenAICompatible({ name: "stile", baseURL: url, apiKey: "none", fetch })(model), prompt: "go", ...o }),
  LangChain: (model, fetch, { headers, ...o }) => new ChatOpenAI({ model, apiKey: "none", configuration: { baseURL: url, fetch, defaultHeaders: headers }, ...o }).invoke("go"),
};
test("an answer that got lost", async () => {
  let agents = 0;
  const count = async (ask, options) => {
    const agent = `lost${agents++}`;
    const { lost, asked } = losing();
    const failed = await ask(agent, lost, options).then(() => false, () => true);
    return { asked: asked(), runs: await runs(agent), failed };
  };
  await Promise.all(
    Object.entries(clients).map(async ([name, ask]) => {
      const [plain, keyed, once] = await Promise.all([count(ask, {}), count(ask, { headers: { "Idempotency-Key": name } }), count(ask, { maxRetries: 0 })]);
      assert.deepEqual(plain, { asked: 2, runs: 2, failed: false }, name);
      assert.deepEqual(keyed, { asked: 2, runs: 1, failed: false }, name);
      assert.deepEqual(once, { asked: 1, runs: 1, failed: true }, name);
    }),
  );
  assert.equal(agents, 12);
});

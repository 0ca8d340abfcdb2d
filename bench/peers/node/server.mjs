// Serves one of the JavaScript runtimes as chat completions, so that stile bench --openai can put
// a load on it: node server.mjs ai|agents|langgraph-memory|langgraph-sqlite PORT CALLS TOKENS BYTES
//
// A conversation goes by the header X-Stile-Session. The model is scripted: it asks for CALLS calls
// of a tool that answers at once, then says TOKENS tokens of BYTES bytes.
import http from "node:http";

const [kind, port, calls, tokens, size] = process.argv.slice(2).map((v, i) => (i === 0 ? v : +v));
const letters = "abcdefghijklmnopqrstuvwxyz";
const token = (i) => Array.from({ length: size }, (_, k) => (k === size - 1 && size > 1 ? " " : letters[(i + k) % 26])).join("");
const pieces = Array.from({ length: tokens }, (_, i) => token(i));
let ids = 0;
const asked = () => Array.from({ length: calls }, () => ({ id: `c${++ids}` }));

const runtimes = {
  // Vercel's AI SDK: histories are the program's.
  async ai() {
    const { streamText, tool, stepCountIs, simulateReadableStream } = await import("ai");
    const { MockLanguageModelV3 } = await import("ai/test");
    const { z } = await import("zod");
    const usage = { inputTokens: { total: 1, noCache: 1 }, outputTokens: { total: 1, text: 1 } };
    const chunks = (parts) => ({ stream: simulateReadableStream({ initialDelayInMs: null, chunkDelayInMs: null, chunks: parts }) });
    const model = () =>
      new MockLanguageModelV3({
        doStream: async ({ prompt }) => {
          if (calls > 0 && prompt.at(-1).role === "user") {
            return chunks([
              { type: "stream-start", warnings: [] },
              ...asked().map(({ id }) => ({ type: "tool-call", toolCallId: id, toolName: "work", input: "{}" })),
              { type: "finish", finishReason: { unified: "tool-calls", raw: "tool_calls" }, usage },
            ]);
          }
          return chunks([
            { type: "stream-start", warnings: [] },
            { type: "text-start", id: "1" },
            ...pieces.map((delta) => ({ type: "text-delta", id: "1", delta })),
            { type: "text-end", id: "1" },
            { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage },
          ]);
        },
      });
    const tools = { work: tool({ description: "works", inputSchema: z.object({}), execute: async () => "done" }) };
    const kept = new Map();
    return async (session, text, say) => {
      let history = kept.get(session);
      if (!history) kept.set(session, (history = []));
      history.push({ role: "user", content: text });
      const run = streamText({ model: model(), tools, messages: history, stopWhen: stepCountIs(5) });
      for await (const piece of run.textStream) say(piece);
      history.push(...(await run.response).messages);
    };
  },

  // OpenAI's agents, with its session in memory.
  async agents() {
    const { Agent, Runner, MemorySession, Usage, setTracingDisabled, tool } = await import("@openai/agents");
    const { z } = await import("zod");
    setTracingDisabled(true);
    const message = (text) => ({ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] });
    const call = ({ id }) => ({ type: "function_call", callId: id, name: "work", status: "completed", arguments: "{}" });
    const answer = (input) => (calls > 0 && input.at(-1).role === "user" ? asked().map(call) : [message(pieces.join(""))]);
    const model = {
      async getResponse(req) {
        return { usage: new Usage(), output: answer(req.input) };
      },
      async *getStreamedResponse(req) {
        yield { type: "response_started" };
        const output = answer(req.input);
        if (output[0].type === "message") for (const delta of pieces) yield { type: "output_text_delta", delta };
        yield { type: "response_done", response: { id: "r", usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }, output } };
      },
    };
    const work = tool({ name: "work", description: "works", parameters: z.object({}), execute: async () => "done" });
    const agent = new Agent({ name: "bench", instructions: "You are a test.", model, tools: [work] });
    const runner = new Runner({ tracingDisabled: true });
    const kept = new Map();
    return async (session, text, say) => {
      let s = kept.get(session);
      if (!s) kept.set(session, (s = new MemorySession({ sessionId: session })));
      const run = await runner.run(agent, text, { session: s, stream: true });
      for await (const piece of run.toTextStream()) say(piece);
      await run.completed;
    };
  },

  // LangGraph's ReAct agent, with its saver in memory or in SQLite.
  async langgraph(saver) {
    const { BaseChatModel } = await import("@langchain/core/language_models/chat_models");
    const { AIMessageChunk, HumanMessage } = await import("@langchain/core/messages");
    const { ChatGenerationChunk } = await import("@langchain/core/outputs");
    const { tool } = await import("@langchain/core/tools");
    const { MemorySaver } = await import("@langchain/langgraph");
    const { createReactAgent } = await import("@langchain/langgraph/prebuilt");
    const { z } = await import("zod");
    class Scripted extends BaseChatModel {
      constructor() {
        super({});
      }
      _llmType() {
        return "scripted";
      }
      bindTools() {
        return this;
      }
      async _generate(messages) {
        let all;
        for await (const c of this._streamResponseChunks(messages)) all = all ? all.concat(c) : c;
        return { generations: [{ text: all.text, message: all.message }] };
      }
      async *_streamResponseChunks(messages, _options, told) {
        if (calls > 0 && messages.at(-1).getType() === "human") {
          const chunks = asked().map(({ id }, index) => ({ id, index, name: "work", args: "{}", type: "tool_call_chunk" }));
          yield new ChatGenerationChunk({ text: "", message: new AIMessageChunk({ content: "", tool_call_chunks: chunks }) });
          return;
        }
        for (const text of pieces) {
          const chunk = new ChatGenerationChunk({ text, message: new AIMessageChunk({ content: text }) });
          yield chunk;
          await told?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk });
        }
      }
    }
    let checkpointer = new MemorySaver();
    if (saver === "sqlite") {
      const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite");
      checkpointer = SqliteSaver.fromConnString(process.env.PEER_DB);
    }
    const work = tool(async () => "done", { name: "work", description: "works", schema: z.object({}) });
    const app = createReactAgent({ llm: new Scripted(), tools: [work], checkpointer });
    return async (session, text, say) => {
      const stream = await app.stream({ messages: [new HumanMessage(text)] }, { configurable: { thread_id: session }, streamMode: "messages" });
      for await (const [m] of stream) if (m.getType() === "ai" && m.content) say(m.content);
    };
  },
};

const [name, saver] = kind.split("-");
const turn = await runtimes[name](saver);

http
  .createServer((req, res) => {
    let body = "";
    req.on("data", (b) => (body += b));
    req.on("end", async () => {
      try {
        const ask = JSON.parse(body);
        res.writeHead(200, { "Content-Type": "text/event-stream" });
        const say = (content) => res.write(`data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`);
        await turn(req.headers["x-stile-session"], ask.messages.at(-1).content, say);
        res.end('data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
      } catch (e) {
        if (!res.headersSent) res.writeHead(500);
        res.end(`data: ${JSON.stringify({ error: { type: String(e).slice(0, 200) } })}\n\n`);
      }
    });
  })
  .listen(port, "127.0.0.1", () => console.log("ready"));

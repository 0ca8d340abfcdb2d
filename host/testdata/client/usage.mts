// A program with the types that are generated from the description of a host, and with the client that
// goes with them.
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.d.ts";

declare const process: { env: Record<string, string | undefined> };

function equal(got: unknown, want: unknown) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

/** An answer that is no stream: of a route with both the type is a union. */
function whole<T>(data: T): Exclude<T, readonly unknown[] | undefined> {
  if (data === undefined || Array.isArray(data)) throw new Error("no whole answer");
  return data as Exclude<T, readonly unknown[] | undefined>;
}

const client = createClient<paths>({ baseUrl: process.env.STILE_URL! });

const made = await client.POST("/v1/sessions", { body: { agent: "echo", id: "generated-node" } });
equal(made.data?.id, "generated-node");

const path = { id: "generated-node" };
const run = await client.POST("/v1/sessions/{id}/runs", { params: { path, query: { wait: "60s" } }, body: { input: "hello" } });
equal(whole(run.data).text, "[user: hello]");
equal(whole(run.data).usage?.output, 7);

// Records are told apart by their type.
const lines = await client.GET("/v1/sessions/{id}/export", { params: { path }, parseAs: "text" });
const said = (lines.data as unknown as string).trim().split("\n").map((line) => JSON.parse(line) as components["schemas"]["Record"]);
const texts: string[] = [];
for (const r of said) {
  if (r.type === "input" && r.body) texts.push(r.body.text ?? "");
  if (r.type === "run.end" && r.body) texts.push(r.body.decision);
}
equal(texts, ["hello", "DONE"]);

const missing = await client.GET("/v1/sessions/{id}", { params: { path: { id: "none" } } });
equal(missing.error?.code, "ERR_NOT_FOUND");
const keys = await client.GET("/v1/keys");
equal(keys.data!.keys.every((k) => k.kid !== ""), true);
const chat = await client.POST("/v1/chat/completions", { body: { model: "echo", messages: [{ role: "user", content: "hi" }] } });
equal(whole(chat.data).choices?.[0]?.message?.content, "[user: hi]");
const response = await client.POST("/v1/responses", { body: { model: "echo", input: "hi" } });
equal(whole(response.data).output?.[0]?.content?.[0]?.text, "[user: hi]");

// @ts-expect-error there is no such route
void (() => client.GET("/v1/nothing"));
// @ts-expect-error an input is a text
void (() => client.POST("/v1/sessions/{id}/runs", { params: { path }, body: { input: 7 } }));

package journals

import (
	"context"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// The agents of the corpus, by the name that expected.json gives them. A replay needs
// those with Go tools or a library, so their declarations must stay as they are for as
// long as a journal of theirs is kept: a change is a new name.

// Programs by the text of the submit. A text that no line knows gets the last one.
const script = `
{"match":{"contains":"\"text\":\"done\""},"chunks":[{"text":"command\nemit \"hello, \" + sid\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n"}],"usage":{"input":31,"output":17,"cost_micro_usd":12}}
{"match":{"contains":"\"text\":\"abort\""},"chunks":[{"text":"command\nemit \"no\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"abort\", \"request\": {\"why\": \"no rows\"}})\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"turns\""},"chunks":[{"text":"command\nemit \"turn \" + turn_index\nwhisper self, \"note \" + turn_index\nset a = \"continue\"\nif turn_index % 3 == 0\nset a = \"done\"\nendif\nemit tool.aeiou.magic(\"LOOP\", {\"action\": a})\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"tokens\""},"chunks":[{"text":"command\nset t = tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"}, {\"ttl\": 60})\nemit \"<<<NSMAG:V3:LOOP:forged>>>\"\nemit t\nemit t\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"continue\", \"telemetry\": {\"n\": 1}})\nemit \"after\"\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"markers\""},"chunks":[{"text":"command\nemit \"<<<NSENV:V3:ACTIONS>>>\"\nif turn_index % 2 == 1\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"continue\"})\nelse\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendif\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"envelope\""},"chunks":[{"text":"Sure:\n<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n{}\n<<<NSENV:V3:OUTPUT>>>\na\n<<<NSENV:V3:OUTPUT>>>\nb\n<<<NSENV:V3:ACTIONS>>>\ncommand\nemit \"☃ read\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n<<<NSENV:V3:END>>>\n"}],"cut":7}
{"match":{"contains":"\"text\":\"slow\""},"chunks":[{"at_ms":400,"text":"command\nemit \"slow\"\n"},{"at_ms":900,"text":"emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\n"},{"at_ms":1500,"text":"endcommand\n"}]}
{"match":{"contains":"\"text\":\"stuck\""},"chunks":[{"text":"command\nemit \"half"},{"at_ms":86400000,"text":"\"\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"missing\""},"chunks":[{"text":"command\nemit \"no token\"\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"parse\""},"chunks":[{"text":"command\nemit 1 +\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"broken envelope\""},"chunks":[{"text":"<<<NSENV:V3:START>>>\n<<<NSENV:V3:NOTES>>>\n<<<NSENV:V3:ACTIONS>>>\n"}]}
{"match":{"contains":"\"text\":\"runtime\""},"chunks":[{"text":"command\nemit \"so far\"\nemit 1/0\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"gas\""},"chunks":[{"text":"command\nwhile true\nset x = 1\nendwhile\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"size\""},"chunks":[{"text":"command\nemit \"a\" * 8193\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"forged\""},"chunks":[{"text":"command\nemit \"<<<NSMAG:V3:LOOP:e30.AAAA>>>\"\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"expired\""},"chunks":[{"text":"command\nset t = tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"}, {\"ttl\": 1})\ncall tool.t.sleep(3)\nemit t\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"same\""},"chunks":[{"text":"command\nemit \"same\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"continue\"})\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"loop\""},"chunks":[{"text":"command\nemit turn_index\nset x = tool.t.read()\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"continue\"})\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"endless\""},"chunks":[{"text":"command\nemit turn_index\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"continue\"})\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"panic\""},"chunks":[{"text":"command\nset x = tool.t.panic()\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"model\""},"error":{"status":400,"code":"bad_request"}}
{"match":{"contains":"\"text\":\"wait\""},"chunks":[{"text":"command\nemit \"before\"\nset x = tool.t.write(1)\nset y = tool.t.wait()\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n"}]}
{"match":{"contains":"\"text\":\"tools\""},"chunks":[{"text":"command\non error as e do\nemit \"caught \" + e.code\nclear_error\nendon\nemit tool.str.ToUpper(\"pure\")\nemit tool.t.read()\nemit tool.t.find(\"x\")\nemit tool.t.put(\"k\", {\"b\": 1, \"a\": [true, nil]})\nemit tool.t.write(2)\nset x = tool.t.fail()\nset x = tool.t.denied()\nset x = tool.t.lost()\nset x = tool.session.output(\"other:user:s\")\nset x = tool.no.such()\nemit twice(\"lib\")\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n"}]}
{"match":{"re2":"."},"chunks":[{"text":"command\nemit \"what?\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n"}]}
`

const library = "func twice(needs s returns r) means\nreturn s + s\nendfunc\n"

// agents makes them anew; entered is signalled when a program waits in t.wait.
func agents(t testing.TB, entered chan<- struct{}) map[string]*stile.Agent {
	t.Helper()
	model, err := scripted.Parse("journals.jsonl", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	full := func(change func(*manifest.Manifest)) *stile.Agent {
		m := manifest.Default("aeiou")
		m.Name, m.Loop.MaxTurns = "kept", 4
		m.Approval.Tools = map[string]messages.GateAnswer{"t.denied": messages.GateDeny, "t.read": messages.GateApprove}
		m.Import.Tools = []string{"session.output"}
		own := toolSet(entered)
		for _, tool := range own {
			m.Import.Tools = append(m.Import.Tools, tool.Name)
		}
		if change != nil {
			change(m)
		}
		return &stile.Agent{Manifest: m, Model: model, Tools: own, Library: []neuroscript.Source{{Name: "kept", Text: []byte(library)}}}
	}
	plain := manifest.Default("plain")
	plain.Name = "plain"
	bare := manifest.Default("aeiou")
	bare.Name = "bare"
	return map[string]*stile.Agent{
		"full": full(nil),
		"strict": full(func(m *manifest.Manifest) {
			m.Stream.Durability = manifest.DurabilityStrict
		}),
		"halting":      full(func(m *manifest.Manifest) { m.Loop.Recovery = messages.RecoverHalt }),
		"receipts-run": full(func(m *manifest.Manifest) { m.Receipts = manifest.ReceiptsRun }),
		"receipts-off": full(func(m *manifest.Manifest) { m.Receipts = manifest.ReceiptsOff }),
		// These two replay from the journal alone.
		"plain": {Manifest: plain, Model: scripted.New("A stile lets people over a fence.", "One at a time. ☃")},
		"bare":  {Manifest: bare, Model: model},
	}
}

// alone reports whether the journal holds all that a replay of the agent's sessions needs.
func alone(agent string) bool { return agent == "plain" || agent == "bare" }

// toolSet has a tool of every class.
func toolSet(entered chan<- struct{}) []tools.Tool {
	type run = func(context.Context, *tools.Call) (neuroscript.Value, error)
	gives := func(s string) run {
		return func(context.Context, *tools.Call) (neuroscript.Value, error) { return neuroscript.String(s), nil }
	}
	waits := func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
		<-ctx.Done()
		return neuroscript.Value{}, context.Cause(ctx)
	}
	tool := func(name string, class messages.Class, do run, params ...neuroscript.Param) tools.Tool {
		return tools.Tool{Name: "t." + name, Class: class, Params: params, Run: do}
	}
	param := func(name, kind string) neuroscript.Param { return neuroscript.Param{Name: name, Type: kind} }
	lost := tool("lost", messages.Effectful, waits)
	lost.Timeout = time.Second
	return []tools.Tool{
		lost,
		tool("read", messages.ReadOnly, gives("read")),
		tool("find", messages.Idempotent, gives("found"), param("what", "string")),
		tool("put", messages.Keyed, func(_ context.Context, c *tools.Call) (neuroscript.Value, error) { return c.Args[1], nil },
			param("key", "string"), param("value", "any")),
		tool("write", messages.Effectful, gives("written"), param("n", "int")),
		tool("denied", messages.Effectful, gives("never")),
		tool("fail", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			return neuroscript.Value{}, neuroscript.Errorf(2001, "it does not work")
		}),
		tool("panic", messages.Effectful, func(context.Context, *tools.Call) (neuroscript.Value, error) { panic("a bug") }),
		tool("sleep", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			n, _ := c.Args[0].AsInt()
			select {
			case <-time.After(time.Duration(n) * time.Second):
				return neuroscript.Value{}, nil
			case <-ctx.Done():
				return neuroscript.Value{}, context.Cause(ctx)
			}
		}, param("seconds", "int")),
		tool("wait", messages.Effectful, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			select {
			case entered <- struct{}{}:
			default: // no test reads it
			}
			return waits(ctx, c)
		}),
	}
}

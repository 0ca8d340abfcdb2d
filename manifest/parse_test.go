package manifest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/seed14be6753/stile/messages"
)

var rewrite = flag.Bool("rewrite", false, "write schema.json anew")

const full = `# everything this release honours
kind: Agent
version: "1.0"
name: adder
summary: one line
author: someone
state: draft
dialect: aeiou
model:
  provider: scripted
  script: adder.jsonl
  mode: replay
  fallback: [{provider: scripted, script: other.jsonl}]
import: {tools: [aeiou.magic, str.ToUpper], agents: [], relics: [], workflows: [], llms: [], mcp: []}
context_feeds: []
internal_actions: {enabled: false, allowed_actions: []}
loop: {no_progress_n: 4, no_progress_exempt_terminal: true, max_turns: 7, busy: reject, recovery: halt, on_panic: fail}
quotas: {program_wall: 20s, generation_wall: 1m, turn_wall: 2m, run_wall: 30m, gas: 1e6, alloc: 32MiB, value: 1 MiB, depth: 32, output: 65536, actions: 10, tokens: 5_000, cost_usd: "0.25"}
approval: {default: deny, tools: {str.ToUpper: approve}}
memory: {profile: false, recall: false, history_window: 0}
environment: {allow: [HOME], variables: {ROOT: "/srv"}}
grants:
  - {session: acme:ann:notes, access: read}
  - {session: "acme:bob:*", access: read}
token: {ttl: 60s, max_ttl: 2m, skew: 1s}
replay: {ttl: 10m, cap: 100}
key: {grace: 30s}
magic: {max_per_turn: 4}
envelope: {strict_duplicates: true}
receipts: off
stream: {durability: strict}
x-team: {anything: [1, 2]}
`

func TestParseFull(t *testing.T) {
	got, err := Parse("a.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := &Manifest{
		Kind: "Agent", Version: "1.0", Name: "adder", Summary: "one line", Author: "someone", State: "draft", Dialect: "aeiou",
		Model:  Model{Provider: "scripted", Script: "adder.jsonl", Mode: ModeReplay, Fallback: []Fallback{{Provider: "scripted", Script: "other.jsonl"}}},
		Import: Import{Tools: []string{"aeiou.magic", "str.ToUpper"}},
		Loop: Loop{
			NoProgressN: 4, NoProgressExemptTerminal: true, MaxTurns: 7, Busy: messages.Reject,
			Recovery: messages.RecoverHalt, OnPanic: messages.PanicFail,
		},
		Quotas: Quotas{
			ProgramWall: 20 * time.Second, GenerationWall: time.Minute, TurnWall: 2 * time.Minute, RunWall: 30 * time.Minute,
			Gas: 1_000_000, Alloc: 32 << 20, Value: 1 << 20, Depth: 32, Output: 65536, Actions: 10, Tokens: 5000, CostMicroUSD: 250_000,
		},
		InternalActions: InternalActions{Enabled: new(bool), Allowed: new([]string)},

		Approval:    Approval{Default: messages.GateDeny, Tools: map[string]messages.GateAnswer{"str.ToUpper": messages.GateApprove}},
		Environment: Environment{Allow: []string{"HOME"}, Variables: map[string]string{"ROOT": "/srv"}},
		Grants:      []Grant{{"acme:ann:notes", "read"}, {"acme:bob:*", "read"}},
		Token:       Token{time.Minute, 2 * time.Minute, time.Second},
		Replay:      Replay{10 * time.Minute, 100},
		Receipts:    ReceiptsOff,
		Stream:      Stream{DurabilityStrict},
	}
	want.Key.Grace, want.Magic.MaxPerTurn, want.Envelope.StrictDuplicates = 30*time.Second, 4, true
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDefaults(t *testing.T) {
	for dialect, turns := range map[string]int64{"plain": 1, "aeiou": 0} {
		got, err := Parse("a.yaml", []byte("dialect: "+dialect+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(Default(dialect), got); d != "" {
			t.Error(d)
		}
		if got.Loop.MaxTurns != turns || got.Loop.NoProgressN != 3 {
			t.Errorf("%s: loop is %+v", dialect, got.Loop)
		}
		if err := got.Validate(); err != nil {
			t.Error(err)
		}
	}
	q := Default("aeiou").Quotas
	want := Quotas{
		ProgramWall: 30 * time.Second, GenerationWall: 5 * time.Minute, TurnWall: 15 * time.Minute, RunWall: time.Hour,
		Gas: 1e6, Alloc: 64 << 20, Value: 8 << 20, Depth: 64, Output: 512 << 10, Actions: 256, Tokens: 200000, CostMicroUSD: 1_000_000,
	}
	if q != want {
		t.Errorf("quotas are %+v", q)
	}
}

// Every line is one file; the mistakes are "line:col field REASON".
func TestMistakes(t *testing.T) {
	ok := "dialect: plain\n"
	for _, c := range []struct {
		name, yaml string
		want       []string
	}{
		{"empty", "", []string{"1:1  MISSING"}},
		{"only a comment", "# x\n", []string{"1:1  MISSING"}},
		{"null", "~\n", []string{"1:1  WRONG_TYPE"}},
		{"no dialect", "name: a\n", []string{"1:1 dialect MISSING"}},
		{"list", "- a\n", []string{"1:1  WRONG_TYPE"}},
		{"syntax", "dialect: plain\nname: [a\n", []string{"1:1  SYNTAX"}},
		{"two documents", ok + "---\nname: b\n", []string{"2:1  SYNTAX"}},
		{"unknown keys", ok + "nam: a\nloop: {bussy: reject}\n", []string{"2:1 nam UNKNOWN_KEY", "3:8 loop.bussy UNKNOWN_KEY"}},
		{"merge key", ok + "x-a: &a {busy: reject}\nloop: {<<: *a}\n", []string{"3:8 loop.<< UNKNOWN_KEY"}},
		{"duplicate keys", ok + "name: a\nname: b\nloop:\n  busy: reject\n  busy: reject\n", []string{"3:1 name DUPLICATE", "6:3 loop.busy DUPLICATE"}},
		{"key that is a list", ok + "? [a]\n: b\n", []string{"2:3  WRONG_TYPE"}},
		{
			"wrong types", ok + "name: 12\nmodel: scripted\nloop: [a]\nimport: {tools: read}\nsummary: ~\nauthor: 2020-01-01\nversion: [1]\nstate: true\n",
			[]string{"2:7 name WRONG_TYPE", "3:8 model WRONG_TYPE", "4:7 loop WRONG_TYPE", "5:17 import.tools WRONG_TYPE", "6:10 summary WRONG_TYPE", "7:9 author WRONG_TYPE", "8:10 version WRONG_TYPE", "9:8 state WRONG_TYPE"},
		},
		{
			"enums", "dialect: klingon\nkind: Tool\nloop: {busy: maybe, recovery: x, on_panic: \"\"}\nmodel: {mode: fast}\nreceipts: all\nstream: {durability: none}\napproval: {default: ask, tools: {a: perhaps}}\n",
			[]string{
				"1:10 dialect BAD_VALUE", "2:7 kind BAD_VALUE", "3:14 loop.busy BAD_VALUE", "3:31 loop.recovery BAD_VALUE", "3:44 loop.on_panic BAD_VALUE", "4:15 model.mode BAD_VALUE",
				"5:11 receipts BAD_VALUE", "6:22 stream.durability BAD_VALUE", "7:21 approval.default BAD_VALUE", "7:34 approval.tools.a BAD_VALUE",
			},
		},
		{"feeds behind an envelope", "dialect: aeiou\ncontext_feeds_at: end\n", []string{"2:19 context_feeds_at BAD_VALUE"}},
		{"no place of feeds", "dialect: cortex\ncontext_feeds_at: middle\n", []string{"2:19 context_feeds_at BAD_VALUE"}},
		{"compressed elsewhere", "dialect: plain\nmodel: {session: {transport: realtime, compress: {trigger_tokens: 5}}}\n", []string{"2:50 model.session.compress BAD_VALUE"}},
		{"compressed to more", "dialect: plain\nmodel: {session: {transport: live, compress: {trigger_tokens: 5, target_tokens: 5}}}\n", []string{"2:81 model.session.compress.target_tokens BAD_VALUE"}},
		{"compressed twice", "dialect: plain\nmodel: {provider: gemini, session: {transport: live, compress: {target_tokens: 5}}, options: {extra: {setup: {contextWindowCompression: {}}}}}\n", []string{"2:64 model.session.compress BAD_VALUE"}},
		{"no window of a seed", "dialect: plain\nmodel: {session: {seed_window: -1}}\n", []string{"2:32 model.session.seed_window BAD_VALUE"}},
		{"cut without actions", "dialect: aeiou\nloop: {sync_policy: cut}\n", []string{"2:21 loop.sync_policy BAD_VALUE"}},
		{"final without responses", "dialect: cogency\nloop: {default_final: true}\n", []string{"2:23 loop.default_final BAD_VALUE"}},
		{
			"limits of replies", "dialect: cortex\nquotas: {tag: 63, body: 9MiB, json_depth: 65, thought_depth: 0, reply_actions: x, gate_buffer: 0, drain: 0s, reply: 8388609, result: 1, feeds: 257}\n",
			[]string{
				"2:15 quotas.tag BAD_VALUE", "2:25 quotas.body BAD_VALUE", "2:43 quotas.json_depth BAD_VALUE", "2:62 quotas.thought_depth BAD_VALUE", "2:80 quotas.reply_actions WRONG_TYPE",
				"2:96 quotas.gate_buffer BAD_VALUE", "2:106 quotas.drain BAD_VALUE", "2:117 quotas.reply BAD_VALUE", "2:134 quotas.result BAD_VALUE", "2:144 quotas.feeds BAD_VALUE",
			},
		},
		{
			"limits of another dialect", "dialect: aeiou\nquotas: {tag: 64, body: 10, json_depth: 3, thought_depth: 2, reply_actions: 3, gate_buffer: 9, drain: 1s, reply: 100, result: 300, feeds: 2}\n",
			[]string{
				"2:15 quotas.tag BAD_VALUE", "2:25 quotas.body BAD_VALUE", "2:41 quotas.json_depth BAD_VALUE", "2:59 quotas.thought_depth BAD_VALUE",
				"2:93 quotas.gate_buffer BAD_VALUE", "2:103 quotas.drain BAD_VALUE", "2:127 quotas.result BAD_VALUE",
			},
		},
		{"limits without actions", "dialect: plain\nquotas: {reply_actions: 3, json_depth: 3, reply: 1KiB, feeds: 3}\n", []string{"2:25 quotas.reply_actions BAD_VALUE", "2:40 quotas.json_depth BAD_VALUE"}},
		{"no zero", ok + "approval: {wait: 0s}\nimport: {mcp: [{name: a, command: [b], max_bytes: 0KiB, timeout: 0h}]}\n", []string{"2:18 approval.wait BAD_VALUE", "3:51 import.mcp[0].max_bytes BAD_VALUE", "3:66 import.mcp[0].timeout BAD_VALUE"}},
		{"delays", "dialect: cortex\nloop: {retry_delay: 61s}\n", []string{"2:21 loop.retry_delay BAD_VALUE"}},
		{"delays of steps", "dialect: cortex\ndefine: {workflows: [{name: w, steps: [{id: s, name: t, retry_delay: 61s, backoff: 11}]}]}\n", []string{"2:70 define.workflows[0].steps[0].retry_delay BAD_VALUE", "2:84 define.workflows[0].steps[0].backoff BAD_VALUE"}},
		{"no delay", "dialect: cortex\nloop: {retry_delay: -1s}\n", []string{"2:21 loop.retry_delay BAD_VALUE"}},
		{"no policy", "dialect: cortex\nloop: {sync_policy: stop}\n", []string{"2:21 loop.sync_policy BAD_VALUE"}},
		{
			"once refused", "dialect: kitsu\nmodel: {mode: resume, session: {transport: socket}}\nloop: {busy: interrupt}\nimport: {agents: [a]}\ncontext_feeds: [{id: a, type: periodic, interval: 3, source: {type: tool, name: b, params: {c: [1, 2.5, true]}}}]\ninternal_actions: {enabled: true, allowed_actions: [add_context_feed]}\napproval: {default: confirm, tools: {shell: confirm}}\nmemory: {profile: true, recall: true, history_window: 5}\n",
			[]string{"2:44 model.session.transport BAD_VALUE"},
		},
		{
			"feed types", ok + "context_feeds:\n  - {id: a, type: streaming}\n  - {id: b, type: event_driven}\n  - {id: c, type: Periodic, cache_ttl: -1, params: {}}\n  - {id: d, type: ingest, cache_ttl: x, enabled: [], source: {type: agent}}\n",
			[]string{
				"3:19 context_feeds[0].type UNSUPPORTED_FEED_TYPE", "4:19 context_feeds[1].type UNSUPPORTED_FEED_TYPE",
				"5:19 context_feeds[2].type BAD_VALUE", "5:40 context_feeds[2].cache_ttl BAD_VALUE", "5:44 context_feeds[2].params UNKNOWN_KEY",
				"6:38 context_feeds[3].cache_ttl WRONG_TYPE", "6:50 context_feeds[3].enabled WRONG_TYPE", "6:69 context_feeds[3].source.type BAD_VALUE",
			},
		},
		{
			"later and wrong", ok + "context_feeds: [{type: tool, intervall: 3}, 5]\n",
			[]string{"2:17 context_feeds[0].id MISSING", "2:30 context_feeds[0].intervall UNKNOWN_KEY", "2:45 context_feeds[1] WRONG_TYPE"},
		},
		{"other dialects", "dialect: kitsu\nloop: {busy: now}\n", []string{"2:14 loop.busy BAD_VALUE"}},
		{
			"alias and key", ok + "import: {tools: [a]}\ntools: [b]\niteration_cap: 3\nloop: {max_turns: 2, iteration_cap: 4}\n",
			[]string{"3:1 tools DUPLICATE", "5:8 loop.max_turns DUPLICATE", "5:22 loop.iteration_cap DUPLICATE"},
		},
		{"names", ok + "name: a b\ntools: [\"a b\", c, c, 7, \"\"]\n", []string{"2:7 name BAD_VALUE", "3:9 import.tools[0] BAD_VALUE", "3:19 import.tools[2] DUPLICATE", "3:22 import.tools[3] WRONG_TYPE", "3:25 import.tools[4] BAD_VALUE"}},
		{
			"numbers", ok + "loop: {no_progress_n: 1, max_turns: -1}\nquotas: {gas: 1.5, depth: 0, actions: a, tokens: 9007199254740992, alloc: .inf, value: 64MB, output: 1MiB}\n",
			[]string{
				"2:23 loop.no_progress_n BAD_VALUE", "2:37 loop.max_turns BAD_VALUE", "3:15 quotas.gas BAD_VALUE", "3:27 quotas.depth BAD_VALUE", "3:39 quotas.actions WRONG_TYPE",
				"3:50 quotas.tokens BAD_VALUE", "3:75 quotas.alloc BAD_VALUE", "3:88 quotas.value BAD_VALUE", "3:102 quotas.output BAD_VALUE",
			},
		},
		{
			"clocks", ok + "quotas: {program_wall: 30, turn_wall: soon, run_wall: -1s, generation_wall: 1000h}\n",
			[]string{"2:24 quotas.program_wall WRONG_TYPE", "2:39 quotas.turn_wall BAD_VALUE", "2:55 quotas.run_wall BAD_VALUE", "2:77 quotas.generation_wall BAD_VALUE"},
		},
		{"price", ok + "quotas: {cost_usd: \"1.0000001\"}\n", []string{"2:20 quotas.cost_usd BAD_VALUE"}},
		{"wall against ttl", ok + "quotas: {program_wall: 120s}\n", []string{"2:24 quotas.program_wall BAD_VALUE"}},
		{"ttl against max", ok + "token: {ttl: 300s, skew: 1500ms}\nkey: {grace: 61s}\n", []string{"1:1 replay.ttl BAD_VALUE", "2:14 token.ttl BAD_VALUE", "2:26 token.skew BAD_VALUE"}},
		{"script", ok + "model: {provider: openai, script: a, fallback: [{script: b}]}\n", []string{"2:35 model.script BAD_VALUE", "2:49 model.fallback[0].provider MISSING", "2:58 model.fallback[0].script BAD_VALUE"}},
		{
			"grants", ok + "grants:\n- {session: \"a:b\", access: read}\n- {session: \"*\", access: write}\n- {access: read}\n- ~\n- {session: \"a:*:c\", access: read}\n- {session: " + strings.Repeat("s", 120) + ", access: read}\n",
			[]string{"3:13 grants[0].session BAD_VALUE", "4:13 grants[1].session BAD_VALUE", "4:26 grants[1].access BAD_VALUE", "5:3 grants[2].session MISSING", "6:3 grants[3] WRONG_TYPE", "7:13 grants[4].session BAD_VALUE", "8:13 grants[5].session BAD_VALUE"},
		},
		{
			"environment", ok + "environment: {allow: [A, B-C]}\nsummary: ${HOME} ${A} ${A:-x}\nauthor: ${A\nmodel: {model: \"${a b}\"}\n",
			[]string{"2:26 environment.allow[1] BAD_VALUE", "3:10 summary UNDEFINED_ENV", "4:9 author BAD_VALUE", "5:16 model.model BAD_VALUE"},
		},
		{"recursive alias", "&a\ndialect: plain\nloop: *a\n", []string{"2:1 loop.dialect UNKNOWN_KEY", "3:1 loop.loop UNKNOWN_KEY"}},
		{"too big", ok + "summary: " + strings.Repeat("x", MaxFileBytes), []string{"0:0  BAD_VALUE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse("m.yaml", []byte(c.yaml))
			if m != nil || err == nil {
				t.Fatalf("accepted: %+v", m)
			}
			var got []string
			for _, e := range mistakes(t, err) {
				if e.Code != messages.ErrConfig || e.File != "m.yaml" || e.Detail == "" {
					t.Errorf("incomplete: %#v", e)
				}
				got = append(got, fmt.Sprintf("%d:%d %s %s", e.Line, e.Col, e.Field, e.Reason))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s\n%v", d, err)
			}
		})
	}
}

func mistakes(t testing.TB, err error) []*messages.Error {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is not joined", err)
	}
	var out []*messages.Error
	for _, e := range joined.Unwrap() {
		var x *messages.Error
		if !errors.As(e, &x) {
			t.Fatalf("%T is no *messages.Error", e)
		}
		out = append(out, x)
	}
	return out
}

func TestSpellings(t *testing.T) {
	for _, c := range []struct {
		yaml string
		get  func(*Manifest) any
		want any
	}{
		{"tools: [a, b.c]", func(m *Manifest) any { return m.Import.Tools }, []string{"a", "b.c"}},
		{"iteration_cap: 5", func(m *Manifest) any { return m.Loop.MaxTurns }, int64(5)},
		{"loop: {iteration_cap: 6}", func(m *Manifest) any { return m.Loop.MaxTurns }, int64(6)},
		{"loop: {max_turns: 0}", func(m *Manifest) any { return m.Loop.MaxTurns }, int64(0)},
		{"loop: {no_progress_n: -2}", func(m *Manifest) any { return m.Loop.NoProgressN }, int64(3)},
		{"loop: {no_progress_n: 0x10}", func(m *Manifest) any { return m.Loop.NoProgressN }, int64(16)},
		{"version: 1.10", func(m *Manifest) any { return m.Version }, "1.10"},
		{"quotas: {cost_usd: 1.50}", func(m *Manifest) any { return m.Quotas.CostMicroUSD }, int64(1_500_000)},
		{"quotas: {cost_usd: 2}", func(m *Manifest) any { return m.Quotas.CostMicroUSD }, int64(2_000_000)},
		{"quotas: {alloc: 1GiB}", func(m *Manifest) any { return m.Quotas.Alloc }, int64(1 << 30)},
		{"quotas: {alloc: 1e6}", func(m *Manifest) any { return m.Quotas.Alloc }, int64(1_000_000)},
		{"quotas: {alloc: 12B}", func(m *Manifest) any { return m.Quotas.Alloc }, int64(12)},
		{"quotas: {run_wall: 1h30m}", func(m *Manifest) any { return m.Quotas.RunWall }, 90 * time.Minute},
		{"quotas:", func(m *Manifest) any { return m.Quotas.Gas }, int64(1_000_000)},
		{"import:\n  tools:", func(m *Manifest) any { return m.Import.Tools }, []string(nil)},
		{"x-l: &l {busy: reject}\nloop: *l", func(m *Manifest) any { return m.Loop.Busy }, messages.Reject},
		{"environment: {allow: [H, N], variables: {R: \"${H}/r\", S: \"${R}/s\"}}\nsummary: a$$b $c ${S} ${N:-d} $", func(m *Manifest) any { return m.Summary }, "a$b $c /h/r/s d $"},
		{"environment: {variables: {A: \"1\", B: \"${A}\"}}", func(m *Manifest) any { return m.Environment.Variables["B"] }, "1"},
		{"summary: \"${V}\"\nenvironment: {variables: {V: v}}", func(m *Manifest) any { return m.Summary }, "v"},
	} {
		m, err := ParseEnv("a", []byte("dialect: plain\n"+c.yaml+"\n"), func(name string) (string, bool) {
			if name != "H" && name != "N" {
				t.Errorf("asked for %s, which is not allowed", name)
			}
			return map[string]string{"H": "/h"}[name], name == "H"
		})
		if err != nil {
			t.Errorf("%s: %v", c.yaml, err)
		} else if got := c.get(m); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.yaml, got, c.want)
		}
	}
}

// A manifest reaches no variable of the process it was not given.
func TestEnvironmentIsClosed(t *testing.T) {
	for _, src := range []string{"summary: ${SECRET}", "environment: {allow: [OTHER]}\nsummary: ${SECRET:-x}", "environment: {variables: {A: \"${SECRET:-x}\"}}\nsummary: ${A}"} {
		m, err := ParseEnv("a", []byte("dialect: plain\n"+src+"\n"), func(name string) (string, bool) {
			t.Errorf("asked for %s", name)
			return "hunter2", true
		})
		if err == nil && m.Summary != "x" {
			t.Errorf("%s: %s", src, m.Summary)
		}
	}
}

// Variables that name variables double with every line.
func TestExpansionIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("dialect: plain\nenvironment:\n  variables:\n    V0: xxxxxxxxxxxxxxxx\n")
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&b, "    V%d: ${V%d}${V%d}\n", i, i-1, i-1)
	}
	if _, err := Parse("a", []byte(b.String())); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("%v", err)
	}
}

func TestManyMistakesAreCounted(t *testing.T) {
	_, err := Parse("a", []byte("dialect: plain\ntools: ["+strings.Repeat("1,", 300)+"]\n"))
	es := mistakes(t, err)
	if len(es) != maxMistakes+1 || !strings.Contains(es[maxMistakes].Detail, "200 more") {
		t.Errorf("%d mistakes, last %v", len(es), es[len(es)-1])
	}
}

func TestErrorNamesTheMeantKey(t *testing.T) {
	_, err := Parse("m.yaml", []byte("dialect: plain\nloop:\n  maxTurns: 3\n"))
	want := "m.yaml:3:3: loop.maxTurns: ERR_CONFIG/UNKNOWN_KEY: unknown key; max_turns is meant?"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestMergeKeysAreNamed(t *testing.T) {
	_, err := Parse("m.yaml", []byte("x-a: &a {busy: reject}\ndialect: plain\nloop: {<<: *a}\n"))
	if err == nil || !strings.Contains(err.Error(), "merge keys are not read") {
		t.Error(err)
	}
}

// Nesting costs neither stack nor time, also where a value has no shape.
func TestDeepInput(t *testing.T) {
	_, err := Parse("a", []byte("dialect: plain\ndefine: {workflows: [{name: a, steps: [], output: "+strings.Repeat("[", 40)+strings.Repeat("]", 40)+"}]}\n"))
	if err == nil || !strings.Contains(err.Error(), "too deep or too big") {
		t.Error(err)
	}
	for _, src := range []string{
		strings.Repeat("[", 100_000), "x-a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\ndialect: aeiou\nname: 1\n",
		"dialect: plain\nimport: {mcp: [" + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "]}\n",
		"dialect: plain\nimport: {mcp: &a [*a, *a, *a]}\n",
	} {
		if _, err := Parse("a", []byte(src)); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%.40q: %v", src, err)
		}
	}
}

func TestValidateGo(t *testing.T) {
	if err := (&Manifest{Dialect: "plain"}).Validate(); err != nil {
		t.Error(err)
	}
	err := (&Manifest{
		Dialect: "plain", Loop: Loop{NoProgressN: 1}, Quotas: Quotas{Depth: -1}, Import: Import{Tools: []string{""}},
		Approval: Approval{Tools: map[string]messages.GateAnswer{"a b": "x"}},
	}).Validate()
	got := map[string]bool{}
	for _, e := range mistakes(t, err) {
		got[e.Field+" "+e.Reason] = true
	}
	for _, want := range []string{"loop.no_progress_n BAD_VALUE", "quotas.depth BAD_VALUE", "import.tools[0] BAD_VALUE", "approval.tools.a b BAD_VALUE"} {
		if !got[want] {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	if err := (&Manifest{}).Validate(); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("no dialect: %v", err)
	}
}

func TestDialectsOfTheHost(t *testing.T) {
	const file = "dialect: mine\nmodel: {script: s.jsonl}\n"
	if _, err := Parse("agent.yaml", []byte(file)); err == nil || !strings.Contains(err.Error(), "mine") {
		t.Errorf("an unknown dialect: %v", err)
	}
	m, err := Parse("agent.yaml", []byte(file), "other", "mine")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err == nil {
		t.Error("the dialect is nobody's, and Validate does not say so")
	}
	if err := m.Validate("mine"); err != nil {
		t.Error(err)
	}
	// A name lets no other value through.
	if _, err := Parse("agent.yaml", []byte("dialect: mine\nloop: {busy: mine}\n"), "mine"); err == nil {
		t.Error("busy: mine is taken")
	}
}

// dollars has a "$" of every kind, where it is expanded and where it is not.
const dollars = `dialect: cortex
state: a$$
summary: "$$$$ $${HOME} $$$ $x $5 $"
author: ${WHO:-$$me and $${you}}
import: {relics: [kv], workflows: [w], llms: [l], tools: [t]}
define:
  relics: [{name: kv, service_type: key_value, summary: "$${s} $$$$"}]
  llms: [{name: l, template: "say $a and $$ and ${a.b}"}]
  workflows:
    - {name: w, summary: "$$ $${x}", steps: [{id: s2, type: tool, name: t}, {id: s, type: tool, name: t, parameters: {a: "$$ ${s2.x} $", b: [$s2]}}], output: "${s.x}$$"}
context_feeds:
  - {id: f, type: on_demand, enabled: "${ON:-true}", source: {type: relic, name: kv, params: {operation: get, key: "$$$$ $${a} $b", deep: [{k: "$${c}"}]}}}
environment: {allow: [WHO, ON], variables: {A: "$$$${B}", B: "$${A}$$"}}
`

// A manifest with "$" means the same when its canonical form is read, and that form is
// what it was where no "$" stands for anything.
func TestCanonicalEscapes(t *testing.T) {
	m, err := Parse("a", []byte(dollars))
	if err != nil {
		t.Fatal(err)
	}
	if m.State != "a$" || m.Summary != "$$ ${HOME} $$ $x $5 $" || m.Author != "$$me and $${you}" || m.Environment.Variables["A"] != "$${B}" {
		t.Fatalf("%q %q %q %v", m.Name, m.Summary, m.Author, m.Environment.Variables)
	}
	c := string(m.Canonical())
	for _, want := range []string{`"state":"a$"`, `"summary":"$$$ $${HOME} $$$ $x $5 $"`, `"key":"$$$ $${a} $b"`, `"template":"say $a and $$ and ${a.b}"`, `"output":"${s.x}$$"`} {
		if !strings.Contains(c, want) {
			t.Errorf("no %s in\n%s", want, c)
		}
	}
	// Made in Go nothing is expanded, and nothing is when it is read back.
	seed := time.Now().UnixNano()
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	for range 300 {
		var s strings.Builder
		for range r.IntN(8) {
			s.WriteString([]string{"$", "$", "$$", "{", "}", "${", "A", "${A:-b}", ":-", "x"}[r.IntN(10)])
		}
		m := Default("plain")
		m.Summary = s.String()
		again, err := Parse("b", m.Canonical())
		if err != nil || again.Summary != m.Summary {
			t.Fatalf("seed %d: %q is read back as %q: %v", seed, m.Summary, again.Summary, err)
		}
	}
}

func TestCanonicalRoundTrip(t *testing.T) {
	for _, src := range []string{full, "dialect: plain", "dialect: aeiou\nquotas: {cost_usd: 0.000001}", dollars} {
		m, err := Parse("a", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		b := m.Canonical()
		again, err := Parse("b", b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Error(d)
		}
		if m.Digest() != again.Digest() || !bytes.Equal(b, again.Canonical()) {
			t.Error("the digest changed")
		}
	}
}

// pinned changes only when the shape or a default does, on purpose.
const pinned = "e94994bfd9117b1d3d07a7a29e217ef458da2ec71d30a5493a6146bd8421f9e6"

func TestDigest(t *testing.T) {
	parse := func(s string) *Manifest {
		m, err := Parse("a", []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a := parse("dialect: plain")
	same := []*Manifest{
		parse("# c\nx-y: 1\nquotas: {gas: 1000000, alloc: 65536KiB}\ndialect: \"plain\"\nimport: {tools: []}"),
		{Dialect: "plain", Loop: Loop{MaxTurns: 1}},
		Default("plain"),
	}
	for i, m := range same {
		if m.Digest() != a.Digest() {
			t.Errorf("%d differs", i)
		}
	}
	for _, m := range []*Manifest{parse("dialect: aeiou"), parse("dialect: plain\nname: a"), parse("dialect: plain\ntools: [a]")} {
		if m.Digest() == a.Digest() {
			t.Errorf("%+v has the same digest", m)
		}
	}
	if parse("dialect: plain\nname: a").LimitsDigest() != a.LimitsDigest() || parse("dialect: plain\nquotas: {gas: 5}").LimitsDigest() == a.LimitsDigest() {
		t.Error("the limits digest is not that of the limits")
	}
	if got := a.Digest().String(); got != pinned {
		t.Errorf("digest of the plain default is %s", got)
	}
}

func TestSizesAndPrices(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "12": 12, "1KiB": 1024, "1 KiB": 1024, "3GiB": 3 << 30, "7B": 7} {
		if n, err := ParseSize(s); err != nil || n != want {
			t.Errorf("%q is %d, %v", s, n, err)
		}
	}
	for _, s := range []string{"", "B", "1kb", "1MB", "-1", "+1", "1.5MiB", "9999999999GiB", " 1", "1MiBMiB", "1e3"} {
		if n, err := ParseSize(s); err == nil {
			t.Errorf("%q is %d", s, n)
		}
	}
	for s, want := range map[string]int64{"1.00": 1e6, "0.000001": 1, "12": 12e6, "1.5": 1_500_000, "999999999": 999999999e6} {
		if n, err := ParseUSD(s); err != nil || n != want {
			t.Errorf("%q is %d, %v", s, n, err)
		} else if back, err := ParseUSD(FormatUSD(n)); err != nil || back != n {
			t.Errorf("%q comes back as %s", s, FormatUSD(n))
		}
	}
	for _, s := range []string{"", ".5", "1.", "-1", "1e3", "1.0000001", "9999999999", "1,5", "1.2.3"} {
		if n, err := ParseUSD(s); err == nil {
			t.Errorf("%q is %d", s, n)
		}
	}
}

func TestSchemaIsCommitted(t *testing.T) {
	got := jsonSchema()
	if *rewrite {
		if err := os.WriteFile("schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("schema.json is not what jsonSchema gives; run go test ./manifest -run TestSchemaIsCommitted -rewrite and read the diff")
	}
}

// What Parse takes the schema takes; what is wrong about one key both refuse.
func TestSchemaAgreesWithParse(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(jsonSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("manifest.json", doc); err != nil {
		t.Fatal(err)
	}
	sch, err := c.Compile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(src []byte) bool {
		var x any
		if err := yaml.Unmarshal(src, &x); err != nil {
			t.Fatal(err)
		}
		return sch.Validate(x) == nil
	}
	m, err := Parse("a", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range [][]byte{[]byte(full), m.Canonical(), []byte("dialect: plain\nquotas:\ntools: [a]\niteration_cap: 3\nversion: 1.0\nx-a: b")} {
		if !valid(src) {
			t.Errorf("the schema refuses\n%s", src)
		}
	}
	for _, src := range []string{
		"name: a", "dialect: klingon", "dialect: plain\nnam: a", "dialect: plain\nloop: {bussy: reject}", "dialect: plain\nname: 3",
		"dialect: plain\ntools: [a b]", "dialect: plain\ntools: [a, a]", "dialect: plain\nquotas: {depth: 0}", "dialect: plain\nquotas: {alloc: 64MB}",
		"dialect: plain\nquotas: {turn_wall: soon}", "dialect: plain\nquotas: {turn_wall: 3}", "dialect: plain\ngrants: [{session: a}]",
		"dialect: plain\ngrants: [{session: 'a:*:c', access: read}]", "dialect: plain\nquotas: {cost_usd: '1.0000001'}", "dialect: plain\napproval: {tools: {a: x}}",
	} {
		if valid([]byte(src)) {
			t.Errorf("the schema takes\n%s", src)
		}
		if _, err := Parse("a", []byte(src)); err == nil {
			t.Errorf("Parse takes\n%s", src)
		}
	}
}

func TestEveryFieldIsTagged(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for i, f := range fieldsOf(typ) {
			sf := typ.Field(i)
			if f.key == "" || f.doc == "" {
				t.Errorf("%s.%s has no key or no sentence", typ.Name(), sf.Name)
			}
			if _, ok := shapes[f.shape]; f.shape != "" && f.shape != anyText && !ok {
				t.Errorf("%s.%s has an unknown shape %s", typ.Name(), sf.Name, f.shape)
			}
			ft := sf.Type
			if ft.Kind() == reflect.Slice {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct && ft != reflect.TypeFor[Manifest]() {
				walk(ft)
			}
		}
	}
	walk(reflect.TypeFor[Manifest]())
}

// FuzzManifest: no input panics; what is taken is valid, and its canonical form
// is taken again and means the same.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(full))
	for _, s := range []string{
		"", "dialect: plain", "- a", "a: [", "&a\nloop: *a", "dialect: !!int plain", "{dialect: plain, ? [a] : b}", "dialect: plain\ntools: [a, *b]",
		"dialect: plain\nimport: {mcp: [{a: [1, 2.5, ~]}]}", "dialect: plain\nsummary: ${A:-${B}}", "%YAML 1.1\n---\ndialect: plain\n...\n", "\xff", "dialect: plain\nquotas: {gas: !!float 3}",
		"dialect: plain\nenvironment: {allow: [A], variables: {B: $$}}",
		dollars,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseEnv("f", b, func(string) (string, bool) { return "e", true })
		if err != nil {
			if m != nil {
				t.Fatal("a manifest with mistakes")
			}
			for _, e := range mistakes(t, err) {
				if e.Code != messages.ErrConfig {
					t.Fatalf("%v", e)
				}
			}
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("taken but not valid: %v", err)
		}
		c := m.Canonical()
		again, err := Parse("g", c)
		if err != nil {
			t.Fatalf("%v\n%s", err, c)
		}
		if d := cmp.Diff(m, again); d != "" || again.Digest() != m.Digest() {
			t.Fatalf("it is read back as another\n%s\n%s\n%s", d, m.Canonical(), again.Canonical())
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.Run("full_manifest_1.7KB", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Parse("a", []byte(full)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor_yaml_nodes_only", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var n yaml.Node
			if err := yaml.Unmarshal([]byte(full), &n); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// cogency shows deltas when their bytes are on disk; the others at once (docs/spec/design.md §2).
func TestDefaultDurability(t *testing.T) {
	for dialect, want := range map[string]Durability{"cogency": DurabilityStrict, "cortex": DurabilityCheckpoint, "aeiou": DurabilityCheckpoint, "plain": DurabilityCheckpoint, "kitsu": DurabilityCheckpoint} {
		m, err := Parse("m.yaml", []byte("dialect: "+dialect+"\n"))
		if err != nil || m.Stream.Durability != want {
			t.Errorf("%s: %v, %v", dialect, m, err)
		}
		if got := (&Manifest{Dialect: dialect}).WithDefaults().Stream.Durability; got != want {
			t.Errorf("%s in Go: %s", dialect, got)
		}
	}
}

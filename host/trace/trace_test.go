package trace_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/trace"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// secret is in everything that was said, given and answered.
const secret = "sesame-1234"

// replies is a model that says one text after the other, or fails.
type replies struct {
	texts []string
	n     int
}

func (m *replies) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		text := m.texts[m.n]
		m.n++
		if text == "" {
			yield(llm.Chunk{}, errors.New("the wire is cut: "+secret))
			return
		}
		if yield(llm.Chunk{Text: []byte(text)}, nil) {
			yield(llm.Chunk{Finish: messages.FinishComplete, Usage: messages.Usage{Input: 30, Output: 4, CacheRead: 10}}, nil)
		}
	}
}

// spans runs a submit for each text and gives what was traced.
func spans(t *testing.T, texts ...string) tracetest.SpanStubs {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	rt.ObserveAgents(trace.New(provider).ObserveAgent)
	look := tools.Tool{
		Name: "look", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "at", Type: "string"}},
		Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			return neuroscript.String(secret), nil
		},
	}
	return submitted(t, rt, exporter, &stile.Agent{Name: "looker", Dialect: "cogency", Tools: []tools.Tool{look}, Model: &replies{texts: texts}})
}

// submitted submits to an agent and gives what was traced.
func submitted(t *testing.T, rt *stile.Runtime, exporter *tracetest.InMemoryExporter, a *stile.Agent) tracetest.SpanStubs {
	t.Helper()
	s, err := rt.Open(t.Context(), "ada", a)
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Submit(t.Context(), "where? "+secret)
	if err == nil {
		_, err = run.Decision(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return exporter.GetSpans()
}

// tree writes spans as a tree, in order of their beginning.
func tree(all tracetest.SpanStubs) (lines []string) {
	slices.SortStableFunc(all, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var walk func(parent string, depth int)
	walk = func(parent string, depth int) {
		for _, s := range all {
			own := ""
			if s.Parent.IsValid() {
				own = s.Parent.SpanID().String()
			}
			if own == parent {
				lines = append(lines, strings.Repeat(" ", depth)+s.Name)
				walk(s.SpanContext.SpanID().String(), depth+1)
			}
		}
	}
	walk("", 0)
	return lines
}

func attributes(s tracetest.SpanStub) map[string]string {
	m := map[string]string{}
	for _, a := range s.Attributes {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

// A run is a trace: its turns, in those the model's call and the actions, each from when
// to when the journal says.
func TestSpans(t *testing.T) {
	all := spans(t, `<execute>[{"name":"look","args":{"at":"`+secret+`"}}]</execute>`, "There. "+secret)
	got := tree(all)
	want := []string{"invoke_agent looker", " turn", "  chat", "  execute_tool look", " turn", "  chat"}
	for i := range got {
		if strings.HasPrefix(strings.TrimSpace(got[i]), "chat") {
			got[i] = got[i][:strings.Index(got[i], "chat")+4]
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, s := range all {
		if s.EndTime.Before(s.StartTime) || s.SpanContext.TraceID() != all[0].SpanContext.TraceID() {
			t.Errorf("%s: %v to %v in %v", s.Name, s.StartTime, s.EndTime, s.SpanContext.TraceID())
		}
		a := attributes(s)
		switch s.Name {
		case "invoke_agent looker":
			if a["gen_ai.operation.name"] != "invoke_agent" || a["gen_ai.agent.name"] != "looker" || s.InstrumentationScope.Name != "github.com/seed14be6753/stile" || a["gen_ai.conversation.id"] == "" || a["stile.session"] != "local:local:ada" || a["stile.decision"] != "DONE" || a["stile.dialect"] != "cogency" {
				t.Errorf("%v", a)
			}
		case "execute_tool look":
			if a["gen_ai.operation.name"] != "execute_tool" || a["gen_ai.tool.name"] != "look" || a["gen_ai.tool.call.id"] == "" || a["gen_ai.tool.type"] != "function" || a["stile.state"] != "ok" || a["stile.attempts"] != "1" {
				t.Errorf("%v", a)
			}
		case "turn":
			if a["stile.turn"] == "" || a["stile.decision"] == "" {
				t.Errorf("%v", a)
			}
		default:
			if a["gen_ai.operation.name"] != "chat" || a["gen_ai.response.finish_reasons"] != `["stop"]` || a["gen_ai.usage.input_tokens"] != "30" || a["gen_ai.usage.output_tokens"] != "4" || a["gen_ai.usage.cache_read.input_tokens"] != "10" {
				t.Errorf("%v", a)
			}
		}
	}
}

// What stands in a block is below it, each iteration of a loop says which it is, a compensation
// what it undoes, and a result that was streamed how long it is. No text is in them either.
func TestSpansOfBlocks(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	rt.Observe(trace.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))).Observe)
	type place struct {
		At string `json:"at,omitempty"`
	}
	look, err := stile.DefineToolCall("look", "Looks.", messages.ReadOnly, func(ctx context.Context, c *stile.ToolCall, in place) (string, error) {
		if in.At == "" {
			return "", errors.New(secret)
		}
		return secret, c.Emit(ctx, secret)
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stile.DefineTool("own.seek", "Seeks.", messages.ReadOnly, func(context.Context, place) ([]string, error) { return []string{secret, "b"}, nil })
	if err != nil {
		t.Fatal(err)
	}
	m := manifest.Default("cortex")
	m.Name, m.Extensions, m.Import.Tools, m.Loop.Strict = "blocks", []string{"if", "foreach", "parallel", "rollback", "stream"}, []string{"look", "own.seek"}, []string{"unseen"}
	all := submitted(t, rt, exporter, &stile.Agent{Manifest: m, Tools: []tools.Tool{look, list}, Model: &replies{texts: []string{`<action id="all">{"name":"own.seek"}</action>
<foreach id="l" in="$all"><if id="c" test="length($item) > 1"><action id="a">{"name":"look","parameters":{"at":"$item"},"stream":true}</action></if></foreach>
<parallel id="p"><action id="m">{"name":"look","parameters":{"at":"x"},"group":"g","rollback":{"name":"look","parameters":{"at":"y"}}}</action><action id="n">{"name":"look","parameters":{"at":""},"group":"g","depends_on":["m"]}</action></parallel>
<response final="true">end</response>`}}})
	want := []string{
		"invoke_agent", " turn", "  chat", "  execute_tool own.seek", "  block foreach", "   block if", "    execute_tool look", "   block if", "    execute_tool",
		"  block parallel", "   execute_tool look", "   execute_tool look", "  rollback", "   execute_tool look",
	}
	got := tree(all)
	slices.Sort(got) // what begins in the same millisecond has no order
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var blocks, instances, undone []string
	for _, s := range all {
		a := attributes(s)
		switch {
		case a["stile.block.kind"] != "":
			blocks = append(blocks, strings.TrimSpace(fmt.Sprint(a["stile.block.kind"], " ", a["stile.block.branch"], a["stile.block.items"], " ", a["stile.iteration"], " ", a["stile.state"])))
		case a["stile.iteration"] != "":
			instances = append(instances, a["stile.iteration"]+a["stile.state"]+a["stile.streamed_bytes"])
		case a["stile.compensates"] != "":
			undone = append(undone, a["stile.compensates"]+a["stile.state"])
		}
		if s.EndTime.IsZero() || s.Name == "block parallel" && s.Status.Code != codes.Error {
			t.Errorf("%s: %+v", s.Name, s.Status)
		}
		if s.Name == "rollback" && (a["stile.cause"] != "error" || a["stile.group"] != "g" || a["stile.state"] != "ok") {
			t.Errorf("%v", a)
		}
	}
	slices.Sort(blocks)
	slices.Sort(instances)
	if !slices.Equal(blocks, []string{"foreach 2  ok", "if none 1 ok", "if then 0 ok", "parallel   failed"}) || !slices.Equal(instances, []string{"0ok11", "1skipped"}) || !slices.Equal(undone, []string{"mok"}) {
		t.Errorf("%q, %q, %q", blocks, instances, undone)
	}
	if s := fmt.Sprintf("%+v", all); strings.Contains(s, secret) {
		t.Errorf("a trace tells what was said: %s", s)
	}
}

// A group is rolled back in a later turn than its members': its compensations are below the span of
// that rollback, which ends with the last of them and is as well as the worst. One whose members
// another process declared stands in its turn.
func TestSpansOfRollbacks(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tr := trace.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	at := time.Unix(1000, 0)
	tell := func(turn int64, bodies ...messages.Body) {
		for _, b := range bodies {
			at = at.Add(time.Second)
			tr.Observe(&messages.Record{Run: 1, Turn: turn, TS: at, Body: b})
		}
	}
	tell(0, &messages.RunBegin{})
	tell(1, &messages.TurnBegin{}, &messages.ActionDeclared{ID: "a", Group: "g"}, &messages.ActionEnded{ID: "a", State: messages.ActionOK}, &messages.ActionDeclared{ID: "b", Group: "h"}, &messages.ActionEnded{ID: "b", State: messages.ActionOK}, &messages.TurnDecided{})
	tell(2, &messages.TurnBegin{}, &messages.ActionDeclared{ID: "a", Group: "g"}, &messages.ActionEnded{ID: "a", State: messages.ActionOK},
		&messages.RollbackBegin{Group: "g", Cause: "asked"}, &messages.RollbackBegin{Group: "h", Cause: "error:x"},
		&messages.ActionDeclared{ID: "undo:a", Compensates: "a"}, &messages.ActionEnded{ID: "undo:a", State: messages.ActionFailed},
		&messages.ActionDeclared{ID: "undo:1/a", Compensates: "a", CompensatesTurn: 1}, &messages.ActionEnded{ID: "undo:1/a", State: messages.ActionOK},
		&messages.ActionDeclared{ID: "undo:1/b", Compensates: "b", CompensatesTurn: 1}, &messages.ActionEnded{ID: "undo:1/b", State: messages.ActionUnknown},
		&messages.ActionDeclared{ID: "undo:1/z", Compensates: "z", CompensatesTurn: 1}, &messages.ActionEnded{ID: "undo:1/z", State: messages.ActionOK},
		&messages.TurnDecided{})
	tell(0, &messages.RunEnd{})
	all := exporter.GetSpans()
	below, states := map[string]int{}, map[string]string{}
	names := map[oteltrace.SpanID]string{}
	for _, s := range all {
		a := attributes(s)
		if names[s.SpanContext.SpanID()] = s.Name; s.Name == "rollback" {
			names[s.SpanContext.SpanID()] = "rollback of " + a["stile.group"]
			states[a["stile.group"]] = fmt.Sprint(a["stile.cause"], " ", a["stile.state"], " ", s.Status.Code, " ", s.EndTime.Sub(s.StartTime))
		}
	}
	for _, s := range all {
		if attributes(s)["stile.compensates"] != "" {
			below[names[s.Parent.SpanID()]]++
		}
	}
	if want := map[string]int{"rollback of g": 2, "rollback of h": 1, "turn": 1}; !maps.Equal(below, want) {
		t.Errorf("%v", below)
	}
	if want := map[string]string{"g": "asked failed Error 5s", "h": "error unknown Error 6s"}; !maps.Equal(states, want) {
		t.Errorf("%v", states)
	}
}

// Nothing that was said, given, answered or went wrong is in a trace; that it went wrong
// is.
func TestNoTextInSpans(t *testing.T) {
	for _, texts := range [][]string{
		{`<execute>[{"name":"look","args":{"at":"` + secret + `"}}]</execute>`, "There. " + secret},
		{`<execute>[{"name":"` + secret + `"`, "x"},
		{`<execute>[{"name":"` + secret + `","args":{}}]</execute>`, "x"},
		{""},
	} {
		all := spans(t, texts...)
		if len(all) == 0 {
			t.Error("nothing was traced")
		}
		if s := fmt.Sprintf("%+v", all); strings.Contains(s, secret) {
			t.Errorf("a trace tells what was said: %s", s)
		}
		if texts[0] != "" {
			continue
		}
		bad := 0
		for _, s := range all {
			if s.Status.Code == codes.Error && attributes(s)["error.type"] == "ERR_MODEL" {
				bad++
			}
		}
		if bad < 2 {
			t.Errorf("a model that failed is an error of %d spans", bad)
		}
	}
}

// A trace shows the life of a conversation with the provider: what became of it is an event of the
// turn, and a call says how it was asked.
func TestConversationsInSpans(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer := trace.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	for i, b := range []messages.Body{
		&messages.RunBegin{}, &messages.TurnBegin{},
		&messages.ModelSession{What: messages.SessionGone, Session: 1, Reason: "IDLE"}, &messages.ModelSession{What: messages.SessionConnected, Session: 2},
		&messages.ModelRequest{Model: "m", Mode: messages.ModelResume, Session: 2, Messages: 5, Sent: 2, SentBytes: 99},
		&messages.ModelSession{What: messages.SessionFallback, Session: 2, Reason: "GARBAGE"},
		&messages.ModelRequest{Model: "m", Mode: messages.ModelReplay, Messages: 5},
		&messages.ModelReply{Finish: messages.FinishComplete}, &messages.TurnDecided{Decision: messages.Done}, &messages.RunEnd{Decision: messages.Done},
	} {
		tracer.Observe(&messages.Record{Seq: int64(i + 1), Run: 1, Turn: 1, Body: b})
	}
	var events, calls []string
	for _, s := range exporter.GetSpans() {
		for _, e := range s.Events {
			events = append(events, fmt.Sprint(s.Name, ": ", e.Name, " ", attrs(e.Attributes)))
		}
		if strings.HasPrefix(s.Name, "chat") {
			calls = append(calls, attrs(s.Attributes))
		}
	}
	if want := []string{
		"turn: model session closed stile.model.session=1 stile.reason=IDLE", "turn: model session opened stile.model.session=2",
		"turn: model session fallback stile.model.session=2 stile.reason=GARBAGE",
	}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
	if len(calls) != 2 || !strings.Contains(calls[0], "stile.model.mode=resume stile.model.session=2 stile.model.sent_messages=2 stile.model.sent_bytes=99") || !strings.Contains(calls[1], "stile.model.mode=replay") || strings.Contains(calls[1], "stile.model.session") {
		t.Errorf("calls %q", calls)
	}
}

func attrs(all []attribute.KeyValue) string {
	var texts []string
	for _, a := range all {
		texts = append(texts, string(a.Key)+"="+a.Value.String())
	}
	return strings.Join(texts, " ")
}

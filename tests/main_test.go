// Package tests holds what is proved through the facade alone: sessions run here
// as an embedder runs them, on the real stores, with a scripted model. What needs
// time runs in a testing/synctest bubble, where a clock of an hour costs nothing.
//
// Files are named after what they prove: supervision, swarm, clocks, meters,
// recovery, loop, keys, observe, order, events, sleep, imports.
package tests

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Statements of programs.
const (
	sayDone     = `emit tool.aeiou.magic("LOOP", {"action": "done"})`
	sayContinue = `emit tool.aeiou.magic("LOOP", {"action": "continue"})`
	sayAbort    = `emit tool.aeiou.magic("LOOP", {"action": "abort"})`
)

// program is an ACTIONS program of these lines.
func program(lines ...string) string {
	return "command\n" + strings.Join(lines, "\n") + "\nendcommand\n"
}

// start makes a runtime that the test's end closes. Without a store or folder it
// keeps everything in memory.
func start(t testing.TB, cfg stile.Config) *stile.Runtime {
	t.Helper()
	if cfg.Store == nil && cfg.Dir == "" {
		cfg.InMemory = true
	}
	if cfg.Store != nil && cfg.Keys == nil {
		keys, err := stile.GenerateKeys(cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Keys = keys // else they would go to a file in the working folder
	}
	rt, err := stile.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rt
}

func open(t testing.TB, rt *stile.Runtime, name string, a *stile.Agent) *stile.Session {
	t.Helper()
	s, err := rt.Open(t.Context(), name, a)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	return s
}

func submit(t testing.TB, s *stile.Session, text string, opts ...stile.SubmitOption) *stile.Run {
	t.Helper()
	r, err := s.Submit(t.Context(), text, opts...)
	if err != nil {
		t.Fatalf("submit to %s: %v", s.SID(), err)
	}
	return r
}

func decision(t testing.TB, r *stile.Run) stile.Outcome {
	t.Helper()
	o, err := r.Decision(t.Context())
	if err != nil {
		t.Fatalf("decision of run %d: %v", r.Ordinal(), err)
	}
	return o
}

// ask submits and waits for the decision.
func ask(t testing.TB, s *stile.Session, text string) stile.Outcome {
	t.Helper()
	return decision(t, submit(t, s, text))
}

// wantHalt checks the reason of a HALT and that its detail holds every part.
func wantHalt(t testing.TB, o stile.Outcome, code messages.Code, parts ...string) {
	t.Helper()
	if o.Decision != stile.Halt || o.Reason != code {
		t.Fatalf("the run ended %s(%s) %q, want HALT(%s)", o.Decision, o.Reason, o.Detail, code)
	}
	for _, p := range parts {
		if !strings.Contains(strings.ToLower(o.Detail), strings.ToLower(p)) {
			t.Errorf("detail %q does not name %q", o.Detail, p)
		}
	}
}

func wantDone(t testing.TB, o stile.Outcome) {
	t.Helper()
	if o.Decision != stile.Done {
		t.Fatalf("the run ended %s(%s) %q, want DONE", o.Decision, o.Reason, o.Detail)
	}
}

// wantCode checks the code of an error.
func wantCode(t testing.TB, err error, code messages.Code) {
	t.Helper()
	if messages.CodeOf(err) != code {
		t.Fatalf("error %v has code %q, want %s", err, messages.CodeOf(err), code)
	}
}

// records reads a session's journal.
func records(t testing.TB, s *stile.Session) []*stile.Record {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatalf("flush: %v", err)
	}
	return stored(t, s)
}

// stored is records without asking the session to write.
func stored(t testing.TB, s *stile.Session) []*stile.Record {
	t.Helper()
	var all []*stile.Record
	for r, err := range s.Records(context.Background()) {
		if err != nil {
			t.Fatalf("records: %v", err)
		}
		all = append(all, r)
	}
	return all
}

// bodies picks the bodies of one type out of records.
func bodies[B messages.Body](recs []*stile.Record) []B {
	var all []B
	for _, r := range recs {
		if b, ok := r.Body.(B); ok {
			all = append(all, b)
		}
	}
	return all
}

// kinds lists the records' kinds.
func kinds(recs []*stile.Record) []string {
	var all []string
	for _, r := range recs {
		all = append(all, string(r.Body.Kind()))
	}
	return all
}

// texts lists what a session's programs emitted, token lines aside.
func texts(recs []*stile.Record) []string {
	var all []string
	for _, e := range bodies[*messages.Emit](recs) {
		if !e.Candidate {
			all = append(all, e.Text)
		}
	}
	return all
}

// control finds the one control record of a kind.
func control(t testing.TB, recs []*stile.Record, what string) *messages.Control {
	t.Helper()
	var found *messages.Control
	for _, c := range bodies[*messages.Control](recs) {
		if c.What == what {
			if found != nil {
				t.Fatalf("two controls %s", what)
			}
			found = c
		}
	}
	if found == nil {
		t.Fatalf("no control %s among %v", what, kinds(recs))
	}
	return found
}

// model is an llm.Model from a function.
type model func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error]

// Stream implements llm.Model.
func (m model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return m(ctx, req)
}

// says is a model that always gives the same reply.
func says(reply string) model {
	return func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{Text: []byte(reply), Finish: messages.FinishComplete}, nil)
		}
	}
}

// stalls is a model that says one thing and then nothing until it is cancelled.
func stalls(first string) model {
	return func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			if first != "" && !yield(llm.Chunk{Text: []byte(first)}, nil) {
				return
			}
			<-ctx.Done()
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
		}
	}
}

// signals closes said when the reply's first text has been read.
func signals(m llm.Model, said chan<- struct{}) model {
	var once sync.Once
	return func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			for c, err := range m.Stream(ctx, req) {
				if !yield(c, err) {
					return
				}
				once.Do(func() { close(said) })
			}
		}
	}
}

// recorder keeps the requests that reach a model.
type recorder struct {
	llm.Model
	mu   sync.Mutex
	seen []llm.Request
}

// Stream implements llm.Model.
func (r *recorder) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	r.mu.Lock()
	r.seen = append(r.seen, req)
	r.mu.Unlock()
	return r.Model.Stream(ctx, req)
}

func (r *recorder) requests() []llm.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func contains(s, part string) bool { return strings.Contains(s, part) }

// prompt is the text of a request's last message.
func prompt(req llm.Request) string { return req.Messages[len(req.Messages)-1].Text }

// agent is an aeiou agent with the defaults; change adapts its manifest, and its
// tools may all be called.
func agent(m llm.Model, change func(*manifest.Manifest), ts ...tools.Tool) *stile.Agent {
	man := manifest.Default("aeiou")
	man.Name = "tested"
	man.Loop.Repairs = new(int64) // the first mistake of a script is its end
	for _, t := range ts {
		man.Import.Tools = append(man.Import.Tools, t.Name)
	}
	if change != nil {
		change(man)
	}
	return &stile.Agent{Manifest: man, Model: m, Tools: ts}
}

// tool declares a tool without parameters.
func tool(name string, class messages.Class, run func(context.Context, *tools.Call) (neuroscript.Value, error)) tools.Tool {
	return tools.Tool{Name: name, Class: class, Run: run}
}

// gives is the body of a tool that succeeds with a text.
func gives(text string) func(context.Context, *tools.Call) (neuroscript.Value, error) {
	return func(context.Context, *tools.Call) (neuroscript.Value, error) { return neuroscript.String(text), nil }
}

// pause is the body of a tool that takes its time.
func pause(d time.Duration) func(context.Context, *tools.Call) (neuroscript.Value, error) {
	return func(context.Context, *tools.Call) (neuroscript.Value, error) {
		time.Sleep(d)
		return neuroscript.Value{}, nil
	}
}

// waits is the body of a tool that ends with its context.
func waits(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
	<-ctx.Done()
	return neuroscript.Value{}, ctx.Err()
}

// metric sums a metric over the children that have all the labels.
func metric(t testing.TB, rt *stile.Runtime, name string, labels ...string) float64 {
	t.Helper()
	families, err := rt.Metrics().Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum, found := 0.0, false
	for _, f := range families {
		if f.GetName() != "stile_"+name {
			continue
		}
		found = true
	children:
		for _, m := range f.GetMetric() {
			for i := 0; i+1 < len(labels); i += 2 {
				ok := false
				for _, l := range m.GetLabel() {
					ok = ok || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				if !ok {
					continue children
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	if !found && len(labels) == 0 {
		t.Fatalf("there is no metric %s", name)
	}
	return sum
}

// quiet is the memory store behind a writer of its own, as the durable stores are.
type quiet struct{ journal.Store }

// Immediate implements journal.Store.
func (quiet) Immediate() bool { return false }

// soon is a time that is longer than anything a bubble does by itself.
const soon = time.Second

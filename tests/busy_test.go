package tests

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// tongue is how a scripted model speaks a dialect.
type tongue struct {
	name   string
	half   string // shown, and nothing complete
	answer func(text string) string
	more   func(text string) string // ends in CONTINUE; nil where there is one turn
	pay    string                   // pays, and goes on after it; "" where nothing can
	paid   string                   // the call that pays, where it is not shop.pay
	// carries reports whether the history is streams, not a transcript.
	carries bool
}

var tongues = []tongue{
	{name: "plain", half: "Well, I th", answer: func(text string) string { return text }},
	{
		name: "cortex", half: "<response final=\"false\">Well, I th",
		answer: func(text string) string { return "<response>" + text + "</response>" },
		more: func(text string) string {
			return `<response final="false">` + text + `</response><action id="l" mode="sync">{"name":"shop.look","parameters":{}}</action>`
		},
		pay: `<action id="p" mode="sync">{"name":"shop.pay","parameters":{"amount":7}}</action>`,
	},
	{
		name: "cogency", half: "Well, I th",
		answer: func(text string) string { return text + "<end>" },
		more:   func(text string) string { return text + `<execute>[{"name":"shop.look","args":{}}]</execute>` },
		pay:    `<execute>[{"name":"shop.pay","args":{"amount":7}}]</execute>`,
	},
	{
		name: "kitsu", half: "Well, I th",
		answer: func(text string) string { return text },
		more:   func(text string) string { return text + "\n<action:continue>" },
		pay:    `<action:search query="7">`, paid: `search {"query":"7"}`,
	},
	{
		name: "aeiou", half: "command\n  emit \"Well, I th", carries: true,
		answer: func(text string) string { return program(fmt.Sprintf("emit %q", text), sayDone) },
		more:   func(text string) string { return program(fmt.Sprintf("emit %q", text), sayContinue) },
		pay:    program(`set r = tool.shop.pay(7)`, sayContinue),
	},
}

// puppet says one thing after the other. One with a "…" is said up to there, and the
// rest when the test lets it go on, unless the reply is cancelled before.
type puppet struct {
	*recorder
	lines []string
	said  chan struct{} // a line stopped at its "…"
	let   chan struct{}
}

func newPuppet(lines ...string) *puppet {
	p := &puppet{lines: lines, said: make(chan struct{}), let: make(chan struct{})}
	p.recorder = &recorder{Model: model(p.speak)}
	return p
}

func (p *puppet) speak(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		n := len(p.requests())
		if n > len(p.lines) {
			yield(llm.Chunk{}, fmt.Errorf("the puppet has %d lines", len(p.lines)))
			return
		}
		line, rest, stops := strings.Cut(p.lines[n-1], "…")
		if !stops {
			yield(llm.Chunk{Text: []byte(line), Finish: messages.FinishComplete}, nil)
			return
		}
		if !yield(llm.Chunk{Text: []byte(line)}, nil) {
			return
		}
		p.said <- struct{}{}
		select {
		case <-ctx.Done():
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
		case <-p.let:
			yield(llm.Chunk{Text: []byte(rest), Finish: messages.FinishComplete}, nil)
		}
	}
}

// inEach runs a test for each dialect, with an agent that can pay.
func inEach(t *testing.T, test func(t *testing.T, l tongue, with func(p *puppet) (*stile.Runtime, *stile.Agent, *stile.Session))) {
	for _, l := range tongues {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(t, l, func(p *puppet) (*stile.Runtime, *stile.Agent, *stile.Session) {
					m := manifest.Default(l.name)
					m.Name = "tested"
					a := &stile.Agent{Manifest: m, Model: p}
					if l.pay != "" {
						m.Import.Tools = []string{"shop.pay", "shop.look"}
						a.Tools = []tools.Tool{
							{
								Name: "shop.pay", Class: messages.Effectful, Params: []neuroscript.Param{{Name: "amount", Type: "int"}},
								Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
									return neuroscript.String("receipt"), nil
								},
							},
							tool("shop.look", messages.ReadOnly, gives("a hat")),
						}
					}
					if l.name == "kitsu" { // what a search asks can do something
						a.Tools = append(a.Tools, tools.Tool{
							Name: "shop.order", Class: messages.Effectful, Params: []neuroscript.Param{{Name: "query", Type: "string"}},
							Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
								return neuroscript.String("receipt"), nil
							},
						})
						m.Import.Tools = append(m.Import.Tools, "shop.order")
						m.Kitsu.Search, m.Loop.Busy = "shop.order", messages.Enqueue // as elsewhere
					}
					rt := start(t, stile.Config{})
					return rt, a, open(t, rt, "busy", a)
				})
			})
		})
	}
}

// transcript checks what every provider asks of messages, and gives them as text.
func transcript(t *testing.T, req llm.Request) string {
	t.Helper()
	var b strings.Builder
	for i, m := range req.Messages {
		if strings.TrimSpace(m.Text) == "" {
			t.Errorf("message %d of %s is empty", i, m.Role)
		}
		if m.Role == messages.RoleSystem {
			continue // the primer
		}
		fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Text)
	}
	if last := req.Messages[len(req.Messages)-1]; last.Role != messages.RoleUser {
		t.Errorf("the last message is the %s's: %q", last.Role, last.Text)
	}
	return b.String()
}

// replayed holds a session against its own journal.
func replayed(t *testing.T, rt *stile.Runtime, s *stile.Session, a *stile.Agent) {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	rep, err := rt.Replay(t.Context(), s.SID(), a)
	if err != nil || rep.Records != int64(len(records(t, s))) {
		t.Errorf("replay: %+v, %v", rep, err)
	}
}

func holds(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in\n%s", p, text)
		}
	}
}

func holdsNot(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%q is in\n%s", p, text)
		}
	}
}

func TestInterrupt(t *testing.T) {
	inEach(t, func(t *testing.T, l tongue, with func(*puppet) (*stile.Runtime, *stile.Agent, *stile.Session)) {
		p := newPuppet(l.half+"…", l.answer("whole"), l.answer("queued"))
		rt, a, s := with(p)
		one := submit(t, s, "first question")
		<-p.said
		waits := submit(t, s, "third question")
		two := submit(t, s, "second question", stile.Policy(stile.Interrupt))
		wantHalt(t, decision(t, one), messages.ErrCancelled, "superseded by run 3")
		wantDone(t, decision(t, two))
		wantDone(t, decision(t, waits))
		asked := p.requests()
		if len(asked) != 3 {
			t.Fatalf("%d requests", len(asked))
		}
		text := transcript(t, asked[1])
		holds(t, text, "second question")
		if !l.carries {
			holds(t, text, "first question")
		}
		if l.name == "plain" || l.name == "cogency" || l.name == "kitsu" {
			holds(t, text, "Well, I th")
		}
		holdsNot(t, text, "third question")
		holds(t, transcript(t, asked[2]), "third question")
		replayed(t, rt, s, a)
	})
}

// What is refused leaves nothing, and what waits comes when it may.
func TestRejectAndEnqueue(t *testing.T) {
	inEach(t, func(t *testing.T, l tongue, with func(*puppet) (*stile.Runtime, *stile.Agent, *stile.Session)) {
		p := newPuppet(l.answer("at la…st"), l.answer("queued"))
		rt, a, s := with(p)
		one := submit(t, s, "first question")
		<-p.said
		if _, err := s.Submit(t.Context(), "not now", stile.Policy(stile.Reject)); messages.CodeOf(err) != messages.ErrBusy {
			t.Errorf("refused with %v", err)
		}
		two := submit(t, s, "second question", stile.Policy(stile.Enqueue))
		p.let <- struct{}{}
		wantDone(t, decision(t, one))
		wantDone(t, decision(t, two))
		if n := len(p.requests()); n != 2 {
			t.Fatalf("%d requests", n)
		}
		text := transcript(t, p.requests()[1])
		holds(t, text, "second question", "at last")
		holdsNot(t, text, "not now")
		if !l.carries {
			holds(t, text, "first question")
		}
		replayed(t, rt, s, a)
	})
}

func TestRollback(t *testing.T) {
	inEach(t, func(t *testing.T, l tongue, with func(*puppet) (*stile.Runtime, *stile.Agent, *stile.Session)) {
		lines := []string{l.answer("kept"), l.half + "…", l.answer("instead"), l.answer("after")}
		if l.pay != "" {
			lines = slices.Insert(lines, 1, l.pay)
		}
		p := newPuppet(lines...)
		rt, a, s := with(p)
		wantDone(t, decision(t, submit(t, s, "before")))
		gone := submit(t, s, "never mind this")
		<-p.said
		run := submit(t, s, "do this", stile.Policy(stile.Rollback))
		wantHalt(t, decision(t, gone), messages.ErrCancelled, "superseded")
		wantDone(t, decision(t, run))
		wantDone(t, decision(t, submit(t, s, "and that")))
		asked := p.requests()
		next, last := transcript(t, asked[len(asked)-2]), transcript(t, asked[len(asked)-1])
		holds(t, next, "do this", "kept")
		holdsNot(t, next+last, "never mind", "Well, I th")
		holds(t, last, "instead", "and that")
		notes := bodies[*messages.Note](records(t, s))
		if l.pay == "" {
			if len(notes) > 0 {
				t.Errorf("notes %+v", notes)
			}
			holdsNot(t, next, "took back")
		} else {
			holds(t, next, cmp.Or(l.paid, "shop.pay"), "7", "took back", ": ok")
			if len(notes) != 1 {
				t.Errorf("notes %+v", notes)
			}
		}
		if l.carries {
			holdsNot(t, last, "took back") // streams know one turn
		}
		if w := bodies[*messages.RunWithdrawn](records(t, s)); len(w) != 1 || w[0].By != run.Ordinal() {
			t.Errorf("withdrawn %+v", w)
		}
		replayed(t, rt, s, a)
	})
}

// toldOf is what a run said, in pieces, and holds it to Text.
func toldOf(t *testing.T, r *stile.Run) string {
	t.Helper()
	var got strings.Builder
	for piece, err := range r.TextStream(t.Context()) {
		if err != nil {
			t.Errorf("run %d: %v", r.Ordinal(), err)
		}
		got.WriteString(piece)
	}
	if text, err := r.Text(t.Context()); err != nil || text != got.String() {
		t.Errorf("run %d: pieces %q, text %q, %v", r.Ordinal(), got.String(), text, err)
	}
	return got.String()
}

func TestMerge(t *testing.T) {
	inEach(t, func(t *testing.T, l tongue, with func(*puppet) (*stile.Runtime, *stile.Agent, *stile.Session)) {
		first := l.answer("at fi…rst")
		if l.more != nil {
			first = l.more("at fi…rst")
		}
		p := newPuppet(first, l.answer("at la…st"), l.answer("late"))
		rt, a, s := with(p)
		run := submit(t, s, "a question")
		<-p.said
		one := submit(t, s, "oh, and", stile.Policy(stile.Merge))
		two := submit(t, s, "this too", stile.Policy(stile.Merge))
		again := submit(t, s, "this too", stile.Policy(stile.Merge), stile.IdempotencyKey("k"))
		if joined := submit(t, s, "this too", stile.IdempotencyKey("k")); !joined.Joined() || joined.Ordinal() != again.Ordinal() {
			t.Errorf("joined %v run %d, want %d", joined.Joined(), joined.Ordinal(), again.Ordinal())
		}
		p.let <- struct{}{}
		<-p.said
		joined := "oh, and\nthis too\nthis too"
		if l.carries {
			joined = `{"subject":"message","fields":{"text":"oh, and\nthis too\nthis too"}}`
		}
		holds(t, transcript(t, p.requests()[1]), joined)
		late := submit(t, s, "too late", stile.Policy(stile.Merge))
		events := make(chan int)
		go func() {
			ends := 0
			for u, err := range late.Events(t.Context()) {
				if err == nil && u.Record != nil && u.Record.Body.Kind() == messages.KindRunEnd {
					ends++
				}
			}
			events <- ends
		}()
		pieces := make(chan string)
		go func() { pieces <- toldOf(t, late) }()
		p.let <- struct{}{}
		if l.more == nil { // there was no next turn: they are the next run
			o := decision(t, run)
			wantDone(t, o)
			if o.Next != 2 || o.Turns != 1 {
				t.Errorf("%+v", o)
			}
			if o := decision(t, two); o.Decision != stile.Done || o.EndSeq == decision(t, run).EndSeq {
				t.Errorf("the decision of what was merged is that of the run before: %+v", o)
			}
		} else {
			o := decision(t, run)
			wantDone(t, o)
			if o.Turns != 2 {
				t.Errorf("%+v", o)
			}
			for _, r := range []*stile.Run{one, two, again} {
				if d := decision(t, r); d.EndSeq != o.EndSeq {
					t.Errorf("what was merged has another decision: %+v", d)
				}
			}
			if text := transcript(t, p.requests()[1]); !l.carries && strings.Index(text, "oh, and") < strings.Index(text, "at first") {
				t.Errorf("what was merged stands before what the model had said:\n%s", text)
			}
		}
		wantDone(t, decision(t, late))
		if n := <-events; n != 2 {
			t.Errorf("its events have %d ends of runs", n)
		}
		holds(t, transcript(t, p.requests()[2]), "too late")
		if !l.carries {
			holds(t, transcript(t, p.requests()[2]), joined, "at last")
		}
		// What a merged submit is told is what the run said that took it up, and nothing of
		// the one before.
		if live := <-pieces; live != "late" || toldOf(t, late) != live {
			t.Errorf("the last was told %q while it ran, then %q", live, toldOf(t, late))
		}
		if o, ended, err := late.Outcome(t.Context()); err != nil || !ended || o.Text != "late" || o.EndSeq != decision(t, late).EndSeq {
			t.Errorf("a look at the last: %+v, %v", o, err)
		}
		first, last := toldOf(t, run), toldOf(t, two)
		if l.more != nil && first != last || !strings.HasPrefix(first, "at first") || !strings.HasSuffix(last, "at last") || l.more == nil && last != "at last" {
			t.Errorf("the first was told %q, what was merged %q", first, last)
		}
		replayed(t, rt, s, a)
	})
}

func TestDebounce(t *testing.T) {
	inEach(t, func(t *testing.T, l tongue, with func(*puppet) (*stile.Runtime, *stile.Agent, *stile.Session)) {
		p := newPuppet(l.answer("all three"))
		rt, a, s := with(p)
		began := time.Now()
		var runs []*stile.Run
		for _, text := range []string{"one", "two", "three"} {
			runs = append(runs, submit(t, s, text, stile.Policy(stile.Debounce)))
			time.Sleep(300 * time.Millisecond)
		}
		for _, r := range runs {
			if o := decision(t, r); r.Ordinal() != 1 || o.Decision != stile.Done {
				t.Errorf("run %d: %+v", r.Ordinal(), o)
			}
		}
		if took := time.Since(began); took < 1100*time.Millisecond || took > 1200*time.Millisecond {
			t.Errorf("the run ended after %s", took)
		}
		if n := len(p.requests()); n != 1 {
			t.Fatalf("%d requests", n)
		}
		text := transcript(t, p.requests()[0])
		if l.carries {
			holds(t, text, `{"subject":"message","fields":{"text":"one\ntwo\nthree"}}`)
		} else {
			holds(t, text, "one\ntwo\nthree")
		}
		replayed(t, rt, s, a)
	})
}

// A window outlives the process: the next one closes it.
func TestWindowOutlivesItsProcess(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		a := &stile.Agent{Dialect: "plain", Model: says("both")}
		s := open(t, l.begin(), "window", a)
		submit(t, s, "one", stile.Policy(stile.Debounce))
		run := submit(t, s, "two", stile.Policy(stile.Debounce))
		l.end()
		s = open(t, l.begin(), "window", a)
		defer l.end()
		wantDone(t, decision(t, s.Run(run.Ordinal())))
		begun := bodies[*messages.RunBegin](records(t, s))
		if len(begun) != 1 || len(begun[0].Merged) != 1 {
			t.Errorf("%+v", begun)
		}
	})
}

package tests

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// gate is a store whose commits the test lets through one by one, or fails.
type gate struct {
	journal.Store
	next  chan struct{}
	quit  chan struct{} // ends all holding
	mu    sync.Mutex
	holds func([]*messages.Record) bool // which commits wait for next
	fail  func([]*messages.Record) error
	held  []*messages.Record // of the commit that waits
	calls int
}

func newGate() *gate {
	return &gate{Store: memory.New(), next: make(chan struct{}), quit: make(chan struct{})}
}

func all([]*messages.Record) bool { return true }

// with tells of commits that hold a record of a kind.
func with(kind messages.Kind) func([]*messages.Record) bool {
	return func(recs []*messages.Record) bool {
		return slices.ContainsFunc(recs, func(r *messages.Record) bool { return r.Body.Kind() == kind })
	}
}

// Immediate implements journal.Store.
func (g *gate) Immediate() bool { return false }

// Commit implements journal.Store.
func (g *gate) Commit(batches []journal.Batch) []error {
	var recs []*messages.Record
	for _, b := range batches {
		recs = append(recs, b.Records...)
	}
	g.mu.Lock()
	g.calls++
	waits := g.holds != nil && g.holds(recs)
	if waits {
		g.held = recs
	}
	fail := g.fail
	g.mu.Unlock()
	if waits {
		select {
		case <-g.next:
		case <-g.quit:
		}
		g.mu.Lock()
		g.held = nil
		g.mu.Unlock()
	}
	if fail != nil {
		if err := fail(recs); err != nil {
			errs := make([]error, len(batches))
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	return g.Store.Commit(batches)
}

func (g *gate) hold(which func([]*messages.Record) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = which
}

func (g *gate) failing(f func([]*messages.Record) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = f
}

func (g *gate) commits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// waiting lists the records whose commit waits.
func (g *gate) waiting() []*messages.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

// watcher follows a session and keeps what it was shown.
type watcher struct {
	mu   sync.Mutex
	seen []*stile.Record
	err  error
	done chan struct{}
}

func watch(t *testing.T, events iter.Seq2[stile.Update, error]) *watcher {
	w := &watcher{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for u, err := range events {
			w.mu.Lock()
			if err != nil {
				w.err = err
			} else if u.Record != nil {
				w.seen = append(w.seen, u.Record)
			}
			w.mu.Unlock()
		}
	}()
	return w
}

// until waits for n records.
func (w *watcher) until(n int) {
	for len(w.records()) < n {
		runtime.Gosched()
	}
}

func (w *watcher) records() []*stile.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// The order contract of docs/spec/design.md §2, commit by commit: no reader sees a record
// before its commit; a submit is answered after it; the model is asked after
// turn.begin; an effect begins after its action.started, a read before.
func TestOrderContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		rt := start(t, stile.Config{Store: g})
		var asked, read, wrote, answered, decided atomic.Bool
		startedOnDisk := func() (ids []string) {
			head, err := g.Store.Head(context.Background(), "local:local:ordered")
			if err != nil {
				t.Error(err)
			}
			for r, err := range g.Store.Read(context.Background(), head.Inc, 0, 0) {
				if err != nil {
					t.Error(err)
				} else if r.Body.Kind() == messages.KindActionStarted {
					ids = append(ids, string(r.Raw))
				}
			}
			return ids
		}
		reads := tool("test.read", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			read.Store(true)
			if ids := startedOnDisk(); len(ids) != 0 {
				t.Errorf("a read waited for the disk: %q", ids)
			}
			return neuroscript.String("r"), nil
		})
		writes := tool("test.write", messages.Effectful, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			wrote.Store(true)
			if ids := startedOnDisk(); len(ids) != 2 || !contains(ids[1], `"#2"`) {
				t.Errorf("an effect began before its action.started was durable: %q", ids)
			}
			return neuroscript.String("w"), nil
		})
		m := model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
			asked.Store(true)
			return says(program("set x = tool.test.read()", "set y = tool.test.write()", "emit x + y", sayDone))(ctx, req)
		})
		s := open(t, rt, "ordered", agent(m, nil, reads, writes))
		w := watch(t, s.Events(t.Context(), 0))
		defer close(g.quit)
		g.hold(all)
		go func() {
			run, err := s.Submit(t.Context(), "go")
			answered.Store(true)
			if err != nil {
				t.Error(err)
				return
			}
			o, err := run.Decision(t.Context())
			if err != nil || o.Decision != stile.Done {
				t.Errorf("%+v %v", o, err)
			}
			decided.Store(true)
		}()
		step := func(last messages.Kind) (held []*messages.Record) {
			t.Helper()
			synctest.Wait()
			held = g.waiting()
			if len(held) == 0 {
				t.Fatalf("no commit waits; want one that ends in %s", last)
			}
			if got := held[len(held)-1].Body.Kind(); got != last {
				t.Fatalf("a commit of %v waits; want one that ends in %s", kinds(held), last)
			}
			for _, r := range w.records() {
				if r.Seq >= held[0].Seq {
					t.Errorf("record %d, %s, was shown before its commit", r.Seq, r.Body.Kind())
				}
			}
			flags := fmt.Sprint(answered.Load(), asked.Load(), read.Load(), wrote.Load(), decided.Load())
			want := map[messages.Kind]string{
				messages.KindTurnBegin:     "false false false false false",
				messages.KindActionStarted: "true true true false false",
				messages.KindRunEnd:        "true true true true false",
			}[last]
			if flags != want {
				t.Errorf("before the commit of %s: answered, asked, read, wrote, decided are %s; want %s", last, flags, want)
			}
			g.next <- struct{}{}
			return held
		}
		step(messages.KindTurnBegin)
		// The read, which the watcher is shown at once, may have a commit of its own.
		if held := step(messages.KindActionStarted); len(bodies[*messages.ActionStarted](held)) < 2 {
			step(messages.KindActionStarted)
		}
		step(messages.KindRunEnd)
		synctest.Wait()
		if !decided.Load() {
			t.Error("the decision did not come after the last commit")
		}
		recs := stored(t, s)
		if got := w.records(); len(got) != len(recs) {
			t.Errorf("%d records were shown, %d are stored", len(got), len(recs))
		}
	})
}

// A cancel overtakes an effect that still waits for the disk: it never begins, and
// the action is cancelled, not unknown.
func TestCancelOvertakesAnEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		rt := start(t, stile.Config{Store: g})
		defer close(g.quit)
		writes := tool("test.write", messages.Effectful, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			t.Error("the effect began")
			return neuroscript.Value{}, nil
		})
		s := open(t, rt, "overtaken", agent(says(program("set x = tool.test.write()", sayDone)), nil, writes))
		g.hold(with(messages.KindActionStarted))
		run := submit(t, s, "go")
		synctest.Wait()
		if g.waiting() == nil {
			t.Fatal("no start waits for the disk")
		}
		cancelled := make(chan error, 1)
		go func() { cancelled <- run.Cancel(t.Context(), "ada") }()
		began := time.Now()
		synctest.Wait()
		g.next <- struct{}{}
		if err := <-cancelled; err != nil {
			t.Fatal(err)
		}
		wantHalt(t, decision(t, run), messages.ErrCancelled, "ada")
		if took := time.Since(began); took != 0 {
			t.Errorf("the cancel took %s: it waited for an effect that never began", took)
		}
		ended := bodies[*messages.ActionEnded](records(t, s))
		if len(ended) != 1 || ended[0].State != messages.ActionCancelled {
			t.Errorf("the action ended %+v", ended)
		}
	})
}

// Text in strict mode is shown when its bytes are durable, and each delta names
// the record that was shown before it.
func TestStrictDurability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		rt := start(t, stile.Config{Store: g})
		m := manifest.Default("plain")
		m.Name, m.Stream.Durability = "strict", manifest.DurabilityStrict
		s := open(t, rt, "strict", &stile.Agent{Manifest: m, Model: model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				for _, part := range []string{"one ", "two ", "three"} {
					time.Sleep(time.Second)
					if !yield(llm.Chunk{Text: []byte(part)}, nil) {
						return
					}
				}
				yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
			}
		})})
		var mu sync.Mutex
		var shown string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			var last int64
			for u, err := range s.Events(t.Context(), 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if u.Record != nil {
					last = u.Record.Seq
					if u.Record.Body.Kind() == messages.KindRunEnd {
						return
					}
					continue
				}
				mu.Lock()
				shown += u.Delta.Text
				mu.Unlock()
				if u.Delta.Seq != last {
					t.Errorf("delta at %d names record %d, the last shown is %d", u.Delta.Off, u.Delta.Seq, last)
				}
			}
		}()
		defer close(g.quit)
		g.hold(with(messages.KindModelChunk))
		run := submit(t, s, "go")
		want := ""
		for _, part := range []string{"one ", "two ", "three"} {
			time.Sleep(time.Second)
			synctest.Wait()
			mu.Lock()
			if shown != want {
				t.Errorf("%q is shown while the commit waits, want %q", shown, want)
			}
			mu.Unlock()
			if g.waiting() == nil {
				t.Fatalf("no commit of %q waits", part)
			}
			g.next <- struct{}{}
			want += part
		}
		wantDone(t, decision(t, run))
		<-ended
		if shown != "one two three" {
			t.Errorf("shown %q", shown)
		}
	})
}

// Commits are counted, not timed: n turns without effects are n + 1, and each wave
// of effectful starts is one more. Reads and pure calls are free.
func TestCommitCounts(t *testing.T) {
	read, write := "set x = tool.test.read()", "set y = tool.test.write()"
	for name, c := range map[string]struct {
		turns [][]string
		want  int
	}{
		"one turn":                 {[][]string{{}}, 2},
		"five turns":               {[][]string{{}, {}, {}, {}, {}}, 6},
		"reads":                    {[][]string{{read, read}, {read}, {read, read, read}}, 4},
		"pure calls":               {[][]string{{`set u = tool.str.ToUpper("a")`}, {}}, 3},
		"one effect":               {[][]string{{write}}, 3},
		"effects in a row":         {[][]string{{write, write, write}}, 5},
		"effects in several turns": {[][]string{{write}, {}, {read, write}}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				rt := start(t, stile.Config{Store: g})
				var replies []string
				for i, lines := range c.turns {
					last := sayContinue
					if i == len(c.turns)-1 {
						last = sayDone
					}
					replies = append(replies, program(strings.Join(lines, "\n"), fmt.Sprint("emit ", i), last))
				}
				var n atomic.Int64
				reads := tool("test.read", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
					return neuroscript.String(fmt.Sprint(n.Add(1))), nil
				})
				s := open(t, rt, "counted", agent(once(replies...), nil, reads, tool("test.write", messages.Effectful, gives("w"))))
				before := g.commits()
				o := ask(t, s, "go")
				wantDone(t, o)
				if n := g.commits() - before; n != c.want {
					t.Errorf("%d commits, want %d", n, c.want)
				}
				synctest.Wait()
				if n := g.commits() - before; n != c.want {
					t.Errorf("%d commits in the end, want %d", n, c.want)
				}
				if int64(g.commits()) != rt.Journal().Commits.Load() || metric(t, rt, "journal_commits_total") != float64(g.commits()) {
					t.Error("the counters of the journal disagree")
				}
			})
		})
	}
}

// Lazy records go by themselves after a quarter of a second, and when a batch of
// them is large.
func TestLazyRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{Store: newGate()})
		in := make(chan struct{}, 1)
		s := open(t, rt, "lazy", agent(says(program(`emit "early"`, "set x = tool.test.wait()", sayDone)), nil, entered("test.wait", messages.ReadOnly, in)))
		submit(t, s, "go")
		<-in
		synctest.Wait()
		if n := len(bodies[*messages.Emit](stored(t, s))); n != 0 {
			t.Errorf("%d emissions are stored at once", n)
		}
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if n := len(bodies[*messages.Emit](stored(t, s))); n != 1 {
			t.Errorf("%d emissions are stored after 250 ms, want 1", n)
		}
	})
}

// The journal cannot append: no decision is shown that is not on disk, everybody
// who waits gets a typed error, and nothing hangs. An I/O failure is sticky until the
// journal is opened anew, which the next request does after a pause; another one lets
// the session come back and settle at once.
func TestJournalFails(t *testing.T) {
	for _, at := range []messages.Kind{messages.KindInput, messages.KindActionStarted, messages.KindTurnDecided} {
		for _, reason := range []string{journal.ReasonIO, journal.ReasonBusy} {
			t.Run(string(at)+"/"+reason, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newGate()
					var log bytes.Buffer
					rt := start(t, stile.Config{Store: g, DecisionLog: &log})
					var wrote atomic.Int64
					a := agent(says(program(`set x = tool.test.write()`, sayDone)), nil, tool("test.write", messages.Effectful,
						func(context.Context, *tools.Call) (neuroscript.Value, error) {
							wrote.Add(1)
							return neuroscript.String("w"), nil
						}))
					s := open(t, rt, "unlucky", a)
					w := watch(t, s.Events(t.Context(), 0))
					synctest.Wait() // it has caught up and listens
					hit := with(at)
					g.failing(func(recs []*messages.Record) error {
						if hit(recs) {
							return journal.Fail(reason, nil, "the disk is full")
						}
						return nil
					})
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					run, err := s.Submit(ctx, "go")
					if at == messages.KindInput {
						wantCode(t, err, messages.ErrJournal)
					} else if err != nil {
						t.Fatal(err)
					} else {
						// Asking wakes the session, which tries to settle the run and fails again.
						_, err = run.Decision(ctx)
						wantCode(t, err, messages.ErrJournal)
					}
					<-w.done
					wantCode(t, w.err, messages.ErrJournal)
					onDisk := len(bodies[*messages.TurnDecided](stored(t, s)))
					if n := len(bodies[*messages.TurnDecided](w.records())); n > onDisk || bytes.Count(log.Bytes(), []byte("\n")) != onDisk {
						t.Errorf("%d decisions are on disk, %d were shown; the log holds %q", onDisk, n, &log)
					}
					if at == messages.KindActionStarted && wrote.Load() != 0 {
						t.Error("an effect began whose start is not on disk")
					}
					if metric(t, rt, "decisions_total", "decision", "DONE") != 0 {
						t.Error("a decision was counted that is not on disk")
					}
					g.failing(nil)
					if reason == journal.ReasonIO { // it is sticky until the journal is opened anew
						time.Sleep(time.Second)
					}
					if _, err = s.Submit(ctx, "more"); err != nil {
						t.Fatal(err)
					}
					if at == messages.KindTurnDecided { // with it the end of the effect was lost
						wantHalt(t, decision(t, s.Run(1)), messages.ErrActionsRuntime, messages.UnknownText)
						return
					}
					wantDone(t, decision(t, s.Run(1)))
				})
			})
		}
	}
}

// reopened counts how often its journal is opened anew.
type reopened struct {
	*gate
	n atomic.Int64
}

// Reopen implements journal.Store.
func (r *reopened) Reopen() error {
	r.n.Add(1)
	return r.gate.Reopen()
}

// A journal that keeps failing is opened anew once a second at most, however many
// ask, and a session comes back with what is on disk.
func TestFailedJournalIsOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reopened{gate: newGate()}
		s := open(t, start(t, stile.Config{Store: r}), "unlucky", agent(says(program(`emit "x"`, sayDone)), nil))
		wantDone(t, ask(t, s, "before"))
		r.failing(func([]*messages.Record) error { return journal.Fail(journal.ReasonIO, nil, "the disk is full") })
		for range 20 {
			_, err := s.Submit(t.Context(), "while it fails")
			wantCode(t, err, messages.ErrJournal)
		}
		if n := r.n.Load(); n != 1 {
			t.Errorf("opened anew %d times at once, want 1", n)
		}
		time.Sleep(time.Second)
		for range 20 {
			_, err := s.Submit(t.Context(), "while it fails")
			wantCode(t, err, messages.ErrJournal)
		}
		if n := r.n.Load(); n != 2 {
			t.Errorf("opened anew %d times in a second, want 2", n)
		}
		r.failing(nil)
		time.Sleep(time.Second)
		wantDone(t, ask(t, s, "after"))
		if n := len(bodies[*messages.Input](stored(t, s))); n != 2 {
			t.Errorf("%d inputs are on disk, want 2", n)
		}
	})
}

package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// talks is a model that says words, one every interval.
func talks(words []string, every time.Duration) model {
	return func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			for _, w := range words {
				select {
				case <-time.After(every):
				case <-ctx.Done():
					yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
					return
				}
				if !yield(llm.Chunk{Text: []byte(w)}, nil) {
					return
				}
			}
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	}
}

func words(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("wörd-%d ", i))
	}
	return all
}

// The deltas of a plain reply are its text: each says how much is shown with it,
// and together they are the response's record.
func TestDeltasAreTheResponse(t *testing.T) {
	for _, durability := range []manifest.Durability{manifest.DurabilityCheckpoint, manifest.DurabilityStrict, manifest.DurabilityUnit} {
		t.Run(string(durability), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{Store: newGate()})
				m := manifest.Default("plain")
				m.Name, m.Stream.Durability = "spoken", durability
				s := open(t, rt, "spoken", &stile.Agent{Manifest: m, Model: talks(words(200), 10*time.Millisecond)})
				run := submit(t, s, "go")
				var shown strings.Builder
				var response string
				var last int64
				for u, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if d := u.Delta; d != nil {
						shown.WriteString(d.Text)
						if d.Off != int64(shown.Len()) || d.Unit.String() != "1.0" || d.Kind != messages.ResponseUnit {
							t.Fatalf("delta %+v after %d bytes", d, shown.Len())
						}
						if d.Seq != last {
							t.Fatalf("delta names record %d, the last one shown is %d", d.Seq, last)
						}
						continue
					}
					last = u.Record.Seq
					if b, ok := u.Record.Body.(*messages.UnitText); ok {
						response = b.Text
					}
				}
				want := strings.Join(words(200), "")
				if response != want {
					t.Errorf("the response has %d bytes, want %d", len(response), len(want))
				}
				if durability == manifest.DurabilityUnit {
					want = ""
				}
				if shown.String() != want {
					t.Errorf("%d bytes were shown, want %d", shown.Len(), len(want))
				}
				var reply bytes.Buffer
				for _, c := range bodies[*messages.ModelChunk](records(t, s)) {
					if c.Off != int64(reply.Len()) {
						t.Errorf("a chunk at %d after %d bytes", c.Off, reply.Len())
					}
					reply.Write(c.Bytes)
				}
				if !strings.HasPrefix(strings.Join(words(200), ""), reply.String()) {
					t.Error("the chunk records are not the reply's beginning")
				}
			})
		})
	}
}

// Every record of a run comes exactly once and in order, to a subscriber that was
// there from the start, one that is far too slow, and one that comes when all is
// over; deltas may be lost on the slow one only.
func TestEveryRecordOnce(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		var lines []string
		for i := range 60 {
			lines = append(lines, fmt.Sprintf("emit %d", i))
		}
		n := 0
		m := model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
			n++
			last := sayContinue
			if n%20 == 0 {
				last = sayDone
			}
			return says(program(append(slices.Clone(lines), fmt.Sprint("emit ", n), last)...))(ctx, req)
		})
		s := open(t, l.begin(), "followed", agent(m, nil))
		defer l.end()
		follow := func(run *stile.Run, slowly bool, to chan<- []*stile.Record) {
			var got []*stile.Record
			for u, err := range run.Events(t.Context()) {
				if err != nil {
					t.Error(err)
					break
				}
				if u.Record == nil {
					continue
				}
				got = append(got, u.Record)
				if slowly && len(got) == 3 {
					if _, err := run.Decision(t.Context()); err != nil { // everything has happened meanwhile
						t.Error(err)
					}
				}
			}
			to <- got
		}
		ask(t, s, "an earlier run")
		run := submit(t, s, "go")
		early, slow, late := make(chan []*stile.Record, 1), make(chan []*stile.Record, 1), make(chan []*stile.Record, 1)
		go follow(run, false, early)
		go follow(run, true, slow)
		wantDone(t, decision(t, run))
		submit(t, s, "a later run")
		go follow(run, false, late)
		var want []string
		for _, r := range stored(t, s) {
			if r.Run == run.Ordinal() {
				want = append(want, fmt.Sprint(r.Seq, r.Body.Kind()))
			}
		}
		if len(want) < 20*62 {
			t.Fatalf("only %d records", len(want))
		}
		for name, c := range map[string]chan []*stile.Record{"early": early, "slow": slow, "late": late} {
			var got []string
			for _, r := range <-c {
				got = append(got, fmt.Sprint(r.Seq, r.Body.Kind()))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the %s subscriber got %d records, want %d, or another order", name, len(got), len(want))
			}
		}
		wantDone(t, decision(t, s.Run(3)))
	})
}

// Resuming at any position gives what follows it.
func TestEventsFromAPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "resumed", agent(says(program(`emit "x"`, sayDone)), nil))
		ask(t, s, "go")
		total := int64(len(records(t, s)))
		for at := range total {
			next := at + 1
			for u, err := range s.Events(t.Context(), at) {
				if err != nil {
					t.Fatal(err)
				}
				if u.Record.Seq != next {
					t.Fatalf("after %d came %d, want %d", at, u.Record.Seq, next)
				}
				if next++; next > total {
					break
				}
			}
		}
	})
}

// Subscribers and waiters of a runtime that closes get a typed error, and what was
// durable before it; those that come later as well.
func TestEventsAcrossClose(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		spoke := make(chan struct{})
		s := open(t, l.begin(), "closing", agent(signals(stalls("x"), spoke), nil))
		run := submit(t, s, "go")
		w := watch(t, run.Events(t.Context()))
		failed := make(chan error, 1)
		go func() {
			_, err := run.Decision(t.Context())
			failed <- err
		}()
		<-spoke
		w.until(3)
		l.end()
		<-w.done
		// A subscriber that is just reading the journal meets its end first.
		if c := messages.CodeOf(w.err); c != messages.ErrCancelled && c != messages.ErrJournal {
			t.Errorf("the subscriber got %v", w.err)
		}
		if got := kinds(w.records()); len(got) < 3 || got[0] != "input" || got[1] != "run.begin" || got[2] != "turn.begin" {
			t.Errorf("the subscriber saw %v", got)
		}
		if err := <-failed; err == nil || messages.CodeOf(err) == "" {
			t.Errorf("the waiter got %v", err)
		}
		_, err := s.Submit(t.Context(), "more")
		wantCode(t, err, messages.ErrCancelled)
		if _, err := run.Decision(t.Context()); messages.CodeOf(err) == "" {
			t.Errorf("a waiter after the end got %v", err)
		}
		for _, err := range run.Events(t.Context()) {
			if err != nil && messages.CodeOf(err) == "" {
				t.Errorf("a subscriber after the end got %v", err)
			}
		}
	})
}

// Breaking out of the events, or a context that ends, leaves nothing behind; the
// run goes on.
func TestLeavingEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "left", &stile.Agent{Dialect: "plain", Model: talks(words(10), time.Second)})
		run := submit(t, s, "go")
		for range run.Events(t.Context()) {
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var last error
		for _, err := range run.Events(ctx) {
			last = err
		}
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("the events ended with %v", last)
		}
		if _, err := run.Decision(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the decision is %v", err)
		}
		wantDone(t, decision(t, run))
	})
}

// A reader that is cut again and again, and comes back with the id of the last one
// some time later, reads the same records and texts as one that never left.
func TestResumeAgainAndAgain(t *testing.T) {
	for _, durability := range []manifest.Durability{manifest.DurabilityCheckpoint, manifest.DurabilityStrict, manifest.DurabilityUnit} {
		t.Run(string(durability), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				m := manifest.Default("plain")
				m.Name, m.Stream.Durability = "spoken", durability
				s := open(t, rt, "spoken", &stile.Agent{Manifest: m, Model: talks(words(100), 10*time.Millisecond)})
				run := submit(t, s, "go")
				var seen []int64
				var shown strings.Builder
				at, over, late := stile.Position{}, false, 0
				for n := 0; !over; n++ {
					time.Sleep(time.Duration(n*7%30) * time.Millisecond)
					left := 1 + n%6
					for u, err := range run.Resume(t.Context(), at) {
						if err != nil {
							t.Fatal(err)
						}
						if d := u.Delta; d != nil {
							if shown.WriteString(d.Text); d.Retract || d.Off != int64(shown.Len()) {
								t.Fatalf("%+v after %d bytes", d, shown.Len())
							}
							if len(d.Text) > len("wörd-99 ") {
								late++
							}
						} else {
							seen = append(seen, u.Record.Seq)
							over = u.Record.Body.Kind() == messages.KindRunEnd
						}
						id := u.At.String()
						if at, err = messages.ParsePosition(id); err != nil {
							t.Fatal(err)
						}
						if left--; left == 0 {
							break
						}
					}
				}
				var all []int64
				for _, r := range records(t, s) {
					all = append(all, r.Seq)
				}
				if !slices.Equal(seen, all[1:]) && !slices.Equal(seen, all) {
					t.Errorf("records %v of %v", seen, all)
				}
				want := strings.Join(words(100), "")
				if durability == manifest.DurabilityUnit {
					want = ""
				} else if late == 0 {
					t.Error("no text came late: nothing was resumed")
				}
				if shown.String() != want {
					t.Errorf("%d bytes were shown, want %d", shown.Len(), len(want))
				}
			})
		})
	}
}

// A subscriber that comes while a text grows gets what was shown of it.
func TestLateSubscriberGetsTheText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "late", &stile.Agent{Dialect: "plain", Model: talks(append(words(5), ""), time.Second)})
		run := submit(t, s, "go")
		time.Sleep(5500 * time.Millisecond)
		for u, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if d := u.Delta; d != nil {
				if want := strings.Join(words(5), ""); d.Text != want || d.Off != int64(len(want)) {
					t.Errorf("%+v", d)
				}
				break
			}
		}
		wantDone(t, decision(t, run))
	})
}

// Who follows a session sees that a call begins when it begins, not when a record that
// hurries comes by: 250 ms later, behind text that was written after it. The journal of a
// session without subscribers gathers as before.
func TestCallsAreAnnouncedAtOnce(t *testing.T) {
	commits := map[bool]int64{}
	for _, followed := range []bool{false, true} {
		dir := t.TempDir()
		store, err := sqlite.Open(sqlite.Options{Path: dir + "/journal.db"})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			rt, err := stile.New(t.Context(), stile.Config{Store: store, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close(context.Background())
			s, err := rt.Open(t.Context(), "s", streaming(&calls,
				`<action id="a" mode="async">{"name":"own.slow","parameters":{"seconds":3}}</action>`, `<response>done</response>`))
			if err != nil {
				t.Fatal(err)
			}
			before := rt.Journal().Commits.Load()
			begun := time.Now()
			seen := map[messages.Kind]time.Duration{}
			done := make(chan struct{})
			if followed {
				go func() {
					defer close(done)
					for u, err := range s.Events(t.Context(), 0) {
						if err != nil || u.Record != nil && u.Record.Body.Kind() == messages.KindRunEnd {
							return
						}
						if u.Record != nil {
							seen[u.Record.Body.Kind()] = time.Since(begun)
						}
					}
				}()
				synctest.Wait()
			}
			decision(t, submit(t, s, "go"))
			commits[followed] = rt.Journal().Commits.Load() - before
			if !followed {
				return
			}
			<-done
			for _, kind := range []messages.Kind{messages.KindActionDeclared, messages.KindActionStarted} {
				if at, ok := seen[kind]; !ok || at != 0 {
					t.Errorf("%s was seen after %v", kind, at)
				}
			}
			if at := seen[messages.KindActionEnded]; at < 3*time.Second {
				t.Errorf("the end was seen after %v", at)
			}
		})
	}
	if commits[true] < commits[false] || commits[true] > commits[false]+1 {
		t.Errorf("%d commits when followed, %d when not", commits[true], commits[false])
	}
}

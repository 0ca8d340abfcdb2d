package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// gate is a memory store that says it waits for a disk: each commit announces its
// batches, then waits to be let through, and may fail.
type gate struct {
	*memory.Store
	entered chan int   // batches of the commit that waits
	pass    chan error // what it comes to
	commits [][]journal.Batch
	reopens atomic.Int64
	reopen  error
}

func newGate() *gate {
	return &gate{Store: memory.New(), entered: make(chan int, 100), pass: make(chan error, 100)}
}

func (g *gate) Immediate() bool { return false }

func (g *gate) Commit(batches []journal.Batch) []error {
	g.commits = append(g.commits, slices.Clone(batches))
	g.entered <- len(batches)
	if err := <-g.pass; err != nil {
		errs := make([]error, len(batches))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return g.Store.Commit(batches)
}

func (g *gate) Reopen() error {
	g.reopens.Add(1)
	return g.reopen
}

// acks collects acknowledgements.
type acks struct {
	mu   sync.Mutex
	list []string
	errs []error
}

func (a *acks) of(name string) func(error) {
	return func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.list = append(a.list, name)
		a.errs = append(a.errs, err)
	}
}

func (a *acks) take() ([]string, []error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, e := a.list, a.errs
	a.list, a.errs = nil, nil
	return l, e
}

func (a *acks) want(t *testing.T, names []string, ok func(i int, err error) bool) {
	t.Helper()
	got, errs := a.take()
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Fatalf("acknowledged %v, want %v", got, names)
	}
	for i, err := range errs {
		if !ok(i, err) {
			t.Errorf("%s: %v", got[i], err)
		}
	}
}

func accepted(_ int, err error) bool { return err == nil }

func barrier(t *testing.T, w *groupcommit.Writer) {
	t.Helper()
	if err := w.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
}

// Whatever queues while a commit runs is the next commit, in the order of Append,
// and nothing is acknowledged before its commit has returned.
func TestGroupCommit(t *testing.T) {
	g := newGate()
	w := groupcommit.New(g, groupcommit.Options{})
	defer w.Close()
	var a acks
	var sessions []*specimen.Session
	for i := range 5 {
		sessions = append(sessions, specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1))
	}
	w.Append(sessions[0].Notes(1), a.of("first"))
	if n := <-g.entered; n != 1 {
		t.Fatalf("%d batches", n)
	}
	var names []string
	for round := range 4 {
		for i, ses := range sessions {
			name := fmt.Sprintf("%d.%d", i, round)
			names = append(names, name)
			w.Append(ses.Notes(2), a.of(name))
		}
	}
	a.want(t, nil, accepted)
	if n, size := w.Queued(); n != 21 || size <= 0 {
		t.Fatalf("%d batches, %d bytes wait", n, size)
	}
	g.pass <- nil
	if n := <-g.entered; n != 20 {
		t.Fatalf("%d batches in the second commit", n)
	}
	a.want(t, []string{"first"}, accepted)
	g.pass <- nil
	barrier(t, w)
	a.want(t, names, accepted)
	if n, size := w.Queued(); n != 0 || size != 0 {
		t.Fatalf("%d batches, %d bytes wait", n, size)
	}
	m := w.Metrics()
	if m.Commits.Load() != 2 || m.Batches.Load() != 21 || m.Records.Load() != 41 || m.Bytes.Load() <= 0 {
		t.Fatalf("%d commits, %d batches, %d records", m.Commits.Load(), m.Batches.Load(), m.Records.Load())
	}
}

func TestGroupLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  groupcommit.Options
		sizes []int // text bytes per batch
		want  []int // batches per commit
	}{
		{"batches", groupcommit.Options{GroupBatches: 3}, []int{1, 1, 1, 1, 1, 1, 1}, []int{3, 3, 1}},
		{"bytes", groupcommit.Options{GroupBytes: 3000}, []int{1000, 1000, 1000, 1000, 1000}, []int{2, 2, 1}},
		{"one too large", groupcommit.Options{GroupBytes: 4000}, []int{100, 9000, 100, 100}, []int{1, 1, 2}},
	} {
		g := newGate()
		w := groupcommit.New(g, c.opts)
		var a acks
		first, ses := specimen.Start(t, "local:local:first", 1), specimen.Start(t, "local:local:x", 2)
		w.Append(first.Notes(1), nil)
		<-g.entered
		for i, n := range c.sizes {
			w.Append(ses.Batch(&messages.Note{Text: string(make([]byte, n/6))}), a.of(fmt.Sprint(i)))
		}
		g.pass <- nil
		for i, want := range c.want {
			if n := <-g.entered; n != want {
				t.Errorf("%s: commit %d has %d batches, want %d", c.name, i, n, want)
			}
			g.pass <- nil
		}
		w.Close()
		if _, errs := a.take(); len(errs) != len(c.sizes) {
			t.Errorf("%s: %d acknowledgements", c.name, len(errs))
		}
	}
}

// After a refusal everything later of that activation falls with the same error,
// also what comes in later commits; others and the next activation go on.
func TestRefusalCascades(t *testing.T) {
	g := newGate()
	w := groupcommit.New(g, groupcommit.Options{})
	defer w.Close()
	var a acks
	old := specimen.Start(t, "local:local:a", 1)
	other := specimen.Start(t, "local:local:b", 2)
	g.pass <- nil
	w.Append(old.Notes(1), nil)
	barrier(t, w)
	<-g.entered
	head, err := g.Head(ctx, old.SID)
	if err != nil {
		t.Fatal(err)
	}
	owner := specimen.Continue(t, head, nil)
	for range 2 {
		g.pass <- nil
	}
	w.Append(owner.Notes(1), nil) // epoch 2 takes over
	barrier(t, w)
	<-g.entered
	w.Append(old.Notes(1), a.of("old 1"))
	<-g.entered // refused in a commit of its own, which has been let through
	w.Append(old.Notes(1), a.of("old 2"))
	w.Append(other.Notes(1), a.of("other"))
	w.Append(old.Notes(1), a.of("old 3"))
	w.Append(owner.Notes(1), a.of("owner"))
	for range 2 {
		g.pass <- nil
	}
	if err := w.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	var first error
	a.want(t, []string{"old 1", "old 2", "other", "old 3", "owner"}, func(i int, err error) bool {
		switch i {
		case 0:
			first = err
			return journal.IsFenced(err)
		case 1, 3:
			return any(err) == any(first)
		}
		return err == nil
	})
	m := w.Metrics()
	if m.Fenced.Load() != 1 || m.Cascaded.Load() != 2 {
		t.Errorf("%d fenced, %d cascaded", m.Fenced.Load(), m.Cascaded.Load())
	}
	for _, batches := range g.commits[3:] {
		for _, b := range batches {
			if b.Inc == old.Inc && b.Epoch == 1 {
				t.Error("a later batch of a refused activation was tried")
			}
		}
	}
	// Behind the barrier the mark is gone, and the store's fence still stands.
	g.pass <- nil
	w.Append(old.Notes(1), a.of("ghost"))
	barrier(t, w)
	a.want(t, []string{"ghost"}, func(_ int, err error) bool { return journal.IsFenced(err) })
}

// A busy store refuses without being broken, and the activation that comes next,
// with the same epoch since nothing was written, is heard.
func TestBusyIsNotSticky(t *testing.T) {
	g := newGate()
	w := groupcommit.New(g, groupcommit.Options{})
	defer w.Close()
	var a acks
	ses := specimen.Start(t, "local:local:a", 1)
	g.pass <- journal.Fail(journal.ReasonBusy, nil, "locked")
	w.Append(ses.Notes(1), a.of("1"))
	<-g.entered
	w.Append(ses.Notes(1), a.of("2"))
	head, err := w.Activate(ctx, ses.SID)
	if !journal.IsNotFound(err) || w.Err() != nil {
		t.Fatalf("%+v, %v, %v", head, err, w.Err())
	}
	a.want(t, []string{"1", "2"}, func(_ int, err error) bool { return journal.ReasonOf(err) == journal.ReasonBusy })
	g.pass <- nil
	again := specimen.Start(t, "local:local:a", 1)
	w.Append(again.Notes(1), a.of("3"))
	if head, err = w.Activate(ctx, ses.SID); err != nil || head.Seq != 1 {
		t.Fatalf("%+v, %v", head, err)
	}
	a.want(t, []string{"3"}, accepted)
}

func TestFailureIsSticky(t *testing.T) {
	g := newGate()
	w := groupcommit.New(g, groupcommit.Options{})
	defer w.Close()
	var a acks
	x, y := specimen.Start(t, "local:local:x", 1), specimen.Start(t, "local:local:y", 2)
	g.pass <- journal.Fail(journal.ReasonIO, errors.New("no space"), "writing")
	w.Append(x.Notes(1), a.of("x1"))
	<-g.entered
	w.Append(y.Notes(1), a.of("y1"))
	w.Append(x.Notes(1), a.of("x2"))
	g.reopen = journal.Fail(journal.ReasonIO, nil, "still no space")
	io := func(_ int, err error) bool { return journal.ReasonOf(err) == journal.ReasonIO }
	if err := w.Reopen(ctx); !io(0, err) || !io(0, w.Err()) {
		t.Fatalf("%v, %v", err, w.Err())
	}
	a.want(t, []string{"x1", "y1", "x2"}, io)
	if len(g.commits) != 1 {
		t.Fatalf("%d commits", len(g.commits))
	}
	g.reopen = nil
	if err := w.Reopen(ctx); err != nil || w.Err() != nil || g.reopens.Load() != 2 {
		t.Fatalf("%v, %v", err, w.Err())
	}
	// What an old activation still sends is refused; a new one is heard.
	w.Append(x.Notes(1), a.of("x3"))
	if _, err := w.Activate(ctx, x.SID); !journal.IsNotFound(err) {
		t.Fatal(err)
	}
	a.want(t, []string{"x3"}, io)
	g.pass <- nil
	w.Append(specimen.Start(t, x.SID, 1).Notes(1), a.of("x4"))
	barrier(t, w)
	a.want(t, []string{"x4"}, accepted)
}

func TestQueueLimit(t *testing.T) {
	g := newGate()
	w := groupcommit.New(g, groupcommit.Options{QueueBytes: 2000})
	defer w.Close()
	var a acks
	x, y := specimen.Start(t, "local:local:x", 1), specimen.Start(t, "local:local:y", 2)
	w.Append(x.Notes(1), a.of("x1"))
	<-g.entered
	w.Append(x.Batch(&messages.Note{Text: string(make([]byte, 1000))}), a.of("x2"))
	w.Append(x.Notes(1), a.of("x3"))
	w.Append(y.Notes(1), a.of("y1"))
	g.pass <- nil
	g.pass <- nil
	barrier(t, w)
	a.want(t, []string{"x1", "x2", "x3", "y1"}, func(i int, err error) bool {
		return (journal.ReasonOf(err) == journal.ReasonOverload) == (i == 1 || i == 2)
	})
	if n, size := w.Queued(); n != 0 || size != 0 {
		t.Fatalf("%d batches, %d bytes wait", n, size)
	}
}

func TestBarrierEndsWithItsContext(t *testing.T) {
	g := newGate()
	w := groupcommit.New(g, groupcommit.Options{})
	defer w.Close()
	w.Append(specimen.Start(t, "local:local:x", 1).Notes(1), nil)
	<-g.entered
	ctx, cancel := context.WithCancelCause(ctx)
	why := errors.New("enough")
	cancel(why)
	if err := w.Barrier(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
	if _, err := w.Activate(ctx, "local:local:x"); !errors.Is(err, why) {
		t.Error(err)
	}
	if err := w.Reopen(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
	g.pass <- nil
}

func TestCloseDrains(t *testing.T) {
	g := newGate()
	w := groupcommit.New(g, groupcommit.Options{GroupBatches: 1})
	var a acks
	ses := specimen.Start(t, "local:local:x", 1)
	for i := range 3 {
		w.Append(ses.Notes(1), a.of(fmt.Sprint(i)))
	}
	closed := make(chan struct{})
	go func() {
		w.Close()
		close(closed)
	}()
	for range 3 {
		<-g.entered
		g.pass <- nil
	}
	<-closed
	a.want(t, []string{"0", "1", "2"}, accepted)
	w.Close()
	w.Append(ses.Notes(1), a.of("late"))
	a.want(t, []string{"late"}, func(_ int, err error) bool { return journal.ReasonOf(err) == journal.ReasonClosed })
	if err := w.Barrier(ctx); journal.ReasonOf(err) != journal.ReasonClosed {
		t.Error(err)
	}
	w.Append(ses.Notes(1), nil)
}

// With a memory store the acknowledgement comes before Append returns and may
// append itself.
func TestInline(t *testing.T) {
	s := memory.New()
	w := groupcommit.New(s, groupcommit.Options{})
	ses := specimen.Start(t, "local:local:x", 1)
	var a acks
	w.Append(ses.Notes(1), func(err error) {
		a.of("outer")(err)
		w.Append(ses.Notes(1), a.of("inner"))
	})
	a.want(t, []string{"outer", "inner"}, accepted)
	w.Append(specimen.Start(t, "local:local:x", 2).Notes(1), a.of("second"))
	stale := func(_ int, err error) bool { return journal.IsStale(err) }
	a.want(t, []string{"second"}, stale)
	bad := ses.Notes(1)
	bad.ExpectSeq = 0
	w.Append(bad, a.of("bad"))
	w.Append(ses.Notes(1), a.of("after"))
	a.want(t, []string{"bad", "after"}, func(_ int, err error) bool { return journal.ReasonOf(err) == journal.ReasonInvalid })
	if w.Metrics().Cascaded.Load() != 1 {
		t.Error("the batch after a refused one was tried")
	}
	head, err := w.Activate(ctx, ses.SID)
	if err != nil || head.Seq != 2 {
		t.Fatalf("%+v, %v", head, err)
	}
	w.Append(specimen.Continue(t, head, nil).Notes(1), a.of("again"))
	a.want(t, []string{"again"}, accepted)
	if err := w.Reopen(ctx); err != nil {
		t.Error(err)
	}
	w.Close()
	w.Append(ses.Notes(1), a.of("late"))
	a.want(t, []string{"late"}, func(_ int, err error) bool { return journal.ReasonOf(err) == journal.ReasonClosed })
	if err := w.Barrier(ctx); journal.ReasonOf(err) != journal.ReasonClosed {
		t.Error(err)
	}
}

// A store that decides fewer batches than it was given leaves none unanswered.
type forgetful struct{ *memory.Store }

func (forgetful) Immediate() bool                { return true }
func (forgetful) Commit([]journal.Batch) []error { return nil }

func TestEveryBatchIsAnswered(t *testing.T) {
	w := groupcommit.New(forgetful{memory.New()}, groupcommit.Options{})
	defer w.Close()
	var a acks
	w.Append(specimen.Start(t, "local:local:x", 1).Notes(1), a.of("1"))
	a.want(t, []string{"1"}, func(_ int, err error) bool { return err != nil })
}

// Many sessions append at once; per session the acknowledgements come in order
// and the histories are whole.
func TestConcurrentSessions(t *testing.T) {
	for _, name := range []string{"inline", "goroutine"} {
		t.Run(name, func(t *testing.T) {
			s := memory.New()
			var store journal.Store = s
			if name == "goroutine" {
				g := &gate{Store: s, entered: make(chan int, 10000), pass: make(chan error)}
				close(g.pass)
				store = g
			}
			w := groupcommit.New(store, groupcommit.Options{})
			const sessions, batches = 16, 50
			var wg sync.WaitGroup
			for i := range sessions {
				ses := specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1)
				wg.Go(func() {
					next := 0
					for n := range batches {
						w.Append(ses.Notes(1+n%3), func(err error) {
							if err != nil || next != n {
								t.Errorf("session %d: batch %d after %d: %v", i, n, next-1, err)
							}
							next++
						})
					}
					if err := w.Barrier(ctx); err != nil || next != batches {
						t.Errorf("session %d: %d acknowledged before the barrier, %v", i, next, err)
					}
				})
			}
			wg.Wait()
			w.Close()
			for i := range sessions {
				if _, _, err := journal.Load(ctx, s, specimen.Inc(i+1)); err != nil {
					t.Error(err)
				}
			}
			if n := w.Metrics().Batches.Load(); n != sessions*batches {
				t.Errorf("%d batches", n)
			}
		})
	}
}

func BenchmarkAppend_Memory(b *testing.B) {
	b.Run("seal_and_append", func(b *testing.B) {
		w := groupcommit.New(memory.New(), groupcommit.Options{})
		defer w.Close()
		ses := specimen.Start(b, "local:local:x", 1)
		body := specimen.Decided()
		b.ReportAllocs()
		for b.Loop() {
			w.Append(ses.Batch(body), nil)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("floor_seal", func(b *testing.B) {
		ses := specimen.Start(b, "local:local:x", 1)
		body := specimen.Decided()
		b.ReportAllocs()
		for b.Loop() {
			ses.Batch(body)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	})
}

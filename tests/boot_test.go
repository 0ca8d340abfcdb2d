package tests

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// decisions is a decision log that tells of every line.
type decisions struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newDecisions() *decisions { return &decisions{more: make(chan struct{}, 1<<16)} }

// Write implements io.Writer.
func (d *decisions) Write(p []byte) (int, error) {
	d.mu.Lock()
	d.lines = append(d.lines, string(bytes.TrimSpace(p)))
	d.mu.Unlock()
	d.more <- struct{}{}
	return len(p), nil
}

func (d *decisions) await(n int) []string {
	for range n {
		<-d.more
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func statusOf(t *testing.T, a *stile.Archive, name string) stile.Status {
	t.Helper()
	h, err := a.Head(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	st, err := a.Status(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A runtime that starts goes on with the sessions of its agents by itself: a turn
// that was cut while its model spoke, one cut in its program, an input that waited.
func TestBootScan(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		hung := newAttempts()
		spoke := make(chan struct{})
		hang := tool("test.hang", messages.Keyed, hung.run)
		in := program(`set x = tool.test.hang()`, `emit x`, sayDone)
		rt := l.begin()
		submit(t, open(t, rt, "speaks", agent(signals(stalls("x"), spoke), nil, hang)), "go")
		s := open(t, rt, "acts", agent(says(in), nil, hang))
		submit(t, s, "go")
		submit(t, s, "and again")
		wantDone(t, ask(t, open(t, rt, "idle", agent(says(program(`emit "x"`, sayDone)), nil, hang)), "go"))
		<-spoke
		<-hung.in
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.end()

		log := newDecisions()
		l.cfg.DecisionLog = log
		l.cfg.Agents = []*stile.Agent{agent(says(in), nil, hang)}
		rt = l.begin()
		defer l.end()
		rep, err := rt.Booted(t.Context())
		if err != nil || rep != (stile.BootReport{Found: 2, Settled: 2}) {
			t.Fatalf("%+v %v", rep, err)
		}
		// The crashed turn and a fresh one of speaks, the restored one and the next run
		// of acts.
		lines := log.await(4)
		if n := strings.Count(strings.Join(lines, "\n"), `"DONE"`); n != 3 {
			t.Errorf("%d turns are done, want 3: %q", n, lines)
		}
		for _, name := range []string{"speaks", "acts", "idle"} {
			open(t, rt, name, l.cfg.Agents[0])
			head, err := rt.Archive().Head(t.Context(), name)
			if err != nil || head.Open || head.Queued > 0 {
				t.Errorf("%s: %+v %v", name, head, err)
			}
			if _, err := rt.Replay(t.Context(), name, l.cfg.Agents[0]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Sessions are taken up page by page, so many in a second and no more at once.
func TestBootScanIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := stile.GenerateKeys(stile.Config{})
		if err != nil {
			t.Fatal(err)
		}
		const sessions = 600
		l := &life{t: t, cfg: stile.Config{Store: memory.New(), Keys: keys}}
		rt := l.begin()
		stuck := agent(stalls("x"), nil)
		for i := range sessions {
			submit(t, open(t, rt, fmt.Sprint("s", i), stuck), "go")
		}
		synctest.Wait()
		l.end()

		var begun atomic.Int64
		counting := agent(model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
			begun.Add(1)
			return says(program(`emit "x"`, sayDone))(ctx, req)
		}), nil)
		l.cfg.Agents = []*stile.Agent{counting}
		l.cfg.Boot = stile.Boot{PerSecond: 100, Concurrency: 2}
		rt = l.begin()
		defer l.end()
		for sec := range 6 {
			time.Sleep(time.Second - time.Millisecond)
			synctest.Wait()
			if n := begun.Load(); n != int64(100*(sec+1)) {
				t.Fatalf("after %d s %d sessions go on, want %d", sec+1, n, 100*(sec+1))
			}
			time.Sleep(time.Millisecond)
		}
		rep, err := rt.Booted(t.Context())
		if err != nil || rep != (stile.BootReport{Found: sessions, Settled: sessions}) {
			t.Fatalf("%+v %v", rep, err)
		}
	})
}

// A session without a known agent waits to be opened, and says so. A manifest that was
// edited is known by its name.
func TestBootWithoutAgent(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		named := func(name string) func(*manifest.Manifest) {
			return func(m *manifest.Manifest) { m.Name = name }
		}
		rt := l.begin()
		for _, name := range []string{"ours", "theirs"} {
			spoke := make(chan struct{})
			submit(t, open(t, rt, name, agent(signals(stalls("x"), spoke), named(name))), "go")
			<-spoke
		}
		l.end()

		log := newDecisions()
		l.cfg.DecisionLog = log
		reply := says(program(`emit "x"`, sayDone))
		edited := agent(reply, func(m *manifest.Manifest) { m.Name, m.Quotas.Gas = "ours", 12345 })
		l.cfg.Agents = []*stile.Agent{edited}
		rt = l.begin()
		defer l.end()
		rep, err := rt.Booted(t.Context())
		if err != nil || rep != (stile.BootReport{Found: 2, Settled: 1, NoAgent: 1}) {
			t.Fatalf("%+v %v", rep, err)
		}
		log.await(2)
		if st := statusOf(t, rt.Archive(), "theirs"); st != stile.StatusInterrupted {
			t.Errorf("a session without its agent is %s", st)
		}
		s := open(t, rt, "theirs", agent(reply, named("theirs")))
		wantDone(t, decision(t, s.Run(1)))
		if st := statusOf(t, rt.Archive(), "theirs"); st != stile.StatusIdle {
			t.Errorf("settled, it is %s", st)
		}
	})
}

// Agents of one name are a mistake, and one that cannot be compiled is found at the
// start.
func TestBootRefusesAgents(t *testing.T) {
	one := agent(says("x"), nil)
	broken := agent(says("x"), func(m *manifest.Manifest) { m.Name, m.Import.Tools = "broken", []string{"no.such"} })
	for _, agents := range [][]*stile.Agent{{one, agent(says("y"), nil)}, {one, broken}, {nil}} {
		_, err := stile.New(t.Context(), stile.Config{Dir: t.TempDir(), Agents: agents})
		wantCode(t, err, messages.ErrConfig)
	}
}

// What others see of a journal: running while its runtime lives, interrupted after
// it, also while one lives that has not come to it. A second runtime leaves the
// sessions of the first alone.
func TestStatusFromOutside(t *testing.T) {
	dir := t.TempDir()
	archive := func() *stile.Archive {
		a, err := stile.OpenArchive(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		return a
	}
	spoke := make(chan struct{})
	stuck := agent(signals(stalls("x"), spoke), nil)
	l := &life{t: t, cfg: stile.Config{Dir: dir, Agents: []*stile.Agent{stuck}}}
	rt := l.begin()
	s := open(t, rt, "seen", stuck)
	if st := statusOf(t, archive(), "seen"); st != stile.StatusIdle {
		t.Errorf("idle, it is %s", st)
	}
	submit(t, s, "go")
	<-spoke
	if st := statusOf(t, archive(), "seen"); st != stile.StatusRunning {
		t.Errorf("running, it is %s", st)
	}
	second, err := stile.New(t.Context(), l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := second.Booted(t.Context()); err != nil || rep.Found != 0 {
		t.Errorf("a second runtime took up %+v, %v", rep, err)
	}
	if err := second.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := statusOf(t, archive(), "seen"); st != stile.StatusRunning {
		t.Errorf("running, it is %s", st)
	}
	l.end()
	if st := statusOf(t, archive(), "seen"); st != stile.StatusInterrupted {
		t.Errorf("its runtime gone, it is %s", st)
	}
	l.cfg.Agents = nil
	l.begin()
	defer l.end()
	if st := statusOf(t, archive(), "seen"); st != stile.StatusInterrupted {
		t.Errorf("under a runtime that does not know it, it is %s", st)
	}
}

// Waiting for a run wakes the session that has it.
func TestDecisionWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := stile.GenerateKeys(stile.Config{})
		if err != nil {
			t.Fatal(err)
		}
		store := memory.New()
		fresh := agent(says(program(`emit "x"`, sayDone)), nil)
		waiting := open(t, start(t, stile.Config{Store: store, Keys: keys, IdleTimeout: time.Minute}), "shared", fresh)
		time.Sleep(5 * time.Minute) // it sleeps
		l := &life{t: t, cfg: stile.Config{Store: store, Keys: keys}}
		submit(t, open(t, l.begin(), "shared", agent(stalls("x"), nil)), "go")
		synctest.Wait()
		l.end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		o, err := waiting.Run(1).Decision(ctx)
		if err != nil {
			t.Fatal(err)
		}
		wantDone(t, o)
	})
}

// A tool that is deaf to its context does not hold up the end.
func TestCloseLeavesDeafTools(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		in, hold := make(chan struct{}), make(chan struct{})
		deaf := tool("test.deaf", messages.Effectful, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			close(in)
			<-hold
			return neuroscript.Value{}, nil
		})
		s := open(t, l.begin(), "deaf", agent(says(program(`set x = tool.test.deaf()`, sayDone)), nil, deaf))
		submit(t, s, "go")
		<-in
		l.end()
		close(hold)
	})
}

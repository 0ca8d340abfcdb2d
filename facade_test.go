package stile_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools"
)

// calls does everything a runtime offers and gives what each call said.
func calls(ctx context.Context, rt *stile.Runtime, s *stile.Session, r *stile.Run, a *stile.Agent) map[string]error {
	said := map[string]error{}
	_, said["Open"] = rt.Open(ctx, "other", a)
	_, said["Submit"] = s.Submit(ctx, "x")
	_, said["Decision"] = r.Decision(ctx)
	_, said["Run.Decision"] = s.Run(r.Ordinal()).Decision(ctx)
	said["Cancel"] = r.Cancel(ctx, "x")
	said["Session.Cancel"] = s.Cancel(ctx, "x")
	said["Flush"] = s.Flush(ctx)
	_, said["Fork"] = rt.Fork(ctx, "s", 0, "fork")
	_, said["Replay"] = rt.Replay(ctx, "s", a)
	for _, err := range r.Events(ctx) {
		said["Events"] = err
	}
	for _, err := range s.Events(ctx, 4) {
		said["Session.Events"] = err
	}
	for _, err := range s.Records(ctx) {
		said["Records"] = err
	}
	return said
}

// After Close nothing blocks, and everything says so with a type.
// What paths take for folders is no name of a session.
func TestDotsAreNoNames(t *testing.T) {
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	agent := &stile.Agent{Manifest: manifest.Default("plain"), Model: scripted.New("hello")}
	if _, err := rt.Open(t.Context(), "...", agent); err != nil {
		t.Error(err)
	}
	for name, field := range map[string]string{".": "id", "..": "id", "acme:ann:..": "id", "acme:..:s": "user", ".:ann:s": "tenant"} {
		_, open := rt.Open(t.Context(), name, agent)
		_, fork := rt.Fork(t.Context(), "...", 0, name)
		for _, err := range []error{open, fork} {
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.ErrInvalid || e.Field != field {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestClosed(t *testing.T) {
	for name, cfg := range map[string]stile.Config{"memory": {}, "sqlite": {Dir: t.TempDir()}} {
		rt := start(t, cfg)
		agent := &stile.Agent{Dialect: "plain", Model: &gated{open: make(chan struct{}), Model: said("never")}}
		s := opened(t, rt, "s", agent)
		run := submitted(t, s, "hello")
		watched := make(chan error, 2) // those who wait meanwhile are let go
		go func() {
			var last error
			for _, err := range s.Events(context.Background(), 0) {
				last = err
			}
			watched <- last
		}()
		go func() {
			_, err := run.Decision(context.Background())
			watched <- err
		}()
		closed(t, rt)
		for range 2 {
			wantCode(t, <-watched, messages.ErrCancelled)
		}
		closed(t, rt)
		for call, err := range calls(context.Background(), rt, s, run, agent) {
			if code := messages.CodeOf(err); code != messages.ErrCancelled && code != messages.ErrJournal {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
	}
}

// A context that has ended ends every call that would wait.
func TestContextEnds(t *testing.T) {
	rt := start(t, stile.Config{})
	agent := &stile.Agent{Dialect: "plain", Model: &gated{open: make(chan struct{}), Model: said("never")}}
	s := opened(t, rt, "s", agent)
	run := submitted(t, s, "hello")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	said := calls(ctx, rt, s, run, agent)
	for _, call := range []string{"Decision", "Run.Decision", "Events", "Session.Events", "Records", "Fork", "Replay"} {
		if err := said[call]; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call, err)
		}
	}
	for call, err := range said { // those that ask an actor may have been quicker
		if err != nil && !errors.Is(err, context.Canceled) && messages.CodeOf(err) == "" {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Close does not wait longer than its context for a tool that heeds nothing, and what
// is left to do is done when the tool comes back.
func TestCloseDeafTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, back := make(chan struct{}), make(chan struct{})
		deaf := tools.Tool{Name: "own.deaf", Class: messages.Effectful, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
			close(begun)
			<-back
			return neuroscript.Value{}, nil
		}}
		rt := start(t, stile.Config{})
		agent := &stile.Agent{Dialect: "aeiou", Tools: []tools.Tool{deaf}, Model: said("command\n set x = tool.own.deaf()\nendcommand")}
		s := opened(t, rt, "s", agent)
		submitted(t, s, "go")
		<-begun
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := rt.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		close(back)
		closed(t, rt)
		_, err := rt.Archive().Head(context.Background(), "s")
		if journal.ReasonOf(err) != journal.ReasonClosed {
			t.Errorf("the journal is open still: %v", err)
		}
	})
}

// Decision says the same before the end, after it, from a joined or a late handle,
// and in another life of the host; also for a run that never began.
func TestDecision(t *testing.T) {
	ctx := context.Background()
	store, keys := memory.New(), generated(t)
	rt := start(t, stile.Config{Store: store, Keys: keys})
	model := &gated{open: make(chan struct{}), Model: said("yes")}
	agent := &stile.Agent{Dialect: "plain", Model: model}
	s := opened(t, rt, "s", agent)
	runs := []*stile.Run{submitted(t, s, "one", stile.IdempotencyKey("k1")), submitted(t, s, "two", stile.IdempotencyKey("k2")), submitted(t, s, "three")}
	if err := runs[1].Cancel(ctx, "Ada"); err != nil {
		t.Fatal(err)
	}
	// The second has ended while the first is in flight and the third waits.
	handles := []*stile.Run{runs[1], submitted(t, s, "two", stile.IdempotencyKey("k2")), s.Run(2)}
	for _, r := range handles {
		if d := decided(t, r); d.Reason != messages.ErrCancelled || d.Turn != nil || d.DecidedSeq != 0 || d.EndSeq == 0 {
			t.Errorf("waiting run: %+v", d)
		}
	}
	wantCode(t, runs[1].Cancel(ctx, "Ada"), messages.ErrDenied)
	before := make(chan stile.Outcome)
	go func() {
		d, _ := runs[2].Decision(ctx)
		before <- d
	}()
	close(model.open)
	want := <-before
	if want.Decision != stile.Done || want.Turns != 1 || want.Turn == nil || want.EndSeq <= want.DecidedSeq {
		t.Fatalf("%+v", want)
	}
	same := func(r *stile.Run) {
		t.Helper()
		if d := decided(t, r); fmt.Sprint(d.Decision, d.Reason, d.Turns, d.DecidedSeq, d.EndSeq, d.Turn.TurnIndex) !=
			fmt.Sprint(want.Decision, want.Reason, want.Turns, want.DecidedSeq, want.EndSeq, want.Turn.TurnIndex) {
			t.Errorf("%+v, want %+v", d, want)
		}
	}
	same(runs[2])
	same(s.Run(3))
	for _, none := range []int64{-1, 0, 4, 99} {
		_, err := s.Run(none).Decision(ctx)
		wantCode(t, err, messages.ErrNotFound)
	}
	closed(t, rt)
	rt = start(t, stile.Config{Store: store, Keys: keys})
	s = opened(t, rt, "s", agent)
	same(s.Run(3))
	if d := decided(t, s.Run(2)); d.Reason != messages.ErrCancelled {
		t.Errorf("%+v", d)
	}
}

// A run that takes up what another one left has no input of its own, and can be waited for
// all the same before it begins.
func TestDecisionOfLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{Store: memory.New()})
		model := &gated{open: make(chan struct{}), Model: said("yes")}
		s := opened(t, rt, "s", &stile.Agent{Dialect: "plain", Model: model})
		first := submitted(t, s, "one")
		submitted(t, s, "and", stile.Policy(stile.Merge))
		submitted(t, s, "no: two", stile.Policy(stile.Interrupt))
		if d := decided(t, first); d.Reason != messages.ErrCancelled || d.Next != 3 {
			t.Fatalf("%+v", d)
		}
		ended := make(chan error, 1)
		var d stile.Outcome
		go func() {
			var err error
			d, err = s.Run(3).Decision(t.Context())
			ended <- err
		}()
		synctest.Wait() // for the second run's model
		close(model.open)
		if err := <-ended; err != nil || d.Decision != stile.Done {
			t.Errorf("%+v, %v", d, err)
		}
		closed(t, rt)
	})
}

// heard is a model whose first turn is short and whose second waits, after its first
// byte, until a subscriber has got it.
type heard struct {
	gated
	heard chan struct{}
}

// Stream implements llm.Model.
func (m *heard) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		switch req.Turn {
		case 1:
			(&gated{m.open, said("yes")}).Stream(ctx, req)(yield)
		default:
			if yield(llm.Chunk{Text: []byte("-")}, nil) {
				<-m.heard
				m.Model.Stream(ctx, req)(yield)
			}
		}
	}
}

// A subscriber sees its run alone: records from the position it asks for, and deltas
// of its own turns, also when it is slow.
func TestEvents(t *testing.T) {
	ctx := context.Background()
	rt := start(t, stile.Config{})
	m := manifest.Default("plain")
	m.Stream.Durability = manifest.DurabilityStrict
	model := &heard{gated: gated{open: make(chan struct{}), Model: slowLines{text: strings.Repeat("x", 600), piece: 1}}, heard: make(chan struct{})}
	agent := &stile.Agent{Manifest: m, Model: model}
	s := opened(t, rt, "s", agent)
	first, second := submitted(t, s, "one"), submitted(t, s, "two")
	slow := make(chan int64, 1)
	go func() { // reads nothing until all is over: it was dropped from the queue and catches up
		n, last := 0, int64(3)
		for u, err := range s.Events(ctx, 3) {
			if n == 0 {
				_, _ = second.Decision(ctx)
			}
			n++
			if err != nil {
				break
			}
			if u.Record == nil {
				continue
			}
			if u.Record.Seq != last+1 {
				break
			}
			last = u.Record.Seq
			if u.Record.Run == second.Ordinal() && u.Record.Body.Kind() == messages.KindRunEnd {
				break
			}
		}
		slow <- last
	}()
	turn, deltas, seen := int64(0), 0, int64(0)
	for u, err := range second.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Delta != nil {
			if deltas++; deltas == 1 {
				close(model.heard)
			}
			if u.Delta.Unit.Turn != turn || turn == 0 {
				t.Fatalf("a delta of turn %d in turn %d", u.Delta.Unit.Turn, turn)
			}
			continue
		}
		if u.Record.Run != second.Ordinal() || u.Record.Seq <= seen {
			t.Fatalf("record %d of run %d after %d", u.Record.Seq, u.Record.Run, seen)
		}
		if seen == 0 {
			close(model.open) // now that a subscriber listens
		}
		if seen = u.Record.Seq; u.Record.Turn > 0 {
			turn = u.Record.Turn
		}
	}
	if deltas == 0 {
		t.Error("no deltas")
	}
	if d := decided(t, first); d.Decision != stile.Done {
		t.Errorf("%+v", d)
	}
	if last := <-slow; last != seen {
		t.Errorf("the slow one came to %d, the last record is %d", last, seen)
	}
	n := 0
	for u, err := range s.Events(ctx, -7) {
		if err != nil || u.Record.Seq != int64(n+1) {
			t.Fatalf("%v, %v", u.Record, err)
		}
		if n++; n == 5 {
			break
		}
	}
}

// Many sessions opened, submitted to and cancelled at once, one of them by everyone.
func TestOpenUnderLoad(t *testing.T) {
	ctx := context.Background()
	rt := start(t, stile.Config{Dir: t.TempDir()})
	agent := &stile.Agent{Dialect: "plain", Model: said("yes")}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for _, name := range []string{fmt.Sprint("s", i), "shared"} {
				s, err := rt.Open(ctx, name, agent)
				if err != nil {
					t.Error(err)
					return
				}
				run, err := s.Submit(ctx, "hello")
				if messages.CodeOf(err) == messages.ErrBusy { // its queue has 16 places
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if i%4 == 0 {
					_ = run.Cancel(ctx, "load") // it may have ended
				}
				if _, err := run.Decision(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n, _, _ := replays(t, rt.Archive(), agent); n < 40*9 {
		t.Errorf("%d records", n)
	}
}

func generated(t testing.TB) *keyring.Ring {
	t.Helper()
	keys, err := stile.GenerateKeys(stile.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Two hosts on one directory: the fence lets one of two activations go on. The other
// is told ERR_FENCED (or that its head is stale), and neither harms the journal.
func TestTwoRuntimes(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	agent := &stile.Agent{Dialect: "plain", Model: said("yes")}
	var rts [2]*stile.Runtime
	var wg sync.WaitGroup
	for i := range rts { // at once, in a new directory
		wg.Go(func() {
			rt, err := stile.New(ctx, stile.Config{Dir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			rts[i] = rt
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if a, b := rts[0].Keys().String(), rts[1].Keys().String(); a != b {
		t.Errorf("the hosts have different keys: %s, %s", a, b)
	}
	refused := 0
	for round := range 6 {
		rt := rts[round%2]
		s := opened(t, rt, "s", agent)
		for range 3 {
			run, err := s.Submit(ctx, "hello")
			if err == nil {
				decided(t, run)
				break
			}
			refused++
			if code := messages.CodeOf(err); code != messages.ErrFenced && !journal.IsStale(err) {
				t.Fatalf("the loser is told %v", err)
			}
		}
	}
	if refused == 0 {
		t.Error("no runtime was fenced")
	}
	for _, rt := range rts {
		closed(t, rt)
	}
	ar, err := stile.OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ar.Close()
	if n, _, _ := replays(t, ar, nil); n < 6*8 {
		t.Errorf("%d records", n)
	}
}

// The data directory and the key file are the owner's alone; what is wrong with them
// is said with a type.
func TestDirectory(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "deep", "data")
	closed(t, start(t, stile.Config{Dir: dir, Passphrase: []byte("right")}))
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, stile.KeyFile): 0o600, filepath.Join(dir, stile.JournalFile): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", filepath.Base(path), info.Mode(), err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if strings.HasPrefix(f.Name(), ".") {
			t.Errorf("%s was left behind", f.Name())
		}
	}
	for _, pass := range []string{"", "wrong"} {
		_, err := stile.New(ctx, stile.Config{Dir: dir, Passphrase: []byte(pass)})
		wantCode(t, err, messages.ErrConfig)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = stile.New(ctx, stile.Config{Dir: file})
	wantCode(t, err, messages.ErrConfig)
	_, err = stile.OpenArchive(filepath.Join(dir, "none"))
	wantCode(t, err, messages.ErrConfig)
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, stile.JournalFile), bytes.Repeat([]byte("no journal"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = stile.OpenArchive(foreign)
	wantCode(t, err, messages.ErrJournal)
	_, err = stile.New(ctx, stile.Config{Dir: foreign})
	wantCode(t, err, messages.ErrJournal)
	if err := os.WriteFile(filepath.Join(dir, stile.KeyFile), []byte(`{"half":`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = stile.New(ctx, stile.Config{Dir: dir, Passphrase: []byte("right")})
	wantCode(t, err, messages.ErrConfig)
	// A store of one's own, and the keys in a directory that is not there yet.
	own := filepath.Join(t.TempDir(), "keys")
	rt, err := stile.New(ctx, stile.Config{Store: memory.New(), Dir: own})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, rt)
	if _, err := os.Stat(filepath.Join(own, stile.KeyFile)); err != nil {
		t.Error(err)
	}
}

// hooked is randomness that does something first.
type hooked struct {
	once sync.Once
	do   func()
}

// Read implements io.Reader.
func (h *hooked) Read(b []byte) (int, error) {
	h.once.Do(h.do)
	return rand.Read(b)
}

// Of two hosts that start in a new directory the one that writes the key file later
// takes the keys of the other.
func TestKeyFileRace(t *testing.T) {
	dir := t.TempDir()
	var first *stile.Runtime
	second := start(t, stile.Config{Dir: dir, Rand: &hooked{do: func() { first = start(t, stile.Config{Dir: dir}) }}})
	if a, b := first.Keys().String(), second.Keys().String(); a != b {
		t.Errorf("the hosts have different keys: %s, %s", a, b)
	}
}

// A configured store is not closed with the runtime.
func TestStoreStaysOpen(t *testing.T) {
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(t.TempDir(), "j.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rt := start(t, stile.Config{Store: store})
	agent := &stile.Agent{Dialect: "plain", Model: said("yes")}
	s := opened(t, rt, "s", agent)
	run := submitted(t, s, "hello")
	decided(t, run)
	closed(t, rt)
	if d := decided(t, s.Run(1)); d.Decision != stile.Done {
		t.Errorf("%+v", d)
	}
}

// Every mistake of an agent is ERR_CONFIG and names its field, from Open as from
// Check; it is judged anew the next time.
func TestBadAgents(t *testing.T) {
	with := func(f func(*manifest.Manifest)) *stile.Agent {
		m := manifest.Default("aeiou")
		f(m)
		return &stile.Agent{Manifest: m, Model: said("x")}
	}
	models := map[string]llm.Model{"echo": echo{}}
	dialects := []parse.Dialect{lines{}}
	rt := start(t, stile.Config{Models: models, Dialects: dialects})
	for field, a := range map[string]*stile.Agent{
		"agent":          nil,
		"import.tools":   with(func(m *manifest.Manifest) { m.Import.Tools = []string{"file.read"} }),
		"no.such":        with(func(m *manifest.Manifest) { m.Import.Tools = []string{"no.such"} }),
		"dialect":        {Dialect: "klingon", Model: said("x")},
		"dialect ":       {Model: said("x")},
		"model.provider": {Dialect: "plain", Manifest: with(func(m *manifest.Manifest) { m.Model.Provider = "no" }).Manifest},
		"model.script":   {Dialect: "plain"},
		"model.script ":  {Manifest: with(func(m *manifest.Manifest) { m.Model.Script = "none.jsonl" }).Manifest, Dir: t.TempDir()},
		"model.fallback": {Manifest: with(func(m *manifest.Manifest) {
			m.Model.Provider, m.Model.Fallback = "echo", []manifest.Fallback{{Provider: "no"}}
		}).Manifest},
		"quotas.gas":            with(func(m *manifest.Manifest) { m.Quotas.Gas = -1 }),
		"approval.tools.own.it": with(func(m *manifest.Manifest) { m.Approval.Tools = map[string]messages.GateAnswer{"own.it": "perhaps"} }),
		"tool aeiou":            {Dialect: "aeiou", Model: said("x"), Tools: []tools.Tool{{Name: "aeiou.magic"}}},
		"lib:1:5":               {Dialect: "aeiou", Model: said("x"), Library: []neuroscript.Source{{Name: "lib", Text: []byte("func")}}},
	} {
		_, err := rt.Open(context.Background(), "s", a)
		if messages.CodeOf(err) != messages.ErrConfig && messages.CodeOf(err) != messages.ErrActionsParse {
			t.Errorf("%s: %v", field, err)
			continue
		}
		if word := strings.Fields(field)[len(strings.Fields(field))-1]; !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %s: %v", word, err)
		}
		if dir := os.TempDir(); strings.Contains(err.Error(), dir) {
			t.Errorf("the error names a folder of the host: %v", err)
		}
		if again := stile.Check(a, stile.Config{Dialects: dialects, Models: models}); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: Check says %v, Open %v", field, again, err)
		}
	}
	for _, a := range []*stile.Agent{
		{Dialect: "lines", Model: said("x")},
		{Manifest: with(func(m *manifest.Manifest) { m.Model.Provider = "echo" }).Manifest},
	} {
		if err := stile.Check(a, stile.Config{Dialects: dialects, Models: models}); err != nil {
			t.Error(err)
		}
	}
	dir := t.TempDir()
	late := &stile.Agent{Manifest: with(func(m *manifest.Manifest) { m.Model.Script = "late.jsonl" }).Manifest, Dir: dir}
	if _, err := rt.Open(context.Background(), "late", late); err == nil {
		t.Error("there is no script yet")
	}
	if err := os.WriteFile(filepath.Join(dir, "late.jsonl"), []byte(`{"chunks":[{"text":"x"}]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opened(t, rt, "late", late)
	for _, name := range []string{"", "a:b", "a:b:c:d", "sp ace", strings.Repeat("x", 200)} {
		_, err := rt.Open(context.Background(), name, late)
		wantCode(t, err, messages.ErrInvalid)
	}
}

// Rotations at once leave every receipt key beside the records.
func TestRotateKeysAtOnce(t *testing.T) {
	rt := start(t, stile.Config{Dir: t.TempDir()})
	agent := &stile.Agent{Dialect: "plain", Model: scripted.New("a", "b", "c", "d", "e", "f", "g", "h")}
	s := opened(t, rt, "s", agent)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := rt.RotateKeys(context.Background(), agent.Retention()); err != nil {
				t.Error(err)
			}
		})
		decided(t, submitted(t, s, "sign"))
	}
	wg.Wait()
	set, err := rt.Archive().PublicKeys(context.Background())
	if err != nil || len(set.Keys()) != 9 {
		t.Errorf("%d receipt keys, %v", len(set.Keys()), err)
	}
	replays(t, rt.Archive(), agent)
}

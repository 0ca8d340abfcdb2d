package journals

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/messages"
)

var generate = flag.String("generate", "", "write the corpus of this version anew")

// corpus is the folder of all versions.
const corpus = "../testdata/journals"

// TestGenerate writes a version's corpus. Without -generate it makes one too and discards it:
// a generator that is never run does not work when it is needed.
func TestGenerate(t *testing.T) {
	dir := t.TempDir()
	if *generate != "" {
		dir = filepath.Join(corpus, *generate)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	made := (&workshop{}).make(t)
	write(t, made, dir)
	check(t, dir)
	if *generate != "" {
		return
	}
	// Seed and clock are fixed, so it comes to the same again. Goroutines draw salts and
	// nonces in any order, so the bytes may differ.
	again := (&workshop{}).make(t)
	for i, s := range made.Sessions {
		if a, b := s.decisions(t), again.Sessions[i].decisions(t); a != b {
			t.Errorf("%s, made again, comes to\n%s\nand not\n%s", s.SID, b, a)
		}
	}
}

// decisions leaves of a session what no random draw and no race is part of. A panic of a
// tool ends the turn while its program may still take a step, so gas is counted then
// wherever the program was stopped.
func (s expectation) decisions(t *testing.T) string {
	t.Helper()
	only := expectation{SID: s.SID, Agent: s.Agent, Open: s.Open, Runs: s.Runs}
	for _, d := range s.Turns {
		d.Output = ""
		if d.Reason == messages.ErrCrash {
			d.Gas = 0
		}
		only.Turns = append(only.Turns, d)
	}
	return asJSON(t, only)
}

// exported are the sessions whose export is kept too. They hold every kind of record;
// more would only be larger.
var exported = []string{
	"local:local:plain", "local:local:tools", "local:local:queue", "local:local:forked", "local:local:erased",
	"local:local:streamed", "local:local:no-receipts", "local:local:resumed",
}

func firstDifference(a, b []byte) int {
	x, y := bytes.Split(a, []byte{'\n'}), bytes.Split(b, []byte{'\n'})
	for i := range min(len(x), len(y)) {
		if !bytes.Equal(x[i], y[i]) {
			return i + 1
		}
	}
	return min(len(x), len(y)) + 1
}

// drawn is randomness that needs no secrecy and is the same every time.
type drawn struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func (d *drawn) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.src.Read(p)
}

// workshop makes the sessions, one after the other, in a bubble of its own time.
type workshop struct {
	t       *testing.T
	cfg     stile.Config
	store   *memory.Store
	rt      *stile.Runtime
	agents  map[string]*stile.Agent
	entered chan struct{}
	of      map[string]string // SID → agent
	made    expectations
}

func (w *workshop) make(t *testing.T) expectations {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.t, w.store, w.entered, w.of = t, memory.New(), make(chan struct{}, 1), map[string]string{}
		w.cfg = stile.Config{Store: w.store, Rand: &drawn{src: rand.NewChaCha8([32]byte{})}, IdleTimeout: -1}
		var err error
		if w.cfg.Keys, err = stile.GenerateKeys(w.cfg); err != nil {
			t.Fatal(err)
		}
		w.agents = agents(t, w.entered)
		w.begin()
		w.sessions()
		w.expect()
	})
	return w.made
}

func (w *workshop) begin() {
	w.t.Helper()
	var err error
	if w.rt, err = stile.New(context.Background(), w.cfg); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workshop) end() {
	w.t.Helper()
	if err := w.rt.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workshop) open(name, agent string) *stile.Session {
	w.t.Helper()
	s, err := w.rt.Open(w.t.Context(), name, w.agents[agent])
	if err != nil {
		w.t.Fatal(err)
	}
	w.of[s.SID()] = agent
	return s
}

func (w *workshop) submit(s *stile.Session, text string, opts ...stile.SubmitOption) *stile.Run {
	w.t.Helper()
	r, err := s.Submit(w.t.Context(), text, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// ask runs texts one after the other, a second apart, and writes what is held back.
func (w *workshop) ask(s *stile.Session, texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		if _, err := w.submit(s, text).Decision(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		<-time.After(time.Second)
	}
	if err := s.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// waited returns when the tool wait was entered and everything beside it is at rest: the
// session has then heard what gas its program used, which a cancel would overtake.
func (w *workshop) waited() {
	<-w.entered
	synctest.Wait()
}

func (w *workshop) cancel(c interface {
	Cancel(context.Context, string) error
},
) {
	w.t.Helper()
	if err := c.Cancel(w.t.Context(), "ada"); err != nil {
		w.t.Fatal(err)
	}
}

// sessions are what the corpus holds. Add to it freely; what a released version kept
// stays as it is.
func (w *workshop) sessions() {
	w.ask(w.open("plain", "plain"), "what is a stile?", "how many?", "and then?") // the third finds the script exhausted
	w.ask(w.open("bare", "bare"), "done", "turns", "markers", "parse")
	w.ask(w.open("decisions", "full"), "done", "abort", "turns", "tokens", "markers", "envelope", `{"subject":"own","fields":{"text":"turns","n":2}}`)
	w.ask(w.open("streamed", "strict"), "slow", "envelope", "stuck")
	w.ask(w.open("halts", "full"), "missing", "parse", "broken envelope", "runtime", "gas", "size", "forged", "expired", "same", "loop", "endless",
		"panic", "model", "stuck", "done")
	w.ask(w.open("tools", "full"), "tools", "tools")
	w.ask(w.open("receipts-of-runs", "receipts-run"), "done", "missing")
	w.ask(w.open("no-receipts", "receipts-off"), "done", "missing")

	s := w.open("queue", "full")
	first := w.submit(s, "slow", stile.IdempotencyKey("key"), stile.User("ada"))
	withdrawn := w.submit(s, "done")
	w.submit(s, "slow", stile.IdempotencyKey("key"))
	<-time.After(500 * time.Millisecond)
	w.cancel(withdrawn)
	last := w.submit(s, "wait", stile.Policy(messages.Enqueue))
	for _, r := range []*stile.Run{first, withdrawn} {
		if _, err := r.Decision(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.waited()
	w.cancel(last)
	w.ask(s, "done")

	// Keys change between two runs, and later those of the first life are erased.
	s = w.open("rotation", "full")
	w.ask(s, "done")
	for range 2 {
		if err := w.rt.RotateKeys(w.t.Context(), time.Minute); err != nil {
			w.t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		w.ask(s, "done")
	}

	if _, err := w.rt.Fork(w.t.Context(), "decisions", 3, "forked"); err != nil {
		w.t.Fatal(err)
	}
	w.ask(w.open("forked", "full"), "done")
	if _, err := w.rt.Fork(w.t.Context(), "forked", 0, "forked-again"); err != nil {
		w.t.Fatal(err)
	}
	w.of["local:local:forked-again"] = "full"

	// The process ends in the middle of these; the last one is left so.
	for _, c := range []struct{ name, agent, text string }{
		{"resumed", "full", "wait"},
		{"resumed-streaming", "strict", "slow"},
		{"recovery-halt", "halting", "stuck"},
		{"settled-too-often", "full", "stuck"},
		{"cancelled-over-a-crash", "full", "wait"},
		{"interrupted", "full", "stuck"},
	} {
		s := w.open(c.name, c.agent)
		w.submit(s, c.text)
		if c.text == "wait" {
			w.waited()
		} else {
			<-time.After(600 * time.Millisecond)
		}
		switch c.name {
		case "interrupted":
			w.submit(s, "done")
		case "cancelled-over-a-crash":
			w.submit(s, "slow") // begins when the cancelled one has ended
			w.cancel(s)
			<-time.After(500 * time.Millisecond)
		}
		w.end()
		w.begin()
		if c.name == "interrupted" {
			break
		}
		if c.name == "settled-too-often" {
			for range 2 {
				w.open(c.name, c.agent)
				<-time.After(600 * time.Millisecond)
				w.end()
				w.begin()
			}
		}
		w.ask(w.open(c.name, c.agent), "done")
	}

	w.ask(w.open("erased", "full"), "turns", "done")
	w.end()
}

// expect writes down what the sessions came to.
func (w *workshop) expect() {
	w.t.Helper()
	w.begin()
	ar := w.rt.Archive()
	for head, err := range ar.Sessions(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		s := expectation{SID: head.SID, Inc: head.Inc.String(), Agent: w.of[head.SID], Head: head.Hash.String(), inc: head.Inc}
		s.read(w.t, ar)
		w.made.Sessions = append(w.made.Sessions, s)
	}
	w.made.store = w.store
	w.end()
}

// copyTo copies sessions as they are sealed, with blobs and meta values.
func (m *expectations) copyTo(t *testing.T, to journal.Store) {
	t.Helper()
	ctx := t.Context()
	meta := []string{journal.MetaReceiptKeys}
	for _, s := range m.Sessions {
		var batch journal.Batch
		commit := func() {
			if len(batch.Records) > 0 {
				if err := to.Commit([]journal.Batch{batch})[0]; err != nil {
					t.Fatal(err)
				}
			}
		}
		seen := map[messages.Digest]bool{}
		for r, err := range m.store.Read(ctx, s.inc, 0, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Epoch != batch.Epoch { // an activation is one commit here
				commit()
				batch = journal.Batch{SID: s.SID, Inc: s.inc, ExpectSeq: r.Seq - 1, Epoch: r.Epoch}
			}
			own := *r
			if err := journal.Decode(&own); err != nil {
				t.Fatal(err)
			}
			batch.Records = append(batch.Records, &own)
			if b, ok := own.Body.(*messages.TurnBegin); ok && !slices.Contains(meta, "manifest/"+b.Manifest.String()) {
				meta = append(meta, "manifest/"+b.Manifest.String())
			}
			for _, d := range journal.Blobs(own.Body) {
				if seen[d] {
					continue
				}
				seen[d] = true
				data, err := m.store.Blob(ctx, s.inc, d)
				if err != nil {
					t.Fatal(err)
				}
				batch.Blobs = append(batch.Blobs, messages.Blob{Digest: d, Data: data})
			}
		}
		commit()
	}
	for _, key := range meta {
		value, err := m.store.Meta(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.PutMeta(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
}

// write leaves a version's corpus in dir.
func write(t *testing.T, m expectations, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, stile.JournalFile)
	store, err := sqlite.Open(sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	m.copyTo(t, store)
	for i := range m.Sessions {
		s := &m.Sessions[i]
		if s.SID == "local:local:erased" {
			if _, err := store.Erase(t.Context(), s.inc, 4, 9); err != nil {
				t.Fatal(err)
			}
			s.Erased = true
		}
	}
	keys, err := store.Meta(t.Context(), journal.MetaReceiptKeys)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("keys.jwks.json", keys)
	a, err := stile.OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	set, err := keyring.ParseJWKS(keys)
	if err != nil {
		t.Fatal(err)
	}
	ags := agents(t, nil)
	for i := range m.Sessions {
		s := &m.Sessions[i]
		s.read(t, a)
		s.prove(t, a, set, ags[s.Agent])
		if s.Exported = slices.Contains(exported, s.SID); s.Exported {
			put(s.file(), s.export)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	put("expected.json", append(b, '\n'))
}

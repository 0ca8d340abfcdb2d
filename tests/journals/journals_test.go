// Package journals holds every later version to the journals that earlier ones wrote:
// they must open, verify against the keys of their time, export to the same bytes,
// replay to the same hashes with the same decisions, and go on.
//
// The corpus is testdata/journals/<version>; its README tells how one is made.
package journals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expectations are what a version's expected.json says.
type expectations struct {
	Sessions []expectation `json:"sessions"`

	store *memory.Store
}

// expectation is one session.
type expectation struct {
	SID      string         `json:"sid"`
	Inc      string         `json:"inc"`
	Agent    string         `json:"agent"`
	Head     string         `json:"head"`
	Records  int64          `json:"records"`
	Kinds    map[string]int `json:"kinds"`
	Erased   bool           `json:"erased,omitempty"` // bodies are gone: verifies, does not replay
	Open     bool           `json:"open,omitempty"`   // a run is left in flight
	Turns    []turn         `json:"turns"`
	Runs     []ending       `json:"runs"`
	Exported bool           `json:"exported,omitempty"` // its export is kept
	// Receipts that verify, records that should bear one and do not, and what a replay
	// makes again: of a fork, what it did itself.
	Signed   int64 `json:"signed"`
	Unsigned int64 `json:"unsigned,omitempty"`
	Replayed int64 `json:"replayed"`

	inc    messages.Incarnation
	export []byte
}

type turn struct {
	Turn         int64           `json:"turn"`
	Decision     stile.Decision  `json:"decision"`
	Reason       messages.Code   `json:"reason,omitempty"`
	Detail       string          `json:"detail,omitempty"`
	Digest       string          `json:"digest"`
	Verification string          `json:"verification,omitempty"`
	Lints        []messages.Code `json:"lints,omitempty"`
	Gas          int64           `json:"gas,omitempty"`
	Resumed      bool            `json:"resumed,omitempty"`
	Output       string          `json:"output,omitempty"`
	Scratch      string          `json:"scratch,omitempty"`
}

type ending struct {
	Run      int64          `json:"run"`
	Decision stile.Decision `json:"decision"`
	Reason   messages.Code  `json:"reason,omitempty"`
	Detail   string         `json:"detail,omitempty"`
	Turns    int64          `json:"turns"`
}

func (s *expectation) file() string { return strings.TrimPrefix(s.SID, "local:local:") + ".jsonl" }

// read fills in what an archive says of the session.
func (s *expectation) read(t *testing.T, ar *stile.Archive) {
	t.Helper()
	ctx := t.Context()
	var buf bytes.Buffer
	if err := ar.Export(ctx, s.inc, &buf); err != nil {
		t.Fatal(err)
	}
	s.export = buf.Bytes()
	s.Records, s.Kinds, s.Open, s.Turns, s.Runs = 0, map[string]int{}, false, nil, nil
	text := func(d messages.Digest) string {
		if d.IsZero() {
			return ""
		}
		b, err := ar.Blob(ctx, s.inc, d)
		if err != nil {
			t.Fatalf("%s: %v", s.SID, err)
		}
		return string(b)
	}
	for r, err := range ar.Records(ctx, s.inc) {
		if err != nil {
			t.Fatalf("%s: %v", s.SID, err)
		}
		s.Records++
		s.Kinds[string(r.Body.Kind())]++
		switch b := r.Body.(type) {
		case *messages.RunBegin:
			s.Open = true
		case *messages.TurnDecided:
			s.Turns = append(s.Turns, turn{
				Turn: r.Turn, Decision: b.Decision, Reason: b.Reason, Detail: b.Detail, Digest: b.Digest.String(), Verification: b.Verification,
				Lints: b.Lints, Gas: b.GasUsed, Resumed: b.Resumed, Output: text(b.Output), Scratch: text(b.Scratch),
			})
		case *messages.RunEnd:
			s.Open = false
			s.Runs = append(s.Runs, ending{Run: r.Run, Decision: b.Decision, Reason: b.Reason, Detail: b.Detail, Turns: b.Turns})
		}
	}
}

// The journals of every version that was kept are still good.
func TestJournals(t *testing.T) {
	for _, dir := range versions(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) { check(t, dir) })
	}
}

// versions are the folders of the corpus; there is at least one.
func versions(t *testing.T) (dirs []string) {
	t.Helper()
	all, err := os.ReadDir(corpus)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.IsDir() {
			dirs = append(dirs, filepath.Join(corpus, v.Name()))
		}
	}
	if len(dirs) == 0 {
		t.Fatal("there is no corpus")
	}
	return dirs
}

// check holds this build to one version's corpus.
func check(t *testing.T, kept string) {
	ctx := t.Context()
	var want expectations
	if err := json.Unmarshal(file(t, kept, "expected.json"), &want); err != nil {
		t.Fatal(err)
	}
	keys, err := keyring.ParseJWKS(file(t, kept, "keys.jwks.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := migrated(t, file(t, kept, stile.JournalFile))
	ar, err := stile.OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	ags := agents(t, make(chan struct{}))
	sessions := 0
	for range ar.Sessions(ctx, "") {
		sessions++
	}
	if sessions != len(want.Sessions) || sessions == 0 {
		t.Errorf("%d sessions, want %d", sessions, len(want.Sessions))
	}
	for _, s := range want.Sessions {
		t.Run(strings.TrimSuffix(s.file(), ".jsonl"), func(t *testing.T) { s.check(t, ar, kept, keys, ags[s.Agent]) })
	}
	covers(t, want)
	if err := ar.Close(); err != nil {
		t.Fatal(err)
	}
	// The corpus has no private keys, and a lost key file is not replaced in silence.
	// The public keys are trusted, as stile keys trust does.
	ring, err := stile.GenerateKeys(stile.Config{})
	for _, k := range keys.Keys() {
		if err == nil {
			err = ring.Add(k, time.Now())
		}
	}
	if err == nil {
		err = stile.WriteKeys(filepath.Join(dir, stile.KeyFile), ring, stile.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range want.Sessions {
		if !s.Erased {
			s.goOn(t, dir, ags[s.Agent])
		}
	}
}

// migrated leaves a journal file in a folder of its own, where this version may write,
// and opens it as a host does: a file of an older format is brought to this one.
func migrated(t *testing.T, db []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	path := filepath.Join(dir, stile.JournalFile)
	if err := os.WriteFile(path, db, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func file(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s expectation) check(t *testing.T, ar *stile.Archive, kept string, keys *keyring.Set, agent *stile.Agent) {
	ctx := t.Context()
	head, err := ar.Head(ctx, s.SID)
	if err != nil {
		t.Fatal(err)
	}
	if head.Hash.String() != s.Head || head.Inc.String() != s.Inc || head.Open != s.Open {
		t.Errorf("the head is %+v", head)
	}
	is := s
	is.inc = head.Inc
	is.read(t, ar)
	is.prove(t, ar, keys, agent)
	if a, b := asJSON(t, is), asJSON(t, s); a != b {
		t.Errorf("the journal says\n%s\nand was\n%s", a, b)
	}
	if s.Exported {
		if want := file(t, kept, s.file()); !bytes.Equal(is.export, want) {
			t.Errorf("the export differs from line %d on", firstDifference(is.export, want))
		}
	}
}

// prove verifies and replays the session, and fills in what came of it.
func (s *expectation) prove(t *testing.T, ar *stile.Archive, keys *keyring.Set, agent *stile.Agent) {
	t.Helper()
	ctx := t.Context()
	head, err := ar.Head(ctx, s.SID)
	if err != nil {
		t.Fatal(err)
	}
	receipts := map[string]journal.Receipts{"receipts-run": journal.ReceiptsRun, "receipts-off": journal.ReceiptsOff}[s.Agent]
	rep, err := ar.Verify(ctx, head.Inc, stile.VerifyOptions{Keys: keys, Head: journal.Anchor{Seq: head.Seq, Hash: head.Hash}, Receipts: receipts, AllowMissing: s.Erased})
	if err != nil || !rep.OK() || rep.Records != s.Records || rep.Unchecked > 0 {
		t.Errorf("%s: verify: %+v, %v", s.SID, rep, err)
	}
	if alone(s.Agent) {
		agent = nil
	}
	again, err := ar.Replay(ctx, head.Inc, agent)
	s.Signed, s.Unsigned, s.Replayed = rep.Valid, rep.Missing, again.Records
	if s.Erased {
		if messages.CodeOf(err) != messages.ErrJournal || len(rep.Erased) == 0 {
			t.Errorf("%s: an erased journal replays: %v", s.SID, err)
		}
		return
	}
	if err != nil || again.Head != head.Hash {
		t.Errorf("%s: replay: %+v, %v", s.SID, again, err)
	}
	s.prompts(t, ar, head, agent)
}

// prompts holds that what models saw can still be shown exactly, but for turns that a fork
// took over.
func (s *expectation) prompts(t *testing.T, ar *stile.Archive, head stile.Head, agent *stile.Agent) {
	t.Helper()
	asked := map[int64]bool{}
	for r, err := range ar.Records(t.Context(), head.Inc) {
		if err != nil {
			t.Fatal(err)
		}
		if _, erased := r.Body.(*messages.Undecoded); erased {
			return
		}
		if r.Body.Kind() == messages.KindModelRequest {
			asked[r.Turn] = true
		}
	}
	for turn := range asked {
		all, err := ar.Prompts(t.Context(), head.Inc, agent, turn)
		if err != nil {
			t.Errorf("%s: the prompt of turn %d: %v", s.SID, turn, err)
		}
		for _, p := range all {
			if !p.Exact && !strings.Contains(p.Why, "a fork of") {
				t.Errorf("%s: the prompt of turn %d: %s", s.SID, turn, p.Why)
			}
		}
	}
}

// asJSON leaves out what is not written.
func asJSON(t *testing.T, s expectation) string {
	t.Helper()
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// goOn opens the session under this version and lets it work.
func (s expectation) goOn(t *testing.T, dir string, agent *stile.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rt, err := stile.New(ctx, stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	session, err := rt.Open(ctx, s.SID, agent)
	if err != nil {
		t.Fatalf("%s: %v", s.SID, err)
	}
	if s.Open {
		// What was left in flight is settled, and its time was over long ago.
		o, err := session.Run(int64(len(s.Runs)) + 1).Decision(ctx)
		if err != nil || o.Reason != messages.ErrTimeout {
			t.Errorf("%s: the run that was open ended %+v, %v", s.SID, o, err)
		}
	}
	run, err := session.Submit(ctx, "done")
	if err != nil {
		t.Fatalf("%s: %v", s.SID, err)
	}
	if o, err := run.Decision(ctx); err != nil || o.Decision != stile.Done && s.Agent != "plain" {
		t.Errorf("%s goes on to %+v, %v", s.SID, o, err)
	}
	if err := session.Flush(ctx); err != nil {
		t.Error(err)
	}
	if alone(s.Agent) {
		agent = nil
	}
	if _, err := rt.Replay(ctx, s.SID, agent); err != nil {
		t.Errorf("%s does not replay after it went on: %v", s.SID, err)
	}
}

// covers fails for a corpus without the cases that make it worth keeping.
func covers(t *testing.T, m expectations) {
	t.Helper()
	seen := map[string]int{}
	for _, s := range m.Sessions {
		for kind, n := range s.Kinds {
			seen[kind] += n
		}
		for _, d := range s.Turns {
			seen[string(d.Decision)]++
			seen[string(d.Reason)]++
			if d.Resumed {
				seen["resumed"]++
			}
			for _, l := range d.Lints {
				seen[string(l)]++
			}
		}
	}
	for _, want := range []string{
		"CONTINUE", "DONE", "ABORT", "HALT", "resumed",
		"ERR_TOKEN_MISSING", "ERR_TOKEN_PARSE", "ERR_TOKEN_TTL", "ERR_ACTIONS_PARSE", "ERR_ACTIONS_RUNTIME", "ERR_ENV_MARKERS_INVALID", "ERR_ENV_SIZE",
		"ERR_QUOTA", "ERR_TIMEOUT", "ERR_CRASH", "ERR_CANCELLED", "ERR_NO_PROGRESS", "ERR_LOOP", "ERR_MAX_TURNS", "ERR_MODEL",
		"LINT_MULTI_TOKENS", "LINT_POST_TOKEN_TEXT",
		"session.opened", "input", "run.begin", "run.end", "turn.begin", "turn.decided", "model.request", "model.chunk", "model.reply",
		"response", "emit", "whisper", "action.declared", "action.approval", "action.started", "action.ended", "lint", "control", "audit",
	} {
		if seen[want] == 0 {
			t.Errorf("the corpus has no %s", want)
		}
	}
}

// A corpus is told from one that was changed.
func TestChangedJournalIsFound(t *testing.T) {
	kept := versions(t)[0]
	whole := file(t, kept, stile.JournalFile)
	at := bytes.Index(whole, []byte(`"text":"hello, local:local:`))
	if at < 0 {
		t.Fatal("the text to be changed is not there")
	}
	changed := slices.Clone(whole)
	copy(changed[at:], `"text":"HELLO`)
	dir := migrated(t, changed)
	ar, err := stile.OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ar.Close()
	bad := 0
	for head, err := range ar.Sessions(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := ar.Verify(t.Context(), head.Inc, stile.VerifyOptions{Receipts: journal.ReceiptsOff}); err != nil || !rep.OK() {
			bad++
		}
	}
	if bad != 1 {
		t.Errorf("%d sessions do not verify, want 1", bad)
	}
	if _, err := os.Stat(filepath.Join(kept, stile.JournalFile+"-wal")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("reading the corpus left a file in it")
	}
}

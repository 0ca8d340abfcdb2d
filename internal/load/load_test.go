package load

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/plain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	key   = messages.SessionKey{Tenant: "t", User: "u", ID: "s"}
	agent = &compiled.Agent{Dialect: plain.Dialect{}, Rules: &turn.Rules{}}
)

func loader(t *testing.T, store journal.Store) *Loader {
	t.Helper()
	w := groupcommit.New(store, groupcommit.Options{})
	t.Cleanup(w.Close)
	return New(Config{Store: store, Writer: w, Rand: rand.Reader, Now: time.Now, Log: zap.NewNop()})
}

// begun are the records of a session whose first turn is open, with the chunks of its reply.
func begun(chunks ...string) []messages.Body {
	all := []messages.Body{&messages.SessionOpened{}, &messages.Input{Text: "go"}, &messages.RunBegin{}, &messages.TurnBegin{Nonce: "n"}}
	off := int64(0)
	for _, c := range chunks {
		all = append(all, &messages.ModelChunk{Off: off, Bytes: []byte(c)})
		off += int64(len(c))
	}
	return all
}

func journaled(t *testing.T, sid string, n int, bodies ...messages.Body) (*memory.Store, *specimen.Session) {
	t.Helper()
	store, s := memory.New(), specimen.Start(t, sid, n)
	if len(bodies) > 0 {
		specimen.Must(t, store, s.Batch(bodies...))
	}
	return store, s
}

func TestHead(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bodies []messages.Body
		seq    int64
		fresh  bool
	}{
		{"none", nil, 0, true},
		{"open", []messages.Body{&messages.SessionOpened{}, &messages.Note{Text: "n"}}, 2, false},
		{"closed", []messages.Body{&messages.SessionOpened{}, &messages.SessionClosed{}}, 0, true},
	} {
		store, _ := journaled(t, key.SID(), 1, tt.bodies...)
		s, err := loader(t, store).Session(t.Context(), key, agent)
		if err != nil {
			t.Fatal(err)
		}
		if s.Head.Seq != tt.seq || s.State.Seq != tt.seq || (s.Head.Inc != specimen.Inc(1)) != tt.fresh || s.Settle != nil {
			t.Errorf("%s: head %+v, state at %d, settle %v", tt.name, s.Head, s.State.Seq, s.Settle)
		}
	}
}

// What of a turn is open comes along: its records, and its reply through the decoder again.
func TestOpenTurn(t *testing.T) {
	store, _ := journaled(t, key.SID(), 1, begun("hel", "lo")...)
	s, err := loader(t, store).Session(t.Context(), key, agent)
	if err != nil {
		t.Fatal(err)
	}
	if s.Settle == nil || len(s.Settle.Turn) != 3 || s.Settle.Run != nil {
		t.Fatalf("%+v", s.Settle)
	}
	if text := textOf(s.Settle.Events); text != "hello" {
		t.Errorf("the reply is %q", text)
	}
}

func textOf(evs []messages.Event) (s string) {
	for _, ev := range evs {
		s += string(ev.Text)
	}
	return s
}

// broken is a dialect whose decoder panics.
type broken struct{ plain.Dialect }

func (broken) NewDecoder(messages.TurnInfo) parse.Decoder { panic("no decoder") }

// streaming is a dialect whose actions begin in the stream.
type streaming struct{ plain.Dialect }

func (streaming) Traits() messages.Traits { return messages.Traits{InStreamActions: true} }

// A decoder that panics leaves a turn that is not restored, and a session that is loaded.
func TestDecoderPanics(t *testing.T) {
	store, _ := journaled(t, key.SID(), 1, begun("x")...)
	s, err := loader(t, store).Session(t.Context(), key, &compiled.Agent{Dialect: broken{}, Rules: &turn.Rules{}})
	if err != nil || s.Settle == nil || s.Settle.Turn != nil || s.Settle.Events != nil {
		t.Errorf("%+v, %v", s.Settle, err)
	}
}

// The plan of a run is made of the records of that run alone.
func TestOpenRun(t *testing.T) {
	store, at := journaled(t, key.SID(), 1, begun("x")...)
	b := at.Batch(&messages.Note{Text: "of this run"})
	specimen.Must(t, store, b)
	sealer := at.Sealer
	other := &messages.Record{Seq: 7, Run: 2, TS: specimen.Epoch.Add(time.Second), Body: &messages.Input{Text: "waits"}}
	if err := sealer.Seal([]*messages.Record{other}, other.TS); err != nil {
		t.Fatal(err)
	}
	specimen.Must(t, store, journal.Batch{SID: at.SID, Inc: at.Inc, ExpectSeq: 6, Epoch: sealer.Epoch(), Records: []*messages.Record{other}})
	s, err := loader(t, store).Session(t.Context(), key, &compiled.Agent{Dialect: streaming{}, Rules: &turn.Rules{}})
	if err != nil || s.Settle == nil {
		t.Fatalf("%+v, %v", s.Settle, err)
	}
	if len(s.Settle.Run) != 5 || s.Settle.Run[0].Body.Kind() != messages.KindInput || s.Settle.Run[4].Body.Kind() != messages.KindNote {
		t.Errorf("%d records of the run", len(s.Settle.Run))
	}
}

// erased is a store whose blobs were erased.
type erased struct{ *memory.Store }

func (erased) Blob(context.Context, messages.Incarnation, messages.Digest) ([]byte, error) {
	return nil, journal.Fail(journal.ReasonErased, nil, "erased")
}

// busy is a store whose blobs cannot be read now.
type busy struct{ *memory.Store }

func (busy) Blob(context.Context, messages.Incarnation, messages.Digest) ([]byte, error) {
	return nil, errors.New("busy")
}

// A reply whose bytes are gone for good leaves a turn that is not restored; one that cannot be
// read now leaves the session unloaded.
func TestReplyCannotBeRead(t *testing.T) {
	blob := specimen.NewBlob("hello")
	store, at := journaled(t, key.SID(), 1)
	b := at.Batch(append(begun(), &messages.ModelReply{Blob: blob.Digest, Length: 5, Finish: messages.FinishComplete})...)
	b.Blobs = []messages.Blob{blob}
	specimen.Must(t, store, b)

	s, err := loader(t, store).Session(t.Context(), key, agent)
	if err != nil || textOf(s.Settle.Events) != "hello" {
		t.Fatalf("%+v, %v", s.Settle, err)
	}
	s, err = loader(t, erased{store}).Session(t.Context(), key, agent)
	if err != nil || s.Settle == nil || s.Settle.Turn != nil || s.Settle.Events != nil {
		t.Errorf("erased: %+v, %v", s.Settle, err)
	}
	if _, err = loader(t, busy{store}).Session(t.Context(), key, agent); err == nil {
		t.Error("busy: the session is loaded")
	}
}

// signer signs statements with its name; only checks them.
type signer string

func (s signer) SignStatement(string, [32]byte, time.Time) (string, []byte, error) {
	return string(s), []byte(s), nil
}

type only string

func (o only) VerifyReceipt(string, string, int64, [32]byte, []byte, time.Time) error { return nil }
func (o only) VerifyStatement(_ string, _ [32]byte, _ time.Time, kid string, _ []byte) error {
	if kid != string(o) {
		return errors.New("not trusted")
	}
	return nil
}

// A snapshot saves reading what is in front of it. One of another state or of no
// trusted key is passed over, and the records give the same state.
func TestSnapshot(t *testing.T) {
	bodies := []messages.Body{&messages.SessionOpened{}, &messages.Input{Text: "go"}, &messages.RunBegin{}, &messages.RunEnd{Decision: messages.Done}}
	write := func(t *testing.T, by signer, change func(*turn.State), behind int) (*memory.Store, turn.State) {
		store, at := journaled(t, key.SID(), 1, bodies...)
		var state turn.State
		for _, r := range recordsOf(t, store) {
			if err := state.Apply(r); err != nil {
				t.Fatal(err)
			}
		}
		head := at.Sealer.Head()
		whole := state
		change(&state)
		b, err := turn.EncodeState(&state)
		if err != nil {
			t.Fatal(err)
		}
		l := loader(t, store)
		l.Proofs.Signer = by
		if err := l.Snapshot(t.Context(), at.Inc, head, b); err != nil {
			t.Fatal(err)
		}
		if behind > 0 {
			specimen.Must(t, store, at.Notes(behind))
		}
		whole.Seq += int64(behind)
		return store, whole
	}
	for _, tt := range []struct {
		name   string
		by     signer
		change func(*turn.State)
		behind int // records behind the snapshot
		read   int // records
	}{
		{"good", "k", func(*turn.State) {}, 2, 2},
		{"good, of the head", "k", func(*turn.State) {}, 0, 0},
		{"another state", "k", func(s *turn.State) { s.Seq = 3 }, 2, 6},
		{"another state, of the head", "k", func(s *turn.State) { s.Seq = 3 }, 0, 4},
		{"another key", "other", func(*turn.State) {}, 2, 6},
	} {
		store, want := write(t, tt.by, tt.change, tt.behind)
		r, err := read(t.Context(), store, only("k"), specimen.Inc(1))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.recs) != tt.read || r.head.Seq != want.Seq || r.state.Seq != want.Seq || r.state.Runs != want.Runs || r.state.Open != nil {
			t.Errorf("%s: %d records read, head at %d, state %+v", tt.name, len(r.recs), r.head.Seq, r.state)
		}
	}
}

// The state of a session is that of all its records, however many.
func TestState(t *testing.T) {
	store, at := journaled(t, key.SID(), 1, begun()...)
	specimen.Must(t, store, at.Notes(1100))
	b := at.Batch(&messages.RunEnd{Decision: messages.Done})
	specimen.Must(t, store, b)
	head, state, err := State(t.Context(), store, at.Inc)
	if err != nil || head.Seq != 1105 || state.Seq != 1105 || state.Open != nil {
		t.Errorf("head at %d, state %+v, %v", head.Seq, state, err)
	}
}

func recordsOf(t *testing.T, store journal.Store) []*messages.Record {
	t.Helper()
	_, recs, err := journal.Load(t.Context(), store, specimen.Inc(1))
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

// A history without the receipts that it promises is not gone on with, unless the operator says so.
func TestProofs(t *testing.T) {
	decided := append(begun(), specimen.Decided())
	decided[0] = &messages.SessionOpened{Receipts: string(journal.ReceiptsDecision)}
	store, _ := journaled(t, key.SID(), 1, decided...)
	l := loader(t, store)
	l.Proofs = Proofs{Keys: only("k"), Strict: true}
	if _, err := l.Session(t.Context(), key, agent); !proof.IsUnproved(err) {
		t.Errorf("it is loaded: %v", err)
	}
	l.Proofs.GoOn = true
	if _, err := l.Session(t.Context(), key, agent); err != nil {
		t.Errorf("the operator goes on, and it is not: %v", err)
	}
}

// The run of a child session is cancelled when no action of its parent waits for it.
func TestOrphan(t *testing.T) {
	parent := specimen.Start(t, "t:u:p", 2)
	link := &messages.ParentLink{SID: "t:u:p", Incarnation: specimen.Inc(2).String(), Turn: 1, Action: "a"}
	child := append([]messages.Body{&messages.SessionOpened{Parent: link}}, begun("x")[1:]...)
	waits := []messages.Body{
		&messages.ActionDeclared{ID: "a", Name: "x", Type: messages.TypeAgent, Args: "{}"},
		&messages.ActionStarted{ID: "a", Attempt: 1},
	}
	for _, tt := range []struct {
		name   string
		parent []messages.Body
		orphan bool
	}{
		{"waits", append(begun(), waits...), false},
		{"has ended", append(begun(), append(slices.Clone(waits), &messages.ActionEnded{ID: "a", State: messages.ActionOK, Result: "1"})...), true},
		{"never began", begun(), true},
	} {
		store, _ := journaled(t, key.SID(), 1, child...)
		at := specimen.Start(t, parent.SID, 2)
		specimen.Must(t, store, at.Batch(tt.parent...))
		s, err := loader(t, store).Session(t.Context(), key, agent)
		if err != nil {
			t.Fatal(err)
		}
		if (s.Orphan != "") != tt.orphan || (len(s.Orphans) > 0) != tt.orphan {
			t.Errorf("%s: runs %v cancelled by %q", tt.name, s.Orphans, s.Orphan)
		}
	}
}

// A run for a fetch of a feed is cancelled when its session is loaded: no process waits for it.
func TestFeedRun(t *testing.T) {
	parent := driver.Parent{SID: "t:u:p", Inc: specimen.Inc(2).String(), Key: messages.SessionKey{Tenant: "t", User: "u", ID: "p"}}
	_, link, _ := parent.Feed("f", "")
	store, _ := journaled(t, key.SID(), 1, append([]messages.Body{&messages.SessionOpened{Parent: &link}}, begun("x")[1:]...)...)
	s, err := loader(t, store).Session(t.Context(), key, agent)
	if err != nil || s.Orphan == "" || !slices.Equal(s.Orphans, []int64{1}) {
		t.Errorf("runs %v cancelled by %q, %v", s.Orphans, s.Orphan, err)
	}
}

// failing is a store that can fail.
type failing struct {
	*memory.Store
	broken bool
	opened int
}

func (f *failing) Immediate() bool { return false }

func (f *failing) Commit(bs []journal.Batch) []error {
	if !f.broken {
		return f.Store.Commit(bs)
	}
	errs := make([]error, len(bs))
	for i := range errs {
		errs[i] = journal.Fail(journal.ReasonIO, errors.New("no disk"), "commit")
	}
	return errs
}

func (f *failing) Reopen() error {
	f.opened++
	if f.broken {
		return errors.New("no disk")
	}
	return nil
}

// A journal that failed is opened anew by the next activation, once a second at most.
func TestReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{Store: memory.New(), broken: true}
		l := loader(t, store)
		if err := l.Writer.AppendWait(t.Context(), specimen.Start(t, "t:u:x", 3).Notes(1)); err == nil {
			t.Fatal("the store did not fail")
		}
		for range 3 {
			if _, err := l.Session(t.Context(), key, agent); err == nil {
				t.Error("a session is loaded from a journal that failed")
			}
		}
		if store.opened != 1 {
			t.Errorf("opened anew %d times within a second", store.opened)
		}
		store.broken = false
		time.Sleep(reopenPause)
		if _, err := l.Session(t.Context(), key, agent); err != nil || store.opened != 2 {
			t.Errorf("%v after opening anew %d times", err, store.opened)
		}
	})
}

func TestOutput(t *testing.T) {
	blob := specimen.NewBlob("out\n")
	store, at := journaled(t, key.SID(), 1)
	b := at.Batch(&messages.SessionOpened{}, &messages.TurnDecided{Decision: messages.Done, Output: blob.Digest}, &messages.Note{Text: "n"})
	b.Blobs = []messages.Blob{blob}
	specimen.Must(t, store, b)
	if out, found, err := (Outputs{store}).Output(t.Context(), key); out != "out\n" || !found || err != nil {
		t.Errorf("%q, %v, %v", out, found, err)
	}
	if out, found, err := (Outputs{store}).Output(t.Context(), messages.SessionKey{Tenant: "t", User: "u", ID: "other"}); out != "" || found || err != nil {
		t.Errorf("a session that is not there: %q, %v, %v", out, found, err)
	}
}

// Incarnations are UUIDs of version 7: those of later milliseconds sort behind.
func TestNewIncarnation(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	a, err := NewIncarnation(specimen.Random(1), now)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewIncarnation(specimen.Random(2), now.Add(time.Millisecond))
	if a.Version() != 7 || a.String() >= b.String() {
		t.Errorf("%s (version %d), then %s", a, a.Version(), b)
	}
	if sec, _ := a.Time().UnixTime(); sec != now.Unix() {
		t.Errorf("of %d", sec)
	}
}

package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/intake"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/plain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a session whose records go to a journal and to its history.
type world struct {
	t     *testing.T
	store *memory.Store
	at    *specimen.Session
	now   time.Time
	kept  *Kept
	agent *compiled.Agent
	live  Session
	seq   int64
	run   int64
	input int64 // the run's
}

func newWorld(t *testing.T, window int) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(), at: specimen.Start(t, "t:u:s", 1), now: specimen.Epoch}
	w.kept = New(w.store, func() time.Time { return w.now })
	w.agent = &compiled.Agent{Dialect: plain.Dialect{}, Rules: &turn.Rules{Rendering: messages.Rendering}, Window: prompt.Window{Messages: window}}
	w.live = w.kept.Of(w.at.Inc, w.agent)
	w.add(0, 0, &messages.SessionOpened{})
	return w
}

// write is a record that only the journal gets, as of another host.
func (w *world) write(run, turnIndex int64, b messages.Body, blobs ...messages.Blob) *turn.Persist {
	w.t.Helper()
	w.seq++
	r := &messages.Record{Seq: w.seq, Run: run, Turn: turnIndex, TS: w.now, Body: b}
	p := &turn.Persist{Record: r, Blobs: blobs}
	before := w.at.Sealer.Head()
	if err := w.at.Sealer.Seal([]*messages.Record{r}, w.now); err != nil {
		w.t.Fatal(err)
	}
	specimen.Must(w.t, w.store, journal.Batch{
		SID: w.at.SID, Inc: w.at.Inc, ExpectSeq: before.Seq, Epoch: w.at.Sealer.Epoch(), Records: []*messages.Record{r}, Blobs: blobs,
	})
	return p
}

func (w *world) add(run, turnIndex int64, b messages.Body, blobs ...messages.Blob) {
	w.t.Helper()
	w.live.Remember(w.write(run, turnIndex, b, blobs...))
}

// ask begins a run with a turn.
func (w *world) ask(text string) {
	w.t.Helper()
	w.run++
	w.input = w.seq + 1
	w.add(w.run, 0, &messages.Input{Text: text})
	w.add(w.run, 0, &messages.RunBegin{Input: w.input})
	w.add(w.run, w.run, &messages.TurnBegin{Pass: 1})
}

// answer ends the run.
func (w *world) answer(text string) {
	w.t.Helper()
	blob := specimen.NewBlob(text)
	w.add(w.run, w.run, &messages.ModelReply{Blob: blob.Digest, Length: int64(len(text)), Finish: messages.FinishComplete}, blob)
	w.add(w.run, w.run, &messages.UnitText{Unit: messages.UnitID{Turn: w.run}.String(), UnitKind: messages.ResponseUnit, Text: text})
	w.add(w.run, w.run, &messages.TurnDecided{Decision: messages.Done, TurnIndex: w.run})
	w.add(w.run, w.run, &messages.RunEnd{Decision: messages.Done})
}

func (w *world) reader(view *prompt.View) *Reader {
	return &Reader{
		Store: w.store, Agent: w.agent, SID: w.at.SID, Inc: w.at.Inc, Durable: w.at.Sealer.Head(), View: view,
		Open: &turn.OpenModel{Ident: turn.Ident{Turn: w.run}, Run: w.run, Pass: 1}, Share: intake.New(-1, nil, nil).Begin(),
	}
}

// same holds the prompt of what is kept against the journal's, and returns its messages.
func (w *world) same() []messages.Message {
	w.t.Helper()
	fromJournal, err := w.reader(nil).Messages(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	view := w.live.View(w.run)
	if view == nil {
		w.t.Fatalf("run %d: nothing is kept", w.run)
	}
	kept, err := w.reader(view).Messages(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(fromJournal, kept, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(messages.Message{})); diff != "" {
		w.t.Errorf("run %d: the kept prompt is another than the journal's:\n%s", w.run, diff)
	}
	return kept
}

// A prompt of what is kept is that of the journal, over rests and with a window.
func TestKeptIsJournaled(t *testing.T) {
	for _, window := range []int{0, 3} {
		w := newWorld(t, window)
		for i, text := range []string{"one", "two", "three"} {
			w.ask(text)
			if n := len(w.same()); window == 0 && n != 2*i+1 && n != 2*i+2 {
				t.Errorf("%d messages in run %d", n, i+1)
			}
			w.answer("answer " + text)
			w.live.Rest()
			w.live = w.kept.Of(w.at.Inc, w.agent) // it slept
		}
		if w.kept.bytes <= 0 || len(w.kept.by) != 1 {
			t.Errorf("%d bytes of %d sessions", w.kept.bytes, len(w.kept.by))
		}
	}
}

// What another host wrote is not in what is kept: the journal is read, and what is kept begins
// anew where a window allows it.
func TestRecordsThatDoNotFollow(t *testing.T) {
	for _, window := range []int{0, 3} {
		w := newWorld(t, window)
		w.ask("one")
		w.answer("answer")
		w.live.Rest()
		w.write(0, 0, &messages.SessionDescribed{Title: "by another host"})
		w.ask("two")
		view := w.live.View(w.run)
		if window == 0 {
			if view != nil {
				t.Error("what is kept leaves records out")
			}
			continue
		}
		w.same()
	}
}

// What is kept is of one agent.
func TestAnotherAgent(t *testing.T) {
	w := newWorld(t, 0)
	w.ask("one")
	w.answer("answer")
	w.live.Rest()
	other := *w.agent
	w.live = w.kept.Of(w.at.Inc, &other)
	w.ask("two")
	if w.live.View(w.run) != nil {
		t.Error("the history of another agent is gone on with")
	}
}

// Age and an erasure drop what is kept.
func TestDropped(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(*world)
		kept bool
	}{
		"young": {func(w *world) { w.now = w.now.Add(historyAge) }, true},
		"old":   {func(w *world) { w.now = w.now.Add(historyAge + 1) }, false},
		"erased": {func(w *world) {
			if _, err := w.store.Erase(w.t.Context(), w.at.Inc, 2, 2); err != nil {
				w.t.Fatal(err)
			}
		}, false},
	} {
		w := newWorld(t, 0)
		w.ask("one")
		w.answer("answer")
		tt.do(w)
		w.ask("two")
		if got := w.live.View(w.run) != nil; got != tt.kept {
			t.Errorf("%s: kept %v", name, got)
		}
	}
}

// The histories of sessions that rest have one bound; the latest stay.
func TestBound(t *testing.T) {
	k := New(memory.New(), time.Now)
	const each = historiesBytes / 4
	for n := range 6 {
		log := prompt.NewLog(plain.Dialect{}, 1, prompt.Window{}, messages.Rendering)
		in := &messages.Input{Text: string(make([]byte, each-1024))}
		if !log.Add(&messages.Record{Seq: 1, Run: 1, Body: in}, nil) {
			t.Fatal("the log is full")
		}
		k.put(&history{inc: specimen.Inc(n), log: log})
	}
	if k.bytes > historiesBytes || len(k.by) != k.order.Len() || len(k.by) < 3 {
		t.Errorf("%d bytes of %d sessions", k.bytes, len(k.by))
	}
	if k.take(specimen.Inc(0)) != nil || k.take(specimen.Inc(5)) == nil || k.take(specimen.Inc(5)) != nil {
		t.Error("the latest does not stay, or is taken twice")
	}
}

// A reply that reads the journal leaves the session its history, with what was recorded meanwhile.
func TestCatchUp(t *testing.T) {
	w := newWorld(t, 0)
	w.ask("one")
	w.answer("answer")
	w.live = w.kept.Of(w.at.Inc, w.agent) // of another host: nothing is kept
	w.ask("two")
	if w.live.View(w.run) != nil {
		t.Fatal("something is kept")
	}
	r := w.reader(nil)
	var caught *CaughtUp
	r.CatchUp, r.Caught = w.live.CatchUp(nil), func(c *CaughtUp) { caught = c }
	if _, err := r.Messages(t.Context()); err != nil || caught == nil || r.View == nil {
		t.Fatalf("%v; caught up with %v", err, caught)
	}
	w.answer("more") // while the reply is on its way to the session
	stale := &CaughtUp{of: &CatchUp{}, log: caught.log}
	w.live.Caught(stale)
	if w.live.history != nil {
		t.Error("what another turn has read is kept")
	}
	w.live.Caught(caught)
	w.ask("three")
	w.same()

	w.live = w.kept.Of(w.at.Inc, w.agent)
	w.ask("four")
	c := w.live.CatchUp(nil)
	w.live.Caught(&CaughtUp{of: c}) // it cannot be kept
	if w.live.CatchUp(nil) != nil {
		t.Error("a journal that cannot be kept is read twice in each turn")
	}
}

// A turn that is over wants nothing of what its reply reads.
func TestEndTurn(t *testing.T) {
	w := newWorld(t, 0)
	w.live = w.kept.Of(w.at.Inc, w.agent)
	w.ask("one")
	r := w.reader(nil)
	var caught *CaughtUp
	r.CatchUp, r.Caught = w.live.CatchUp(nil), func(c *CaughtUp) { caught = c }
	if _, err := r.Messages(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.live.EndTurn()
	w.live.Caught(caught)
	if w.live.history != nil {
		t.Error("the history of a turn that is over is kept")
	}
}

// The journal of a session has the system message that was stored last, unless something was
// erased, time has passed or the journal refused it.
func TestSystems(t *testing.T) {
	w := newWorld(t, 0)
	s, inc, one, two := &w.kept.Systems, w.at.Inc, specimen.NewBlob("1").Digest, specimen.NewBlob("2").Digest
	if s.Has(inc, one) {
		t.Error("it has one at first")
	}
	s.Keep(inc, one)
	if !s.Has(inc, one) || s.Has(inc, two) || s.Has(specimen.Inc(2), one) {
		t.Error("it has another than the one that was stored")
	}
	w.now = w.now.Add(historyAge)
	if s.Has(inc, one) {
		t.Error("it is remembered for ever")
	}
	s.Keep(inc, one)
	s.Forget(inc)
	if s.Has(inc, one) {
		t.Error("what was refused is there")
	}
	for n := range maxSystems + 1 {
		s.Keep(specimen.Inc(n), one)
	}
	if len(s.by) != maxSystems {
		t.Errorf("%d sessions are remembered", len(s.by))
	}
}

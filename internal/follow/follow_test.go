package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed14be6753/stile/internal/answer"
	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// logged is a journal that knows its records and its head.
type logged struct {
	journal.Store
	recs []*messages.Record
}

func (l *logged) HeadOf(context.Context, messages.Incarnation) (journal.Head, error) {
	var h journal.Head
	for _, r := range l.recs {
		h.Seq = r.Seq
		switch r.Body.(type) {
		case *messages.RunBegin:
			h.Open = true
		case *messages.TurnBegin:
			h.Turn = r.Turn
		case *messages.RunEnd:
			h.Open = false
		}
	}
	return h, nil
}

func (l *logged) Read(_ context.Context, _ messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		for _, r := range l.recs {
			if r.Seq >= from && (to == 0 || r.Seq <= to) && !yield(r, nil) {
				return
			}
		}
	}
}

// spoken is a session that speaks at random: units grow, get their records late, are
// committed before they are published; now and then the host dies, forgets what was
// not committed, and a later one decides the turn.
type spoken struct {
	rnd  *rand.Rand
	log  *logged
	hub  *hub.Hub
	next int // of log, to be published
	run  int64
	turn int64
	// units of the turn without a record, in order, and whether the last one is open
	texts []string
	base  int
	open  bool
	said  int // updates published
	over  bool
	began int // records up to turn.begin
}

func (s *spoken) commit(b messages.Body) {
	s.log.recs = append(s.log.recs, &messages.Record{Seq: int64(len(s.log.recs) + 1), Run: s.run, Turn: s.turn, Body: b})
}

func (s *spoken) publish() {
	if s.next < len(s.log.recs) {
		s.hub.Publish("s", messages.Update{Record: s.log.recs[s.next]})
		s.next++
		s.said++
	}
}

func (s *spoken) settle() {
	if len(s.texts) > 0 {
		id := messages.UnitID{Turn: s.turn, N: s.base}
		complete := len(s.texts) > 1 || !s.open
		s.commit(&messages.UnitText{UnitKind: messages.ResponseUnit, Unit: id.String(), Text: s.texts[0], Complete: complete})
		s.texts, s.base = s.texts[1:], s.base+1
		s.open = s.open && len(s.texts) > 0
	}
}

func (s *spoken) decide(d messages.Decision) {
	s.commit(&messages.TurnDecided{Decision: d})
	s.texts, s.open = nil, false
	if d == messages.Continue && s.rnd.IntN(2) == 0 {
		s.begin()
		return
	}
	s.commit(&messages.RunEnd{Decision: d})
	s.over = true
}

func (s *spoken) submit() {
	s.over = false
	s.run++
	s.turn++
	s.commit(&messages.Input{})
	s.turn--
	s.commit(&messages.RunBegin{})
	s.begin()
}

func (s *spoken) begin() {
	s.turn++
	s.base = 0
	s.commit(&messages.TurnBegin{})
	s.began = len(s.log.recs)
}

func (s *spoken) step() {
	if s.over {
		switch s.rnd.IntN(12) {
		case 0:
			s.submit()
		case 1:
			s.publish()
		}
		return
	}
	switch n := s.rnd.IntN(40); {
	case n < 16:
		for s.next < s.began { // the model is asked when that is shown
			s.publish()
		}
		if !s.open {
			s.texts, s.open = append(s.texts, ""), true
		}
		i := len(s.texts) - 1
		piece := strings.Repeat(string(rune('a'+s.rnd.IntN(26))), 1+s.rnd.IntN(4))
		s.texts[i] += piece
		id := messages.UnitID{Turn: s.turn, N: s.base + i}
		s.said++
		s.hub.Publish("s", messages.Update{Delta: &messages.Delta{Run: s.run, Unit: id, Kind: messages.ResponseUnit, Off: int64(len(s.texts[i])), Text: piece}})
	case n < 19:
		s.open = false
	case n < 22:
		if len(s.texts) > 1 || !s.open {
			s.settle()
		}
	case n < 24:
		s.commit(&messages.Note{})
	case n < 36:
		s.publish()
	case n < 37:
		for len(s.texts) > 0 {
			s.settle()
		}
		s.decide(messages.Continue)
	case n < 38: // the session dies, or its host, and a later one settles what is committed
		if s.rnd.IntN(2) == 0 {
			s.hub = hub.New()
		}
		s.hub.Forget("s")
		s.next = len(s.log.recs)
		if len(s.texts) > 0 && s.rnd.IntN(2) == 0 { // a part of the first unit was durable
			s.texts, s.open = []string{s.texts[0][:s.rnd.IntN(len(s.texts[0])+1)]}, true
			s.settle()
		}
		s.decide(messages.Halt)
	}
}

// waiting is the context of a reader that has read everything: whenever it is asked
// whether to wait on, the session goes on.
type waiting struct {
	context.Context
	goOn func()
}

func (w waiting) Done() <-chan struct{} {
	w.goOn()
	return w.Context.Done()
}

// reader is a client that shows what it gets, and what it remembers when it is cut.
type reader struct {
	at    messages.Position
	texts map[string]string
	done  map[string]bool
	recs  int64
	told  told
	lost  int // runs of which text was taken back that had been passed on
	whole int // runs of which none was
}

// told is what a reader that takes nothing back passes on of a run.
type told struct {
	answer.Account
	stream answer.Stream
	pieces strings.Builder
	lost   error
}

// pass passes on what an update brings, and at the end of the run holds it to its text.
func (r *reader) pass(t *testing.T, u messages.Update) {
	if u.Record != nil && u.Record.Body.Kind() == messages.KindRunBegin {
		r.told = told{}
	}
	o := &r.told
	if u.Record != nil {
		o.Take(u.Record)
	}
	if o.lost == nil {
		var piece string
		piece, o.lost = o.stream.Take(u)
		o.pieces.WriteString(piece)
	}
	switch ended := u.Record != nil && u.Record.Body.Kind() == messages.KindRunEnd; {
	case ended && o.lost != nil:
		r.lost++
	case ended && o.pieces.String() != o.Text():
		t.Fatalf("run %d: passed on %q, and its text is %q", u.Record.Run, o.pieces.String(), o.Text())
	case ended:
		r.whole++
	}
}

func (r *reader) take(t *testing.T, u messages.Update) {
	r.at = u.At
	r.pass(t, u)
	again, err := messages.ParsePosition(r.at.String())
	if err != nil || again != r.at {
		t.Fatalf("position %v reads back as %v, %v", r.at, again, err)
	}
	if d := u.Delta; d != nil {
		id := d.Unit.String()
		switch had := int64(len(r.texts[id])); {
		case r.done[id]:
			t.Fatalf("%+v comes after the record", d)
		case d.Seq != r.recs:
			t.Fatalf("%+v, and the last record was %d", d, r.recs)
		case d.Retract && (d.Off > had || d.Text != ""):
			t.Fatalf("%+v retracts more than the %d bytes there are", d, had)
		case d.Retract:
			r.texts[id] = r.texts[id][:d.Off]
		case had+int64(len(d.Text)) != d.Off || d.Text == "":
			t.Fatalf("%+v after %d bytes", d, had)
		default:
			r.texts[id] += d.Text
		}
		return
	}
	if u.Record.Seq != r.recs+1 {
		t.Fatalf("record %d after %d", u.Record.Seq, r.recs)
	}
	r.recs = u.Record.Seq
	switch b := u.Record.Body.(type) {
	case *messages.UnitText:
		if so := r.texts[b.Unit]; so != "" && so != b.Text {
			t.Fatalf("unit %s was shown as %q and is %q", b.Unit, so, b.Text)
		}
		r.texts[b.Unit], r.done[b.Unit] = b.Text, true
	case *messages.TurnDecided:
		for id, text := range r.texts {
			if !r.done[id] && text != "" {
				t.Fatalf("turn %d is decided and %q of unit %s is still shown", u.Record.Turn, text, id)
			}
		}
	}
}

// Cut anywhere, also over the death of the host, and resumed by the id of the last
// update it saw, a reader that applies retractions has exactly the journal's texts,
// every record once, and every delta behind the one before. One that cannot take back
// (answer.Stream) has passed on the text of each run, or knows that it has not.
func TestResumeIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	lost, whole := 0, 0
	for n := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, n))
		s := &spoken{rnd: rnd, log: &logged{}, hub: hub.New(), run: 1}
		s.commit(&messages.Input{})
		s.commit(&messages.RunBegin{})
		s.begin()
		r := &reader{texts: map[string]string{}, done: map[string]bool{}}
		for range 60 {
			for range rnd.IntN(12) {
				s.step()
			}
			// A connection that lives for some steps, and is cut after some updates. Now and
			// then the reader is so slow that its queue overflows.
			ctx, cancel := context.WithCancel(t.Context())
			left, hub := 1+rnd.IntN(1+rnd.IntN(20)), s.hub
			speak := func() bool {
				burst := 1
				if rnd.IntN(40) == 0 {
					burst = 1500
				}
				for range burst {
					if s.step(); s.hub != hub {
						cancel() // that host is gone
						return false
					}
				}
				return true
			}
			f := follower{hub: hub, store: s.log, sid: "s"}
			f.yield = func(u messages.Update, err error) bool {
				if errors.Is(err, context.Canceled) {
					return false
				}
				if err != nil {
					t.Fatalf("seed %d, session %d: %v", seed, n, err)
				}
				r.take(t, u)
				left--
				if left <= 0 || !speak() {
					cancel()
					return false
				}
				return true
			}
			f.give = func(u messages.Update) bool { return f.yield(u, nil) }
			f.ctx = waiting{ctx, func() {
				for said := s.said; said == s.said && ctx.Err() == nil; {
					if !speak() || rnd.IntN(50) == 0 {
						cancel()
					}
				}
			}}
			f.run(r.at)
			cancel()
		}
		if !s.over {
			s.decide(messages.Halt)
		}
		for s.next < len(s.log.recs) {
			s.publish()
		}
		if left := s.hub.Grown("s"); len(left) > 0 {
			t.Fatalf("seed %d, session %d: the hub still keeps %+v", seed, n, left)
		}
		f := follower{hub: hub.New(), store: s.log, ctx: t.Context(), sid: "s"}
		f.give = func(u messages.Update) bool { r.take(t, u); return true }
		f.yield = func(_ messages.Update, err error) bool { t.Fatal(err); return false }
		if !f.begin(r.at, nil) || !f.catchUp() || r.recs != int64(len(s.log.recs)) {
			t.Fatalf("seed %d, session %d: %d of %d records", seed, n, r.recs, len(s.log.recs))
		}
		lost, whole = lost+r.lost, whole+r.whole
		for id, text := range r.texts {
			if !r.done[id] && text != "" {
				t.Fatalf("seed %d, session %d: %q of unit %s is shown at the end", seed, n, text, id)
			}
		}
	}
	if lost == 0 || whole == 0 {
		t.Errorf("%d runs lost text that was passed on, %d did not", lost, whole)
	}
}

// Who ranges over updates is told when all there is has been given, and not in between.
// In a bubble a stream that is never told waits for ever, and fails.
func TestOnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := hub.New()
		log := &logged{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		given := 0
		var waits []int
		f := follower{hub: hub, store: log, ctx: ctx, sid: "s", waits: func() {
			if waits = append(waits, given); len(waits) >= 3 {
				cancel() // and nothing more comes
				return
			}
			for range 2 {
				log.recs = append(log.recs, &messages.Record{Seq: int64(len(log.recs) + 1), Run: 1, Body: &messages.Note{}})
				hub.Publish("s", messages.Update{Record: log.recs[len(log.recs)-1]})
			}
		}}
		for range 3 {
			log.recs = append(log.recs, &messages.Record{Seq: int64(len(log.recs) + 1), Run: 1, Body: &messages.Note{}})
		}
		f.give = func(messages.Update) bool { given++; return true }
		f.yield = func(messages.Update, error) bool { return false }
		f.run(messages.Position{})
		if !slices.Equal(waits, []int{3, 5, 7}) {
			t.Errorf("waited when it had %v", waits)
		}
	})
}

// A reader that missed pieces because it was slow gets them before the record has
// them.
func TestSlowReaderGetsTheText(t *testing.T) {
	hub := hub.New()
	log := &logged{recs: []*messages.Record{{Seq: 1, Run: 1, Turn: 1, Body: &messages.TurnBegin{}}}}
	var want strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := follower{hub: hub, store: log, ctx: ctx, sid: "s"}
	r := &reader{texts: map[string]string{}, done: map[string]bool{}}
	f.yield = func(_ messages.Update, err error) bool { return false }
	f.give = func(u messages.Update) bool {
		if r.take(t, u); u.Record != nil {
			for i := range 5000 {
				fmt.Fprintf(&want, "%d ", i)
				piece := fmt.Sprintf("%d ", i)
				hub.Publish("s", messages.Update{Delta: &messages.Delta{Run: 1, Unit: messages.UnitID{Turn: 1}, Off: int64(want.Len()), Text: piece}})
			}
		}
		if int(r.at.Off) == want.Len() {
			cancel()
		}
		return ctx.Err() == nil
	}
	f.ctx = waiting{ctx, func() {
		t.Errorf("the reader waits with %d of %d bytes", r.at.Off, want.Len())
		cancel()
	}}
	f.run(messages.Position{})
	if r.texts["1.0"] != want.String() {
		t.Errorf("%d bytes of %d", len(r.texts["1.0"]), want.Len())
	}
}

// However long ago it was: a unit that has its record is not taken back.
func TestResumeKnowsOldRecords(t *testing.T) {
	log := &logged{}
	add := func(b messages.Body) {
		log.recs = append(log.recs, &messages.Record{Seq: int64(len(log.recs) + 1), Run: 1, Turn: 1, Body: b})
	}
	add(&messages.TurnBegin{})
	add(&messages.UnitText{Unit: "1.0", Text: "old", Complete: true})
	for range 5000 {
		add(&messages.Note{})
	}
	from := messages.Position{Seq: int64(len(log.recs)), Unit: messages.UnitID{Turn: 1, N: 2}, Off: 3}
	add(&messages.TurnDecided{Decision: messages.Halt})
	var back []string
	f := follower{hub: hub.New(), store: log, ctx: t.Context(), sid: "s"}
	f.give = func(u messages.Update) bool {
		if u.Delta != nil && u.Delta.Retract {
			back = append(back, u.Delta.Unit.String())
		}
		return u.Record == nil
	}
	f.run(from)
	if !slices.Equal(back, []string{"1.1", "1.2"}) {
		t.Errorf("taken back: %q", back)
	}
}

func TestResumeRefuses(t *testing.T) {
	log := &logged{recs: []*messages.Record{{Seq: 1, Body: &messages.Note{}}}}
	for _, c := range []struct {
		from messages.Position
		code messages.Code
		want string
	}{
		{messages.Position{Seq: 2}, messages.ErrConflict, "record 2 is not in the session, which has 1"},
		{messages.Position{Seq: 1, Unit: messages.UnitID{Turn: 1, N: maxUnits + 1}, Off: 1}, messages.ErrInvalid, "units"},
	} {
		var got error
		f := follower{hub: hub.New(), store: log, ctx: t.Context(), sid: "s"}
		f.yield = func(_ messages.Update, err error) bool { got = err; return false }
		f.give = func(u messages.Update) bool { t.Errorf("%v gives %+v", c.from, u); return false }
		f.run(c.from)
		if messages.CodeOf(got) != c.code || !strings.Contains(fmt.Sprint(got), c.want) {
			t.Errorf("%v: %v, want %q", c.from, got, c.want)
		}
	}
}

// A reader that came inside a unit before any record gets the rest of that unit, however
// much the journal has by now.
func TestResumeBeforeTheFirstRecord(t *testing.T) {
	log := &logged{recs: []*messages.Record{
		{Seq: 1, Turn: 1, Body: &messages.TurnBegin{}},
		{Seq: 2, Turn: 1, Body: &messages.UnitText{Unit: "1.1", UnitKind: messages.ResponseUnit, Text: "hello", Complete: true}},
		{Seq: 3, Turn: 1, Body: &messages.TurnDecided{}},
	}}
	ctx, cancel := context.WithCancel(t.Context())
	text, records := "he", 0
	f := follower{hub: hub.New(), store: log, ctx: ctx, sid: "s"}
	f.yield = func(_ messages.Update, err error) bool { return !errors.Is(err, context.Canceled) }
	f.give = func(u messages.Update) bool {
		if u.Delta != nil {
			text += u.Delta.Text
			return true
		}
		if records++; records == len(log.recs) {
			cancel()
		}
		return true
	}
	f.run(messages.Position{Unit: messages.UnitID{Turn: 1, N: 1}, Off: 2})
	if text != "hello" || records != 3 {
		t.Errorf("%q and %d records", text, records)
	}
}

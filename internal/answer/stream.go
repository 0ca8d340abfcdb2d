package answer

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/kitsu"
)

// Stream gives the text of a run in pieces, as it grows:
//   - growing text comes as it is shown, once all texts before it are complete;
//   - text that the dialect may still replace (kitsu, and any unit that a turn.decided names
//     in retract) comes when it is final;
//   - for an input that should join a run, the text of that run comes once the run has taken
//     up the input. If the run ended before, its text is dropped and that of the next run
//     comes.
//
// When a crash has lost text that was already given, Take returns an error with the reason
// ReasonTakenBack, and the Stream is over. So it does for a thought that was given as a response
// (messages.Retract), unless Lenient is set. Each run needs a Stream of its own.
type Stream struct {
	Account
	// Lenient lets the Stream go on behind a thought that was given: the answer follows as
	// another text. The pieces have the thought then, and Text has not.
	Lenient bool
	// Merged is the position of an input that should join a run; 0 for an input with a run
	// of its own.
	Merged int64

	taken bool // the input is the run's now
	holds bool // the turn in flight is of a dialect that may replace its texts
	// known are units of the turn in flight that hold up none behind them: those below
	// next, and those that are later than the first that may.
	next     int
	known    map[int]bool
	replaced []string
	texts    []text
	sent     int           // texts that were given whole
	before   messages.Kind // of the last text that was given
}

// text is one response or emission on its way.
type text struct {
	kind  messages.Kind
	unit  messages.UnitID
	name  string // of the unit
	left  []byte // what was not given yet
	given int    // bytes
	whole bool   // it has its record, or will have none
	holds bool   // its turn may replace it and is not decided
}

// ReasonTakenBack is the reason of TakenBack.
const ReasonTakenBack = "TEXT_TAKEN_BACK"

// TakenBack returns the error for text that was taken back after it was given.
func TakenBack() *messages.Error {
	return &messages.Error{Code: messages.ErrCrash, Reason: ReasonTakenBack, Detail: "text that was sent has been taken back; the run goes on, and its session has the text that counts"}
}

// Take returns the text that an update of the run adds. After an error the Stream is over.
func (s *Stream) Take(u messages.Update) (piece string, err error) {
	switch {
	case u.Record != nil:
		err = s.record(u.Record)
	case u.Delta.Kind == messages.ResultText: // of a result, which is no text of the answer
	case u.Delta.Retract:
		err = s.retract(u.Delta.Unit, int(u.Delta.Off), u.Delta.Kind == messages.ThoughtUnit)
	case u.Delta.Kind == messages.ResponseUnit:
		s.grow(u.Delta)
	default: // a thought
		s.pass(u.Delta.Unit.N)
	}
	if err != nil {
		return "", err
	}
	return s.flush(), nil
}

func (s *Stream) record(r *messages.Record) error {
	if b, ok := r.Body.(*messages.RunEnd); ok && b.Next > 0 && s.waits() {
		*s = Stream{Account: Account{Most: s.Most}, Lenient: s.Lenient, taken: true}
		return nil
	}
	s.Account.Take(r)
	switch b := r.Body.(type) {
	case *messages.RunBegin:
		s.taken = s.taken || b.Input == s.Merged || slices.Contains(b.Merged, s.Merged)
	case *messages.TurnBegin:
		s.taken = s.taken || slices.Contains(b.Merged, s.Merged)
		s.holds = b.Dialect == kitsu.Name
		s.next, s.known = 0, nil
	case *messages.UnitText:
		return s.unit(b)
	case *messages.Emit:
		if !b.Candidate && !b.Held {
			s.texts = append(s.texts, text{kind: messages.KindEmit, left: []byte(b.Text), whole: true, holds: s.holds})
		}
	case *messages.Retract:
		s.replaced = slices.DeleteFunc(s.replaced, func(unit string) bool { return unit == b.Unit })
		if id, err := messages.ParseUnitID(b.Unit); err == nil {
			return s.retract(id, int(b.Off), b.Thought)
		}
	case *messages.TurnDecided:
		s.decided()
		if b.Decision == messages.Continue {
			s.replaced = append(s.replaced, b.Retract...)
		}
	case *messages.RunEnd:
		s.decided()
		s.replaced, s.taken = nil, true
	}
	return nil
}

// waits reports whether the run has not taken up the input yet.
func (s *Stream) waits() bool { return s.Merged > 0 && !s.taken }

// decided makes the texts final that the turn could have replaced.
func (s *Stream) decided() {
	s.holds = false
	for i := s.sent; i < len(s.texts); i++ {
		s.texts[i].whole, s.texts[i].holds = true, false
	}
}

func (s *Stream) unit(b *messages.UnitText) error {
	id, err := messages.ParseUnitID(b.Unit)
	if err != nil {
		return nil
	}
	s.pass(id.N)
	if b.UnitKind != messages.ResponseUnit {
		return nil
	}
	t := s.text(id)
	if len(b.Text) < t.given {
		return TakenBack()
	}
	t.left, t.whole = append(t.left[:0], b.Text[t.given:]...), true
	return nil
}

// pass says that unit n of the turn holds up none behind it: it is whole, or no response.
func (s *Stream) pass(n int) {
	if n > s.next {
		if s.known == nil {
			s.known = map[int]bool{}
		}
		s.known[n] = true
		return
	}
	if n == s.next {
		s.next++
	}
	for s.known[s.next] {
		delete(s.known, s.next)
		s.next++
	}
}

func (s *Stream) grow(d *messages.Delta) {
	t := s.text(d.Unit)
	// What does not continue what is known comes again with the record.
	if from := int(d.Off) - len(d.Text) - t.given; !t.whole && from >= 0 && from <= len(t.left) {
		t.left = append(t.left[:from], d.Text...)
	}
}

// text finds a unit's text, or takes its place: in front of units behind it.
func (s *Stream) text(id messages.UnitID) *text {
	if i := s.find(id); i >= 0 {
		return &s.texts[i]
	}
	at := len(s.texts)
	for at > s.sent && s.texts[at-1].given == 0 && s.texts[at-1].unit.Turn == id.Turn && s.texts[at-1].unit.N > id.N {
		at--
	}
	s.texts = slices.Insert(s.texts, at, text{kind: messages.ResponseUnit, unit: id, name: id.String(), holds: s.holds})
	return &s.texts[at]
}

// find looks from the end, where a text that changes mostly is.
func (s *Stream) find(id messages.UnitID) int {
	for i := len(s.texts) - 1; i >= 0; i-- {
		if s.texts[i].unit == id && s.texts[i].kind == messages.ResponseUnit {
			return i
		}
	}
	return -1
}

// retract drops text of a unit, of which the first bytes stay. thought says that all of it was a
// thought.
func (s *Stream) retract(id messages.UnitID, off int, thought bool) error {
	i := s.find(id)
	if i < 0 {
		return nil
	}
	t := &s.texts[i]
	if thought && (s.Lenient || t.given == 0) {
		t.left, t.whole = nil, true
		return nil
	}
	if off < t.given {
		return TakenBack()
	}
	t.left = t.left[:min(len(t.left), off-t.given)]
	return nil
}

// flush returns the text that can be given now.
func (s *Stream) flush() string {
	if s.waits() {
		return ""
	}
	var out []byte
	for ; s.sent < len(s.texts); s.sent++ {
		t := &s.texts[s.sent]
		if t.holds || slices.Contains(s.replaced, t.name) || !t.whole && t.unit.N > s.next {
			break
		}
		if len(t.left) > 0 || t.kind == messages.KindEmit {
			if t.given == 0 {
				out = append(out, between(s.before, t.kind)...)
				s.before = t.kind
			}
			out = append(out, t.left...)
			t.given += len(t.left)
			t.left = t.left[:0]
		}
		if !t.whole {
			break
		}
		t.left = nil
	}
	return string(out)
}

package messages

import (
	"strconv"
	"strings"
	"time"
)

// Update is what a subscriber of a session gets: a durable record, or a change of
// the shown text of a unit that is still growing. Exactly one of Record and Delta is
// set.
type Update struct {
	Record *Record
	Delta  *Delta
	// At is the place behind this update: whoever saw it last resumes there. While text
	// grows the place behind a record names that text as well.
	At Position
}

// Delta is a piece of shown text. Seq is the last record sent before it, Off the
// bytes of the unit shown including this piece (docs/spec/design.md §2).
//
// With Retract it takes text back: of the unit the first Off bytes stay, the rest was
// shown and will never be in the journal. Text is empty then.
//
// TS is when the host showed it, in UTC; of several pieces that came as one, the last.
//
// Of the kind KindProgress it is no text but how far a running action is: the action of the turn
// Unit.Turn has done Off of Total, 0 for a total that is not known, and Text is a line about it.
// It replaces the last one of the action. Subscribers get it if they ask for it.
type Delta struct {
	TS      time.Time
	Seq     int64
	Run     int64
	Unit    UnitID
	Kind    Kind
	Off     int64
	Text    string
	Retract bool
	Thought *Block // where the unit stands among numbered thoughts; nil elsewhere
	Action  string // of KindProgress
	Total   int64  // of KindProgress
}

// KindProgress is the kind of a Delta that no record follows: progress is not in the journal.
const KindProgress Kind = "progress"

// Position is a place in the stream of a session's updates: behind record Seq, and if
// Unit names one, with Off bytes of that unit's text shown. The zero Position is the
// beginning (docs/spec/design.md §2).
type Position struct {
	Seq  int64
	Unit UnitID
	Off  int64
}

// String is the id of an update on the wire: "seq", or "seq.T.n.off" inside a text.
func (p Position) String() string {
	s := strconv.FormatInt(p.Seq, 10)
	if p.Unit == (UnitID{}) {
		return s
	}
	return s + "." + p.Unit.String() + "." + strconv.FormatInt(p.Off, 10)
}

// ParsePosition reads what String wrote. Anything else is ERR_INVALID; numbers are
// decimal without sign, leading zeros or more than 2^53-1.
func ParsePosition(id string) (Position, error) {
	parts := strings.Split(id, ".")
	var n [4]int64
	ok := len(parts) == 1 || len(parts) == 4
	for i := 0; ok && i < len(parts); i++ {
		n[i], ok = ordinal(parts[i])
	}
	if !ok || len(parts) == 4 && n[1] == 0 {
		return Position{}, &Error{Code: ErrInvalid, Field: "position", Detail: "want the id of an update: seq, or seq.turn.unit.offset"}
	}
	if len(parts) == 1 {
		return Position{Seq: n[0]}, nil
	}
	return Position{Seq: n[0], Unit: UnitID{Turn: n[1], N: int(n[2])}, Off: n[3]}, nil
}

// ParseUnitID reads what UnitID.String wrote.
func ParseUnitID(id string) (UnitID, error) {
	t, u, _ := strings.Cut(id, ".")
	turn, ok := ordinal(t)
	n, fine := ordinal(u)
	if !ok || !fine || turn == 0 {
		return UnitID{}, &Error{Code: ErrInvalid, Field: "unit", Detail: "want turn.unit"}
	}
	return UnitID{Turn: turn, N: int(n)}, nil
}

// ordinal reads a number as strconv.FormatInt writes it.
func ordinal(s string) (int64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n < 1<<53
}

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
	// At is the place behind this update: a client that saw it last resumes there. While text
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
//
// Of the kind ResultText the text is that of the result of Action while it grows: Unit has the
// turn alone, and Off counts bytes of the latest attempt (docs/spec/extensions.md
// §5). A Retract to 0 precedes the text of another attempt.
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
	Action  string // of KindProgress and ResultText
	Total   int64  // of KindProgress
}

// KindProgress is the kind of a Delta that no record follows: progress is not in the journal. It
// is an untyped constant, because no record has it.
const KindProgress = "progress"

// Position is a place in the stream of a session's updates: behind record Seq, and if
// Unit names one, with Off bytes of that unit's text shown. Results has the bytes that were
// shown of results that grow, as AppendResult writes them. The zero Position is the beginning
// (docs/spec/design.md §2).
type Position struct {
	Seq     int64
	Unit    UnitID
	Off     int64
	Results string
}

// MaxShownResults bounds the results in one position.
const MaxShownResults = 256

// AppendResult appends the first off bytes of a turn's action to a Position.Results.
func AppendResult(to string, turn int64, action string, off int64) string {
	return to + "~" + strconv.FormatInt(turn, 10) + ":" + action + ":" + strconv.FormatInt(off, 10)
}

// EachResult calls f for each result that Results names, in order. It returns false, having
// called f for some, if AppendResult has not written Results.
func (p Position) EachResult(f func(turn int64, action string, off int64)) bool {
	rest := p.Results
	for n := 0; rest != ""; n++ {
		if rest[0] != '~' || n == MaxShownResults {
			return false
		}
		one := rest[1:]
		rest = ""
		if i := strings.IndexByte(one, '~'); i >= 0 {
			one, rest = one[:i], one[i:]
		}
		first, more, _ := strings.Cut(one, ":")
		action, last, _ := strings.Cut(more, ":")
		turn, fine := ordinal(first)
		off, ok := ordinal(last)
		if !fine || !ok || turn == 0 || action == "" {
			return false
		}
		f(turn, action, off)
	}
	return true
}

// String is the id of an update on the wire: "seq", or "seq.T.n.off" inside a text. While
// results grow, "~T:action:off" follows for each.
func (p Position) String() string {
	s := strconv.FormatInt(p.Seq, 10)
	if p.Unit == (UnitID{}) {
		return s + p.Results
	}
	return s + "." + p.Unit.String() + "." + strconv.FormatInt(p.Off, 10) + p.Results
}

// ParsePosition reads what String wrote. Anything else is ERR_INVALID; numbers are
// decimal without sign, leading zeros or more than 2^53-1.
func ParsePosition(id string) (Position, error) {
	results := ""
	if i := strings.IndexByte(id, '~'); i >= 0 {
		id, results = id[:i], id[i:]
	}
	parts := strings.Split(id, ".")
	var n [4]int64
	ok := Position{Results: results}.EachResult(func(int64, string, int64) {})
	ok = ok && (len(parts) == 1 || len(parts) == 4)
	for i := 0; ok && i < len(parts); i++ {
		n[i], ok = ordinal(parts[i])
	}
	if !ok || len(parts) == 4 && n[1] == 0 {
		return Position{}, &Error{Code: ErrInvalid, Field: "position", Detail: "want the id of an update: seq, or seq.turn.unit.offset, and ~turn:action:offset for each result that grows"}
	}
	if len(parts) == 1 {
		return Position{Seq: n[0], Results: results}, nil
	}
	return Position{Seq: n[0], Unit: UnitID{Turn: n[1], N: int(n[2])}, Off: n[3], Results: results}, nil
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

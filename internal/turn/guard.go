package turn

import (
	"crypto/sha256"

	"github.com/seed14be6753/stile/messages"
)

// Progress is the counter of the progress guard (docs/spec/aeiou.md §12): N turns in a row had
// the same Digest.
type Progress struct {
	Digest messages.Digest `json:"digest,omitzero"`
	N      int             `json:"n,omitzero"`
}

func (p *Progress) next(d messages.Digest) int {
	if p.N > 0 && p.Digest == d {
		return p.N + 1
	}
	return 1
}

func (p *Progress) count(d messages.Digest) {
	p.N = p.next(d)
	p.Digest = d
}

// ProgressDigest is sha256("OUT|" out "\nSCR|" scr) over normalised streams.
func ProgressDigest(out, scr []byte) messages.Digest {
	h := sha256.New()
	h.Write([]byte("OUT|"))
	h.Write(out)
	h.Write([]byte("\nSCR|"))
	h.Write(scr)
	var d messages.Digest
	h.Sum(d[:0])
	return d
}

// Loop is the call-loop guard (docs/spec/design.md §5). It counts, per run, how often the same
// call gave the same result. A signature counts once per turn; pure calls never count. Its
// memory is bounded by the actions of a run.
type Loop struct {
	Seen []Seen            `json:"seen,omitzero"`
	Last []messages.Digest `json:"last,omitzero"` // the latest six signatures
}

// Seen is a signature and the number of turns that had it.
type Seen struct {
	Call messages.Digest `json:"call"`
	N    int             `json:"n"`
}

// The bounds of the call-loop guard.
const (
	loopInARow = 3
	loopInRun  = 8
	loopWindow = 6 // ABABAB
)

func (l *Loop) count(calls []ActionShape) {
	for i, c := range calls {
		if !c.Counts || seenBefore(calls[:i], c) {
			continue
		}
		l.Last = append(l.Last, c.Call)
		if len(l.Last) > loopWindow {
			l.Last = append(l.Last[:0], l.Last[1:]...)
		}
		l.bump(c.Call)
	}
}

func seenBefore(calls []ActionShape, c ActionShape) bool {
	for _, o := range calls {
		if o.Counts && o.Call == c.Call {
			return true
		}
	}
	return false
}

func (l *Loop) bump(d messages.Digest) {
	for i := range l.Seen {
		if l.Seen[i].Call == d {
			l.Seen[i].N++
			return
		}
	}
	l.Seen = append(l.Seen, Seen{Call: d, N: 1})
}

// fires reports whether a turn with these calls closes a loop. It works on a copy: the
// counter itself moves when the decision is recorded.
func (l *Loop) fires(calls []ActionShape) bool {
	next := Loop{Seen: append([]Seen(nil), l.Seen...), Last: append([]messages.Digest(nil), l.Last...)}
	for i, c := range calls {
		if !c.Counts || seenBefore(calls[:i], c) {
			continue
		}
		next.count(calls[i : i+1])
		if next.closed(c.Call) {
			return true
		}
	}
	return false
}

// closed reports whether the latest call d closes a loop: the same call three times in a row
// or eight times in the run, or two calls that alternate three times.
func (l *Loop) closed(d messages.Digest) bool {
	for _, s := range l.Seen {
		if s.Call == d && s.N >= loopInRun {
			return true
		}
	}
	n := len(l.Last)
	if n >= loopInARow && l.Last[n-1] == l.Last[n-2] && l.Last[n-2] == l.Last[n-3] {
		return true
	}
	if n < loopWindow {
		return false
	}
	a, b := l.Last[n-2], l.Last[n-1]
	return a != b && l.Last[n-4] == a && l.Last[n-6] == a && l.Last[n-3] == b && l.Last[n-5] == b
}

// shapeOf returns the signature of an ended action: a hash of name, arguments, state and
// result, each with its length in front, so that no two calls collide by concatenation.
func shapeOf(a OpenAction, e *messages.ActionEnded) ActionShape {
	h := sha256.New()
	for _, s := range []string{a.Name, a.Args, string(e.State), e.Result} {
		var n [8]byte
		for i := range n {
			n[i] = byte(len(s) >> (8 * i))
		}
		h.Write(n[:])
		h.Write([]byte(s))
	}
	var d messages.Digest
	h.Sum(d[:0])
	return ActionShape{Call: d, Counts: a.Class != messages.Pure}
}

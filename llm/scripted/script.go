// Package scripted is a model that reads its replies from a file (docs/spec/design.md §10).
// A host without a configured provider uses it, and so do examples, tests and the
// bench.
//
// The file is JSON lines, one reply per line; blank lines, and lines whose first
// visible byte is '#' or that begin with "//", are skipped. Members of a line:
//
//	match      {"equals": s} or {"contains": s} or {"re2": pattern}
//	chunks     [{"at_ms": n, "text": s}, …]; at_ms counts from the start of the
//	           reply, never falls, default that of the chunk before (first: 0)
//	cut        seed; the text is cut again into short pieces, anywhere, also inside
//	           a character, and in the same way for the same seed
//	finish     complete (default), stop, length, cancelled or error
//	usage      {"input": n, "output": n, "cost_micro_usd": n}
//	error      {"status": n, "code": s, "retry_after_ms": n, "after_bytes": n};
//	           excludes finish. after_bytes defaults to the whole text
//	on_cancel  stop (default) or drain
//
// A line needs chunks, an error, or both. A chunk with an empty text is a pause.
//
// Lines with match are tried first, in order, on the text of the last user
// message, and may serve any number of times. When none matches, the lines
// without match are taken in order: Request.Ordinal names the one. Past the last
// the stream fails with ERR_MODEL/EXHAUSTED.
//
// Invariants: a Script never changes after Parse or New and may be shared by any
// number of sessions; it keeps no position, so the same request always gets the
// same reply.
//
// It ignores the model's name, the history, and the other messages.
package scripted

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// MaxScriptBytes bounds a script file.
const MaxScriptBytes = 64 << 20

// MaxDelayMS bounds at_ms and retry_after_ms: one day.
const MaxDelayMS = 24 * 60 * 60 * 1000

// maxCutBytes is the longest piece that cut makes. Most are shorter than an opener of any
// dialect, because cut is for testing openers that arrive in pieces.
const maxCutBytes = 24

// Script is a parsed script. It implements llm.Model, and is safe for concurrent use.
type Script struct {
	name    string
	matched []reply // lines with match, in order
	ordered []reply // lines without
}

// reply is one line of the script.
type reply struct {
	match   matcher
	pieces  []piece
	finish  messages.Finish
	usage   messages.Usage
	cost    int64
	failure *llm.Failure // set: the stream ends with it instead of finish
	drain   bool         // on_cancel: drain
}

// piece is the text of one chunk. An empty one is a pause.
type piece struct {
	atMS int64
	text []byte
}

type matchKind uint8

const (
	matchNone matchKind = iota
	matchEquals
	matchContains
	matchRE2
)

type matcher struct {
	kind matchKind
	text string
	re   *regexp.Regexp
}

func (m *matcher) matches(s string) bool {
	switch m.kind {
	case matchEquals:
		return s == m.text
	case matchContains:
		return strings.Contains(s, m.text)
	case matchRE2:
		return m.re.MatchString(s)
	case matchNone: // the line is taken in order
	}
	return false
}

// New returns a script of ordered replies, each in one chunk without delay.
func New(replies ...string) *Script {
	s := &Script{name: "scripted.New"}
	for _, t := range replies {
		s.ordered = append(s.ordered, reply{
			pieces: []piece{{text: []byte(t)}},
			finish: messages.FinishComplete,
		})
	}
	return s
}

// Name returns the name that Parse was given.
func (s *Script) Name() string { return s.name }

// Len returns the number of replies with match, and of those taken in order.
func (s *Script) Len() (matched, ordered int) { return len(s.matched), len(s.ordered) }

// Ordered reports whether a line without match would answer req. A caller that counts
// Request.Ordinal without matched requests counts those for which Ordered is true.
func (s *Script) Ordered(req llm.Request) bool { return s.find(lastUser(req.Messages)) == nil }

// TakesPart implements what llm.Request.Files asks for: a script takes all, and looks at none.
func (s *Script) TakesPart(string) bool { return true }

// find returns the first matching line, or nil.
func (s *Script) find(input string, ok bool) *reply {
	if !ok {
		return nil
	}
	for i := range s.matched {
		if s.matched[i].match.matches(input) {
			return &s.matched[i]
		}
	}
	return nil
}

// choose returns the line that answers req.
func (s *Script) choose(req *llm.Request) (*reply, error) {
	if r := s.find(lastUser(req.Messages)); r != nil {
		return r, nil
	}
	if req.Ordinal >= 0 && req.Ordinal < int64(len(s.ordered)) {
		return &s.ordered[req.Ordinal], nil
	}
	return nil, llm.Fail(llm.Failure{Code: "exhausted"},
		fmt.Sprintf("%s has %d replies to give in order, this is request %d, and no match fits", s.name, len(s.ordered), req.Ordinal+1))
}

// lastUser returns the text of the last user message.
func lastUser(ms []messages.Message) (string, bool) {
	for i := len(ms) - 1; i >= 0; i-- {
		if ms[i].Role == messages.RoleUser {
			return ms[i].Text, true
		}
	}
	return "", false
}

// recut cuts the text of pieces again. A piece gets the time of its last byte, so that no byte
// comes early; pauses keep their places.
func recut(in []piece, seed uint64) []piece {
	var out []piece
	rng := rand.New(rand.NewPCG(seed, 0))
	next := func() int { return 1 + rng.IntN(maxCutBytes) }
	want := next()
	var held []byte
	for _, p := range in {
		if len(p.text) == 0 {
			if len(held) > 0 {
				out = append(out, piece{text: held, atMS: p.atMS})
				held, want = nil, next()
			}
			out = append(out, p)
			continue
		}
		for t := p.text; len(t) > 0; {
			n := min(want-len(held), len(t))
			if held == nil {
				held = t[:n:n]
			} else {
				held = append(held, t[:n]...)
			}
			t = t[n:]
			if len(held) == want {
				out = append(out, piece{text: held, atMS: p.atMS})
				held, want = nil, next()
			}
		}
	}
	if len(held) > 0 {
		out = append(out, piece{text: held, atMS: in[len(in)-1].atMS})
	}
	return out
}

// Price sets the cost of replies that have a usage but no cost. It must be called before the
// first Stream.
func (s *Script) Price(p llm.Price) {
	for _, all := range [][]reply{s.matched, s.ordered} {
		for i := range all {
			if all[i].cost == 0 {
				all[i].cost = p.Cost(all[i].usage)
			}
		}
	}
}

package conform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
)

type turnCase struct {
	Output  *[]string      `json:"output_lines"`
	Scratch []string       `json:"scratch_lines"`
	Context *vectorContext `json:"context"`
	Expect  *turnWant      `json:"expect"`
	Accept  []turnWant     `json:"accept"`
}

// turnWant is a wanted decision. Reason and ReasonAny belong to HALT: the code is
// one of them.
type turnWant struct {
	Decision  messages.Decision `json:"decision"`
	Reason    messages.Code     `json:"reason"`
	ReasonAny []messages.Code   `json:"reason_any"`
	JTI       string            `json:"jti"`
	Line      *int              `json:"line"` // absent: none, like -1
	Lints     []messages.Code   `json:"lints"`
}

func (w turnWant) reasons() []messages.Code {
	if w.Reason != "" {
		return append([]messages.Code{w.Reason}, w.ReasonAny...)
	}
	return w.ReasonAny
}

func (w turnWant) line() int {
	if w.Line == nil {
		return -1
	}
	return *w.Line
}

func (w turnWant) check() error {
	switch w.Decision {
	case messages.Continue, messages.Done, messages.Abort:
		if len(w.reasons()) > 0 {
			return malformed("expect.reason", "only HALT has a reason")
		}
	case messages.Halt:
		if len(w.reasons()) == 0 {
			return malformed("expect.reason", "HALT has a reason")
		}
	default:
		return malformed("expect.decision", "unknown decision %q", w.Decision)
	}
	return nil
}

func turnCases(d *document) ([]testCase, error) {
	keys, err := keysOf(d)
	if err != nil {
		return nil, err
	}
	return each(d.listed, "name", "", func(raw jsontext.Value) (verdict, error) { return judgeTurn(raw, keys) }), nil
}

// judgeTurn decides a turn as the runtime does: the candidates of OUTPUT are
// verified in order under one replay set, then the dialect selects
// (docs/spec/aeiou.md §§10, 11, 13).
func judgeTurn(raw jsontext.Value, keys vectorKeys) (verdict, error) {
	var c turnCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	if c.Output == nil {
		return verdict{}, malformed("output_lines", "missing")
	}
	if c.Expect == nil {
		return verdict{}, malformed("expect", "missing")
	}
	wants := append([]turnWant{*c.Expect}, c.Accept...)
	for _, w := range wants {
		if err := w.check(); err != nil {
			return verdict{}, err
		}
	}
	verify, err := c.Context.verifier(keys)
	if err != nil {
		return verdict{}, err
	}
	facts := messages.Facts{
		Turn: c.Context.TurnIndex, Finish: messages.FinishComplete,
		Out: stream(*c.Output), Scr: stream(c.Scratch),
	}
	for n, line := range aeiou.Candidates(facts.Out) {
		k := verify(line)
		facts.Tokens = append(facts.Tokens, messages.TokenCheck{
			Line: n, Action: k.Action, KID: k.KID, JTI: k.JTI, Failure: k.Failure, Reason: k.Reason,
		})
	}
	v := aeiou.Dialect{}.Decide(facts)
	got := turnGot{Verdict: v, line: -1, failures: aeiou.Failures(facts.Tokens)}
	if v.Token >= 0 {
		got.line, got.jti = facts.Tokens[v.Token].Line, facts.Tokens[v.Token].JTI
	}
	return compare(got, got.matches, wants), nil
}

// stream is what emitted lines leave behind: each closed by LF.
func stream(lines []string) []byte {
	var b []byte
	for _, l := range lines {
		b = append(append(b, l...), '\n')
	}
	return b
}

type turnGot struct {
	messages.Verdict
	line     int
	jti      string
	failures []string
}

func (g turnGot) matches(w turnWant) bool {
	reason := g.Decision != messages.Halt && g.Code == "" || slices.Contains(w.reasons(), g.Code)
	return g.Decision == w.Decision && reason && g.line == w.line() && g.jti == w.JTI && sameSet(g.Lints, w.Lints)
}

func (w turnWant) String() string {
	return decisionText(w.Decision, w.reasons(), w.line(), w.JTI, w.Lints)
}

func (g turnGot) String() string {
	var reasons []messages.Code
	if g.Code != "" {
		reasons = []messages.Code{g.Code}
	}
	s := decisionText(g.Decision, reasons, g.line, g.jti, g.Lints)
	if len(g.failures) > 0 {
		s += ", failed candidates " + strings.Join(g.failures, " ")
	}
	return s
}

func decisionText(d messages.Decision, reasons []messages.Code, line int, jti string, lints []messages.Code) string {
	s := string(d)
	for i, r := range reasons {
		if i == 0 {
			s += " " + string(r)
		} else {
			s += "|" + string(r)
		}
	}
	if line >= 0 || jti != "" {
		s += fmt.Sprintf(", line %d, jti %q", line, jti)
	}
	return s + fmt.Sprintf(", lints %v", lints)
}

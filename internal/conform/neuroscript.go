package conform

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

type programCase struct {
	Library string  `json:"library"`
	Program *string `json:"program"`
	NSA     string  `json:"ns_a"`
	programWant
	Accept []programWant `json:"accept"`
}

// programWant is a wanted outcome. A kind that is absent is not compared.
type programWant struct {
	Emits    *[]string  `json:"emits"`
	Whispers *[]whisper `json:"whispers"`
	Outcome  string     `json:"outcome"`
	Kind     string     `json:"error_kind"`
}

type whisper struct {
	Target string `json:"target"`
	Text   string `json:"text"`
}

// differs marks a program on which the profile of the specification deviates from
// the interpreter that the expectations were recorded on.
const differs = "differs"

func programCases(d *document) ([]testCase, error) {
	return each(d.listed, "name", "", judgeProgram), nil
}

func judgeProgram(raw jsontext.Value) (verdict, error) {
	var c programCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	if c.NSA == differs {
		return verdict{leftOut: "ns_a: differs"}, nil
	}
	if c.Program == nil {
		return verdict{}, malformed("program", "missing")
	}
	wants := append([]programWant{c.programWant}, c.Accept...)
	for _, w := range wants {
		if err := w.check(); err != nil {
			return verdict{}, err
		}
	}
	got := runProgram(c.Library, *c.Program)
	return compare(got, got.matches, wants), nil
}

func (w programWant) check() error {
	switch {
	case w.Outcome != "ok" && w.Outcome != "error":
		return malformed("outcome", "%q is neither ok nor error", w.Outcome)
	case w.Outcome == "ok" && w.Kind != "":
		return malformed("error_kind", "beside outcome ok")
	case w.Emits == nil:
		return malformed("emits", "missing")
	case w.Whispers == nil:
		return malformed("whispers", "missing")
	}
	return nil
}

type programGot struct {
	emits    []string
	whispers []whisper
	kind     string // "" for ok
	fault    error
}

// runProgram runs a program as a turn does, with the functions of a library and
// the tools of the vectors.
func runProgram(library, program string) (got programGot) {
	env := neuroscript.Env{
		SID: "conform", TurnIndex: 1, Tools: testTools,
		Emit:    func(text string) { got.emits = append(got.emits, text) },
		Whisper: func(target, text string) { got.whispers = append(got.whispers, whisper{target, text}) },
	}
	if library != "" {
		lib, err := neuroscript.CompileLibrary(neuroscript.Source{Name: "library", Text: []byte(library)})
		if err != nil {
			got.kind, got.fault = kindSyntax, err
			return got
		}
		env.Library = lib
	}
	p, err := neuroscript.Compile([]byte(program))
	if err != nil {
		got.kind, got.fault = kindSyntax, err
		return got
	}
	switch r := p.Run(context.Background(), &env); {
	case r.Breach != nil:
		got.kind, got.fault = breachKind(r.Breach), r.Breach
	case r.Err != nil:
		got.kind, got.fault = errorKind(r.Err.Code), r.Err
	}
	return got
}

// Kinds of error that are no code of a script error.
const (
	kindSyntax   = "syntax"   // ERR_ACTIONS_PARSE, or a library that does not load
	kindResource = "resource" // a meter that ran out
)

// codeKinds names the codes of docs/spec/neuroscript.md §8.2 as the vectors do. 13 and 37
// are codes of the recorded interpreter; here the parser finds the fault of the
// one, and a meter that of the other.
var codeKinds = map[int]string{
	neuroscript.CodeFail:            "fail",
	neuroscript.CodeFuncNotFound:    "func_not_found",
	neuroscript.CodeToolNotFound:    "tool_not_found",
	neuroscript.CodeArgument:        "arg_mismatch",
	neuroscript.CodeMust:            "must_failed",
	neuroscript.CodeType:            "type",
	neuroscript.CodeBounds:          "bounds",
	neuroscript.CodeReturnViolation: "return_violation",
	13:                              "clear_violation",
	neuroscript.CodeDivZero:         "division_by_zero",
	neuroscript.CodeToolFailed:      "tool_failed",
	neuroscript.CodeCount:           "count_mismatch",
	37:                              kindResource,
}

func errorKind(code int) string {
	if k := codeKinds[code]; k != "" {
		return k
	}
	return fmt.Sprintf("code_%d", code)
}

func breachKind(b *neuroscript.Breach) string {
	if b.Code == messages.ErrQuota {
		return kindResource
	}
	return string(b.Code)
}

func (g programGot) matches(w programWant) bool {
	outcome := w.Outcome == "ok" && g.kind == "" || w.Outcome == "error" && g.kind != "" && sameKind(w.Kind, g.kind)
	return outcome && slices.Equal(g.emits, *w.Emits) && slices.Equal(g.whispers, *w.Whispers)
}

// sameKind compares kinds. A return or clear_error where none may stand is found
// before anything runs (docs/spec/neuroscript.md §3.2), so the parser's refusal is the
// answer to those two.
func sameKind(want, got string) bool {
	if got == kindSyntax && (want == "return_violation" || want == "clear_violation") {
		return true
	}
	return want == "" || want == got
}

func (w programWant) String() string {
	s := w.Outcome
	if w.Kind != "" {
		s += " " + w.Kind
	}
	return s + streamText(*w.Emits, *w.Whispers)
}

func (g programGot) String() string {
	s := "ok"
	if g.kind != "" {
		s = "error " + g.kind
	}
	s += streamText(g.emits, g.whispers)
	if g.fault != nil {
		s += ": " + g.fault.Error()
	}
	return s
}

func streamText(emits []string, whispers []whisper) string {
	s := fmt.Sprintf(", emits %q", emits)
	for _, w := range whispers {
		s += fmt.Sprintf(", whisper to %q %q", w.Target, w.Text)
	}
	return s
}

package neuroscript

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript/syntax"
	"github.com/seed14be6753/stile/messages"
)

// From version 2 on the author of a program that failed is told what to write instead.
// The program itself never is: what a handler reads of an error is the same in both
// versions.

// Guide is an optional interface of a ToolSet, which describes what can be called.
type Guide interface {
	// Near gives the signatures of the tools whose names are most like one, the most
	// like it first, as calls write them: "tool.file.read(path: string)".
	Near(name string) []string
	// Signature is that of the tool with a lower-cased name; "" when there is none.
	Signature(name string) string
}

// maxShownLine bounds what is shown of a line of the source, in bytes.
const maxShownLine = 120

// misnomer is what a constant is called that other languages spell as name; "" for all
// other names. A name that nothing sets is nil, so that `True` would be false without a
// word.
func misnomer(name string) string {
	switch name {
	case "True", "TRUE":
		return "true"
	case "False", "FALSE":
		return "false"
	}
	return ""
}

// misnamed finds a misnomer that nothing sets.
func misnamed(t *syntax.Tree) error {
	if !slices.ContainsFunc(t.Symbols, func(name string) bool { return misnomer(name) != "" }) {
		return nil
	}
	set := map[syntax.Ref]bool{}
	for i := range t.Nodes {
		switch n := &t.Nodes[i]; n.Kind {
		case syntax.Target, syntax.For, syntax.Handler:
			set[n.A] = true
		}
	}
	var first *syntax.Node
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.Kind == syntax.Var && misnomer(t.Symbols[n.A]) != "" && !set[n.A] && (first == nil || n.Pos < first.Pos) {
			first = n
		}
	}
	if first == nil {
		return nil
	}
	line, col := t.Position(first.Pos)
	name := t.Symbols[first.A]
	return &messages.Error{
		Code: messages.ErrActionsParse, Detail: "there is no `" + name + "`: write `" + misnomer(name) + "`",
		Line: line, Col: col, Offset: int64(first.Pos), HasOffset: true,
	}
}

// Explained is a compiler whose errors also say, from version 2 of the limits on, how to
// mend the program. compile does the work; tools is what the program could call.
func Explained(l Limits, tools ToolSet, compile func([]byte) (*Program, error)) func([]byte) (*Program, error) {
	if l.Rendering < 2 {
		return compile
	}
	return func(src []byte) (*Program, error) {
		p, err := compile(src)
		if err == nil && p.misnamed != nil {
			p, err = nil, p.misnamed
		}
		e := (*messages.Error)(nil)
		if !errors.As(err, &e) {
			return p, err
		}
		told := *e
		told.Detail += cureOfParse(&told, string(src), tools)
		return nil, &told
	}
}

// cureOfParse returns what a parse error leaves open: the line it is in, the end of a
// program, the whole name of a tool.
func cureOfParse(e *messages.Error, src string, tools ToolSet) string {
	cure := ""
	switch {
	case strings.Contains(e.Detail, "no `end`"), strings.Contains(e.Detail, "end of the program"), strings.Contains(e.Detail, "nothing after endcommand"):
		cure = "; the last line of a program is `endcommand`"
	case strings.Contains(e.Detail, "`return`"):
		cure = "; what the user is to read is written `emit value`"
	case strings.Contains(e.Detail, "a call alone") && strings.Contains(src, "aeiou.magic"):
		cure = "; a token is emitted: `emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})`"
	case strings.Contains(e.Detail, "a string") || strings.Contains(e.Detail, "unexpected string"):
		cure = "; a text with line ends, quotes or code fences in it stands between ''' and '''"
	}
	at := min(max(int(e.Offset), 0), len(src))
	line := src[strings.LastIndexByte(src[:at], '\n')+1:]
	line, _, _ = strings.Cut(line, "\n")
	if guide, ok := tools.(Guide); ok && strings.Contains(e.Detail, "tool.<group>.<name>") {
		if near := guide.Near(calledIn(line)); len(near) > 0 {
			cure += "; near: " + near[0]
		}
	}
	if line = strings.TrimSpace(line); line != "" {
		cure += "; the line is `" + clip.Short(line, maxShownLine) + "`"
	}
	return cure
}

// calledIn is the first name of a line that is called.
func calledIn(line string) string {
	name, _, ok := strings.Cut(line, "(")
	if !ok {
		return ""
	}
	if i := strings.LastIndexAny(name, " \t=(,"); i >= 0 {
		name = name[i+1:]
	}
	return name
}

// cure returns a hint on how to fix a program that ended with an error or a breach.
func (m *machine) cure() string {
	guide, _ := m.env.Tools.(Guide)
	if guide == nil {
		guide = noGuide{}
	}
	switch {
	case m.breach != nil:
		return cureOfBreach(m.breach)
	case m.err == nil:
		return ""
	case m.err.about != "" && m.err.Code == CodeToolNotFound:
		return nearOf(guide, m.err.about)
	case m.err.about != "" && m.err.Code == CodeFuncNotFound:
		return "; a tool is called by its whole name, as tool.<group>.<name>(…)" + nearOf(guide, m.err.about)
	case m.err.about == "aeiou.magic" && m.err.Code == CodeArgument:
		return `; the call is tool.aeiou.magic("LOOP", {"action": "done"}), with "done", "continue" or "abort", and with its keys in quotes`
	case m.err.about != "" && m.err.Code == CodeArgument:
		if s := guide.Signature(strings.ToLower(m.err.about)); s != "" {
			return "; it is called as " + s
		}
	case m.err.Code == CodeType && strings.Contains(m.err.Message, "nil"):
		return "; a name that was never set, and a key that is missing, are nil: test `some x` first"
	}
	return ""
}

func nearOf(g Guide, name string) string {
	if near := g.Near(name); len(near) > 0 {
		return "; near: " + strings.Join(near, ", ")
	}
	return ""
}

// cureOfBreach returns how to stay within a limit.
func cureOfBreach(b *Breach) string {
	limit := strconv.FormatInt(b.Limit, 10)
	switch b.Meter {
	case MeterLine:
		return "; an emitted line has at most " + limit + " bytes: break the text into lines"
	case MeterOutput:
		return "; what a turn emits, and what it whispers, has at most " + limit + " bytes"
	case MeterTools:
		return "; a program makes at most " + limit + " calls: do the rest in another turn"
	case MeterEmits:
		return "; a program emits and whispers at most " + limit + " times: emit several lines at once"
	case MeterMagic:
		return "; one token is enough: emit it as the last line"
	case MeterGas, MeterAlloc, MeterValue:
		return "; do less in one turn, and the rest in another"
	}
	return ""
}

// noGuide knows no tools.
type noGuide struct{}

func (noGuide) Near(string) []string    { return nil }
func (noGuide) Signature(string) string { return "" }

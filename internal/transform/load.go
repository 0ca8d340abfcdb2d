package transform

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonvalue"
)

// Bounds of a chain (docs/spec/extensions.md §8).
const (
	MaxSteps        = 16
	MaxBytes        = 4 << 20 // of the input and of each value after it
	MaxPatternBytes = 1 << 10 // of a regular expression
	MaxGroups       = 64      // of a regular expression
	MaxMatches      = 10_000  // of match; standardMatches where it does not say
	standardMatches = 1000
)

// The operations.
const (
	OpSelect   = "select"
	OpHead     = "head"
	OpTail     = "tail"
	OpMatch    = "match"
	OpDrop     = "drop"
	OpReplace  = "replace"
	OpRedact   = "redact"
	OpSort     = "sort"
	OpUnique   = "unique"
	OpJSON     = "json"
	OpText     = "text"
	OpMarkdown = "markdown"
	OpYAML     = "yaml"
	OpTemplate = "template"
)

// members are the operations with the members that each has beside op.
var members = map[string][]string{
	OpSelect: {"path"}, OpHead: counts, OpTail: counts,
	OpMatch: {"re2", "group", "max"}, OpDrop: {"re2"}, OpReplace: {"re2", "with"}, OpRedact: {"re2"},
	OpSort: nil, OpUnique: nil, OpJSON: nil, OpText: nil, OpMarkdown: nil, OpYAML: nil, OpTemplate: {"text"},
}

var counts = []string{"lines", "items", "chars"}

// LoadError says what is wrong with a chain: the step from 0 and its member. Who wrote the
// chain mends it.
type LoadError struct {
	Step   int
	Member string // "" for the step itself
	Detail string
}

func (e *LoadError) Error() string {
	place := "transform[" + strconv.Itoa(e.Step) + "]"
	if e.Member != "" {
		place += "." + e.Member
	}
	return place + ": " + e.Detail
}

// Chain is a list of steps that can run. It is immutable and safe for concurrent use.
type Chain struct{ steps []step }

// step is one operation with its members.
type step struct {
	op      string
	path    []string
	unit    string // lines, items or chars
	n       int    // of them; of matches the most
	pattern *regexp.Regexp
	group   int
	parts   []part // of a replacement or a template
}

// part is a literal text, or what stands in its place.
type part struct {
	text  string
	group int      // of a replacement; −1 for a literal
	path  []string // of a template
	value bool     // of a template: the part that path leads to
}

// Load reads a chain: a JSON array of steps, each an object with op and its members. Its
// error names the first step at fault.
func Load(steps string) (*Chain, *LoadError) {
	v, ok := jsonvalue.Normal(steps)
	if !ok || jsonvalue.Kind(v) != jsonvalue.Array {
		return nil, &LoadError{Detail: "must be a list of steps, such as [{op: head, lines: 20}]"}
	}
	c := new(Chain)
	for item := range jsonvalue.Items(v) {
		at := len(c.steps)
		if at == MaxSteps {
			return nil, &LoadError{Step: at, Detail: "a transformation has at most " + strconv.Itoa(MaxSteps) + " steps"}
		}
		s, member, detail := load(item)
		if detail != "" {
			return nil, &LoadError{at, member, detail}
		}
		c.steps = append(c.steps, s)
	}
	return c, nil
}

// Uses reports whether a step has an operation.
func (c *Chain) Uses(op string) bool {
	return slices.ContainsFunc(c.steps, func(s step) bool { return s.op == op })
}

// load reads one step; detail is "" for a good one.
func load(item string) (s step, member, detail string) {
	if jsonvalue.Kind(item) != jsonvalue.Object {
		return s, "", "a step is an object with the member op"
	}
	op, ok := jsonvalue.Member(item, "op")
	if !ok || jsonvalue.Kind(op) != jsonvalue.String {
		return s, "op", "a step names its operation: op is one of " + known()
	}
	s.op = jsonvalue.Meant(op)
	has, ok := members[s.op]
	if !ok {
		return s, "op", "unknown operation " + strconv.Quote(s.op) + ": it is one of " + known()
	}
	for name := range jsonvalue.Members(item) {
		if word := jsonvalue.Meant(name); word != "op" && !slices.Contains(has, word) {
			return s, word, "unknown member of " + s.op + memberList(has)
		}
	}
	l := loader{item: item, step: &s}
	l.read()
	return s, l.member, l.detail
}

func known() string {
	all := make([]string, 0, len(members))
	for op := range members {
		all = append(all, op)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func memberList(has []string) string {
	if len(has) == 0 {
		return ", which has none beside op"
	}
	return ": it has " + strings.Join(has, ", ")
}

// loader reads the members of a step. The first fault stays.
type loader struct {
	item           string
	step           *step
	member, detail string
}

func (l *loader) fail(member, detail string) {
	if l.detail == "" {
		l.member, l.detail = member, detail
	}
}

func (l *loader) read() {
	s := l.step
	switch s.op {
	case OpSelect:
		path := l.text("path")
		if s.path = strings.Split(path, "."); slices.Contains(s.path, "") {
			l.fail("path", "a path is names and indices with points between, such as items.0.name")
		}
	case OpHead, OpTail:
		l.count()
	case OpMatch:
		l.pattern()
		s.group = l.number("group", 0, 0)
		if l.detail == "" && s.group > s.pattern.NumSubexp() {
			l.fail("group", "the expression has "+strconv.Itoa(s.pattern.NumSubexp())+" groups")
		}
		s.n = min(l.number("max", 1, standardMatches), MaxMatches)
	case OpDrop, OpRedact:
		l.pattern()
	case OpReplace:
		l.pattern()
		l.replacement(l.text("with"))
	case OpTemplate:
		l.template(l.text("text"))
	}
}

// text reads a member that must be a string.
func (l *loader) text(member string) string {
	v, ok := jsonvalue.Member(l.item, member)
	if !ok || jsonvalue.Kind(v) != jsonvalue.String {
		l.fail(member, "must be a text")
		return ""
	}
	return jsonvalue.Meant(v)
}

// maxCount is what a larger count means.
const maxCount = MaxBytes + 1

// number reads an integer that has a least value; standard is for none.
func (l *loader) number(member string, least, standard int) int {
	v, ok := jsonvalue.Member(l.item, member)
	if !ok {
		return standard
	}
	n := -1
	if jsonvalue.Kind(v) == jsonvalue.Number {
		if whole, ok := jsonvalue.DecimalOf(v).Int(maxCount); ok {
			n = whole
		}
	}
	if n < least {
		l.fail(member, "must be an integer of at least "+strconv.Itoa(least))
	}
	return n
}

// count reads the one count of head and tail.
func (l *loader) count() {
	given := 0
	for _, unit := range counts {
		if _, ok := jsonvalue.Member(l.item, unit); ok {
			given++
			l.step.unit = unit
		}
	}
	if given != 1 {
		l.fail("op", l.step.op+" takes exactly one of lines, items and chars")
		return
	}
	l.step.n = l.number(l.step.unit, 1, 0)
}

func (l *loader) pattern() {
	text := l.text("re2")
	if l.detail != "" {
		return
	}
	if len(text) > MaxPatternBytes {
		l.fail("re2", "a regular expression has at most "+strconv.Itoa(MaxPatternBytes)+" bytes")
		return
	}
	pattern, err := regexp.Compile("(?m)" + text)
	if err != nil {
		l.fail("re2", "this is no regular expression of RE2: "+strings.Replace(err.Error(), "(?m)", "", 1))
		return
	}
	if pattern.NumSubexp() > MaxGroups {
		l.fail("re2", "a regular expression has at most "+strconv.Itoa(MaxGroups)+" groups")
		return
	}
	l.step.pattern = pattern
}

// replacement reads \0 to \9 and \\ in the text that stands for a match.
func (l *loader) replacement(text string) {
	if l.detail != "" {
		return
	}
	const wanted = `\ stands in front of the digit of a group, 0 to 9, or of another \`
	var literal []byte
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			literal = append(literal, text[i])
			continue
		}
		i++
		switch {
		case i == len(text):
			l.fail("with", wanted)
		case text[i] == '\\':
			literal = append(literal, '\\')
		case text[i] < '0' || text[i] > '9':
			l.fail("with", wanted)
		case int(text[i]-'0') > l.step.pattern.NumSubexp():
			l.fail("with", `there is no group `+text[i-1:i+1]+`: the expression has `+strconv.Itoa(l.step.pattern.NumSubexp()))
		default:
			l.step.parts = append(l.step.parts, part{text: string(literal), group: -1}, part{group: int(text[i] - '0')})
			literal = literal[:0]
		}
	}
	l.step.parts = append(l.step.parts, part{text: string(literal), group: -1})
}

// template reads %{value}, %{value.path} and %% in a text.
func (l *loader) template(text string) {
	var literal []byte
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "%%"):
			literal = append(literal, '%')
			i++
		case strings.HasPrefix(rest, "%{"):
			name, _, closed := strings.Cut(rest[2:], "}")
			path := strings.Split(name, ".")
			if !closed || path[0] != "value" || slices.Contains(path, "") {
				l.fail("text", "a placeholder is %{value} or %{value.path}; a percent sign in front of { is written %%")
				return
			}
			l.step.parts = append(l.step.parts, part{text: string(literal)}, part{path: path[1:], value: true})
			literal = literal[:0]
			i += len("%{}") + len(name) - 1
		default:
			literal = append(literal, text[i])
		}
	}
	l.step.parts = append(l.step.parts, part{text: string(literal)})
}

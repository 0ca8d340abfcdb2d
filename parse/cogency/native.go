package cogency

import (
	"bytes"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// finding is what a candidate turned out to be.
type finding uint8

const (
	foundNothing finding = iota // more is needed
	foundText
	foundMarker
	foundThought // a thought in another tag
	foundCloser  // the end of a thought without a beginning
	foundEnd     // the end of the reply in another form
	foundOther   // <execute> in another spelling, with a batch after it
	foundCall    // a call in the format of another interface
)

// Tags of other formats, in lower case.
var (
	thoughtTags = []string{"think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad"}
	callTags    = []string{
		"tool_call", "tool_calls", "toolcall", "tool_use", "tool_code", "function_call", "function_calls", "functioncall",
		"function", "functions", "invoke", "tool", "antml:function_calls", "antml:invoke",
	}
	ownTags = []string{"execute"}
	// callFences are the words of code fences that hold calls alone.
	callFences = []string{"tool_code", "tool_call", "tool_calls", "tool_use", "function_call", "function_calls"}
	// thinkClosers end any thought in rendering 2 if its habit is forgiven.
	thinkClosers = []string{shutThink, "</thinking>"}
)

// Bounds of what belongs to a tag.
const (
	maxTagName  = 24
	maxTagBytes = 160 // with attributes
	maxTicks    = 8   // backticks of a fence
	maxGap      = 16  // blanks between a fence's first line and what it holds
)

// judge returns what seen is, as far as it is known; end says that the reply ends with it.
func (d *decoder) judge(end bool) (finding, int) {
	s := &d.prose
	switch {
	case s.exact:
		return d.marker(s.seen, end)
	case s.deferred != foundNothing:
		return s.judgeLate(end)
	case s.value != nil:
		return d.judgeValue(end)
	case s.seen[0] != '`':
		return d.judgeAt(0, end)
	}
	n, word, what := fenceLine(s.seen)
	if what != foundNothing {
		return what, 0
	}
	if n == 0 {
		return foundNothing, 0
	}
	if has(callFences, word) {
		return s.wait(foundCall, 0, n, end)
	}
	first := n
	for n < len(s.seen) && isBlank(s.seen[n]) {
		n++
	}
	switch {
	case n-first > maxGap:
		return foundText, 0
	case n == len(s.seen):
		return foundNothing, 0
	}
	return d.judgeAt(n, end)
}

// wait returns a finding at seen[at] in a code fence. After other text the finding counts only
// if nothing follows the fence, because it may be an example. The content goes on at seen[n].
func (s *search) wait(what finding, at, n int, end bool) (finding, int) {
	if !s.from.anyText {
		return what, at
	}
	s.deferred, s.start, s.fed = what, at, n
	return s.judgeLate(end)
}

// judgeLate reads on to the end of the fence, and after it.
func (s *search) judgeLate(end bool) (finding, int) {
	if len(s.seen) > maxCallBytes {
		return foundText, 0
	}
	const closing = "\n```"
	for ; s.fed < len(s.seen); s.fed++ {
		switch c := s.seen[s.fed]; {
		case s.whole && !isBlank(c) && c != '`':
			return foundText, 0
		case !s.whole && bytes.HasSuffix(s.seen[:s.fed+1], []byte(closing)):
			s.whole = true
		}
	}
	if end {
		return s.deferred, s.start
	}
	return foundNothing, 0
}

// fenceLine reads the first line of a code fence. n is the index after it, 0 while it goes on.
func fenceLine(b []byte) (n int, word string, what finding) {
	ticks := 0
	for ticks < len(b) && b[ticks] == '`' {
		ticks++
	}
	switch {
	case ticks > maxTicks:
		return 0, "", foundText
	case ticks == len(b):
		return 0, "", foundNothing
	case ticks < fenceRun:
		return 0, "", foundText
	}
	n = ticks
	for n < len(b) && isWord(b[n]) {
		n++
	}
	word = strings.ToLower(string(b[ticks:n]))
	for n < len(b) && isBlank(b[n]) && b[n] != '\n' {
		n++
	}
	switch {
	case n > ticks+2*fenceBytes:
		return 0, "", foundText
	case n == len(b):
		return 0, "", foundNothing
	case b[n] == '\n':
		return n + 1, word, foundNothing
	case b[n] == '<' || b[n] == '{' || b[n] == '[':
		return n, word, foundNothing
	}
	return 0, "", foundText
}

// judgeAt is judge for what begins at seen[n], after nothing or a fence's first line.
func (d *decoder) judgeAt(n int, end bool) (finding, int) {
	s := &d.prose
	b := s.seen[n:]
	switch b[0] {
	case '<':
		what, k := d.tag(b, n > 0, end)
		if n > 0 && (what == foundOther || what == foundCall) {
			return s.wait(what, n+k, n+1, end)
		}
		return what, n + k
	case '{':
		return d.beginValue(n, end)
	case '[':
		if len(b) == 1 {
			return foundNothing, 0
		}
		if isLetter(b[1]) {
			return d.words(b, n, end)
		}
		return d.beginValue(n, end)
	case 'A', 'f':
		if n == 0 {
			return d.words(b, n, end)
		}
	}
	return foundText, 0
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

// maxInline is the greatest length of a batch in inline code that counts as an example.
const maxInline = 4 << 10

// marker looks for a marker. One alone in backticks is its name, and so text; so is a batch in
// inline code within a line of text.
func (d *decoder) marker(b []byte, end bool) (finding, int) {
	m, begun := find(b, textMarkers)
	from := &d.prose.from
	switch {
	case m == "" && begun:
		return foundNothing, 0
	case m == "" && from.last == '`':
		return foundText, 0
	case m == "":
		return d.ending(b, end), 0
	case from.last != '`' || end:
		return foundMarker, len(m)
	case len(b) == len(m):
		return foundNothing, 0
	}
	rest := b[len(m):]
	switch last := rest[len(rest)-1]; {
	case rest[0] == '`':
		return foundText, 0
	case m != openExecute || from.ticks > 0 || last == '\n' || len(rest) > maxInline:
	case !bytes.HasSuffix(rest[:len(rest)-1], []byte(shutExecute)):
		return foundNothing, 0
	case last == '`':
		return foundText, 0
	}
	return foundMarker, len(m)
}

// tag is judge for what begins with "<". fenced says that a fence's first line precedes it.
func (d *decoder) tag(b []byte, fenced, end bool) (finding, int) {
	s := &d.prose
	if what, n := d.marker(b, end); what != foundText {
		return what, n
	}
	example := s.from.fenced == fencedQuote || s.from.last == '`' && !fenced
	if example || len(b) > maxTagBytes {
		return foundText, 0
	}
	if len(b) == 1 {
		return foundNothing, 0
	}
	if b[1] == '|' || bytes.HasPrefix(b[1:], []byte("｜")) {
		return special(b)
	}
	if what, n := d.stray(b, end); what != foundText {
		return what, n
	}
	n := 1
	for n < len(b) && b[n] == ' ' && n < 3 {
		n++
	}
	from := n
	for n < len(b) && (isLetter(b[n]) || b[n] == ':') && n-from <= maxTagName {
		n++
	}
	name := strings.ToLower(string(b[from:n]))
	if n == len(b) {
		if begun(name, thoughtTags) || begun(name, callTags) || begun(name, ownTags) {
			return foundNothing, 0
		}
		return foundText, 0
	}
	line := s.from.bol || fenced
	switch {
	case has(thoughtTags, name):
		if b[n] == '>' && line && d.forgive.Has(parse.HabitThink) {
			return foundThought, 0
		}
		return foundText, 0
	case !has(ownTags, name) && !(has(callTags, name) && line):
		return foundText, 0
	}
	close := bytes.IndexByte(b[n:], '>')
	switch {
	case b[n] != '>' && b[n] != '=' && !isBlank(b[n]), bytes.IndexByte(b[n:], '<') >= 0 && (close < 0 || bytes.IndexByte(b[n:], '<') < close):
		return foundText, 0
	case close < 0:
		return foundNothing, 0
	}
	attributes := b[n] != '>'
	rest := b[n+close+1:]
	gap := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n"))
	newline := bytes.IndexByte(rest[:gap], '\n') >= 0
	rest = rest[gap:]
	switch {
	case attributes && !has(ownTags, name) && name != "tool": // <function=read>, <invoke name="read">
		return foundCall, 0
	case len(rest) == 0:
		return foundNothing, 0
	case rest[0] == '{' || rest[0] == '[' || rest[0] == '`':
	case name == "tool" || name == "functions" || has(ownTags, name):
		return foundText, 0
	case rest[0] == '<' || newline:
	case strings.HasPrefix(name, "tool_call"):
		return wordCall(rest), 0
	default:
		return foundText, 0
	}
	if has(ownTags, name) {
		return foundOther, 0
	}
	return foundCall, 0
}

// wordCall is what follows <tool_call> on its line: the form of GLM, which is the name of a tool
// and its arguments in <arg_key> and <arg_value>.
func wordCall(rest []byte) finding {
	n := 0
	for n < len(rest) && isWord(rest[n]) {
		n++
	}
	behind := string(bytes.TrimLeft(rest[n:], " \t\r\n"))
	switch {
	case n == 0:
		return foundText
	case strings.HasPrefix(behind, "<arg_key>"), strings.HasPrefix(behind, "</tool_call"):
		return foundCall
	case begun(behind, []string{"<arg_key>", "</tool_call"}):
		return foundNothing
	}
	return foundText
}

// stray looks for the closer of a thought that the model's template opened: alone on its line, or
// right behind what the reply begins with (package reasoning).
func (d *decoder) stray(b []byte, end bool) (finding, int) {
	n := min(len(b), len(shutThink))
	from := &d.prose.from
	switch {
	case from.fenced != fencedNot || !d.forgive.Has(parse.HabitThink), string(b[:n]) != shutThink[:n]:
		return foundText, 0
	case n < len(shutThink):
		return foundNothing, 0
	case !from.anyText && d.unit == 0:
		return foundCloser, n
	case !from.bol && (d.unit > 0 || strings.IndexByte(" \t`\"'", from.last) >= 0):
		return foundText, 0
	case !from.bol:
		return foundCloser, n
	case len(b) == n && !end:
		return foundNothing, 0
	case len(b) > n && b[n] != '\n' && b[n] != '\r':
		return foundText, 0
	}
	return foundCloser, n
}

// endings are other forms of the marker that ends a reply, in any case.
var endings = [...]string{endReply, "</end>", "<end/>", "<end />"}

// ending looks for one of the endings at the end of the reply: if text follows it, it is text
// as well.
func (d *decoder) ending(b []byte, end bool) finding {
	if !d.forgive.Has(parse.HabitCase) {
		return foundText
	}
	for _, form := range endings {
		n := min(len(b), len(form))
		if !strings.EqualFold(string(b[:n]), form[:n]) || len(bytes.TrimLeft(b[n:], " \t\r\n")) > 0 {
			continue
		}
		switch {
		case !end:
			return foundNothing
		case n == len(form):
			return foundEnd
		}
	}
	return foundText
}

// begun reports whether name is the beginning of one of the words.
func begun(name string, words []string) bool {
	for _, w := range words {
		if strings.HasPrefix(w, name) {
			return true
		}
	}
	return false
}

// special is judge for a control word of a model's own template, such as <|python_tag|>.
func special(b []byte) (finding, int) {
	const most = 64
	k := bytes.IndexByte(b, '>')
	switch {
	case k < 0 && (len(b) > most || bytes.ContainsAny(b, "\n\"'`")):
		return foundText, 0
	case k < 0:
		return foundNothing, 0
	}
	name := strings.ReplaceAll(string(b[:k]), "▁", "_")
	for _, word := range []string{"python_tag", "tool_call", "tool_use", "tool_sep", "function_call", "action_start"} {
		if strings.Contains(name, word) {
			return foundCall, 0
		}
	}
	return foundText, 0
}

func eventOf(f *messages.ParseError) messages.Event {
	return messages.Event{Kind: messages.EventParseError, Offset: f.Offset, Fault: f}
}

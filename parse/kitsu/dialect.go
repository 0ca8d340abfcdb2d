package kitsu

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Dialect is the action tokens of docs/spec/kitsu.md. The zero value is ready and safe for
// concurrent use.
type Dialect struct {
	// Continues bounds the continues of one user message; 0 is MaxContinues, below 0
	// none. The meta-controller denies what is over it; here it bounds the turns.
	Continues int
}

var _ parse.Dialect = Dialect{}

// Name is what a manifest calls the dialect.
const Name = "kitsu"

// Name is "kitsu".
func (Dialect) Name() string { return Name }

// Traits says that a run is the reply to the user, one pass for a search or
// get_time, and the continues; that the prompt grows at its end; and that a new
// message interrupts (docs/spec/design.md §§9, 11).
func (d Dialect) Traits() messages.Traits {
	return messages.Traits{
		InStreamActions: true, Verbatim: true, AppendOnly: true, MaxTurns: 2 + int64(Continuation{Max: d.Continues}.Limit()), Busy: messages.Interrupt,
	}
}

// resultPrefix begins the line by which the host tells a result (docs/spec/kitsu.md §6).
const resultPrefix = "[INTERNAL] Tool result (machine-only): "

// Render gives the transcript and the input, in which nothing looks like the host's
// line, and behind it one such line for each approved action of the run. The model
// does not see again what it wrote before it (docs/spec/kitsu.md §6).
func (Dialect) Render(p messages.Projection) []messages.Message {
	out := make([]messages.Message, 0, len(p.History)+1)
	for _, it := range p.History {
		text := it.Text
		if it.Role == messages.RoleAssistant {
			text = Visible(text)
		} else {
			text = Defuse(text)
		}
		out = append(out, messages.Message{Role: it.Role, Text: text})
	}
	text := p.Text
	if text == "" {
		text = p.Userdata
	}
	b := []byte(Defuse(text))
	for i := range p.Replies {
		for _, c := range p.Replies[i].Calls {
			if c.State == messages.ActionOK {
				b = append(b, '\n')
				b = AppendResult(b, Kind(c.Name), c.Value)
			}
		}
		if joined := p.Replies[i].Joined; joined != "" {
			b = append(append(b, '\n'), Defuse(joined)...)
		}
	}
	return append(out, messages.Message{Role: messages.RoleUser, Text: string(b)})
}

// AppendResult appends the result line of an action, without a line end. result is
// JSON; "" is null, and what is not JSON is told as a string.
func AppendResult(dst []byte, kind Kind, result string) []byte {
	v := jsontext.Value(result)
	if result == "" {
		v = jsontext.Value("null")
	} else if v.Canonicalize() != nil {
		v, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(result, "\ufffd"))
	}
	dst = append(dst, resultPrefix+`{"action":`...)
	dst, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(string(kind), "\ufffd"))
	dst = append(dst, `,"result":`...)
	dst = append(dst, v...)
	return append(dst, '}')
}

//go:embed primer.txt
var primer string

// Primer teaches the tokens. Of search and get_time it tells those among tools.
func (Dialect) Primer(tools []messages.ToolSpec) string {
	has := map[string]bool{string(Continue): true}
	for _, t := range tools {
		has[t.Name] = true
	}
	var b strings.Builder
	for line := range strings.Lines(primer) {
		kind := ""
		if rest, ok := strings.CutPrefix(line, tokenPrefix); ok {
			n := 0
			for n < len(rest) && kindByte(rest[n]) {
				n++
			}
			kind = rest[:n]
		}
		if kind == "" || has[kind] {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Decide is CONTINUE when the reply's action was approved and ran, and else DONE;
// two tokens are HALT ERR_DIALECT (docs/spec/kitsu.md §§3, 6; docs/spec/design.md §5). The texts that a
// CONTINUE names in Retract are replaced by the pass: at its first visible byte,
// not before, so that a pass which fails or says nothing leaves them.
func (Dialect) Decide(f messages.Facts) messages.Verdict {
	if why := parse.Failure(f); why != "" {
		return parse.Halt(why, "")
	}
	for i := range f.Errors {
		if f.Errors[i].Reason == MultipleActions {
			return parse.Halt(messages.ErrDialect, MultipleActions)
		}
	}
	v := messages.Verdict{Decision: messages.Done, Token: -1}
	if len(f.Errors) > 0 || len(f.Calls) != 1 || f.Calls[0].State != messages.ActionOK {
		return v
	}
	count := Count(f.State)
	if f.Calls[0].Name == string(Continue) {
		count++
	}
	v.Decision, v.State = messages.Continue, append([]byte(memory), strconv.Itoa(count)...)
	if f.Calls[0].Name == string(Search) {
		if about := Topic(queryOf(f.Calls[0].Args)); about != "" {
			v.Keep = []byte(about)
		}
	}
	for i := range f.Units {
		if f.Units[i].Kind == messages.ResponseUnit && f.Units[i].Text != "" {
			v.Retract = append(v.Retract, f.Units[i].ID)
		}
	}
	return v
}

// queryOf reads a search's arguments.
func queryOf(args string) string {
	var a struct {
		Query string `json:"query"`
	}
	if json.Unmarshal([]byte(args), &a) != nil {
		return ""
	}
	return a.Query
}

// memory begins the dialect's memory within a run: that this is a pass, and how
// many continues were approved.
const memory = "continues "

// Count gives the approved continues of a run from the dialect's memory. What is no
// memory of this dialect counts as the most there can be: it allows no more.
func Count(state []byte) int {
	if len(state) == 0 {
		return 0
	}
	digits, ok := strings.CutPrefix(string(state), memory)
	if n, err := strconv.Atoi(digits); ok && err == nil && n >= 0 && len(digits) < 10 {
		return n
	}
	return 1 << 30
}

// Digest is the one all dialects but aeiou share.
func (Dialect) Digest(f messages.Facts) (out, scr []byte) { return parse.Digest(f) }

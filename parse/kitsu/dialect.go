package kitsu

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Dialect is the dialect of action tokens of docs/spec/kitsu.md. The zero value is ready to use,
// and safe for concurrent use.
type Dialect struct {
	// Continues bounds the continues of one user message; 0 is MaxContinues, below 0
	// none. The meta-controller denies what is over it; here it bounds the turns.
	Continues int
	// Rendering is the version of prompts and of the reading of replies (messages.Rendering);
	// 0 is 1.
	Rendering int64
	// Forgive are the habits of models that are corrected; none by default.
	Forgive parse.Habits
	// Short selects the short primer.
	Short bool
}

var _ parse.Dialect = Dialect{}

// Name is the dialect's name in manifests.
const Name = "kitsu"

// Name is "kitsu".
func (Dialect) Name() string { return Name }

// Traits returns the dialect's traits: a run has the reply to the user, one pass for a search or
// get_time, and the continues; the prompt grows at its end; a new message interrupts
// (docs/spec/design.md §§9, 11).
func (x Dialect) Traits() messages.Traits {
	most := 2 + int64(Continuation{Max: x.Continues}.Limit())
	if x.Rendering >= 2 {
		most++ // the one in which the model is asked for its answer alone
	}
	return messages.Traits{
		InStreamActions: true, Verbatim: true, AppendOnly: true, MaxTurns: most, Busy: messages.Interrupt,
	}
}

// resultPrefix begins the line with which the host shows a result (docs/spec/kitsu.md §6).
const resultPrefix = "[INTERNAL] Tool result (machine-only): "

// Render returns the transcript and the input, without anything that looks like the host's line,
// and after them one such line for each approved action of the run. The model does not see again
// the text that it wrote before the token (docs/spec/kitsu.md §6).
func (x Dialect) Render(p messages.Projection) []messages.Message {
	if x.Rendering >= 2 {
		return x.render(&p)
	}
	out := make([]messages.Message, 0, len(p.History)+1)
	for i := range p.History {
		out = append(out, x.Past(&p.History[i])...)
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
	return append(out, messages.Message{Role: messages.RoleUser, Text: string(b), Parts: p.Parts})
}

// AppendResult appends the result line of an action, without a line end. result is JSON; "" is
// null, and text that is not JSON becomes a string.
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

// Decide returns CONTINUE if the reply's action was approved and ran, and else DONE; two tokens are
// HALT ERR_DIALECT (docs/spec/kitsu.md §§3, 6; docs/spec/design.md §5). The next pass replaces the
// texts in Retract of a CONTINUE at its first visible byte, so a pass that fails or shows nothing
// leaves them.
func (x Dialect) Decide(f messages.Facts) messages.Verdict {
	if x.Rendering >= 2 {
		return x.decide(&f)
	}
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
	v.Decision, v.State = messages.Continue, memory{continues: count}.bytes()
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

// Digest is parse.Digest, which all dialects but aeiou share. In version 2 the memory is part of
// it: a model that repeats itself reads another complaint, and the passes are counted.
func (x Dialect) Digest(f messages.Facts) (out, scr []byte) {
	out, scr = parse.Digest(f)
	if x.Rendering >= 2 {
		scr = append(append(scr, '\n'), f.State...)
	}
	return out, scr
}

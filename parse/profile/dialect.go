package profile

import (
	_ "embed"
	"errors"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/plain"
)

// Name is the dialect's name. Manifests of users may not use it.
const Name = "profile"

// primer is how the model is told to keep a profile.
//
//go:embed primer.txt
var primer string

// Dialect asks for a profile. The zero value is ready to use, and safe for concurrent use.
type Dialect struct{}

var _ parse.Dialect = Dialect{}

// Name is "profile".
func (Dialect) Name() string { return Name }

// Traits returns the dialect's traits: one turn a run, no history, and one run at a time.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{Carry: true, MaxTurns: 1, Busy: messages.Reject}
}

// Primer is the same for any tools: there are none.
func (Dialect) Primer([]messages.ToolSpec) string { return primer }

// CheckInput implements parse.InputChecker.
func (Dialect) CheckInput(in messages.Input) (messages.Input, error) {
	_, err := Decode(in.Userdata)
	return in, err
}

// Render returns the request as one message, JSON that no text in it gets out of.
func (Dialect) Render(p messages.Projection) []messages.Message {
	r, err := Decode(p.Userdata)
	if err != nil { // CheckInput refuses it
		r = Request{}
	}
	type ask struct {
		Profile  Data     `json:"profile"`
		Messages []string `json:"messages"`
		Compact  bool     `json:"compact,omitzero"`
	}
	texts := r.Messages
	if texts == nil {
		texts = []string{}
	}
	text := string(appendData(nil, ask{Profile: r.Before.Data, Messages: texts, Compact: r.Compact()}))
	if p.Rendering >= 2 {
		text = parse.DefuseJSON(text)
	}
	return []messages.Message{{Role: messages.RoleUser, Text: text}}
}

// Decide returns DONE for a reply that may be kept, or that means no change.
func (Dialect) Decide(f messages.Facts) messages.Verdict {
	if why := parse.Failure(f); why != "" {
		return parse.Halt(why, "")
	}
	if f.Finish == messages.FinishLength {
		return parse.Halt(messages.ErrDialect, "the profile: the reply was cut at its length")
	}
	text := ""
	for i := range f.Units {
		text += f.Units[i].Text
	}
	// That a compacted profile is short enough is seen with its request: After.
	if _, err := Parse(text, false); err != nil {
		var wrong messages.Error
		if e, ok := errors.AsType[*messages.Error](err); ok {
			wrong = *e
		}
		return parse.Halt(messages.ErrDialect, wrong.Detail)
	}
	return messages.Verdict{Decision: messages.Done, Token: -1}
}

// Digest is parse.Digest, which all dialects but aeiou share.
func (Dialect) Digest(f messages.Facts) (out, scr []byte) { return parse.Digest(f) }

// NewDecoder reads one reply as a text that operators see, users do not, and no recall
// finds.
func (Dialect) NewDecoder(info messages.TurnInfo) parse.Decoder {
	return &decoder{plain.Dialect{}.NewDecoder(info)}
}

type decoder struct{ of parse.Decoder }

func (d *decoder) Push(p []byte, emit func(messages.Event)) { d.of.Push(p, asText(emit)) }

func (d *decoder) End(f messages.Finish, emit func(messages.Event)) { d.of.End(f, asText(emit)) }

func asText(emit func(messages.Event)) func(messages.Event) {
	return func(ev messages.Event) {
		ev.UnitKind = messages.TextUnit
		emit(ev)
	}
}

package cortex

import (
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Limits of a reply (docs/spec/streaming.md §10). Package parse/scan has those of tags and JSON.
const (
	MaxBodyBytes    = 256 << 10 // of an action's body
	MaxThoughtDepth = 8
	MaxReplyBytes   = 8 << 20 // of a reply when the turn names no bound
)

// Dialect is the Streaming Execution Protocol. The zero value is ready to use. It is safe for
// concurrent use if no goroutine changes it.
type Dialect struct {
	// NotFinal makes a response without the attribute final not final, as in the first draft
	// of the protocol (host option default_final: false).
	NotFinal bool
	// Cut ends a reply after the first accepted action in mode sync; the model is asked again
	// with its result (docs/spec/streaming.md §4, sync_policy: cut). Internal actions count as
	// sync.
	Cut    bool
	Limits Limits
	// Rendering is the version of prompts and of the reading of replies (messages.Rendering);
	// 0 is 1.
	Rendering int64
	// Forgive are the habits of models that are corrected; none by default.
	Forgive parse.Habits
	// Short selects the short primer.
	Short bool
	// Extensions are those that are on.
	Extensions Extensions
	// Templates are those of the agent, by name, for ExtTemplates. They are not changed.
	Templates map[string]*Template
	// FeedsLast says that feeds end the prompt, so that the prompts of a run grow in front of
	// them.
	FeedsLast bool
	// Kept is how many bytes of the results of a finished run the model still sees: none in
	// version 1, and none when it is not above 0.
	Kept int
}

// Limits change what a reply may have. A value that is not above 0 is the default.
type Limits struct {
	TagBytes     int // 4096
	BodyBytes    int // of an action; 256 KiB
	JSONDepth    int // of a body; 64
	ThoughtDepth int // 8
	ResultBytes  int // of a result's body in the next prompt; 16 KiB
}

var _ parse.Dialect = Dialect{}

// maxTurns is how many turns a run takes when the manifest does not say
// (docs/spec/design.md §11).
const maxTurns = 10

// Name is "cortex".
func (Dialect) Name() string { return "cortex" }

// Traits has InStreamActions, because actions start while the reply streams. A prompt does not
// extend the one before while feeds, which change, stand in front of the conversation.
func (x Dialect) Traits() messages.Traits {
	return messages.Traits{Unseen: x.readsOn(), InStreamActions: true, AppendOnly: x.FeedsLast, MaxTurns: maxTurns, Busy: messages.Enqueue}
}

// readsOn reports whether a response without the attribute final is final only if no action
// follows it, so that the reply is read to its end.
func (x Dialect) readsOn() bool { return x.Rendering >= 2 && x.Forgive.Has(parse.HabitUnseen) }

// The dialect's state after turns in a row without action and response: one turn of any kind,
// or two whose errors the model was told.
const (
	idle  = "idle"
	again = "again"
)

// Decide returns DONE for a complete final response, whatever came after it, and else CONTINUE.
// Two turns in a row without an action and without a response, even an incomplete one, are
// ERR_NO_PROGRESS (docs/spec/streaming.md §4, docs/spec/design.md §5). A rejected action does
// not count as one. Errors of the reply do not halt the run: the model is told of them.
//
// From the second rendering on a model that is told of an error may fail twice.
func (x Dialect) Decide(f messages.Facts) messages.Verdict {
	v := messages.Verdict{Decision: messages.Halt, Token: -1}
	responses := 0
	for i := range f.Units {
		if f.Units[i].Kind == messages.ResponseUnit {
			responses++
		}
	}
	switch why := parse.Failure(f); {
	case f.Final && f.Breach == "":
		v.Decision = messages.Done
	case why != "":
		v.Code = why
	case responses > 0 || len(f.Calls) > 0 || f.Blocks > 0:
		v.Decision = messages.Continue
	case x.Rendering >= 2 && string(f.State) == idle && len(f.Errors) > 0:
		v.Decision, v.State = messages.Continue, []byte(again)
	case len(f.State) > 0:
		v.Code, v.Detail = messages.ErrNoProgress, "two replies in a row had neither an action nor a response"
		if string(f.State) == again {
			v.Detail = "three replies in a row had neither an action nor a response"
		}
	default:
		v.Decision, v.State = messages.Continue, []byte(idle)
	}
	return v
}

// Digest is parse.Digest, which all dialects but aeiou share.
func (Dialect) Digest(f messages.Facts) (out, scr []byte) { return parse.Digest(f) }

package aeiou

import (
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Dialect is AEIOU v3. The zero value is ready to use, and safe for concurrent use.
type Dialect struct {
	// StrictDuplicates refuses a reply that repeats a section, instead of reading the first
	// one with a lint (docs/spec/aeiou.md §3.1).
	StrictDuplicates bool
	// Rendering is the version of prompts and of the reading of replies (messages.Rendering);
	// 0 is 1.
	Rendering int64
	// Forgive are the habits of models that are corrected; none by default.
	Forgive parse.Habits
	// Short selects the short primer, which version 1 does not have.
	Short bool
	// Calls, Emits and Gas are the limits of a program that the primer of version 2 names;
	// 0 is their default.
	Calls, Emits, Gas int64
}

var (
	_ parse.Dialect      = Dialect{}
	_ parse.InputChecker = Dialect{}
)

// The default limits of a program, from version 2 on (docs/spec/neuroscript.md §13.1).
const (
	DefaultCalls = 4096
	DefaultEmits = 10_000
	DefaultGas   = 1_000_000
)

// Name is the dialect's name in manifests.
const Name = "aeiou"

// Name is "aeiou".
func (Dialect) Name() string { return Name }

// Traits returns the dialect's traits: history travels as the streams of the last turn, guards
// judge every decision (§12), and the number of a run's turns has no limit.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{Carry: true, GuardFinal: true, Busy: messages.Enqueue}
}

// Decide follows docs/spec/aeiou.md §13, steps 4 and 5: a program that did not complete halts the
// run for the reason of that, and its tokens do not count; otherwise the tokens decide.
func (d Dialect) Decide(f messages.Facts) messages.Verdict {
	switch why := parse.Failure(f); {
	case len(f.Errors) > 0 && f.Breach == "":
		return parse.Halt(f.Errors[0].Code, f.Errors[0].Detail)
	case why != "":
		return parse.Halt(why, "")
	case f.MagicFailed:
		return parse.Halt(messages.ErrMagicToolInternal, "no signer could mint a token")
	}
	v := Select(f.Tokens, f.Out)
	if d.Rendering >= 2 && v.Decision == messages.Halt {
		v.Detail += ": " + cureOfToken(v.Code, f.Out)
	}
	return v
}

// Digest returns the normalised streams (§12).
func (Dialect) Digest(f messages.Facts) (out, scr []byte) {
	return Normal(nil, f.Out), Normal(nil, f.Scr)
}

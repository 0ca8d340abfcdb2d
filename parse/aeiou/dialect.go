package aeiou

import (
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Dialect is AEIOU v3. The zero value is ready and safe for concurrent use.
type Dialect struct {
	// StrictDuplicates refuses a reply that repeats a section, instead of reading
	// the first and saying so in a lint (docs/spec/aeiou.md §3.1).
	StrictDuplicates bool
	// Rendering is the version of prompts and of what a decoder makes of a reply
	// (messages.Rendering); 0 is 1.
	Rendering int64
	// Forgive are the habits that are put right; none by default.
	Forgive parse.Habits
	// Short makes the primer a short one; version 1 has none.
	Short bool
	// Calls, Emits and Gas are the limits of a program that the primer of version 2 names;
	// 0 is their default.
	Calls, Emits, Gas int64
}

var (
	_ parse.Dialect      = Dialect{}
	_ parse.InputChecker = Dialect{}
)

// The defaults of what a program may do, from version 2 on (docs/spec/neuroscript.md §13.1).
const (
	DefaultCalls = 4096
	DefaultEmits = 10_000
	DefaultGas   = 1_000_000
)

// Name is what a manifest calls the dialect.
const Name = "aeiou"

// Name is "aeiou".
func (Dialect) Name() string { return Name }

// Traits says that history travels as the streams of the last turn, guards judge every
// decision (§12), and that a run may take any number of turns.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{Carry: true, GuardFinal: true, Busy: messages.Enqueue}
}

// Decide is docs/spec/aeiou.md §13 step 4 and 5: whatever kept the program from completing
// is the reason to halt, and its tokens do not count; otherwise the tokens decide.
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

// Digest gives the normalised streams (§12).
func (Dialect) Digest(f messages.Facts) (out, scr []byte) {
	return Normal(nil, f.Out), Normal(nil, f.Scr)
}

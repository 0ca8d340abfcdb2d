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
}

var (
	_ parse.Dialect      = Dialect{}
	_ parse.InputChecker = Dialect{}
)

// Name is "aeiou".
func (Dialect) Name() string { return "aeiou" }

// Traits says that history travels as the streams of the last turn, guards judge every
// decision (§12), and that a run may take any number of turns.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{Carry: true, GuardFinal: true, Busy: messages.Enqueue}
}

// Decide is docs/spec/aeiou.md §13 step 4 and 5: whatever kept the program from completing
// is the reason to halt, and its tokens do not count; otherwise the tokens decide.
func (Dialect) Decide(f messages.Facts) messages.Verdict {
	switch why := parse.Failure(f); {
	case len(f.Errors) > 0 && f.Breach == "":
		return parse.Halt(f.Errors[0].Code, f.Errors[0].Detail)
	case why != "":
		return parse.Halt(why, "")
	case f.MagicFailed:
		return parse.Halt(messages.ErrMagicToolInternal, "no signer could mint a token")
	}
	return Select(f.Tokens, f.Out)
}

// Digest gives the normalised streams (§12).
func (Dialect) Digest(f messages.Facts) (out, scr []byte) {
	return Normal(nil, f.Out), Normal(nil, f.Scr)
}

package parse

import "github.com/seed14be6753/stile/messages"

// Dialect is how a model speaks (docs/spec/design.md §5). Implementations are immutable
// and safe to use from many goroutines; each reply gets a Decoder of its own.
type Dialect interface {
	// Name is the word a manifest uses.
	Name() string
	// Traits are the dialect's fixed properties.
	Traits() messages.Traits
	// NewDecoder reads one reply.
	NewDecoder(messages.TurnInfo) Decoder
	// Render gives the messages of one model request, in order.
	Render(messages.Projection) []messages.Message
	// Primer teaches the model to speak the dialect; may be empty.
	Primer([]messages.ToolSpec) string
	// Decide says what the facts of a turn mean. Guards come after it and are
	// the machine's.
	Decide(messages.Facts) messages.Verdict
	// Digest gives the two texts the progress guard hashes as
	// "OUT|" + out + "\n" + "SCR|" + scr (docs/spec/aeiou.md §12).
	Digest(messages.Facts) (out, scr []byte)
}

// Decoder reads one reply. It belongs to one goroutine. Push takes the next
// bytes and may keep none of p after it returns; End comes once, after the last
// Push. Event texts alias p or the decoder's buffer and hold during emit only.
type Decoder interface {
	Push(p []byte, emit func(messages.Event))
	End(f messages.Finish, emit func(messages.Event))
}

// InputChecker is what a Dialect may implement besides: the door asks it before
// a submit is accepted. It gives the input in the dialect's own form, or a
// *messages.Error that names the byte offset in what was submitted.
//
// A Dialect may also have the method
//
//	JoinInputs(parts []messages.Input) (messages.Input, error)
//
// which makes one input out of several that were accepted one by one, in their order
// (docs/spec/design.md §9, merge and debounce). An error refuses the last of them.
// Without it texts are joined by LF.
type InputChecker interface {
	CheckInput(messages.Input) (messages.Input, error)
}

package parse

import "github.com/seed14be6753/stile/messages"

// Dialect is the format in which a model writes (docs/spec/design.md §5). Implementations are
// immutable and safe for concurrent use; each reply gets a Decoder of its own.
type Dialect interface {
	// Name returns the dialect's name in manifests.
	Name() string
	// Traits returns the dialect's fixed properties.
	Traits() messages.Traits
	// NewDecoder returns a decoder of one reply.
	NewDecoder(messages.TurnInfo) Decoder
	// Render returns the messages of one model request, in order.
	Render(messages.Projection) []messages.Message
	// Primer returns the text that teaches the model the dialect; it may be empty.
	Primer([]messages.ToolSpec) string
	// Decide returns the verdict on the facts of a turn. The machine applies its guards to it
	// afterwards.
	Decide(messages.Facts) messages.Verdict
	// Digest returns the two texts that the progress guard hashes as
	// "OUT|" + out + "\n" + "SCR|" + scr (docs/spec/aeiou.md §12).
	Digest(messages.Facts) (out, scr []byte)
}

// Decoder reads one reply. It belongs to one goroutine. Push takes the next bytes and must not
// keep p after it returns; End is called once, after the last Push. Texts of events alias p or
// the decoder's buffer and are valid during emit only.
type Decoder interface {
	Push(p []byte, emit func(messages.Event))
	End(f messages.Finish, emit func(messages.Event))
}

// InputChecker is an optional interface of a Dialect, called before a submit is accepted. It
// returns the input in the dialect's own form, or a *messages.Error with the byte offset in the
// submitted text.
//
// A Dialect may also have the method
//
//	JoinInputs(parts []messages.Input) (messages.Input, error)
//
// which makes one input out of several accepted ones, given in order (docs/spec/design.md §9,
// merge and debounce). An error refuses the last of them. Without the method texts are joined by
// LF.
type InputChecker interface {
	CheckInput(messages.Input) (messages.Input, error)
}

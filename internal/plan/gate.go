package plan

// Part is a kind of part of the document, as the dispatcher meets them
// (docs/spec/streaming.md §4).
type Part uint8

// The parts. Thoughts and errors depend on no result.
const (
	PartThought Part = iota
	PartError
	PartAction
	PartResponse
	PartText
	PartFeed
)

// Passes reports whether the next part of the document may be acted on now: no earlier part
// waits (waiting), such as a response that stopped at a reference, and the gate is open or the
// part depends on no result. Text between blocks, which only operators see, passes like a
// thought.
func (p *Plan) Passes(part Part, waiting bool) bool {
	if waiting {
		return false
	}
	return p.gate == none || part == PartThought || part == PartError || part == PartText
}

package plan

// Part is what of the document comes to the dispatcher (docs/spec/streaming.md §4).
type Part uint8

// The parts. Thoughts and errors rest on no result.
const (
	PartThought Part = iota
	PartError
	PartAction
	PartResponse
	PartText
	PartFeed
)

// Passes tells whether the next part of the document goes on now: nothing waits
// before it, and the gate is open or the part rests on no result. Text between
// blocks, which is for operators alone, passes like a thought. waiting says
// whether an earlier part waits, also a response behind a reference.
func (p *Plan) Passes(part Part, waiting bool) bool {
	if waiting {
		return false
	}
	return p.gate == none || part == PartThought || part == PartError || part == PartText
}

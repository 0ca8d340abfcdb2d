package reply

import (
	"slices"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/messages"
)

// sentTo is a prompt as a route's model is sent it: a note in the text stands for each part that
// the model does not take. That is so where the agent got another model since the part came.
func sentTo(route compiled.Route, msgs []messages.Message) []messages.Message {
	own := false
	for i := range msgs {
		if !slices.ContainsFunc(msgs[i].Parts, func(p messages.Part) bool { return !route.TakesPart(p.Type) }) {
			continue
		}
		if !own {
			msgs, own = slices.Clone(msgs), true
		}
		m := &msgs[i]
		var taken []messages.Part
		for _, p := range m.Parts {
			if route.TakesPart(p.Type) {
				taken = append(taken, p)
			} else {
				m.Text += "\n\n[not shown: " + p.String() + "]"
			}
		}
		m.Parts = taken
	}
	return msgs
}

// pictureWeight is what a picture counts as in an estimate, in bytes of text. What vendors count is
// between 85 and some 3,000 tokens, by its measures.
const pictureWeight = 6000

// weightOf is what the parts of a prompt count as in an estimate of its tokens.
func weightOf(msgs []messages.Message) (n int64) {
	for i := range msgs {
		for k := range msgs[i].Parts {
			if p := &msgs[i].Parts[k]; p.IsPicture() {
				n += pictureWeight
			} else {
				n += p.Size
			}
		}
	}
	return n
}

package reply

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// takesPictures is a model that takes pictures alone.
type takesPictures struct{ llm.Model }

func (takesPictures) TakesPart(mediaType string) bool { return strings.HasPrefix(mediaType, "image/") }

// A model is sent the parts that it takes, and a note in the text for each that it does not. What the
// agent's other models are sent stays as it was.
func TestPartsThatAModelDoesNotTake(t *testing.T) {
	picture, file := messages.Part{Size: 2000, Type: "image/png"}, messages.Part{Name: "plan", Size: 3000, Type: "application/pdf"}
	msgs := []messages.Message{{Text: "be brief"}, {Text: "look", Parts: []messages.Part{picture, file}}, {Text: "and here", Parts: []messages.Part{picture}}}
	note := "\n\n[not shown: " + file.String() + "]"
	for name, c := range map[string]struct {
		port  llm.Model
		text  string
		parts []int // of each message
	}{
		"pictures alone": {takesPictures{}, "look" + note, []int{0, 1, 1}},
		"no parts":       {nil, "look\n\n[not shown: " + picture.String() + "]" + note, []int{0, 0, 0}},
	} {
		got := sentTo(compiled.Route{Port: c.port}, msgs)
		if got[0].Text != "be brief" || got[1].Text != c.text {
			t.Errorf("%s: %q", name, got[1].Text)
		}
		for i, n := range c.parts {
			if len(got[i].Parts) != n {
				t.Errorf("%s: message %d has the parts %v", name, i, got[i].Parts)
			}
		}
		if msgs[1].Text != "look" || len(msgs[1].Parts) != 2 || len(msgs[2].Parts) != 1 {
			t.Fatalf("%s: the prompt has changed: %+v", name, msgs)
		}
	}
	if all := sentTo(compiled.Route{Port: takesPictures{}}, msgs[2:]); &all[0] != &msgs[2] {
		t.Error("a prompt that is sent as it is was copied")
	}
	if n := weightOf(msgs); n != 2*pictureWeight+3000 {
		t.Errorf("the parts count as %d bytes of text", n)
	}
}

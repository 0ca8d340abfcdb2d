package gemini

import (
	"encoding/json"
	"testing"

	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// Pictures and files stand in front of the text.
func TestParts(t *testing.T) {
	turn := &wire.Turn{Role: messages.RoleUser, Texts: []string{"look"}, Files: []wire.File{
		{Part: messages.Part{Type: "image/png"}, Data: []byte("p")},
		{Part: messages.Part{Type: "application/pdf", Name: "a.pdf"}, Data: []byte("f")},
		{Part: messages.Part{Type: "text/plain"}, Data: []byte("t")},
	}}
	m, err := content(turn)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var members any // in the order of their names
	if err := json.Unmarshal(got, &members); err != nil {
		t.Fatal(err)
	}
	const want = `{"parts":[{"inlineData":{"data":"cA==","mimeType":"image/png"}},{"inlineData":{"data":"Zg==","mimeType":"application/pdf"}},{"inlineData":{"data":"dA==","mimeType":"text/plain"}},{"text":"look"}],"role":"user"}`
	if got, err = json.Marshal(members); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, mediaType := range []string{"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"} {
		if !(&vendor{}).TakesPart(mediaType) {
			t.Error(mediaType)
		}
	}
	if (&vendor{}).TakesPart("image/svg+xml") {
		t.Error("SVG is taken")
	}
}

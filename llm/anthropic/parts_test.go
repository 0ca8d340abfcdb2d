package anthropic

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
	m := message(turn)
	got, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var members any // in the order of their names
	if err := json.Unmarshal(got, &members); err != nil {
		t.Fatal(err)
	}
	const want = `{"content":[{"source":{"data":"cA==","media_type":"image/png","type":"base64"},"type":"image"},{"source":{"data":"Zg==","media_type":"application/pdf","type":"base64"},"type":"document"},{"source":{"data":"t","media_type":"text/plain","type":"text"},"type":"document"},{"text":"look","type":"text"}],"role":"user"}`
	if got, err = json.Marshal(members); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, mediaType := range []string{"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"} {
		if !(vendor{}).TakesPart(mediaType) {
			t.Error(mediaType)
		}
	}
	if (vendor{}).TakesPart("image/svg+xml") {
		t.Error("SVG is taken")
	}
}

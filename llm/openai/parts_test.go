package openai

import (
	"encoding/json"
	"testing"

	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// Pictures and files stand in front of the text, in the form of each interface.
func TestParts(t *testing.T) {
	turn := &wire.Turn{Role: messages.RoleUser, Texts: []string{"look"}, Files: []wire.File{
		{Part: messages.Part{Type: "image/png"}, Data: []byte("p")},
		{Part: messages.Part{Type: "application/pdf", Name: "a.pdf"}, Data: []byte("f")},
	}}
	for name, c := range map[string]struct {
		got  any
		want string
	}{
		"chat":      {chatTurn(turn), `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,cA=="}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,Zg=="}},{"type":"text","text":"look"}]}]`},
		"responses": {responseTurn(turn), `[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,cA=="},{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,Zg=="},{"type":"input_text","text":"look"}]}]`},
	} {
		got, err := json.Marshal(c.got)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for mediaType, want := range map[string][3]bool{ // chat elsewhere, at OpenAI, responses
		"image/png": {true, true, true}, "application/pdf": {false, true, true}, "text/plain": {}, "image/svg+xml": {},
	} {
		if got := [3]bool{chat{}.TakesPart(mediaType), chat{vendor{home: true}}.TakesPart(mediaType), response{}.TakesPart(mediaType)}; got != want {
			t.Errorf("%s: %v", mediaType, got)
		}
	}
}

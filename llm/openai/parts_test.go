package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/llm/llmtest"
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
	for mediaType, want := range map[string][4]bool{ // chat elsewhere, at OpenAI, responses, realtime
		"image/png": {true, true, true, true}, "image/jpeg": {true, true, true, true}, "image/gif": {true, true, true, false}, "image/webp": {true, true, true, false},
		"application/pdf": {false, true, true, false}, "text/plain": {}, "image/svg+xml": {},
	} {
		if got := [4]bool{chat{}.TakesPart(mediaType), chat{vendor{home: true}}.TakesPart(mediaType), response{}.TakesPart(mediaType), realtime{}.TakesPart(mediaType)}; got != want {
			t.Errorf("%s: %v", mediaType, got)
		}
	}
}

// pictured is a prompt whose last message brings two pictures along.
func pictured(texts ...string) llm.Request {
	r := prompted(texts...)
	r.Files = map[messages.Digest][]byte{{1}: []byte("p"), {2}: []byte("j")}
	r.Messages[len(r.Messages)-1].Parts = []messages.Part{{Digest: messages.Digest{1}, Type: "image/png", Size: 1}, {Digest: messages.Digest{2}, Type: "image/jpeg", Size: 1}}
	return r
}

// A conversation is sent the pictures of a message once, with the message, and goes on from it. One
// that has no text is a message as well.
func TestConversationsTakeParts(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response { return llmtest.Response{Text: []string{"ok"}} })
		s := connect(t, keeps(t, srv, spoken(api)))
		one, two := pictured("look"), pictured("look", "ok", "and here")
		one.Messages[1].Parts, two.Messages[1].Parts = one.Messages[1].Parts[:1], one.Messages[1].Parts[:1]
		two.Messages[3].Text = ""
		for i, r := range []llm.Request{one, two} {
			if o := read(t.Context(), s, r, i*3); o.Err != nil || o.Text != "ok" {
				t.Fatalf("%+v", o)
			}
			settled(t, s, true)
		}
		for i, want := range []string{"system: Be brief.|user: [input_image]look", "user: [input_image][input_image]"} {
			var lines []string
			for _, item := range srv.Seen()[i].New {
				lines = append(lines, item.String())
			}
			if got := strings.Join(lines, "|"); got != want {
				t.Errorf("request %d sent %s", i+1, got)
			}
		}
	})
}

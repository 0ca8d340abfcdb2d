package gemini

import (
	stdjson "encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"
	sdk "google.golang.org/genai"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/llm/llmtest"
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
	got, err := stdjson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var members any // in the order of their names
	if err := stdjson.Unmarshal(got, &members); err != nil {
		t.Fatal(err)
	}
	const want = `{"parts":[{"inlineData":{"data":"cA==","mimeType":"image/png"}},{"inlineData":{"data":"Zg==","mimeType":"application/pdf"}},{"inlineData":{"data":"dA==","mimeType":"text/plain"}},{"text":"look"}],"role":"user"}`
	if got, err = stdjson.Marshal(members); err != nil || string(got) != want {
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
	for mediaType, want := range map[string]bool{"image/png": true, "image/jpeg": true, "image/webp": false, "image/gif": false, "application/pdf": false, "text/plain": false} {
		if (&live{}).TakesPart(mediaType) != want {
			t.Errorf("Live: %s", mediaType)
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

// Pictures go over Live as the official SDK's own client sends them, once, with their message.
func TestLiveTakesParts(t *testing.T) {
	theirs, ours := llmtest.NewProvider(t, says("ok")), llmtest.NewProvider(t, says("ok"))
	s := dial(t, theirs, &sdk.LiveConnectConfig{
		ResponseModalities: []sdk.Modality{sdk.ModalityText}, SessionResumption: &sdk.SessionResumptionConfig{},
		SystemInstruction: &sdk.Content{Parts: []*sdk.Part{{Text: "Be brief."}}},
	})
	c := connect(t, keeps(t, ours, nil), prompted("look"))
	for i, parts := range [][]*sdk.Part{
		{sdk.NewPartFromBytes([]byte("p"), "image/png"), sdk.NewPartFromBytes([]byte("j"), "image/jpeg"), {Text: "look"}},
		{sdk.NewPartFromBytes([]byte("p"), "image/png"), sdk.NewPartFromBytes([]byte("j"), "image/jpeg")},
	} {
		if err := s.SendClientContent(sdk.LiveClientContentInput{Turns: []*sdk.Content{{Role: sdk.RoleUser, Parts: parts}}}); err != nil {
			t.Fatal(err)
		}
		for over := false; !over; {
			m, err := s.Receive()
			if err != nil {
				t.Fatal(err)
			}
			over = m.ServerContent != nil && m.ServerContent.TurnComplete
		}
		r := pictured([]string{"look", "ok", ""}[:i*2+1]...)
		r.Messages[1].Parts = pictured("look").Messages[1].Parts
		if o := read(t.Context(), c, r, i*3); o.Err != nil || o.Text != "ok" {
			t.Fatalf("%+v", o)
		}
		settled(t, c, true)
		if got, want := lines(ours.Seen()[i].New), []string{"system: Be brief.|user: [image/png][image/jpeg]look", "user: [image/png][image/jpeg]"}[i]; got != want {
			t.Errorf("message %d: the provider has %s", i+1, got)
		}
		bodies := func(srv *llmtest.Provider) (all []any) {
			for line := range strings.Lines(string(srv.Seen()[i].Body)) {
				var one any
				if err := json.Unmarshal([]byte(line), &one); err != nil {
					t.Fatal(err)
				}
				all = append(all, one)
			}
			return all
		}
		if diff := gocmp.Diff(bodies(theirs), bodies(ours)); diff != "" {
			t.Errorf("message %d (-SDK +ours):\n%s", i+1, diff)
		}
	}
}

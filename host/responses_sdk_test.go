//go:build !lite

package host_test

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

func input(text string) responses.ResponseNewParamsInputUnion {
	return responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(text)}
}

// The official client asks for responses, with and without streaming, and goes on with them.
func TestResponses(t *testing.T) {
	_, client := chatDoor(t)
	ctx := t.Context()
	var res *http.Response
	first, err := client.Responses.New(ctx, responses.ResponseNewParams{Model: "echo", Input: input("I am Ada."), Temperature: param.NewOpt(0.5)}, option.WithResponseInto(&res))
	if err != nil {
		t.Fatal(err)
	}
	if first.OutputText() != "[user: I am Ada.]" || first.Status != responses.ResponseStatusCompleted || first.Usage.InputTokens != 12 || first.Usage.OutputTokens != 7 || first.Usage.InputTokensDetails.CachedTokens != 3 {
		t.Errorf("%s", first.RawJSON())
	}
	if got := res.Header.Get("X-Stile-Passed-Over"); got != "temperature" || res.Header.Get("X-Stile-Run") != "1" || !strings.HasPrefix(res.Header.Get("X-Stile-Session"), "chat-") {
		t.Errorf("%v", res.Header)
	}
	stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: "echo", Input: input("Who am I?"), PreviousResponseID: param.NewOpt(first.ID)})
	text, last := "", responses.ResponseStreamEventUnion{}
	for stream.Next() {
		if last = stream.Current(); last.Type == "response.output_text.delta" {
			text += last.Delta
		}
	}
	const whole = "[user: I am Ada.][assistant: [user: I am Ada.]][user: Who am I?]"
	if err := stream.Err(); err != nil || text != whole || last.Type != "response.completed" || last.Response.OutputText() != whole {
		t.Errorf("%q, %s, %v", text, last.RawJSON(), err)
	}
	_, err = client.Responses.New(ctx, responses.ResponseNewParams{Model: "echo", Input: input("x"), PreviousResponseID: param.NewOpt("resp_none")})
	if e := chatFailure(t, err); e.StatusCode != 404 || e.Param != "previous_response_id" {
		t.Errorf("%s", e.RawJSON())
	}
	var bad *openai.Error
	_, err = client.Responses.New(ctx, responses.ResponseNewParams{Model: "broken", Input: input("x")})
	if bad = chatFailure(t, err); bad.StatusCode != 400 || bad.Type != "stile_halt" || bad.Code != "ERR_MODEL" {
		t.Errorf("%s", bad.RawJSON())
	}
}

// The official client for Node, unchanged.
func TestResponsesFromNode(t *testing.T) {
	node, packages, ok := installed(t, "openai")
	if !ok {
		return
	}
	d := talkers(t)
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "testdata/responses.test.mjs")
	cmd.Env = append(os.Environ(), "STILE_URL="+d.url, nodePackages+"="+packages)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

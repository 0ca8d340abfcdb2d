package host_test

import (
	"net/http"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// A user who has used what they may is refused like a tenant: 429, with when to come back.
func TestSpendingOverHTTP(t *testing.T) {
	m, err := scripted.Parse("yes.jsonl", []byte(`{"match": {"re2": "(?s).*"}, "chunks": [{"text": "Yes."}], "usage": {"input": 30, "output": 10}}`))
	if err != nil {
		t.Fatal(err)
	}
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	agent := agentOf("talker", m)
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Spending: stile.Spending{UserTokensPerDay: 40}, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	d := serveRuntime(t, l, rt, host.Config{}, agent)
	d.session("ada", "talker")
	d.call(http.StatusOK, nil, "POST", "/v1/sessions/ada/runs?stream=none&wait=1m", `{"input": "well?"}`)
	p := d.refused(http.StatusTooManyRequests, messages.ErrQuota, "POST", "/v1/sessions/ada/runs", `{"input": "well?"}`)
	if p.Reason != stile.OverUserTokens {
		t.Errorf("%+v", p)
	}
	res := d.ask("POST", "/v1/sessions/ada/runs", `{"input": "well?"}`)
	res.Body.Close()
	if res.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", res.Header)
	}
	// A fork that begins a run is a submit; one that begins none is let in.
	fork := `{"turn": 1, "id": "eve", "input": "well, again?"}`
	if p := d.refused(http.StatusTooManyRequests, messages.ErrQuota, "POST", "/v1/sessions/ada/fork", fork); p.Reason != stile.OverUserTokens {
		t.Errorf("a fork: %+v", p)
	}
	res = d.ask("POST", "/v1/sessions/ada/fork", fork)
	res.Body.Close()
	if res.Header.Get("Retry-After") == "" {
		t.Errorf("a fork: no Retry-After: %v", res.Header)
	}
	d.refused(http.StatusNotFound, messages.ErrNotFound, "GET", "/v1/sessions/eve", "")
	d.call(http.StatusCreated, nil, "POST", "/v1/sessions/ada/fork", `{"id": "eve"}`)
}

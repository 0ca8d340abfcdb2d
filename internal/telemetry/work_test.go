package telemetry

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// What records tell of models, tools, people and tenants is counted by agent.
func TestWork(t *testing.T) {
	m := NewMetrics()
	see := func(inc byte, turn int64, bodies ...messages.Body) {
		for _, b := range bodies {
			m.ObserveRecord("support", &messages.Record{SID: "acme:ada:1", Inc: uuid.UUID{inc}, Turn: turn, Body: b})
		}
	}
	usage := messages.Usage{Input: 100, Output: 20, CacheRead: 60}
	see(1, 1,
		&messages.TurnBegin{}, &messages.ModelRequest{Provider: "openai", Model: "m1"}, &messages.ModelFallback{From: "openai/m1", To: "gemini/m2", Reason: "STATUS_429"},
		&messages.ModelRequest{Provider: "gemini", Model: "m2"}, &messages.ActionDeclared{ID: "a", Name: "book"}, &messages.ActionDeclared{ID: "b", Name: "ask"}, &messages.ActionDeclared{ID: "c", Name: "late"}, &messages.ActionDeclared{ID: "d", Name: "never"},
		&messages.ActionApproval{ID: "a", State: messages.GateApprove}, // the gate's own answer: no person was asked
		&messages.ActionApproval{ID: "b", State: messages.GateConfirm, Approval: "q"}, &messages.ActionApproval{ID: "b", State: messages.GateDeny, Approval: "q"},
		&messages.ActionStarted{ID: "a", Attempt: 1}, &messages.ActionStarted{ID: "a", Attempt: 2}, &messages.ActionStarted{ID: "c", Attempt: 1},
		&messages.ModelReply{Usage: usage, CostUSD: 2_500_000}, &messages.ActionEnded{ID: "a", State: messages.ActionOK, MS: 1500, Tokens: 7, CostUSD: 500_000},
		&messages.ActionEnded{ID: "b", State: messages.ActionFailed}, &messages.ActionEnded{ID: "d", State: messages.ActionSkipped},
		&messages.TurnDecided{Decision: messages.Continue}, &messages.TurnBegin{})
	see(1, 1, &messages.ActionEnded{ID: "c", State: messages.ActionOK, MS: 500}) // behind its turn
	see(1, 2, &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrQuota})
	// What another process had begun.
	see(2, 1, &messages.ModelReply{Usage: messages.Usage{Output: 3}}, &messages.ActionEnded{ID: "a", State: messages.ActionUnknown}, &messages.ActionEnded{ID: "b", State: messages.ActionCancelled})
	m.ModelCalled(ModelCall{Provider: "openai", Model: "m1", Outcome: "rate_limit", Took: 2 * time.Second})
	m.ModelCalled(ModelCall{Provider: "openai", Model: "m1", Outcome: CallOK, Took: 4 * time.Second, First: time.Second})

	got := values(t, m)
	want := map[string]float64{
		"stile_model_tokens_total agent=support kind=input model=m2 provider=gemini":      100,
		"stile_model_tokens_total agent=support kind=output model=m2 provider=gemini":     20,
		"stile_model_tokens_total agent=support kind=cache_read model=m2 provider=gemini": 60,
		"stile_model_tokens_total agent=support kind=output model=other provider=other":   3,
		"stile_model_tokens_total agent=support kind=total model=book provider=action":    7,
		"stile_model_cost_usd_total agent=support model=m2 provider=gemini":               2.5,
		"stile_model_cost_usd_total agent=support model=book provider=action":             0.5,
		"stile_model_fallbacks_total agent=support reason=STATUS_429":                     1,
		"stile_model_calls_total model=m1 outcome=rate_limit provider=openai":             1,
		"stile_model_calls_total model=m1 outcome=ok provider=openai":                     1,
		"stile_model_call_seconds model=m1 provider=openai":                               2,
		"stile_model_call_seconds model=m1 provider=openai sum":                           6,
		"stile_model_first_text_seconds model=m1 provider=openai":                         1,
		"stile_model_first_text_seconds model=m1 provider=openai sum":                     1,
		"stile_tool_calls_total agent=support state=ok tool=book":                         1,
		"stile_tool_calls_total agent=support state=ok tool=late":                         1,
		"stile_tool_calls_total agent=support state=unknown tool=other":                   1,
		"stile_tool_call_seconds tool=book sum":                                           1.5,
		"stile_tool_call_seconds tool=late sum":                                           0.5,
		"stile_approvals_total agent=support answer=confirm":                              1,
		"stile_approvals_total agent=support answer=deny":                                 1,
		"stile_runs_total agent=support decision=HALT reason=ERR_QUOTA":                   1,
		"stile_tenant_runs_total tenant=acme":                                             1,
		"stile_tenant_tokens_total tenant=acme":                                           130,
		"stile_tenant_cost_usd_total tenant=acme":                                         3,
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %v, want %v", k, got[k], v)
		}
	}
	for _, family := range []string{"stile_tool_calls_total", "stile_approvals_total", "stile_model_tokens_total"} {
		n, all := 0, 0
		for k := range want {
			if len(k) > len(family) && k[:len(family)+1] == family+" " {
				n++
			}
		}
		for k := range got {
			if len(k) > len(family) && k[:len(family)+1] == family+" " {
				all++
			}
		}
		if n != all {
			t.Errorf("%s has %d children, want %d", family, all, n)
		}
	}
	see(1, 2, &messages.TurnDecided{})
	if len(m.known) != 0 {
		t.Errorf("%d activations without work are kept", len(m.known))
	}
}

// What is sent and billed is counted by mode, and conversations by what becomes of them.
func TestConversations(t *testing.T) {
	m := NewMetrics()
	m.ModelAsked("replay", 400)
	m.ModelAsked("resume", 401)
	m.ModelAsked("resume", 8)
	m.ModelCalled(ModelCall{Mode: "resume", Input: 1000, Cached: 900})
	m.ModelCalled(ModelCall{Mode: "replay", Input: 100})
	m.ModelCalled(ModelCall{Input: 7}) // of an action
	for _, what := range []struct{ what, reason string }{
		{"opened", ""}, {"opened", ""}, {"opened", ""}, {"seeded", "LOST"}, {"diverged", "REPLY"}, {"expired", "AGE"}, {"closed", "IDLE"}, {"fallback", "STATUS_404"},
	} {
		m.ModelSession(what.what, what.reason)
	}
	got := values(t, m)
	for name, want := range map[string]float64{
		"stile_prompt_bytes_total mode=replay": 400, "stile_prompt_bytes_total mode=resume": 409,
		"stile_prompt_tokens_total kind=sent mode=replay": 100, "stile_prompt_tokens_total kind=sent mode=resume": 103,
		"stile_prompt_tokens_total kind=billed mode=resume": 1000, "stile_prompt_tokens_total kind=cached mode=resume": 900,
		"stile_prompt_tokens_total kind=billed mode=replay": 100, "stile_prompt_tokens_total kind=cached mode=replay": 0,
		"stile_model_sessions_open": 1, "stile_model_sessions_total outcome=opened reason=": 3, "stile_model_sessions_total outcome=closed reason=IDLE": 1,
		"stile_model_sessions_total outcome=expired reason=AGE": 1, "stile_model_sessions_total outcome=fallback reason=STATUS_404": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

package parse_test

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Of what kept a turn from its end the first is the reason; a reply that was cut at its
// length has come to one.
func TestFailure(t *testing.T) {
	for _, c := range []struct {
		facts messages.Facts
		want  messages.Code
	}{
		{messages.Facts{}, ""},
		{messages.Facts{Finish: messages.FinishComplete}, ""},
		{messages.Facts{Finish: messages.FinishStop}, ""},
		{messages.Facts{Finish: messages.FinishLength}, ""},
		{messages.Facts{Finish: messages.FinishError}, messages.ErrModel},
		{messages.Facts{Finish: messages.FinishCancelled}, messages.ErrCancelled},
		{messages.Facts{Finish: messages.FinishError, Breach: messages.ErrQuota}, messages.ErrQuota},
		{messages.Facts{Finish: messages.FinishComplete, Breach: messages.ErrQuota}, messages.ErrQuota},
	} {
		if got := parse.Failure(c.facts); got != c.want {
			t.Errorf("%s, breach %q: %q, want %q", c.facts.Finish, c.facts.Breach, got, c.want)
		}
	}
	if v := parse.Halt(messages.ErrLoop, "again"); v.Decision != messages.Halt || v.Code != messages.ErrLoop || v.Detail != "again" || v.Token != -1 {
		t.Errorf("Halt = %+v", v)
	}
}

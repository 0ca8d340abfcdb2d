package host

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// What a user spends at one host is spent at all, and no other user's or tenant's; a run begins
// where some is left, and gets what is left at all hosts; the next day has its own.
func TestSpendingOfAllHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limits{TokensPerDay: 1000, CostPerDay: 5000}
		hosts := sharersOf(t, 3, l)
		for _, h := range hosts {
			h.meter.users = true
		}
		spend := func(i int, sid string, tokens, cost int64) {
			hosts[i].meter.observe(&messages.Record{SID: sid, Run: 1, Body: &messages.ModelReply{Usage: messages.Usage{Output: tokens}, CostUSD: cost}})
		}
		check := func(when string, i int, tokens, cost int64, want string) {
			t.Helper()
			left, over, err := hosts[i].shares.afford(t.Context(), spenderOf("acme:ann:s"), l)
			if err != nil || over != want || over == "" && left != (messages.Budget{Tokens: tokens, CostUSD: cost}) {
				t.Errorf("%s host %d says %q, and that there are left %+v, %v", when, i, over, left, err)
			}
		}
		for i := range hosts {
			check("at first", i, 1000, 5000, "")
		}
		spend(0, "acme:ann:s", 300, 1000)
		spend(1, "acme:ann:other", 200, 0)
		spend(1, "acme:bob:s", 900, 0)
		spend(2, "acmes:ann:s", 900, 0)
		time.Sleep(time.Second)
		for i := range hosts {
			check("after two runs", i, 500, 4000, "")
			time.Sleep(time.Second) // what was looked for here is given up
		}
		hosts[0].die()
		time.Sleep(time.Second)
		check("behind a host that is gone", 1, 500, 4000, "")
		hosts[0].rejoin()
		time.Sleep(time.Second)
		spend(0, "acme:ann:s", 100, 0)
		time.Sleep(time.Second)
		check("behind a host that came back", 2, 400, 4000, "")
		time.Sleep(time.Second)
		check("come back", 0, 400, 4000, "")
		time.Sleep(time.Second)
		spend(2, "acme:ann:s", 10, 7000) // one run goes over it
		synctest.Wait()
		for i := range hosts {
			check("when all is spent", i, 0, 0, overCost)
		}
		time.Sleep(10 * time.Minute)
		for i := range hosts {
			check("on the next day", i, 1000, 5000, "")
			time.Sleep(time.Second)
		}
	})
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		said *messages.Budget
		left messages.Budget
		want *messages.Budget
	}{
		{nil, messages.Budget{}, nil},
		{&messages.Budget{Tokens: 5}, messages.Budget{}, &messages.Budget{Tokens: 5}},
		{nil, messages.Budget{Tokens: 7}, &messages.Budget{Tokens: 7}},
		{&messages.Budget{Tokens: 5, Actions: 2}, messages.Budget{Tokens: 7, CostUSD: 9}, &messages.Budget{Tokens: 5, CostUSD: 9, Actions: 2}},
		{&messages.Budget{Tokens: 8, CostUSD: 3}, messages.Budget{Tokens: 7, CostUSD: 9}, &messages.Budget{Tokens: 7, CostUSD: 3}},
	} {
		in := messages.Input{Budget: c.said}
		if within(c.left)(&in); (in.Budget == nil) != (c.want == nil) || in.Budget != nil && *in.Budget != *c.want {
			t.Errorf("of %+v within %+v becomes %+v", c.said, c.left, in.Budget)
		}
	}
}

package stile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/budget"
	"github.com/seed14be6753/stile/internal/membership"
	"github.com/seed14be6753/stile/messages"
)

// claims answer every claim alike.
type claims struct {
	membership.Leases
	err error
}

func (c claims) Claim(context.Context, string) error { return c.err }
func (claims) GiveUp(string)                         {}

// What is known of a session's usage is forgotten when the session comes, goes, or turns out to be
// another host's; that of its user stays.
func TestUsageIsReadWhenASessionComes(t *testing.T) {
	const sid = "local:local:s"
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	b := budget.NewBook(budget.Limits{SessionTokens: 100, UserTokens: 1000})
	record := func(seq, tokens int64) *messages.Record {
		return &messages.Record{SID: sid, Seq: seq, TS: now, Body: &messages.ModelReply{Usage: messages.Usage{Output: tokens}}}
	}
	elsewhere := errors.New("elsewhere")
	journal := []*messages.Record{record(1, 30)}
	for name, moves := range map[string]func(){
		"come": func() { _ = counted{claims{}, b}.Claim(t.Context(), sid) },
		"gone": func() { counted{claims{}, b}.GiveUp(sid) },
		"elsewhere": func() {
			if err := (counted{claims{err: elsewhere}, b}).Claim(t.Context(), sid); !errors.Is(err, elsewhere) {
				t.Error(err)
			}
		},
	} {
		user, session := b.User(sid, now), b.Session(sid)
		b.Read(user, journal)
		b.Read(session, journal)
		moves()
		b.Observe(record(9, 5)) // of the user's account alone
		again := b.Session(sid)
		if b.Known(again) || !b.Known(user) {
			t.Errorf("%s: the session's usage is known %v, the user's %v", name, b.Known(again), b.Known(user))
		}
	}
	session := b.Session(sid)
	b.Read(session, append(journal, record(2, 60)))
	if left, over := b.Check(nil, session); left.Tokens != 10 || over != "" {
		t.Errorf("%+v, %s", left, over)
	}
}

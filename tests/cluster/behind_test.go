package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/journal/postgres"
)

// behind is a journal in a database whose clock is ahead of this machine's by some time.
type behind struct {
	*postgres.Store
	by time.Duration
}

// at is a journal, with a database whose clock is ahead.
func at(store *postgres.Store, by time.Duration) *behind { return &behind{store, by} }

func (b *behind) Hosts() (lease.Table, error) {
	t, err := b.Store.Hosts()
	if err != nil {
		return nil, err
	}
	shares, ok := t.(share.Table)
	if !ok {
		return nil, errors.New("the table has no shares")
	}
	return &behindTable{t, shares, b.by}, nil
}

func (b *behind) Board() (board.Port, error) {
	p, err := b.Store.Board()
	return behindBoard{p, b.by}, err
}

type (
	leases = lease.Table
	parts  = share.Table
)

type behindTable struct {
	leases
	parts
	by time.Duration
}

func (b *behindTable) Renew(ctx context.Context, id uuid.UUID, length time.Duration, draining bool, load lease.Load) (bool, time.Time, []lease.Host, error) {
	ok, now, all, err := b.leases.Renew(ctx, id, length, draining, load)
	return ok, now.Add(b.by), all, err
}

func (b *behindTable) Now(ctx context.Context) (time.Time, error) {
	now, err := b.leases.Now(ctx)
	return now.Add(b.by), err
}

func (b *behindTable) Claim(ctx context.Context, id uuid.UUID, sid string, until time.Time) (lease.Host, error) {
	return b.leases.Claim(ctx, id, sid, until.Add(-b.by))
}

func (b *behindTable) GiveUp(ctx context.Context, id uuid.UUID, sids []string, until time.Time) error {
	return b.leases.GiveUp(ctx, id, sids, until.Add(-b.by))
}

type behindBoard struct {
	board.Port
	by time.Duration
}

func (b behindBoard) Now() time.Time { return b.Port.Now().Add(b.by) }

// Hosts whose own clocks are a day behind that of the database, or ahead, go by the database's: tokens are
// good for as long as it says and no longer, calls have their time, keys retire when it says so.
func TestClocksADayOff(t *testing.T) {
	for _, by := range []time.Duration{25 * time.Hour, -25 * time.Hour} {
		t.Run(fmt.Sprintf("behind by %s", by), func(t *testing.T) {
			w := prepare(t)
			if w == nil {
				return
			}
			w.job.Tokens, w.job.Behind = true, by
			store, err := postgres.Open(t.Context(), postgres.Options{URL: w.job.URL, Schema: w.job.Schema})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			toks, err := tokensOf(t.Context(), at(store, by), secret)
			if err != nil {
				t.Fatal(err)
			}
			defer toks.Close()
			made := func(life time.Duration, scopes ...string) []string {
				t.Helper()
				secret, _, err := toks.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: scopes, Expires: time.Now().Add(by + life)})
				if err != nil {
					t.Fatal(err)
				}
				return []string{"Authorization", "Bearer " + secret}
			}
			ann := made(time.Hour, "read", "submit", "approve", "admin")
			w.start("a")
			w.start("b")

			// A call that is allowed, and then has its time.
			w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"buyer","id":"s"}`, http.StatusCreated, ann...)
			w.ask("a", http.MethodPost, "/v1/sessions/s/runs", `{"input":"buy it"}`, http.StatusAccepted, ann...)
			w.speaks("a", `<execute>[{"name":"shop.pay","args":{"what":"a book"}}]</execute>`)
			var q map[string]any
			w.until("the question", func() bool {
				list, _ := w.ask("b", http.MethodGet, "/v1/sessions/s/approvals", "", http.StatusOK, ann...)["approvals"].([]any)
				if len(list) == 1 {
					q, _ = list[0].(map[string]any)
				}
				return q != nil
			})
			w.ask("b", http.MethodPost, fmt.Sprintf("/v1/sessions/s/approvals/%v", q["id"]), fmt.Sprintf(`{"allow":true,"digest":%q}`, q["digest"]), http.StatusNoContent, ann...)
			w.speaks("a", "Bought.")
			w.ask("b", http.MethodGet, "/v1/sessions/s/runs/1?wait=1m", "", http.StatusOK, ann...)
			if got := w.raw("a", http.MethodGet, "/v1/sessions/s/export", "", ann...); got.err != nil || !strings.Contains(string(got.body), "paid for a book at a") {
				t.Errorf("the call has no result: %d %s, %v", got.status, got.body, got.err)
			}

			// A token that has been made over HTTP, and one whose time is over.
			v := w.ask("a", http.MethodPost, "/v1/tokens", `{"scopes":["read"],"expires_in_s":1}`, http.StatusCreated, ann...)
			short := []string{"Authorization", fmt.Sprintf("Bearer %v", v["secret"])}
			for _, name := range []string{"a", "b"} {
				w.until("the end of a token at "+name, func() bool {
					return w.raw(name, http.MethodGet, "/v1/sessions", "", short...).status == http.StatusUnauthorized
				})
			}
			w.ask("b", http.MethodGet, "/v1/sessions", "", http.StatusOK, ann...)

			// Keys are rotated once an hour.
			operator := made(time.Hour, "operator")
			w.until("the operator's token", func() bool {
				return w.raw("a", http.MethodGet, "/v1/sessions", "", operator...).status == http.StatusForbidden
			})
			w.ask("a", http.MethodPost, "/v1/keys/rotate", "", http.StatusOK, operator...)
			w.ask("a", http.MethodPost, "/v1/keys/rotate", "", http.StatusConflict, operator...)
		})
	}
}

package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// opened has a stream of a session that has begun.
func (e *events) opened(t *testing.T, tenant, session, id string) {
	t.Helper()
	ctx := context.WithValue(t.Context(), tenantKey{}, tenant)
	if e.sessions[session] == nil {
		if err := e.Open(ctx, session, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Open(ctx, session, id); err != nil {
		t.Fatal(err)
	}
}

func (e *events) read(t *testing.T, session, id string, index int) (all []string, err error) {
	t.Helper()
	for d, err := range e.After(t.Context(), session, id, index) {
		if err != nil {
			return nil, err
		}
		all = append(all, string(d))
	}
	return all, nil
}

func TestEvents(t *testing.T) {
	e := newEvents()
	e.opened(t, "acme", "s", "a")
	for i := range 3 {
		if err := e.Append(t.Context(), "s", "a", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for index, want := range map[int][]string{-1: {"0", "1", "2"}, 0: {"1", "2"}, 2: nil} {
		if got, err := e.read(t, "s", "a", index); err != nil || !slices.Equal(got, want) {
			t.Errorf("after %d: %q %v", index, got, err)
		}
	}
	for _, x := range []struct {
		session, id string
		index       int
	}{{"s", "a", 3}, {"s", "b", -1}, {"t", "a", -1}} {
		if got, err := e.read(t, x.session, x.id, x.index); !errors.Is(err, errNoStream) {
			t.Errorf("%v: %q %v", x, got, err)
		}
	}
	// The stream of no request has nothing to say again, and a session that is over keeps nothing.
	if err := e.Append(t.Context(), "s", "", []byte("x")); err != nil {
		t.Error(err)
	}
	if got, err := e.read(t, "s", "", -1); err != nil || got != nil {
		t.Errorf("%q %v", got, err)
	}
	if err := e.SessionClosed(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	if err := e.Open(t.Context(), "s", "late"); !errors.Is(err, errNoStream) || len(e.sessions)+len(e.tenants)+e.bytes > 0 {
		t.Errorf("%v %+v", err, e)
	}
}

// Where there is no room the oldest go, and a client never gets a part of what it missed.
func TestEventsAreBounded(t *testing.T) {
	e := newEvents()
	for i := range maxStreams + 1 {
		e.opened(t, "acme", "many", fmt.Sprint(i))
	}
	if _, err := e.read(t, "many", "0", -1); !errors.Is(err, errNoStream) {
		t.Error(err)
	}
	e.opened(t, "acme", "s", "old")
	e.opened(t, "acme", "s", "new")
	big := make([]byte, maxOfSession/4)
	for range 3 {
		_ = e.Append(t.Context(), "s", "old", big)
	}
	for range 2 {
		_ = e.Append(t.Context(), "s", "new", big)
	}
	_ = e.Append(t.Context(), "s", "old", []byte("end"))
	if _, err := e.read(t, "s", "old", 1); !errors.Is(err, sdk.ErrEventsPurged) {
		t.Error(err)
	}
	if got, err := e.read(t, "s", "old", 2); err != nil || !slices.Equal(got, []string{"end"}) {
		t.Errorf("%q %v", got, err)
	}
	if got, err := e.read(t, "s", "new", -1); err != nil || len(got) != 2 {
		t.Errorf("%d %v", len(got), err)
	}
	_ = e.Append(t.Context(), "s", "new", make([]byte, 2*maxOfSession)) // larger than the bound
	if got, err := e.read(t, "s", "new", 1); err != nil || len(got) != 1 {
		t.Errorf("%d %v", len(got), err)
	}
}

// A tenant that says much takes nothing from others, and counts are right whatever happens.
func TestEventsOfTenants(t *testing.T) {
	e := newEvents()
	e.opened(t, "small", "quiet", "a")
	_ = e.Append(t.Context(), "quiet", "a", []byte("x"))
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	piece := make([]byte, maxOfSession/2)
	for i := range 3000 {
		tenant := fmt.Sprint("loud", rnd.IntN(6))
		session := fmt.Sprint(tenant, ".", rnd.IntN(20))
		id := fmt.Sprint(rnd.IntN(4))
		switch s := e.sessions[session]; {
		case s == nil || s.streams[id] == nil:
			e.opened(t, tenant, session, id)
		case rnd.IntN(20) == 0:
			_ = e.SessionClosed(t.Context(), session)
		default:
			_ = e.Append(t.Context(), session, id, piece[:rnd.IntN(len(piece))])
		}
		bytes := 0
		for name, of := range e.tenants {
			bytes += of.bytes
			if of.bytes > maxEvents/fairness {
				t.Fatalf("seed %d, step %d: %s has %d", seed, i, name, of.bytes)
			}
		}
		sum := 0
		for _, s := range e.sessions {
			n := 0
			for _, told := range s.streams {
				for _, d := range told.data {
					n += len(d)
				}
			}
			if sum += n; n != s.bytes || n > maxOfSession || len(s.streams) != s.order.Len() {
				t.Fatalf("seed %d, step %d: %d bytes of a session, counted %d", seed, i, n, s.bytes)
			}
		}
		if bytes != e.bytes || sum != e.bytes || e.bytes > maxEvents {
			t.Fatalf("seed %d, step %d: %d %d %d", seed, i, bytes, sum, e.bytes)
		}
	}
	if got, err := e.read(t, "quiet", "a", -1); err != nil || len(got) != 1 {
		t.Errorf("%q %v", got, err)
	}
}

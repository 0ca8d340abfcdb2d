package host_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// A session is begun once under a key, however often and however close together it is asked for.
func TestSessionIsBegunOnceUnderAKey(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())), agentOf("other", speaks(nil, always())))
	begin := func(body, key string) string {
		var v struct{ ID string }
		d.call(201, &v, "POST", "/v1/sessions", body, "Idempotency-Key", key)
		return v.ID
	}
	ids := make([]string, 8)
	var work sync.WaitGroup
	for i := range ids {
		work.Go(func() { ids[i] = begin(`{"agent": "talker", "title": "One"}`, "k1") })
	}
	work.Wait()
	for _, id := range ids {
		if id != ids[0] || !strings.HasPrefix(id, "key-") {
			t.Errorf("the ids are %q", ids)
		}
	}
	if id := begin(`{"agent": "talker"}`, "k2"); id == ids[0] {
		t.Error("two keys have one session")
	}
	if p := d.refused(422, messages.ErrConflict, "POST", "/v1/sessions", `{"agent": "other"}`, "Idempotency-Key", "k1"); p.Reason != stile.ReasonKeyReused || p.Field != "Idempotency-Key" {
		t.Errorf("another agent: %+v", p)
	}
	// A key beside an id says nothing.
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, "Idempotency-Key", "k1")
	d.refused(409, messages.ErrConflict, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, "Idempotency-Key", "k1")
	var list struct{ Sessions []struct{ ID string } }
	d.call(200, &list, "GET", "/v1/sessions", "")
	if len(list.Sessions) != 3 {
		t.Errorf("there are %d sessions, want 3", len(list.Sessions))
	}
}

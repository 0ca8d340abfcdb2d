package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/lease"
)

// ownerOf is the name of the host that has a session.
func (w *world) ownerOf(table lease.Table, sid string) string {
	w.t.Helper()
	owners, err := table.Owners(w.t.Context(), sid)
	if err != nil {
		w.t.Fatal(err)
	}
	owner := owners[sid]
	return owner.Version // which is the name here
}

// Sessions that clients begin at one host begin at all of them, by every door. A repeat with the key
// of the first finds its session. Of a host that is frozen, or drains, none is lost.
func TestSpread(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	w.job.Spread = true
	w.job.Lease = 3 * leaseTime // a host that misses two renewals gets no session, which a busy machine may cause
	names := []string{"a", "b", "c"}
	for _, name := range names {
		w.start(name)
	}
	table := w.table()
	// loads waits until each host has said what it has to do.
	loads := func(good func(h *lease.Host) bool) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			hosts, err := table.Hosts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for i := range hosts {
				if hosts[i].Live() && hosts[i].Load.MaxRuns > 0 && good(&hosts[i]) {
					n++
				}
			}
			if n == len(names) {
				return
			}
			if time.Since(begun) > patience {
				t.Fatalf("%+v", hosts)
			}
		}
	}
	begun, sids := map[string]int{}, map[string]string{}
	begin := func(body string, headers ...string) string {
		t.Helper()
		v := w.ask("a", http.MethodPost, "/v1/sessions", body, http.StatusCreated, headers...)
		id, _ := v["id"].(string)
		return id
	}
	// The first host knows what the others have to do from its next renewal on. No session is begun
	// before, or later ones begin where it is missing.
	loads(func(*lease.Host) bool { return true })
	last, renewed := time.Duration(-1), false
	loads(func(h *lease.Host) bool {
		if h.Version == "a" {
			renewed = renewed || last >= 0 && h.Left > last
			last = h.Left
		}
		return renewed || h.Version != "a"
	})
	for n := range 45 {
		body, key := `{"agent":"talker"}`, fmt.Sprintf("key %d", n)
		if n%3 == 0 {
			body = fmt.Sprintf(`{"agent":"talker","id":"named%d"}`, n)
		}
		id := begin(body, "Idempotency-Key", key)
		host := w.ownerOf(table, "local:local:"+id)
		begun[host]++
		if n%3 != 0 {
			sids[key] = id
		}
	}
	for _, name := range names {
		if begun[name] < 8 {
			t.Errorf("of 45 sessions that were asked for at one of three hosts, %v begin at each", begun)
			break
		}
	}
	for key, id := range sids {
		for _, name := range names {
			if v := w.ask(name, http.MethodPost, "/v1/sessions", `{"agent":"talker"}`, http.StatusCreated, "Idempotency-Key", key); v["id"] != id {
				t.Errorf("the repeat at %s has the session %v, the first one %s", name, v["id"], id)
			}
		}
	}
	loads(func(h *lease.Host) bool { return h.Load.Sessions >= 8 })

	// Chats, responses and tools: the host whose model is asked is the one where the session began.
	chats := map[string]int{}
	var waiting []<-chan answer
	var replies []*reply
	for n := range 12 {
		path, body := "/v1/chat/completions", `{"model":"talker","messages":[{"role":"user","content":"one"}]}`
		if n%2 == 1 {
			path, body = "/v1/responses", `{"model":"talker","input":"one"}`
		}
		waiting = append(waiting, w.later("a", http.MethodPost, path, body))
		r := w.reply()
		chats[r.host]++
		replies = append(replies, r)
	}
	if len(chats) != len(names) || chats["a"] == 12 {
		t.Errorf("of chats that wait together, %v run at each host", chats)
	}
	for _, r := range replies {
		r.say(t, "It is.")
		r.end()
	}
	for _, one := range waiting {
		if a := <-one; a.err != nil || a.status != http.StatusOK {
			t.Errorf("%d %s, %v", a.status, a.body, a.err)
		}
	}

	// A host that is frozen takes nothing: what was sent to it begins here, once.
	frozen := w.hosts["b"]
	if err := frozen.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		id := begin(`{"agent":"talker"}`)
		if host := w.ownerOf(table, "local:local:"+id); host == "b" {
			t.Errorf("session %d is at the host that is frozen", n)
		}
	}
	if err := frozen.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// One that is killed as well, and one with a message.
	w.hosts["b"].kill()
	for range 4 {
		answered := w.later("a", http.MethodPost, "/v1/chat/completions", `{"model":"talker","messages":[{"role":"user","content":"one"}]}`)
		r := w.reply()
		r.say(t, "Here.")
		r.end()
		a := <-answered
		var v struct {
			Choices []struct {
				Message struct{ Content string }
			}
		}
		if err := json.Unmarshal(a.body, &v); err != nil || a.status != http.StatusOK || len(v.Choices) != 1 || v.Choices[0].Message.Content != "Here." {
			t.Errorf("%d %s, %v", a.status, a.body, a.err)
		}
	}
}

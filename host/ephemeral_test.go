package host_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// list are the ids of the caller's sessions.
func (c client) list(query string) (ids []string) {
	c.t.Helper()
	synctest.Wait() // for what works in the background
	var v struct{ Sessions []struct{ ID string } }
	w := c.raw(c.t.Context(), "GET", "/v1/sessions"+query, "")
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 {
		c.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	for _, s := range v.Sessions {
		ids = append(ids, s.ID)
	}
	return ids
}

// A conversation without a session is in no list, takes no room of the tenant's, and makes room
// for others when it is the oldest.
func TestEphemeralSessions(t *testing.T) {
	var runs atomic.Int64
	agents := []*stile.Agent{agentOf("echo", echo), agentOf("slow", counted{runs: &runs, take: time.Hour}), asksFirst(t, "asks", "")}
	cfg := host.Config{ChatSessions: 8, Limits: host.Limits{Sessions: 2}}
	bubble(t, cfg, agents, func(t *testing.T, c client) {
		say := func(model string, headers ...string) string {
			t.Helper()
			got := c.chat(0, chatBody(model, "hello"), headers...)
			return got.header.Get("X-Stile-Session")
		}
		waits := say("asks")
		var ids []string
		for range 20 {
			ids = append(ids, say("echo"))
			time.Sleep(time.Second)
		}
		if got := c.list(""); len(got) != 0 {
			t.Errorf("listed: %q", got)
		}
		if got := c.list("?order=id"); len(got) != 0 {
			t.Errorf("listed by id: %q", got)
		}
		there := c.list("?ephemeral=true")
		if n := len(there); n < 6 || n > 8 || !slices.Contains(there, waits) || there[0] != ids[19] || slices.Contains(there, ids[0]) {
			t.Errorf("%d are left: %q of %q", n, there, ids)
		}
		for i, id := range there[:len(there)-1] {
			if id != ids[19-i] {
				t.Errorf("the newest are not the ones that stayed: %q of %q", there, ids)
			}
		}
		// One that goes on is not the oldest any more.
		kept := there[len(there)-2]
		if got := c.chat(0, chatBody("echo", "again"), "X-Stile-Session", kept); got.text != "[user: hello][assistant: [user: hello]][user: again]" {
			t.Errorf("%+v", got)
		}
		for range 4 {
			say("echo")
			time.Sleep(time.Second)
		}
		if there = c.list("?ephemeral=true"); !slices.Contains(there, kept) || len(there) > 8 {
			t.Errorf("%q went before older ones: %q", kept, there)
		}
		if got := c.chat(0, chatBody("echo", "hello"), "X-Stile-Session", ids[0]); got.status != 404 || got.param != "X-Stile-Session" {
			t.Errorf("one that has gone: %+v", got)
		}
		// Named sessions are counted without them.
		for i, want := range []int{200, 200, 429} {
			if got := c.chat(0, chatBody("echo", "hello"), "X-Stile-Session", fmt.Sprint("n", i)); got.status != want {
				t.Errorf("the session %d: %+v", i, got)
			}
		}
		if got := c.list(""); len(got) != 2 {
			t.Errorf("%q", got)
		}
		if got := c.raw(t.Context(), "POST", "/v1/sessions", `{"agent": "echo", "id": "`+ids[0]+`"}`); got.Code != 400 || !strings.Contains(got.Body.String(), string(messages.ErrInvalid)) {
			t.Errorf("a name of that form: %d %s", got.Code, got.Body)
		}
	})
}

// What a client calls user is a person, unless the operator says otherwise.
func TestChatUser(t *testing.T) {
	body := strings.Replace(chatBody("echo", "hello"), "{", `{"user": "ada@example.com", `, 1)
	const twice = "[user: hello][assistant: [user: hello]][user: hello]"
	for session, want := range map[bool]string{false: "[user: hello]", true: twice} {
		bubble(t, host.Config{ChatUserSession: session}, []*stile.Agent{agentOf("echo", echo)}, func(t *testing.T, c client) {
			c.chat(0, body)
			got := c.chat(0, body)
			if id := got.header.Get("X-Stile-Session"); got.text != want || strings.Contains(id, "@") || (len(c.list("")) == 1) != session {
				t.Errorf("chat_user: session is %v: session %s, %+v", session, id, got)
			}
			for range 2 {
				got = c.chat(0, body, "X-Stile-Session", "own")
			}
			if got.text != twice || got.header.Get("X-Stile-Session") != "own" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What has said nothing for a day goes, but for what waits for a person.
func TestEphemeralRetention(t *testing.T) {
	for retention, left := range map[time.Duration]int{0: 2, 48 * time.Hour: 4, -1: 4} {
		agents := []*stile.Agent{agentOf("echo", echo), asksFirst(t, "asks", "")}
		agents[1].Manifest.Approval.Wait = 720 * time.Hour
		bubble(t, host.Config{ChatRetention: retention}, agents, func(t *testing.T, c client) {
			defer c.srv.Retain()()
			c.chat(0, chatBody("asks", "pay"))
			c.chat(0, chatBody("echo", "hello"), "X-Stile-Session", "named")
			c.chat(0, chatBody("echo", "hello"))
			c.chat(0, chatBody("echo", "hello"))
			time.Sleep(23 * time.Hour)
			if got := c.list("?ephemeral=true"); len(got) != 4 {
				t.Errorf("retention %v, before: %q", retention, got)
			}
			time.Sleep(3 * time.Hour)
			if got := c.list("?ephemeral=true"); len(got) != left || !slices.Contains(got, "named") {
				t.Errorf("retention %v: %q", retention, got)
			}
		})
	}
}

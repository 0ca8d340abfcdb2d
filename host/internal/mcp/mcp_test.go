package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	listing    = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

func all(string) bool { return true }

// flooded is a door whose callers say in headers who they are.
type flooded struct {
	*Door
	t *testing.T
}

func newFlooded(t *testing.T) *flooded {
	t.Helper()
	f := &flooded{t: t, Door: New(Config{
		Agents: func() []Agent { return []Agent{{Name: "echo"}} }, Version: "1",
		Caller: func(r *http.Request) Caller {
			tenant, user := r.Header.Get("Tenant"), r.Header.Get("User")
			return Caller{Key: tenant + ":" + user, Tenant: tenant, May: all, Ask: func(context.Context, Call) (Answer, error) { return Answer{}, nil }}
		},
		Full: func(w http.ResponseWriter, _ *http.Request, what string) {
			http.Error(w, what, http.StatusTooManyRequests)
		},
	})}
	t.Cleanup(f.Close)
	return f
}

// ask makes a request; session is that of the protocol, or "".
func (f *flooded) ask(method, tenant, user, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(f.t.Context(), method, "/mcp", strings.NewReader(body))
	for name, v := range map[string]string{"Tenant": tenant, "User": user, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", SessionHeader: session} {
		if v != "" {
			r.Header.Set(name, v)
		}
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// begin begins a session and gives its id, or what has none left.
func (f *flooded) begin(tenant, user string) (session, over string) {
	f.t.Helper()
	w := f.ask("POST", tenant, user, "", initialize)
	switch w.Code {
	case http.StatusOK:
		return w.Header().Get(SessionHeader), ""
	case http.StatusTooManyRequests:
		return "", strings.TrimSpace(w.Body.String())
	}
	f.t.Fatalf("%d %s", w.Code, w.Body)
	return "", ""
}

// fill stands for sessions that a tenant has begun under ever new users; some share one,
// because a server of the SDK takes its time to make.
func (f *flooded) fill(tenant string, n int) (over string) {
	for i := range n {
		if _, over = f.Door.begin(Caller{Key: fmt.Sprint(tenant, ":", i/200), Tenant: tenant, May: all}); over != "" {
			return over
		}
	}
	return ""
}

// A tenant whose token names ever new users does not get more sessions for it, and leaves
// others theirs.
func TestSessionsOfATenant(t *testing.T) {
	f := newFlooded(t)
	ann, over := f.begin("acme", "ann")
	if over != "" {
		t.Fatal(over)
	}
	if over := f.fill("evil", 6000); over != OverTenant || f.tenants["evil"] != maxSessions/(fairness+1) {
		t.Errorf("%q after %d", over, f.tenants["evil"])
	}
	if _, over := f.begin("evil", "another"); over != OverTenant {
		t.Errorf("%q", over)
	}
	for i := range 20 {
		f.fill(fmt.Sprint("greedy", i), 6000)
	}
	if free := maxSessions - f.sessions; free < 20 {
		t.Errorf("%d left when 21 tenants took what they could", free)
	}
	if _, over := f.begin("new", "zoe"); over != "" {
		t.Errorf("a tenant that has none: %s", over)
	}
	if _, over := f.begin("acme", "ann"); over != "" {
		t.Errorf("a tenant with one: %s", over)
	}
	if w := f.ask("POST", "acme", "ann", ann, listing); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "echo") {
		t.Errorf("what is open goes on: %d %s", w.Code, w.Body)
	}
	for range maxOfCaller - 2 {
		if _, over := f.Door.begin(Caller{Key: "acme:ann", Tenant: "acme", May: all}); over != "" {
			break // the tenant's share may be smaller by now
		}
	}
	if _, over := f.begin("acme", "ann"); over == "" {
		t.Error("a caller has no bound")
	}
}

// The room of a session comes back when its client ends it, when nobody asks for half an
// hour, and when it never began.
func TestSessionsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded(t)
		open := func(want int) {
			t.Helper()
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.sessions != want || f.tenants["acme"] != want || (len(f.callers) == 0) != (want == 0) {
				t.Errorf("%d sessions of %v; want %d", f.sessions, f.tenants, want)
			}
		}
		for _, never := range []string{"", "no JSON", listing, `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
			f.ask("POST", "acme", "ann", "", never)
			open(0)
		}
		first, _ := f.begin("acme", "ann")
		second, _ := f.begin("acme", "ann")
		open(2)
		if w := f.ask("DELETE", "acme", "ann", first, ""); w.Code != http.StatusNoContent {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		open(1)
		f.ask("DELETE", "acme", "ann", first, "")
		f.ask("DELETE", "evil", "eve", second, "")
		open(1)
		time.Sleep(idle + time.Second)
		open(0)
		if w := f.ask("POST", "acme", "ann", second, listing); w.Code != http.StatusNotFound {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		f.begin("acme", "ann")
		f.Close()
		open(0)
		if _, over := f.begin("acme", "ann"); over != OverHost {
			t.Errorf("%q after the end", over)
		}
	})
}

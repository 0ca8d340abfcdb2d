package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile/internal/publicnet"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func secretOf(text string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(text, 24)[:24]))
}

func event(id, tenant string) Event {
	return Event{ID: id, Type: RunEnded, Tenant: tenant, At: time.Now(), Body: `{"type":"run.ended","data":{"of":"` + id + `"}}`}
}

// run runs a sender until the returned function is called.
func run(t *testing.T, s *Sender) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// The published example of the convention.
func TestPublishedSignature(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	if got := sign([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), `{"test": 2432232314}`); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
}

// What arrives at a server verifies by the convention's own library under each of the secrets, and not
// under another one.
func TestDelivery(t *testing.T) {
	type request struct {
		body   []byte
		header http.Header
	}
	got := make(chan request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- request{b, r.Header.Clone()}
	}))
	defer server.Close()
	s, err := New(Options{Agent: "stile/test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set([]Hook{{Name: "ci", URL: server.URL + "/x", Networks: []string{"127.0.0.1"}, Secrets: []string{secretOf("old"), secretOf("new")}}}); err != nil {
		t.Fatal(err)
	}
	end := run(t, s)
	e := event("msg_1", "acme")
	s.Offer(e)
	r := <-got
	if end(); len(s.done) > 0 {
		t.Errorf("a sender without a file keeps what it has delivered: %v", s.done)
	}
	if string(r.body) != e.Body || r.header.Get("Webhook-Id") != "msg_1" || r.header.Get("Content-Type") != "application/json" || r.header.Get("User-Agent") != "stile/test" {
		t.Errorf("%s %v", r.body, r.header)
	}
	for secret, good := range map[string]bool{secretOf("old"): true, secretOf("new"): true, secretOf("other"): false} {
		v, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(r.body, r.header); (err == nil) != good {
			t.Errorf("under %s: %v", secret, err)
		}
		if err := v.Verify(append(bytes.Clone(r.body), ' '), r.header); err == nil {
			t.Error("a changed body verifies")
		}
	}
}

// An address that is not listed is not asked, whatever its name is; a redirect is not followed; what a log
// and a dead letter say has neither secret nor URL.
func TestWhereNotTo(t *testing.T) {
	asked := make(chan string, 8)
	target := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer target.Close()
	redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+"/redirected", http.StatusTemporaryRedirect)
	}))
	defer redirects.Close()
	core, logs := observer.New(zap.DebugLevel)
	failed := make(chan string, 8)
	s, err := New(Options{Log: zap.New(core), Count: func(hook, outcome string) { failed <- hook + " " + outcome }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set([]Hook{
		{Name: "private", URL: strings.Replace(target.URL, "127.0.0.1", "localhost", 1) + "/secret-path", Secrets: []string{secretOf("a")}},
		{Name: "redirects", URL: redirects.URL + "/secret-path", Networks: []string{"127.0.0.0/8"}, Secrets: []string{secretOf("a")}},
		{Name: "elsewhere", URL: redirects.URL, Networks: []string{"10.0.0.0/8"}, Secrets: []string{secretOf("a")}},
	}); err != nil {
		t.Fatal(err)
	}
	end := run(t, s)
	s.Offer(event("msg_1", "acme"))
	for range 3 {
		if got := <-failed; !strings.HasSuffix(got, Failed) {
			t.Error(got)
		}
	}
	end()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, want := range map[string]string{"private": publicnet.ErrPrivate.Error(), "redirects": "the endpoint answered 307", "elsewhere": publicnet.ErrPrivate.Error()} {
		if l := s.hooks[name].tenants["acme"].letters[0]; !strings.Contains(l.Error, want) || strings.Contains(l.Error, "secret-path") {
			t.Errorf("%s: %s", name, l.Error)
		}
	}
	if len(asked) > 0 {
		t.Errorf("%s was asked", <-asked)
	}
	for _, l := range logs.All() {
		if strings.Contains(l.Message, "secret-path") || strings.Contains(l.Message, "whsec") {
			t.Error(l.Message)
		}
	}
}

// answers is a transport that says what it is told to.
type answers struct {
	mu    sync.Mutex
	at    []time.Time
	ids   []string
	reply func(n int, r *http.Request) (*http.Response, error)
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.at, a.ids = append(a.at, time.Now()), append(a.ids, r.Header.Get("Webhook-Id"))
	n := len(a.at)
	a.mu.Unlock()
	return a.reply(n, r)
}

func status(code int, headers ...string) *http.Response {
	res := &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}
	for i := 0; i < len(headers); i += 2 {
		res.Header.Set(headers[i], headers[i+1])
	}
	return res
}

// sender makes a sender with one hook behind a transport.
func sender(t *testing.T, a *answers, o Options) *Sender {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.client = func(*endpoint) *http.Client { return &http.Client{Transport: a} }
	if err := s.Set([]Hook{{Name: "ci", URL: "https://hooks.example.com", Secrets: []string{secretOf("a")}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Attempts come after the pauses of the convention, each by a fifth sooner or later; then the letter is
// dead. It can be sent again.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		a := &answers{reply: func(int, *http.Request) (*http.Response, error) {
			if down {
				return nil, errors.New("refused")
			}
			return status(204), nil
		}}
		s := sender(t, a, Options{})
		end := run(t, s)
		s.Offer(event("msg_1", "acme"))
		time.Sleep(72 * time.Hour)
		synctest.Wait()
		if len(a.at) != len(pauses)+1 {
			t.Fatalf("%d attempts", len(a.at))
		}
		jittered := false
		for i, p := range pauses {
			d := a.at[i+1].Sub(a.at[i])
			if d < p*8/10-time.Second || d > p*12/10+time.Second {
				t.Errorf("pause %d is %v, want about %v", i, d, p)
			}
			jittered = jittered || d != p
		}
		if !jittered {
			t.Error("the pauses have no jitter")
		}
		dead, err := s.Dead("acme", "", 10)
		if err != nil || len(dead) != 1 || dead[0].Attempts != len(pauses)+1 || dead[0].Error != "refused" || dead[0].ID != "ci.msg_1" {
			t.Fatalf("%+v %v", dead, err)
		}
		if other, err := s.Dead("evil", "", 10); err != nil || len(other) != 0 {
			t.Errorf("another tenant sees %v, %v", other, err)
		}
		if err := s.Retry("evil", dead[0].ID); messages.CodeOf(err) != messages.ErrNotFound {
			t.Errorf("another tenant sends it again: %v", err)
		}
		s.Offer(event("msg_1", "acme")) // from the journal, after a restart: it stays dead
		synctest.Wait()
		down = false
		if err := s.Retry("acme", dead[0].ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(a.at); n != len(pauses)+2 || s.Status("acme")[0].Waiting != 0 || s.Status("acme")[0].Dead != 0 {
			t.Errorf("%d attempts, %+v", n, s.Status("acme"))
		}
		end()
	})
}

// An endpoint's Retry-After is heeded, within bounds; 410 ends at once.
func TestWhatEndpointsAskFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{reply: func(n int, _ *http.Request) (*http.Response, error) {
			switch n {
			case 1:
				return status(503, "Retry-After", "3600"), nil
			case 2:
				return status(429, "Retry-After", time.Now().Add(100*time.Hour).UTC().Format(http.TimeFormat)), nil
			}
			return status(410), nil
		}}
		s := sender(t, a, Options{})
		end := run(t, s)
		s.Offer(event("msg_1", "acme"))
		time.Sleep(72 * time.Hour)
		synctest.Wait()
		if len(a.at) != 3 || a.at[1].Sub(a.at[0]) != time.Hour || a.at[2].Sub(a.at[1]) != maxPause {
			t.Errorf("%v", a.at)
		}
		if dead, err := s.Dead("acme", "", 1); err != nil || len(dead) != 1 || dead[0].Error != "the endpoint answered 410" {
			t.Errorf("%v %v", dead, err)
		}
		if err := s.Drop("acme", "ci.msg_1"); err != nil || messages.CodeOf(s.Drop("acme", "ci.msg_1")) != messages.ErrNotFound {
			t.Error(err)
		}
		end()
	})
}

// The file has a delivered event only as long as a restart might offer it again.
func TestDeliveredEventsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{reply: func(int, *http.Request) (*http.Response, error) { return status(200), nil }}
		s := sender(t, a, Options{Path: filepath.Join(t.TempDir(), "webhooks.json")})
		end := run(t, s)
		for _, id := range []string{"msg_1", "msg_2", "msg_3"} {
			s.Offer(event(id, "acme"))
			time.Sleep(lag + time.Minute)
		}
		end()
		if len(a.at) != 3 || len(s.done) > 1 {
			t.Errorf("%d were sent, and it keeps %v", len(a.at), s.done)
		}
	})
}

// A large file is not written each time that something has changed, but no more than a mebibyte a second.
func TestLargeStateIsWrittenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{reply: func(int, *http.Request) (*http.Response, error) { return status(500), nil }}
		path := filepath.Join(t.TempDir(), "webhooks.json")
		s := sender(t, a, Options{Path: path})
		for i := range 20 { // all are there when the file is written first
			e := event("msg_"+strconv.Itoa(i), "acme")
			e.Body = strings.Repeat("x", 1<<20)
			s.Offer(e)
		}
		end := run(t, s)
		defer end()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		waiting, dead, err := Left(path)
		if err != nil || waiting["ci"] != 20 || len(dead) != 0 {
			t.Fatal(waiting, dead, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			s.Offer(event("msg_more", "acme"))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if _, err := os.Stat(path); err == nil {
			t.Error("20 MiB were written again within ten seconds")
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if waiting, _, err := Left(path); err != nil || waiting["ci"] != 21 {
			t.Error(waiting, err)
		}
	})
}

// What a file says can be asked without a sender, and a name is judged by what it is resolved to.
func TestLook(t *testing.T) {
	if waiting, dead, err := Left(filepath.Join(t.TempDir(), "none")); err != nil || len(waiting)+len(dead) != 0 {
		t.Error(waiting, dead, err)
	}
	path := filepath.Join(t.TempDir(), "webhooks.json")
	if err := os.WriteFile(path, []byte(`{"format": 1, "dead": [{"hook": "desk"}, {"hook": "desk"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if waiting, dead, err := Left(path); err != nil || len(waiting) != 0 || dead["desk"] != 2 {
		t.Error(waiting, dead, err)
	}
	for url, networks := range map[string][]string{"https://127.0.0.1/x": nil, "https://[::1]:8443/": nil, "https://10.1.2.3/": {"127.0.0.0/8"}, "https://1.1.1.1/": {"!"}} {
		if err := Reach(t.Context(), Hook{Name: "desk", URL: url, Networks: networks, Secrets: []string{secretOf("s")}}); err == nil {
			t.Errorf("%s is asked", url)
		}
	}
	for url, networks := range map[string][]string{"https://1.1.1.1/": nil, "http://127.0.0.1:8080/x": {"127.0.0.1"}} {
		if err := Reach(t.Context(), Hook{Name: "desk", URL: url, Networks: networks, Secrets: []string{secretOf("s")}}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// What waits and what is dead is kept over a restart, what was delivered is not sent again, and what a file
// does not know is offered again from where it ends.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "webhooks.json")
		a := &answers{reply: func(_ int, r *http.Request) (*http.Response, error) {
			switch r.Header.Get("Webhook-Id") {
			case "msg_gone":
				return status(410), nil
			case "msg_down":
				return status(500), nil
			}
			return status(200), nil
		}}
		s := sender(t, a, Options{Path: path})
		begun := time.Now()
		if !s.Until().IsZero() {
			t.Error("a new one has to catch up")
		}
		end := run(t, s)
		good, gone, down := event("msg_good", "acme"), event("msg_gone", "acme"), event("msg_down", "acme")
		for _, e := range []Event{good, gone, down} {
			s.Offer(e)
		}
		time.Sleep(time.Second)
		end()
		s = sender(t, a, Options{Path: path})
		if u := s.Until(); u.IsZero() || u.After(begun) {
			t.Errorf("it has to catch up from %v on, begun %v", u, begun)
		}
		late := Event{ID: "msg_late", Type: RunEnded, Tenant: "acme", At: begun.Add(time.Millisecond), Body: "{}"}
		early := Event{ID: "msg_early", Type: RunEnded, Tenant: "acme", At: begun.Add(-time.Hour), Body: "{}"}
		for _, e := range []Event{good, gone, down, late, early} {
			s.Offer(e)
		}
		a.reply = func(int, *http.Request) (*http.Response, error) { return status(200), nil }
		end = run(t, s)
		time.Sleep(time.Minute)
		end()
		if got := strings.Join(a.ids, " "); strings.Count(got, "msg_good") != 1 || strings.Count(got, "msg_gone") != 1 || strings.Count(got, "msg_down") != 2 || strings.Count(got, "msg_late") != 1 || strings.Contains(got, "msg_early") {
			t.Error(got)
		}
		if s.Until().After(begun) {
			t.Error("it moved on before all was offered")
		}
		if dead, err := s.Dead("acme", "", 10); err != nil || len(dead) != 1 || dead[0].Event.ID != "msg_gone" {
			t.Errorf("%v %v", dead, err)
		}
		s.CaughtUp()
		time.Sleep(time.Hour)
		s.save(true)
		s = sender(t, a, Options{Path: path})
		if u := s.Until(); !u.After(begun) {
			t.Errorf("it catches up from %v on", u)
		}
	})
}

// A tenant's flood is bounded, and holds up no other tenant.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{}
		a.reply = func(int, *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return status(200), nil
		}
		s := sender(t, a, Options{})
		for i := range MaxWaiting + MaxDead + 5 {
			s.Offer(event("msg_"+strconv.Itoa(i), "flood"))
		}
		s.Offer(event("msg_quiet", "quiet"))
		if n := s.Status("flood")[0]; n.Waiting != MaxWaiting || n.Dead != MaxDead {
			t.Errorf("%+v", n)
		}
		end := run(t, s)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := strings.Join(a.ids[:8], " "); !strings.Contains(got, "msg_quiet") {
			t.Errorf("first were sent %s", got)
		}
		end()
	})
}

// Events that are not told are not sent, and a hook is told of its tenants and types alone. What waits for
// a hook that is taken out is dead.
func TestWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{reply: func(int, *http.Request) (*http.Response, error) { return status(500), nil }}
		s := sender(t, a, Options{Wanted: func(_ context.Context, e *Event) (bool, error) { return e.ID != "msg_child", nil }})
		some := Hook{Name: "some", URL: "https://b.example.com", Events: []string{ApprovalWaiting}, Tenants: []string{"acme"}, Secrets: []string{secretOf("b")}}
		if err := s.Set([]Hook{s.hooks["ci"].Hook, some}); err != nil {
			t.Fatal(err)
		}
		end := run(t, s)
		s.Offer(event("msg_child", "acme"))
		s.Offer(event("msg_run", "acme"))
		asks := event("msg_ask", "acme")
		asks.Type = ApprovalWaiting
		s.Offer(asks)
		asks.ID, asks.Tenant = "msg_other", "other"
		s.Offer(asks)
		synctest.Wait()
		if got := s.Status("acme"); len(got) != 2 || got[0].Waiting != 2 || got[1].Waiting != 1 || got[1].Origin != "https://b.example.com" || strings.Join(a.ids, " ") == "" || strings.Contains(strings.Join(a.ids, " "), "child") {
			t.Errorf("%+v %v", got, a.ids)
		}
		if got := s.Status("other"); len(got) != 1 || got[0].Waiting != 1 {
			t.Errorf("%+v", got)
		}
		if err := s.Set([]Hook{some}); err != nil {
			t.Fatal(err)
		}
		if dead, err := s.Dead("acme", "", 10); err != nil || len(dead) != 2 {
			t.Errorf("%v %v", dead, err)
		} else if err := s.Retry("acme", dead[0].ID); messages.CodeOf(err) != messages.ErrConflict {
			t.Error(err)
		}
		end()
	})
}

func TestCheck(t *testing.T) {
	good := func(change func(*Hook)) []Hook {
		h := Hook{Name: "ci", URL: "https://hooks.example.com/x?y=z", Secrets: []string{secretOf("a")}}
		change(&h)
		return []Hook{h}
	}
	for name, c := range map[string]struct {
		change func(*Hook)
		field  string
	}{
		"good":            {func(*Hook) {}, ""},
		"listed":          {func(h *Hook) { h.URL, h.Networks = "http://10.1.2.3:80", []string{"10.0.0.0/8", "::1"} }, ""},
		"no name":         {func(h *Hook) { h.Name = "" }, "webhooks."},
		"name":            {func(h *Hook) { h.Name = "A b" }, "webhooks.A b"},
		"plain":           {func(h *Hook) { h.URL = "http://hooks.example.com" }, "webhooks.ci.url"},
		"scheme":          {func(h *Hook) { h.URL = "file:///etc/passwd" }, "webhooks.ci.url"},
		"password in URL": {func(h *Hook) { h.URL = "https://a:hunter2@hooks.example.com" }, "webhooks.ci.url"},
		"network":         {func(h *Hook) { h.Networks = []string{"ten"} }, "webhooks.ci.networks"},
		"event":           {func(h *Hook) { h.Events = []string{"run.begun"} }, "webhooks.ci.events"},
		"no secret":       {func(h *Hook) { h.Secrets = nil }, "webhooks.ci.secret"},
		"short secret":    {func(h *Hook) { h.Secrets = []string{"whsec_aHVudGVyMg=="} }, "webhooks.ci.secret"},
		"prefix":          {func(h *Hook) { h.Secrets = []string{strings.TrimPrefix(secretOf("a"), "whsec_")} }, "webhooks.ci.secret"},
	} {
		err := Check(good(c.change))
		e := (*messages.Error)(nil)
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVudGVy") || strings.Contains(err.Error(), "YWFhYW")) {
			t.Errorf("%s tells a secret: %v", name, err)
		}
	}
	if err := Check(append(good(func(*Hook) {}), good(func(*Hook) {})...)); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("twice: %v", err)
	}
}

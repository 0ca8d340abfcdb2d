package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Each host is restarted once, in order, under load. Every request succeeds at its first attempt,
// and every stream is one connection: but where its own host stops, which says so.
func TestRollingRestart(t *testing.T) {
	if f := launch(t, 1, time.Second, 3, *campaignLogs); f != nil {
		f.rolls(t)
	}
}

// The same through HAProxy, with the settings that deploy has for it.
func TestRollingRestartBehindHAProxy(t *testing.T) {
	if _, err := exec.LookPath(haproxy); err != nil {
		if os.Getenv(requireHAProxy) == "1" {
			t.Fatal(err)
		}
		t.Skip("there is no " + haproxy)
	}
	f := launch(t, 1, time.Second, 3, *campaignLogs)
	if f == nil {
		return
	}
	f.behind(t, "../../deploy/haproxy.cfg")
	f.rolls(t)
}

// A load balancer of others, and what has tests fail that do not find it.
const (
	haproxy        = "haproxy"
	requireHAProxy = "STILE_REQUIRE_HAPROXY"
)

// behind puts HAProxy in front of the hosts, for which the settings have the names a, b and c.
func (f *fleet) behind(t *testing.T, settings string) {
	t.Helper()
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	here := []string{"bind :8471", "bind fd@3"}
	for _, b := range f.berths {
		door := newRelay(t, func() (net.Conn, error) {
			if p := b.running(); p != nil {
				return net.Dial("tcp", p.public)
			}
			return nil, errors.New("the host is down")
		})
		here = append(here, fmt.Sprintf("server %s %s:8471", b.name, b.name), fmt.Sprintf("server %s %s", b.name, door.address()))
	}
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(config, []byte(strings.NewReplacer(here...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(f.logs, "haproxy.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(f.ctx, haproxy, "-db", "-f", config)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{file}, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.work.Go(func() { _ = cmd.Wait() })
	f.through = l.Addr().String()
	for a := f.request(http.MethodGet, "/readyz", "", ""); a.status != http.StatusOK; a = f.request(http.MethodGet, "/readyz", "", "") {
		if f.ctx.Err() != nil {
			t.Fatal(a)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// rolls restarts the hosts.
func (f *fleet) rolls(t *testing.T) {
	t.Helper()
	for _, b := range f.berths {
		for b.ready() != http.StatusOK {
			time.Sleep(20 * time.Millisecond)
		}
	}
	c := &campaign{fleet: f, seed: 1, counts: map[string]int{}, faults: map[string]int{}}
	var stops sync.Map // names of lives that were told to stop
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() { c.user(i, &stops) })
	}
	for _, b := range f.berths {
		stops.Store(b.running().name, true)
		b.stopped(nil)
		for p := b.running(); p != nil && b.ready() != http.StatusOK; {
			time.Sleep(20 * time.Millisecond)
		}
	}
	c.over.Store(true)
	clients.Wait()
	t.Logf("%v", c.counts)
	if c.counts["stream: "+streamWhole] == 0 {
		t.Error("no stream was followed to its end")
	}
	for _, p := range f.witness.problems {
		t.Error(p)
	}
	if t.Failed() {
		c.logTails(t)
	}
}

// user begins sessions, submits and follows, and forgives nothing.
func (c *campaign) user(n int, stops *sync.Map) {
	for i := 0; !c.over.Load() && c.ctx.Err() == nil; i++ {
		l := &testSession{id: fmt.Sprintf("u%d-%d", n, i/4), agent: "talker"}
		if i%4 == 0 && !c.once(http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"agent":"talker","id":%q}`, l.id), nil) {
			return
		}
		var v struct {
			Run      int64
			Position string
		}
		if !c.once(http.MethodPost, "/v1/sessions/"+l.id+"/runs", `{"input":"say something"}`, &v) || !c.once(http.MethodGet, "/v1/sessions/"+l.id, "", nil) {
			return
		}
		e := &ear{l: l, run: v.Run, last: v.Position, units: map[string]string{}}
		for !e.ended && c.ctx.Err() == nil {
			how, from := c.hearSome(e, 1<<20)
			c.count("stream: " + how)
			host, _ := c.routes.Load(from)
			_, stopping := stops.Load(host)
			stopping = stopping || c.through != "" // whose connections do not say which host has them
			if how != streamWhole && (how != streamLeaving || !stopping) {
				c.witness.fault("the stream of run %d of %s at %v ends %s; %v", e.run, l.id, host, how, e.hurt)
				return
			}
		}
	}
}

// once makes a request, which has to succeed.
func (c *campaign) once(method, path, body string, into any) bool {
	a := c.request(method, path, body, "")
	if a.err != nil || a.status >= 300 || into != nil && json.Unmarshal(a.body, into) != nil {
		c.witness.fault("%s %s: %v", method, path, a)
		return false
	}
	c.count("requests")
	return true
}

// A host that is told to stop goes on answering, by the others, when /readyz has begun to fail: a
// balancer takes its time to notice. Its answers end their connections.
func TestStoppingHostAnswers(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	w.start("a")
	stopping := w.start("b")
	w.ask("b", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"amy"}`, http.StatusCreated)
	if err := stopping.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for got := w.raw("b", http.MethodGet, "/readyz", ""); got.status != http.StatusServiceUnavailable; got = w.raw("b", http.MethodGet, "/readyz", "") {
		if got.err != nil {
			t.Fatalf("it closes before it says that it is not ready: %v", got.err)
		}
	}
	w.ask("b", http.MethodGet, "/v1/sessions/amy", "", http.StatusOK)
	w.ask("b", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"ben"}`, http.StatusCreated)
	resp, err := http.Get("http://" + stopping.public + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); !resp.Close {
		t.Error("its answer does not end the connection")
	}
	<-stopping.ended
	w.ask("a", http.MethodGet, "/v1/sessions/ben", "", http.StatusOK)
}

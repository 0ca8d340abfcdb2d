package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// frame is a message of a socket.
type frame struct {
	Event, ID string
	Data      map[string]any
}

func dial(ctx context.Context, url string, opts *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	return websocket.Dial(ctx, "ws"+strings.TrimPrefix(url, "http"), opts)
}

// readFrame reads the next event, heartbeats apart.
func readFrame(ctx context.Context, t *testing.T, c *websocket.Conn) (frame, error) {
	t.Helper()
	for {
		kind, b, err := c.Read(ctx)
		if err != nil {
			return frame{}, err
		}
		var f frame
		if err := json.Unmarshal(b, &f); err != nil || kind != websocket.MessageText || f.Event == "" {
			t.Fatalf("%q: %v", b, err)
		}
		if f.Event != "heartbeat" {
			return f, nil
		}
	}
}

// cutConn fails after so many bytes from the host.
type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// A socket that is cut at any byte, again and again, and resumed behind the last whole
// message, gives what an uncut stream gives.
func TestSocketResumesAtAnyByte(t *testing.T) {
	cuts := 0
	resumed(t, 8, func(c *talk) {
		left := 200 + c.rnd.IntN(4000)
		transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &cutConn{conn, left}, err
		}}
		defer transport.CloseIdleConnections()
		conn, _, err := dial(t.Context(), c.url+c.path+"/runs/1/events?after="+c.last, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
		if err != nil {
			return // cut in the handshake
		}
		defer conn.CloseNow()
		for !c.over {
			c.speak(1)
			f, err := readFrame(t.Context(), t, conn)
			if err != nil {
				cuts++
				return
			}
			c.take(event{f.Event, f.ID, f.Data})
		}
	})
	if cuts < 8 {
		t.Errorf("%d cuts", cuts)
	}
}

// A run's socket is closed at its end, also for who has seen all; a session's when the
// host stops, with a word.
func TestSocketEnds(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, always())))
	d.session("s", "talker")
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "go"}`)
	last := ""
	for range 2 {
		conn, _, err := dial(t.Context(), d.url+"/v1/sessions/s/runs/1/events?after="+last, nil)
		if err != nil {
			t.Fatal(err)
		}
		for {
			f, err := readFrame(t.Context(), t, conn)
			if err != nil {
				if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
					t.Errorf("the socket ended with %v", err)
				}
				break
			}
			if last != "" && f.ID == last {
				t.Errorf("%+v came again", f)
			}
			last = f.ID
		}
	}
	conn, _, err := dial(t.Context(), d.url+"/v1/sessions/s/events?stream=event", nil)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := readFrame(t.Context(), t, conn); err != nil || f.Event != "session.opened" || f.ID != "1" {
		t.Errorf("%+v, %v", f, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.stop() }()
	for f := (frame{}); ; {
		next, err := readFrame(t.Context(), t, conn)
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusGoingAway || f.Event != "leaving" {
				t.Errorf("after %+v: %v", f, err)
			}
			break
		}
		f = next
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Who may not, and what is no handshake, is refused before a socket is there; a client
// that talks is cut.
func TestSocketRefuses(t *testing.T) {
	keys := newTokens(t)
	good, id := keys.make("acme", "ann", "read", "submit")
	d := serve(t, host.Config{Access: keys, MaxStreams: 1}, agentOf("talker", speaks(nil, always())))
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(good)...)
	path := d.url + "/v1/sessions/s/events"
	_, res, err := dial(t.Context(), path, nil)
	if err == nil || res.StatusCode != 401 {
		t.Errorf("without a token: %v", err)
	}
	_, res, err = dial(t.Context(), path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + good}, "Origin": {"https://evil.example"}}})
	if err == nil || res.StatusCode != 403 {
		t.Errorf("from another origin: %v", err)
	}
	_, res, err = dial(t.Context(), path+"?after=1.2", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + good}}})
	if err == nil || res.StatusCode != 400 {
		t.Errorf("behind no place: %v", err)
	}
	for field, headers := range map[string][]string{
		"Connection":            {},
		"Sec-WebSocket-Version": {"Connection", "Upgrade", "Sec-WebSocket-Version", "8"},
		"Sec-WebSocket-Key":     {"Connection", "Upgrade", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "short"},
	} {
		if p := d.refused(400, messages.ErrInvalid, "GET", "/v1/sessions/s/events", "", auth(good, append(headers, "Upgrade", "websocket")...)...); p.Field != field {
			t.Errorf("%s: %+v", field, p)
		}
	}
	// A browser can send a token nowhere else.
	opts := &websocket.DialOptions{Subprotocols: []string{"stile.v1", "stile.bearer." + good}}
	conn, res, err := dial(t.Context(), path, opts)
	if err != nil || conn.Subprotocol() != "stile.v1" {
		t.Fatalf("%v, %v", res, err)
	}
	if _, res, err := dial(t.Context(), path, opts); err == nil || res.StatusCode != 503 {
		t.Errorf("one too many: %v", err)
	}
	if err := conn.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := readFrame(t.Context(), t, conn); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Errorf("a client that talks: %v", err)
			}
			break
		}
	}
	if _, _, err := keys.Revoke(access.Revocation{ID: id}); err != nil {
		t.Fatal(err)
	}
	if _, res, err := dial(t.Context(), path, opts); err == nil || res.StatusCode != 401 {
		t.Errorf("with a revoked token: %v", err)
	}
	if errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A client that talks while an event is on its way to it gets the event, and learns why it
// is cut.
func TestSocketRefusesWhileItWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		d := serveOn(t, l, host.Config{}, agentOf("talker", speaks(nil, always())))
		if _, err := d.rt.Open(t.Context(), "s", agentOf("talker", speaks(nil, always()))); err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }}
		defer transport.CloseIdleConnections()
		conn, _, err := dial(t.Context(), "http://localhost/v1/sessions/s/events", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		synctest.Wait() // the host writes, and nobody reads
		if err := conn.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it has heard that
		if f, err := readFrame(t.Context(), t, conn); err != nil || f.Event != "session.opened" {
			t.Errorf("%+v, %v", f, err)
		}
		for err == nil {
			_, err = readFrame(t.Context(), t, conn)
		}
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("the socket ended with %v", err)
		}
	})
}

func TestFeedsOverHTTP(t *testing.T) {
	agent := agentOf("talker", speaks(nil, always()))
	d := serve(t, host.Config{}, agent, fed(t))
	var list struct {
		Feeds []struct {
			ID, Trigger, Source, Value, Reason string
			IntervalMS                         int64 `json:"interval_ms"`
			Stale                              bool
		}
	}
	d.session("none", "talker")
	if d.call(200, &list, "GET", "/v1/sessions/none/feeds", ""); list.Feeds == nil || len(list.Feeds) != 0 {
		t.Errorf("%+v", list)
	}
	d.session("fed", "fed")
	if d.call(200, &list, "GET", "/v1/sessions/fed/feeds", ""); len(list.Feeds) != 2 {
		t.Fatalf("%+v", list)
	}
	events(t, d.ask("POST", "/v1/sessions/fed/runs?stream=event", `{"input":"hi"}`).Body, 100)
	d.call(200, &list, "GET", "/v1/sessions/fed/feeds", "")
	if f := list.Feeds[1]; f.ID != "repo" || f.Reason != `"nope.txt" cannot be opened: no such file` || !f.Stale {
		t.Errorf("%+v", f)
	}
	if f := list.Feeds[0]; f.ID != "clock" || f.Trigger != "periodic" || f.IntervalMS != 60000 || !strings.Contains(f.Source, "system_clock") {
		t.Errorf("%+v", f)
	}
	d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/nobody/feeds", "")
}

// fed is an agent with a feed.
func fed(t *testing.T) *stile.Agent {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"fed.yaml":  "name: fed\ndialect: cortex\nmodel: {script: fed.jsonl}\ncontext_feeds:\n  - {id: clock, type: periodic, interval: 60, source: {type: internal, action: system_clock}}\n  - {id: repo, source: {type: ingest, params: {paths: [nope.txt]}}}\n",
		"fed.jsonl": `{"chunks":[{"text":"hello"}]}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, err := stile.LoadAgent(filepath.Join(dir, "fed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

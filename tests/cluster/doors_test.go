package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/lease"
)

// What waits for a person is seen and answered at any host; so is what a session is fed with.
func approvals(t *testing.T, w *world) {
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"buyer","id":"gil"}`, http.StatusCreated)
	followed := w.follow("c", http.MethodPost, "/v1/sessions/gil/runs?stream=event", `{"input":"buy it"}`, "")
	w.speaks("a", `<execute>[{"name":"shop.pay","args":{"what":"a book"}}]</execute>`)
	w.next(followed, "turn.suspended")
	var inbox struct {
		Approvals []struct{ ID, Session, Name, Digest string }
	}
	got := w.raw("b", http.MethodGet, "/v1/approvals", "")
	if err := json.Unmarshal(got.body, &inbox); err != nil || len(inbox.Approvals) != 1 || inbox.Approvals[0].Name != "shop.pay" {
		t.Fatalf("%d %s, %v", got.status, got.body, got.err)
	}
	got = w.raw("c", http.MethodGet, "/v1/sessions/gil/approvals", "")
	if id := inbox.Approvals[0].ID; id == "" || !strings.Contains(string(got.body), id) {
		t.Fatalf("the inbox has %s, the session %s", id, got.body)
	}
	if v := w.ask("b", http.MethodGet, "/v1/sessions/gil", "", http.StatusOK); v["state"] != "suspended" {
		t.Errorf("%v", v)
	}
	feeds := w.ask("b", http.MethodGet, "/v1/sessions/gil/feeds", "", http.StatusOK)["feeds"].([]any)
	if len(feeds) != 1 || feeds[0].(map[string]any)["id"] != "now" {
		t.Errorf("%v", feeds)
	}
	w.ask("b", http.MethodPost, "/v1/sessions/gil/approvals/"+inbox.Approvals[0].ID, fmt.Sprintf(`{"allow":true,"digest":%q}`, inbox.Approvals[0].Digest), http.StatusNoContent)
	w.speaks("a", "Bought.")
	if before, _ := w.next(followed, "run.end"); !slices.ContainsFunc(before, func(e event) bool { return strings.Contains(e.data, "paid for a book at a") }) {
		t.Errorf("%v", before)
	}
}

// Lists are the same at all hosts, and say what runs at others.
func lists(t *testing.T, w *world) {
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"hal"}`, http.StatusCreated)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w.ask("b", http.MethodPost, "/v1/sessions/hal/runs", `{"input":"one"}`, http.StatusAccepted, "Traceparent", trace, "Tracestate", "of=ann")
	r := w.reply()
	state := func(host, want string) {
		t.Helper()
		all := w.ask(host, http.MethodGet, "/v1/sessions?state="+want, "", http.StatusOK)["sessions"].([]any)
		if len(all) == 0 || !slices.ContainsFunc(all, func(v any) bool { return v.(map[string]any)["id"] == "hal" }) {
			t.Errorf("at %s the session is not among those that are %s: %v", host, want, all)
		}
	}
	for _, host := range []string{"a", "b", "c"} {
		state(host, "running")
		if v := w.ask(host, http.MethodGet, "/v1/sessions/hal/runs/1", "", http.StatusOK); v["state"] != "running" {
			t.Errorf("at %s the run is %v", host, v)
		}
	}
	r.say(t, "done")
	r.end()
	w.ask("c", http.MethodGet, "/v1/sessions/hal/runs/1?wait=1m", "", http.StatusOK)
	for _, host := range []string{"a", "b", "c"} {
		state(host, "idle")
		runs := w.ask(host, http.MethodGet, "/v1/sessions/hal/runs", "", http.StatusOK)["runs"].([]any)
		if len(runs) != 1 {
			t.Errorf("at %s it has the runs %v", host, runs)
		}
	}
	// The run belongs to the trace of the client, whichever host it asked.
	records := w.raw("c", http.MethodGet, "/v1/sessions/hal/records", "")
	if !strings.Contains(string(records.body), trace) || !strings.Contains(string(records.body), "of=ann") {
		t.Errorf("no record has the trace: %s", records.body)
	}
}

// A conversation of responses goes on where its session is, streamed or not.
func responses(t *testing.T, w *world) {
	respond := func(got answer) (v struct {
		ID, Status string
		Output     []struct{ Content []struct{ Text string } }
	},
	) {
		t.Helper()
		if err := json.Unmarshal(got.body, &v); err != nil || got.status != http.StatusOK || v.Status != "completed" {
			t.Fatalf("%d %s, %v", got.status, got.body, got.err)
		}
		return v
	}
	answered := w.later("a", http.MethodPost, "/v1/responses", `{"model":"talker","input":"one"}`)
	w.speaks("a", "the first")
	first := respond(<-answered)
	answered = w.later("b", http.MethodPost, "/v1/responses", fmt.Sprintf(`{"model":"talker","input":"two","previous_response_id":%q}`, first.ID))
	w.speaks("a", "the second")
	second := respond(<-answered)
	if got := second.Output[0].Content[0].Text; got != "the second" {
		t.Errorf("answered with %q", got)
	}
	answered = w.later("c", http.MethodPost, "/v1/responses", fmt.Sprintf(`{"model":"talker","input":"three","stream":true,"previous_response_id":%q}`, second.ID))
	w.speaks("a", "the third")
	if got := <-answered; got.err != nil || strings.Count(string(got.body), "event: response.completed\n") != 1 || !strings.Contains(string(got.body), "the third") {
		t.Errorf("%d %s, %v", got.status, got.body, got.err)
	}
}

// A WebSocket at a host follows a session of another one.
func sockets(t *testing.T, w *world) {
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"ida"}`, http.StatusCreated)
	w.ask("b", http.MethodPost, "/v1/sessions/ida/runs", `{"input":"one"}`, http.StatusAccepted)
	r := w.reply()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+w.hosts["c"].public+"/v1/sessions/ida/runs/1/events", &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	var all []event
	until := func(name string) {
		t.Helper()
		for {
			_, b, err := conn.Read(ctx)
			if err != nil {
				t.Fatalf("before %s: %v", name, err)
			}
			var e struct {
				Event, ID string
				Data      json.RawMessage
			}
			if err := json.Unmarshal(b, &e); err != nil {
				t.Fatal(err)
			}
			if e.Event == "heartbeat" {
				continue
			}
			if all = append(all, event{e.Event, e.ID, string(e.Data)}); e.Event == name {
				return
			}
		}
	}
	r.say(t, "by ")
	until("delta")
	r.say(t, "socket")
	r.end()
	until("run.end")
	if got := text(t, all); got != "by socket" {
		t.Errorf("%q", got)
	}
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the socket ends with %v", err)
	}
}

// inTurns sends each request to the next host, as a balancer does that knows nothing of sessions.
type inTurns struct {
	http.Transport
	w     *world
	asked atomic.Int64
}

func (b *inTurns) RoundTrip(r *http.Request) (*http.Response, error) {
	names := []string{"a", "b", "c"}
	r = r.Clone(r.Context())
	r.URL.Host = b.w.hosts[names[b.asked.Add(1)%3]].public
	return b.Transport.RoundTrip(r)
}

// A client of the Model Context Protocol whose requests go to all hosts in turns has one session, and
// its calls go to the hosts that run the sessions of agents; so do the answers of its user.
func protocol(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	asked := make(chan string, 8)
	progress := make(chan string, 64)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked <- r.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if r.Params.ProgressToken == "one" { // that of another call may come behind its answer
				progress <- r.Params.Message
			}
		},
	})
	balancer := &inTurns{w: w}
	defer balancer.CloseIdleConnections()
	ses, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + w.hosts["a"].public + "/mcp", HTTPClient: &http.Client{Transport: balancer}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if list, err := ses.ListTools(ctx, nil); err != nil || len(list.Tools) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
	}
	type result struct {
		*mcp.CallToolResult
		err error
	}
	call := func(tool, message, session string) <-chan result {
		out := make(chan result, 1)
		params := &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"message": message, "session": session}}
		params.SetProgressToken(message)
		go func() {
			got, err := ses.CallTool(ctx, params)
			out <- result{got, err}
		}()
		return out
	}
	said := func(got result) string {
		t.Helper()
		if got.err != nil || got.IsError || len(got.Content) != 1 {
			t.Fatalf("%+v, %v", got.CallToolResult, got.err)
		}
		return got.Content[0].(*mcp.TextContent).Text
	}
	for _, host := range []string{"a", "b", "c"} { // the session of the protocol is at one of them
		id := "jon-" + host
		w.ask(host, http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"`+id+`"}`, http.StatusCreated)
		answered := call("talker", "one", id)
		r := w.reply()
		if r.host != host {
			t.Errorf("the session of %s runs at %s", host, r.host)
		}
		if got := <-progress; got != "session "+id+", run 1" {
			t.Errorf("first the client is told %q", got)
		}
		r.say(t, "by a ")
		if got := <-progress; got != "by a " {
			t.Errorf("then the client is told %q", got)
		}
		r.say(t, "tool")
		if got := <-progress; got != "tool" {
			t.Errorf("then the client is told %q", got)
		}
		r.end()
		if got := said(<-answered); got != "by a tool" {
			t.Errorf("answered with %q", got)
		}

		id = "kim-" + host
		w.ask(host, http.MethodPost, "/v1/sessions", `{"agent":"buyer","id":"`+id+`"}`, http.StatusCreated)
		answered = call("buyer", "buy it", id)
		w.speaks(host, `<execute>[{"name":"shop.pay","args":{"what":"tea"}}]</execute>`)
		if got := <-asked; !strings.Contains(got, "shop.pay") || !strings.Contains(got, "tea") {
			t.Errorf("the person is asked %q", got)
		}
		w.speaks(host, "Bought.")
		if got := said(<-answered); !strings.HasSuffix(got, "Bought.") {
			t.Errorf("answered with %q", got)
		}
	}
	// A client that wants no answer any more ends the run, wherever it is.
	for _, host := range []string{"b", "c"} {
		short, cancel := context.WithCancel(ctx)
		out := make(chan error, 1)
		go func() {
			_, err := ses.CallTool(short, &mcp.CallToolParams{Name: "talker", Arguments: map[string]any{"message": "two", "session": "jon-" + host}})
			out <- err
		}()
		r := w.reply()
		cancel()
		if err := <-out; err == nil {
			t.Error("a call that was cancelled is answered")
		}
		<-r.gone
		if v := w.ask("a", http.MethodGet, "/v1/sessions/jon-"+host+"/runs/2?wait=1m", "", http.StatusOK); v["code"] != "ERR_CANCELLED" {
			t.Errorf("at %s the run ends with %v", host, v)
		}
	}
	if err := ses.Close(); err != nil {
		t.Error(err)
	}
}

// A user is erased at all hosts, whichever has their sessions.
func erased(t *testing.T, w *world) {
	for i, host := range []string{"a", "b", "c", "a", "b"} {
		w.ask(host, http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"agent":"talker","id":"leo-%d"}`, i), http.StatusCreated)
		if i == 1 { // one with a run in flight
			w.ask(host, http.MethodPost, "/v1/sessions/leo-1/runs", `{"input":"one"}`, http.StatusAccepted)
		}
	}
	r := w.reply()
	all := 1 + len(w.ask("c", http.MethodGet, "/v1/sessions?limit=100", "", http.StatusOK)["sessions"].([]any)) // and that of responses, which no list has
	if v := w.ask("c", http.MethodDelete, "/v1/users/local", "", http.StatusOK); v["user"] != "local" || v["sessions"] != float64(all) || all < 5 {
		t.Errorf("%v of %d sessions", v, all)
	}
	<-r.gone
	for _, host := range []string{"a", "b", "c"} {
		if left := w.ask(host, http.MethodGet, "/v1/sessions", "", http.StatusOK)["sessions"].([]any); len(left) != 0 {
			t.Errorf("at %s are left %v", host, left)
		}
	}
	if v := w.ask("a", http.MethodDelete, "/v1/users/local", "", http.StatusOK); v["sessions"] != 0.0 {
		t.Errorf("%v", v)
	}
}

// A member that takes connections and says nothing holds no client for long, and the client is told
// which one it was.
func slow(t *testing.T, w *world) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer l.Close()
	work.Go(func() {
		var all []net.Conn
		defer func() {
			for _, c := range all {
				c.Close()
			}
		}()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all = append(all, c)
		}
	})
	table := w.table()
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"mia"}`, http.StatusCreated)
	w.ask("a", http.MethodDelete, "/v1/sessions/mia", "", http.StatusNoContent)
	self := lease.Host{ID: uuid.New(), Address: l.Addr().String(), Version: "slow"}
	if _, err := table.Join(t.Context(), self, patience); err != nil {
		t.Fatal(err)
	}
	const sid = "local:local:mia"
	for {
		owner, err := table.Claim(t.Context(), self.ID, sid, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if owner.ID == self.ID {
			break
		}
		time.Sleep(time.Millisecond) // the one before gives it up
	}
	got := w.raw("b", http.MethodPost, "/v1/sessions/mia/runs/1/cancel", "")
	var p struct{ Code, Reason, Detail string }
	if err := json.Unmarshal(got.body, &p); err != nil || got.status != http.StatusServiceUnavailable || p.Code != "ERR_BUSY" || p.Reason != "ELSEWHERE" || !strings.Contains(p.Detail, self.Address+", has not taken the request within 3s") {
		t.Errorf("%d %s, %v", got.status, got.body, got.err)
	}
	if err := table.GiveUp(t.Context(), self.ID, []string{sid}, time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if err := table.Resign(t.Context(), self.ID); err != nil {
		t.Error(err)
	}
}

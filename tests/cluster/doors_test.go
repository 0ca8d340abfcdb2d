package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
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

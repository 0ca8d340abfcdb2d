package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/internal/turn"
)

// Clients of OpenAI, and a WebSocket, whose run's host dies: the host that they are connected to goes on with
// what they hear, of the same run, and without a word twice.
func TestAnswersGoOn(t *testing.T) {
	w := begin(t, "a", "b", "c")
	if w == nil {
		return
	}
	chat := func(session, stream string) (string, []string) {
		w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"`+session+`"}`, http.StatusCreated)
		return `{"model":"talker","stream":` + stream + `,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"one"}]}`, []string{"X-Stile-Session", session}
	}
	said := map[string]string{"whole": "", "shown": "first words", "named": "", "alone": ""}
	asked := map[string]<-chan answer{}
	sid := map[string]string{} // names by SID
	ask := func(name, host, path, body string, headers ...string) *reply {
		t.Helper()
		asked[name] = w.later(host, http.MethodPost, path, body, headers...)
		r := w.reply()
		if r.host != "a" {
			t.Fatalf("%s runs at %s", name, r.host)
		}
		sid[r.session] = name
		return r
	}
	body, head := chat("whole", "false")
	ask("whole", "b", "/v1/chat/completions", body, head...)
	body, head = chat("shown", "true")
	w.recorded(ask("shown", "b", "/v1/chat/completions", body, head...), said["shown"])
	_, head = chat("named", "true")
	ask("named", "c", "/v1/responses", `{"model":"talker","stream":true,"input":"one"}`, head...)
	_, head = chat("alone", "true")
	ask("alone", "c", "/v1/responses", `{"model":"talker","store":false,"input":"one"}`, head...)
	socket, seen := w.socket("b", "/v1/sessions/whole/runs/1/events"), []event(nil)
	for len(seen) == 0 || seen[len(seen)-1].name != "turn.begin" {
		seen = append(seen, socket())
	}
	w.hosts["a"].kill()
	for range said {
		r := w.reply()
		if r.host == "a" || sid[r.session] == "" {
			t.Fatalf("%s is asked for %s", r.host, r.session)
		}
		r.say(t, "of "+sid[r.session])
		r.end()
	}
	for seen[len(seen)-1].name != "run.end" {
		seen = append(seen, socket())
	}
	if got := text(t, seen); got != "of whole" {
		t.Errorf("the WebSocket has %q", got)
	}
	if e := socket(); e.name != "closed" || e.data != websocket.StatusNormalClosure.String() {
		t.Errorf("the WebSocket ends with %+v", e)
	}
	for name := range said {
		var got answer
		select {
		case got = <-asked[name]:
		case <-time.After(patience):
			t.Fatalf("%s is not answered", name)
		}
		runs := w.ask("b", http.MethodGet, "/v1/sessions/"+name+"/runs", "", http.StatusOK)["runs"].([]any)
		run := w.ask("b", http.MethodGet, "/v1/sessions/"+name+"/runs/1", "", http.StatusOK)
		if got.err != nil || got.status != http.StatusOK || len(runs) != 1 || run["decision"] != "DONE" {
			t.Errorf("%s: %d %s, %v, of the runs %v", name, got.status, got.body, got.err, runs)
			continue
		}
		if text := answered(t, got); text != run["text"] || !strings.HasPrefix(text, said[name]) || !strings.HasSuffix(text, "of "+name) {
			t.Errorf("%s is answered with %q, and its run says %q", name, text, run["text"])
		}
	}
}

// socket opens a WebSocket at a host, and returns what reads its next event. The last one is its close.
func (w *world) socket(host, path string) func() event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	conn, _, err := websocket.Dial(ctx, "ws://"+w.hosts[host].public+path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return func() event {
		w.t.Helper()
		for {
			_, b, err := conn.Read(ctx)
			if code := websocket.CloseStatus(err); code >= 0 {
				return event{name: "closed", data: code.String()}
			}
			var e struct {
				Event, ID string
				Data      json.RawMessage
			}
			if err == nil {
				err = json.Unmarshal(b, &e)
			}
			if err != nil {
				w.t.Fatal(err)
			}
			if e.Event != "heartbeat" {
				return event{e.Event, e.ID, string(e.Data)}
			}
		}
	}
}

// recorded has a model speak until a record has all that it said: a piece that comes long enough after
// the one before is recorded with it.
func (w *world) recorded(r *reply, text string) {
	w.t.Helper()
	said := ""
	for piece := range strings.SplitAfterSeq(text, " ") {
		r.say(w.t, piece)
		said += piece
		for until := time.Now().Add(2 * turn.LazyHold); time.Now().Before(until); {
			n := 0
			for line := range strings.Lines(string(w.raw("c", http.MethodGet, "/v1/sessions/"+r.session[strings.LastIndex(r.session, ":")+1:]+"/export", "").body)) {
				var rec struct{ Body struct{ Bytes []byte } }
				if strings.Contains(line, `"model.chunk"`) && json.Unmarshal([]byte(line), &rec) == nil {
					n += len(rec.Body.Bytes)
				}
			}
			if n == len(text) {
				return
			}
		}
	}
	w.t.Fatalf("what was shown of %q gets no record", said)
}

// answered is the text of an answer, of any form. A stream must be whole: from its first event to its
// last one, each once.
func answered(t *testing.T, a answer) (text string) {
	t.Helper()
	type part struct{ Text, Content string }
	var v struct {
		Type    string
		Seq     int `json:"sequence_number"`
		Delta   json.RawMessage
		Choices []struct {
			Message, Delta struct{ Role, Content string }
			Finish         string `json:"finish_reason"`
		}
		Output []struct{ Content []part }
		Usage  *struct{}
		Error  *struct{ Message string }
	}
	if !strings.HasPrefix(a.head.Get("Content-Type"), "text/event-stream") {
		switch err := json.Unmarshal(a.body, &v); {
		case err != nil:
			t.Errorf("%s: %v", a.body, err)
		case len(v.Choices) == 1:
			return v.Choices[0].Message.Content
		case len(v.Output) == 1 && len(v.Output[0].Content) == 1:
			return v.Output[0].Content[0].Text
		}
		return ""
	}
	var order []string
	seq := 0
	for line := range strings.Lines(string(a.body)) {
		data, some := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !some {
			continue
		}
		if data == "[DONE]" {
			order = append(order, data)
			continue
		}
		v.Type, v.Choices, v.Delta, v.Usage, v.Error = "", nil, nil, nil, nil
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Errorf("%s: %v", data, err)
		}
		switch {
		case v.Error != nil:
			order = append(order, v.Error.Message)
		case v.Type == "response.output_text.delta":
			var piece string
			_ = json.Unmarshal(v.Delta, &piece)
			text += piece
		case v.Type != "":
			order = append(order, strings.TrimPrefix(v.Type, "response."))
		case len(v.Choices) == 0:
			order = append(order, "usage")
		case v.Choices[0].Delta.Role != "":
			order = append(order, "role")
		case v.Choices[0].Finish != "":
			order = append(order, v.Choices[0].Finish)
		default:
			text += v.Choices[0].Delta.Content
		}
		if v.Type != "" && v.Seq != seq {
			t.Errorf("event %d has the number %d: %s", seq, v.Seq, a.body)
		}
		seq++
	}
	got := strings.Join(order, " ")
	if got != "role stop usage [DONE]" && got != "created in_progress output_item.added content_part.added output_text.done content_part.done output_item.done completed" {
		t.Errorf("the stream has the events %s", got)
	}
	return text
}

package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// shown is what a client keeps of a stream.
type shown struct {
	t     *testing.T
	last  string // id
	texts map[string]string
	done  map[string]string // texts of records
	seqs  []float64
	over  bool
}

func (s *shown) take(e event) {
	s.t.Helper()
	s.last = e.id
	switch e.name {
	case "delta", "retract":
		unit, off := e.data["unit"].(string), int(e.data["off"].(float64))
		if e.name == "retract" {
			s.texts[unit] = s.texts[unit][:off]
			return
		}
		if s.texts[unit] += e.data["text"].(string); len(s.texts[unit]) != off {
			s.t.Fatalf("unit %s has %d bytes, the event says %d", unit, len(s.texts[unit]), off)
		}
	default:
		s.seqs = append(s.seqs, e.data["seq"].(float64))
		if body, ok := e.data["body"].(map[string]any); ok && e.name == "response" {
			s.done[body["unit"].(string)] = body["text"].(string)
		}
		s.over = e.name == "run.end"
	}
}

// talk is a run whose model speaks piece by piece, and a client that is cut again and
// again while it follows.
type talk struct {
	*door
	rnd   *rand.Rand
	path  string // of the session
	speak func(pieces int)
	shown
}

// resumed has n runs followed, and looks whether what came joins to what was said. It
// gives how many texts were joined of deltas.
func resumed(t *testing.T, n int, follow func(*talk)) (joined int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var pieces []string
	for i := range 60 {
		pieces = append(pieces, fmt.Sprintf("pïece %d\n", i))
	}
	want := strings.Join(pieces, "")
	goOn := make(chan struct{}, len(pieces))
	d := serve(t, host.Config{}, agentOf("talker", speaks(pieces, goOn)))
	for i := range n {
		id := fmt.Sprintf("s%d", i)
		d.session(id, "talker")
		d.call(202, nil, "POST", "/v1/sessions/"+id+"/runs", `{"input": "go"}`)
		left := len(pieces)
		speak := func(n int) {
			for ; n > 0 && left > 0; n-- {
				goOn <- struct{}{}
				left--
			}
		}
		c := &talk{door: d, rnd: rnd, path: "/v1/sessions/" + id, speak: speak, shown: shown{t: t, texts: map[string]string{}, done: map[string]string{}}}
		for !c.over {
			speak(rnd.IntN(6))
			follow(c)
		}
		for i, seq := range c.seqs {
			if seq != c.seqs[0]+float64(i) {
				t.Fatalf("session %s: records %v", id, c.seqs)
			}
		}
		if len(c.done) != 1 || c.done["1.0"] != want || c.texts["1.0"] != want && c.texts["1.0"] != "" {
			t.Fatalf("session %s: %q, recorded %q", id, c.texts, c.done)
		}
		if c.texts["1.0"] == want {
			joined++
		}
	}
	return joined
}

// A stream that is cut at any byte, again and again, and resumed by the id of the last
// whole event, joins to the one that was never cut.
func TestResumeAtAnyByte(t *testing.T) {
	joined := resumed(t, 12, func(c *talk) {
		var headers []string
		if c.last != "" {
			headers = []string{"Last-Event-ID", c.last}
		}
		res := c.ask("GET", c.path+"/runs/1/events", "", headers...)
		defer res.Body.Close()
		got := make([]byte, 1+c.rnd.IntN(3000))
		read := 0
		for read < len(got) {
			c.speak(1) // whoever waits for more than there is would wait for ever
			k, err := res.Body.Read(got[read:min(len(got), read+1+c.rnd.IntN(700))])
			read += k
			if err != nil {
				break
			}
		}
		end := bytes.LastIndex(got[:read], []byte("\n\n"))
		if end < 0 {
			return
		}
		for _, e := range events(t, bytes.NewReader(got[:end+2]), 1<<20) {
			c.take(e)
		}
	})
	if joined == 0 {
		t.Error("no text was joined of deltas")
	}
}

// A body of unknown length is bounded as well.
func TestEndlessBody(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	endless := io.MultiReader(strings.NewReader(`{"agent": "`), &same{n: 64 << 20})
	req, err := http.NewRequestWithContext(t.Context(), "POST", d.url+"/v1/sessions", io.NopCloser(endless))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return // the host hung up while it was still being sent to
	}
	defer res.Body.Close()
	var p host.Problem
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || p.Status != 413 || p.Code != string(messages.ErrInvalid) {
		t.Errorf("%+v, %v", p, err)
	}
}

// same reads n times the letter x.
type same struct{ n int }

func (s *same) Read(p []byte) (int, error) {
	if s.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), s.n)
	for i := range p[:n] {
		p[i] = 'x'
	}
	s.n -= n
	return n, nil
}

// A stream with growing text has the progress of actions, with the id of the event before it;
// one without has not.
func TestProgressOverHTTP(t *testing.T) {
	for stream, want := range map[string]bool{"token": true, "event": false} {
		followed := make(chan struct{})
		work, err := stile.DefineToolCall("work.do", "Works.", stile.ReadOnly, func(_ context.Context, c *stile.ToolCall, _ struct{}) (string, error) {
			<-followed
			c.Progress(2, 2, "all of it")
			return "worked", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		m := manifest.Default("cortex")
		m.Name, m.Import.Tools = "worker", []string{"work.do"}
		d := serve(t, host.Config{}, &stile.Agent{Manifest: m, Tools: []stile.Tool{work}, Model: stile.ScriptedModel(`<action id="i" mode="sync">{"name":"work.do","parameters":{}}</action>`, `<response>Done.</response>`)})
		d.session("w", "worker")
		res := d.ask("POST", "/v1/sessions/w/runs?stream="+stream, `{"input": "go"}`)
		all := events(t, &spotted{Reader: res.Body, text: "action.started", then: func() { close(followed) }}, 1000)
		var got []event
		for i, e := range all {
			if e.name == "progress" {
				got = append(got, e)
				if i == 0 || e.id != all[i-1].id {
					t.Errorf("the id of %+v is not that of the event before it", e)
				}
			}
		}
		if (len(got) == 1) != want {
			t.Fatalf("stream=%s: %v", stream, got)
		}
		if want && (got[0].data["text"] != "all of it" || got[0].data["action"] != "i") {
			t.Errorf("%+v", got[0])
		}
	}
}

// spotted calls then once it has read a text.
type spotted struct {
	io.Reader
	text string
	then func()
	read []byte
}

func (s *spotted) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if s.read = append(s.read, p[:n]...); s.then != nil && bytes.Contains(s.read, []byte(s.text)) {
		s.then()
		s.then = nil
	}
	return n, err
}

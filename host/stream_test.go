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

	"github.com/seed14be6753/stile/host"
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

// A stream that is cut at any byte, again and again, and resumed by the id of the last
// whole event, joins to the one that was never cut.
func TestResumeAtAnyByte(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var pieces []string
	for i := range 60 {
		pieces = append(pieces, fmt.Sprintf("pïece %d\n", i))
	}
	goOn := make(chan struct{}, len(pieces))
	d := serve(t, host.Config{}, agentOf("talker", speaks(pieces, goOn)))
	joined := 0
	for n := range 12 {
		id := fmt.Sprintf("s%d", n)
		d.session(id, "talker")
		d.call(202, nil, "POST", "/v1/sessions/"+id+"/runs", `{"input": "go"}`)
		said := 0
		speak := func(n int) {
			for ; n > 0 && said < len(pieces); n-- {
				goOn <- struct{}{}
				said++
			}
		}
		c := &shown{t: t, texts: map[string]string{}, done: map[string]string{}}
		for !c.over {
			speak(rnd.IntN(6))
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, "GET", d.url+"/v1/sessions/"+id+"/runs/1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.last != "" {
				req.Header.Set("Last-Event-ID", c.last)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			// Whoever waits for more than there is would wait for ever: let the model speak on.
			cut := 1 + rnd.IntN(3000)
			got := make([]byte, cut)
			read := 0
			for read < cut {
				speak(1)
				k, err := res.Body.Read(got[read:min(cut, read+1+rnd.IntN(700))])
				read += k
				if err != nil {
					break
				}
				if said == len(pieces) && bytes.Contains(got[:read], []byte("event: run.end")) && bytes.HasSuffix(got[:read], []byte("\n\n")) {
					break
				}
			}
			cancel()
			res.Body.Close()
			whole := got[:bytes.LastIndex(got[:read], []byte("\n\n"))+2]
			if bytes.LastIndex(got[:read], []byte("\n\n")) < 0 {
				continue
			}
			for _, e := range events(t, bytes.NewReader(whole), 1<<20) {
				c.take(e)
			}
		}
		for i, seq := range c.seqs {
			if seq != c.seqs[0]+float64(i) {
				t.Fatalf("session %s: records %v", id, c.seqs)
			}
		}
		want := strings.Join(pieces, "")
		if len(c.done) != 1 || c.done["1.0"] != want || c.texts["1.0"] != want && c.texts["1.0"] != "" {
			t.Fatalf("session %s: %q, recorded %q", id, c.texts, c.done)
		}
		if c.texts["1.0"] == want {
			joined++
		}
	}
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
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || p.Status != 413 || p.Code != string(messages.ErrConfig) {
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

package wiretest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// slow: a piece of text is handed on before the next one is sent.
func (s *suite) slow(t *testing.T) {
	f := &s.Format
	step := make(chan struct{}, 8)
	srv := NewServer(t, Always(Answer{Step: step, Pieces: []string{f.Begin(1), f.Text(`"a"`), f.Text(`"b"`), f.Text(`"c"`), f.End(messages.FinishComplete, counts)}}))
	step <- struct{}{}
	step <- struct{}{}
	var got llmtest.Outcome
	for c, err := range s.model(t, Options{URL: srv.URL}).Stream(t.Context(), ask()) {
		got.Take(c, err)
		if len(c.Text) > 0 {
			step <- struct{}{} // the server waits for this before it goes on
		}
	}
	if got.Err != nil || got.Text != "abc" || got.Pieces != 3 {
		t.Errorf("%+v", got)
	}
}

func (s *suite) cancel(t *testing.T) {
	f := &s.Format
	for name, a := range map[string]Answer{
		"before the answer": {Silent: true},
		"before any event":  {Hang: true},
		"in the middle":     {Pieces: []string{f.Begin(1), f.Text(`"Some"`)}, Hang: true},
		"inside an event":   {Pieces: []string{f.Begin(1), f.Text(`"Some"`)[:9]}, Hang: true},
	} {
		srv := NewServer(t, Always(a))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			<-srv.Arrived
		}()
		got := llmtest.Read(ctx, s.model(t, Options{URL: srv.URL}), ask())
		if got.Err != nil || got.Finish != messages.FinishCancelled {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Usage.Input == 0 || !got.Usage.Estimated {
			t.Errorf("%s: the provider may have read the prompt, and nothing is accounted: %+v", name, got)
		}
		seen := srv.Seen()[0]
		<-seen.Gone
		if !seen.Left {
			t.Errorf("%s: the server did not see the request end", name)
		}
	}
}

func (s *suite) leave(t *testing.T) {
	f := &s.Format
	srv := NewServer(t, Always(Answer{Pieces: []string{f.Begin(1), f.Text(`"Some"`)}, Hang: true}))
	for c, err := range s.model(t, Options{URL: srv.URL}).Stream(t.Context(), ask()) {
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Text) > 0 {
			break
		}
	}
	seen := srv.Seen()[0]
	if <-seen.Gone; !seen.Left {
		t.Error("the server did not see the request end")
	}
}

func (s *suite) unreachable(t *testing.T) {
	srv := NewServer(t, Always(Answer{}))
	srv.srv.Close()
	got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask())
	if f := failure(t, got); f.Kind != llm.KindNetwork || !f.Retryable || f.Status != 0 {
		t.Errorf("%+v", f)
	}
	if strings.Contains(got.Err.Error(), "127.0.0.1") {
		t.Errorf("the error names the address: %v", got.Err)
	}
	broken := NewServer(t, func(*Seen) Answer { panic(http.ErrAbortHandler) })
	if f := failure(t, llmtest.Read(t.Context(), s.model(t, Options{URL: broken.URL}), ask())); f.Kind != llm.KindNetwork || !f.Retryable {
		t.Errorf("%+v", f)
	}
}

func (s *suite) redirect(t *testing.T) {
	other := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	srv := NewServer(t, func(seen *Seen) Answer {
		return Answer{Status: 307, Header: map[string]string{"Location": other.URL + seen.Path}}
	})
	if f := failure(t, llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask())); f.Kind != llm.KindRequest || f.Status != 307 {
		t.Errorf("%+v", f)
	}
	if len(other.Seen()) != 0 {
		t.Error("the key went to another server")
	}
}

func (s *suite) many(t *testing.T) {
	srv := NewServer(t, Always(Answer{Pieces: s.Format.Stream("one ", "two")}))
	m := s.model(t, Options{URL: srv.URL, Keys: keys("k1", "k2")})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if got := llmtest.Read(t.Context(), m, ask()); got.Err != nil || got.Text != "one two" {
				t.Errorf("%+v", got)
			}
		})
	}
	wg.Wait()
	byKey := map[string]int{}
	for _, seen := range srv.Seen() {
		byKey[s.Format.Key(seen.Header)]++
	}
	if byKey["k1"] != 16 || byKey["k2"] != 16 {
		t.Errorf("keys take turns: %v", byKey)
	}
}

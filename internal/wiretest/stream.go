package wiretest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

func (s *suite) nothing(t *testing.T) {
	srv := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	m := s.model(t, Options{URL: srv.URL})
	for _, ms := range [][]messages.Message{nil, {{Role: messages.RoleSystem, Text: "Speak."}}, {{Role: messages.RoleUser, Text: "a"}, {Role: messages.RoleAssistant, Text: "b"}}} {
		req := ask()
		req.Messages = ms
		f := failure(t, llmtest.Read(t.Context(), m, req))
		if f.Kind != llm.KindRequest || f.Retryable {
			t.Errorf("%+v", f)
		}
	}
	if n := len(srv.Seen()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func (s *suite) everyCut(t *testing.T) {
	body := s.Format.stream(replyText[:9], replyText[9:])
	check := func(what string, pieces []string) {
		t.Helper()
		c := &canned{pieces: pieces}
		got := llmtest.Read(t.Context(), s.model(t, Options{Base: c}), ask())
		if got.Err != nil || got.Text != replyText || got.Finish != messages.FinishComplete || got.Usage.Estimated || got.Usage.Output != counts.Output {
			t.Fatalf("%s: %+v", what, got)
		}
	}
	for i := range len(body) + 1 {
		check(fmt.Sprint("cut at ", i), cutAt(body, i))
	}
	check("byte by byte", bytewise(body))
	got := llmtest.Read(t.Context(), s.model(t, Options{URL: NewServer(t, Always(Answer{Pieces: bytewise(body)})).URL}), ask())
	if got.Err != nil || got.Text != replyText {
		t.Errorf("byte by byte over a connection: %+v", got)
	}
}

func (s *suite) lineEnds(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		for _, first := range []string{"", "\ufeff", ": hello" + end + end, end + end} {
			body := first + lineEnds(s.Format.stream("one ", "two"), end)
			for _, pieces := range [][]string{{body}, bytewise(body)} {
				got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: pieces}}), ask())
				if got.Err != nil || got.Text != "one two" {
					t.Errorf("%q after %q: %+v", end, first, got)
				}
			}
		}
	}
}

// characters in pieces: whatever the cut, the text is what the provider meant.
func (s *suite) characters(t *testing.T) {
	f := &s.Format
	for _, c := range []struct {
		name     string
		literals []string
		want     string
	}{
		{"a pair in two events", []string{`"a\ud83d"`, `"\ude00b"`}, "a😀b"},
		{"half a pair at the end", []string{`"a\ud83d"`}, "a\ufffd"},
		{"half a pair and a letter", []string{`"\ud83d"`, `"b"`}, "\ufffdb"},
		{"two first halves", []string{`"\ud83d"`, `"\ud83d"`, `"\ude00"`}, "\ufffd😀"},
		{"a second half alone", []string{`"\ude00"`}, "\ufffd"},
		{"half a pair, an empty delta, the other", []string{`"\ud83d"`, `""`, `"\ude00"`}, "😀"},
		{"bytes of one in two events", []string{"\"\xf0\x9f\"", "\"\x98\x80\""}, "😀"},
		{"combining marks", []string{`"e"`, `"\u0301"`}, "e\u0301"},
		{"escapes", []string{`"\"\\\/\b\f\n\r\t\u00fC"`}, "\"\\/\b\f\n\r\tü"},
		{"zero", []string{`"a\u0000b"`}, "a\x00b"},
	} {
		body := f.Begin(1)
		for _, lit := range c.literals {
			body += f.Text(lit)
		}
		body += f.End(messages.FinishComplete, counts)
		got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
		if got.Err != nil || got.Text != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got.Text, got.Err, c.want)
		}
	}
}

func (s *suite) noise(t *testing.T) {
	f := &s.Format
	for i, n := range append(slices.Clone(f.Noise), strings.Join(f.Noise, "")) {
		body := f.Begin(1) + n + f.Text(`"one "`) + n + f.Text(`"two"`) + n + f.End(messages.FinishComplete, counts)
		got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{n + body}}}), ask())
		if got.Err != nil || got.Text != "one two" || got.Finish != messages.FinishComplete {
			t.Errorf("noise %d: %+v", i, got)
		}
		if got.Pieces != 2 {
			t.Errorf("noise %d: %d pieces of text, want 2", i, got.Pieces)
		}
	}
	// The word error inside a text is text.
	body := f.stream(`{"error":{"code":500}}`, ` "error" `)
	if got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask()); got.Err != nil || got.Text != `{"error":{"code":500}} "error" ` {
		t.Errorf("%+v", got)
	}
}

func (s *suite) usage(t *testing.T) {
	f := &s.Format
	prices := map[string]llm.Price{"some-model": {Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000}}
	body := f.stream("Hi.")
	got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}, Prices: prices}), ask())
	want := messages.Usage{Input: counts.All, Output: counts.Output, CacheRead: counts.CacheRead}
	if got.Usage != want || got.Unpriced || got.Cost != 20*3+10*3+9*15 { // 100 of 120 at a tenth
		t.Errorf("%+v, want %+v", got, want)
	}
	got = llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
	if got.Usage != want || !got.Unpriced || got.Cost != 0 {
		t.Errorf("without a price: %+v", got)
	}
	for _, finish := range []messages.Finish{messages.FinishComplete, messages.FinishLength} {
		bare := f.Begin(counts.All) + f.Text(`"12345678"`) + f.Bare(finish)
		got = llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{bare}}, Prices: prices}), ask())
		want = messages.Usage{Input: 3, Output: 2, Estimated: true} // 11 and 8 bytes
		if f.EarlyInput {
			want.Input = counts.All
		}
		if got.Err != nil || got.Finish != finish || got.Usage != want || got.Cost != want.Input*3+want.Output*15 {
			t.Errorf("without usage: %+v, want %+v", got, want)
		}
	}
}

// A reply is not given up for its bill: a usage that makes no sense is not said.
func (s *suite) oddUsage(t *testing.T) {
	f := &s.Format
	want := messages.Usage{Input: 3, Output: 2, Estimated: true}
	if f.EarlyInput {
		want.Input = counts.All
	}
	for _, odd := range f.Odd {
		body := f.Begin(counts.All) + f.Text(`"1234"`) + odd + f.Text(`"5678"`) + odd + f.Bare(messages.FinishComplete)
		got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
		if got.Err != nil || got.Text != "12345678" || got.Usage != want {
			t.Errorf("%s: %+v, want %+v", odd, got, want)
		}
	}
}

// A reply that is cut short has cost something all the same: its last chunk before the
// end says what.
func (s *suite) cancelledUsage(t *testing.T) {
	f := &s.Format
	srv := NewServer(t, Always(Answer{Pieces: []string{f.Begin(counts.All), f.Text(`"12345678"`)}, Hang: true}))
	m := s.model(t, Options{URL: srv.URL, Prices: map[string]llm.Price{"some-model": {Input: 2_000_000, Output: 8_000_000}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := messages.Usage{Input: 3, Output: 2, Estimated: true}
	if f.EarlyInput {
		want.Input = counts.All
	}
	var before, got llmtest.Outcome
	for c, err := range m.Stream(ctx, ask()) {
		got.Take(c, err)
		if len(c.Text) > 0 {
			before = got
			cancel()
		}
	}
	for _, o := range []llmtest.Outcome{before, got} {
		if o.Usage != want || o.Cost != want.Input*2+want.Output*8 {
			t.Errorf("%+v, want %+v", o, want)
		}
	}
	if got.Finish != messages.FinishCancelled || got.Err != nil {
		t.Errorf("%+v", got)
	}
}

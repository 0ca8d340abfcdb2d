package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// optionValues are all options there are, and what a request has of them.
var optionValues = map[string]struct{ set, sent string }{
	"temperature":       {`0.25`, `0.25`},
	"top_p":             {`0.5`, `0.5`},
	"max_output_tokens": {`55`, `55`},
	"stop":              {`["END","\n\n"]`, `["END","\n\n"]`},
	"seed":              {`7`, `7`},
	"reasoning_effort":  {`"low"`, `"low"`},
}

// at is the member of a body at a path, as compact JSON; "" for none.
func at(t *testing.T, body []byte, path string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, key := range strings.Split(path, ".") {
		m, _ := v.(map[string]any)
		var ok bool
		if v, ok = m[key]; !ok {
			return ""
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// options: each is sent under the provider's name, or refused where it has none; those
// of a request go before those of the model.
func (s *suite) options(t *testing.T) {
	f := &s.Format
	srv := NewServer(t, Always(Answer{Pieces: f.Stream("Hi.")}))
	for name, v := range optionValues {
		text := fmt.Sprintf(`{%q:%s}`, name, v.set)
		path, takes := f.Takes[name]
		m, err := s.New(Options{URL: srv.URL, MaxTokens: 77, Options: text})
		if !takes {
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != "options."+name || !strings.Contains(e.Detail, strings.Split(f.Name, "/")[0]) {
				t.Errorf("%s: %v", name, err)
			}
			m = s.model(t, Options{URL: srv.URL})
			req := ask()
			req.Options = text
			if got := llmtest.Read(t.Context(), m, req); failure(t, got).Kind != llm.KindRequest || !strings.Contains(got.Err.Error(), name) {
				t.Errorf("%s in a request: %v", name, got.Err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		before := len(srv.Seen())
		for _, own := range []string{"", text, `{"top_p":0.75}`} {
			req := ask()
			req.Options = own
			if got := llmtest.Read(t.Context(), m, req); got.Err != nil {
				t.Errorf("%s: %v", name, got.Err)
			}
		}
		for i, seen := range srv.Seen()[before:] {
			want := v.sent
			if i == 2 && name == "top_p" {
				want = "0.75"
			}
			if got := at(t, seen.Body, path); !strings.EqualFold(got, want) {
				t.Errorf("%s is sent as %s %s, want %s: %s", name, path, got, want, seen.Body)
			}
			if i == 2 && at(t, seen.Body, f.Takes["top_p"]) != "0.75" {
				t.Errorf("the request's own option is not sent: %s", seen.Body)
			}
		}
		release(m)
	}
	for _, text := range []string{`{"top_k":1}`, `[]`, `{`, `{"stop":"a"}`} {
		if _, err := s.New(Options{URL: srv.URL, Options: text}); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := s.New(Options{URL: srv.URL, Options: `{"reasoning_effort":"none"}`}); f.Name == "anthropic" && messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("a word that the provider does not have: %v", err)
	}
}

func release(m llm.Model) {
	if c, ok := m.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// extra members are sent as they are, objects joined with those of the request; what the
// adapter writes itself is refused.
func (s *suite) extra(t *testing.T) {
	f := &s.Format
	srv := NewServer(t, Always(Answer{Pieces: f.Stream("Hi.")}))
	options := map[string]any{"extra": map[string]any{"one.of": "a$", "deep": map[string]any{"b": []any{1, 0.5, nil, true}}}}
	path := f.Takes["max_output_tokens"]
	if object, _, inner := strings.Cut(path, "."); inner {
		options["extra"].(map[string]any)[object] = map[string]any{"topK": 3}
	}
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	m := s.model(t, Options{URL: srv.URL, MaxTokens: 77, Options: string(text)})
	if got := llmtest.Read(t.Context(), m, ask()); got.Err != nil {
		t.Fatal(got.Err)
	}
	body := srv.Seen()[0].Body
	asked, err := f.Asked(body)
	if err != nil || asked.MaxTokens != 77 || asked.System != "Speak." || !slices.Equal(asked.Texts, []string{"Hello"}) {
		t.Errorf("%v: %+v", err, asked)
	}
	var all map[string]any
	if err := json.Unmarshal(body, &all); err != nil || all["one.of"] != "a$" || at(t, body, "deep.b") != `[1,0.5,null,true]` {
		t.Errorf("%v: %s", err, body)
	}
	if object, _, inner := strings.Cut(path, "."); inner && at(t, body, object+".topK") != "3" {
		t.Errorf("inside an object: %s", body)
	}
	for _, own := range append(slices.Clone(f.Own), path) {
		name, value := own, `1`
		if object, inner, ok := strings.Cut(own, "."); ok {
			name, value = object, fmt.Sprintf(`{%q:1}`, inner)
			if _, err := s.New(Options{URL: srv.URL, Options: fmt.Sprintf(`{"extra":{%q:1}}`, object)}); messages.CodeOf(err) != messages.ErrConfig {
				t.Errorf("%s in place of an object: %v", object, err)
			}
		}
		_, err := s.New(Options{URL: srv.URL, Options: fmt.Sprintf(`{"extra":{%q:%s}}`, name, value)})
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != "options.extra."+own {
			t.Errorf("%s: %v", own, err)
		}
	}
}

// refusedOption: a provider that refuses an option is quoted with the manifest's name for
// it, once.
func (s *suite) refusedOption(t *testing.T) {
	f := &s.Format
	for _, c := range []struct{ options, sentence, want string }{
		{`{"temperature":0.5}`, "SECRET Unsupported value: temperature does not support 0.5", "model.options.temperature"},
		{`{"top_p":0.5,"temperature":0.5}`, "SECRET `top_p` is deprecated", "model.options.top_p"},
		{`{"extra":{"banana":1}}`, "SECRET Unknown name \"banana\": no such field", "model.options.extra.banana"},
		{`{"temperature":0.5}`, "SECRET temperatures are rising", ""},
	} {
		sentence := c.sentence
		for name, path := range f.Takes {
			sentence = strings.ReplaceAll(sentence, "`"+name+"`", "`"+path[strings.LastIndexByte(path, '.')+1:]+"`")
		}
		srv := NewServer(t, Always(Answer{Status: 400, Pieces: []string{f.Refusal(400, "invalid_request_error", sentence)}}))
		got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL, Options: c.options}), ask())
		fail := failure(t, got)
		if fail.Kind != llm.KindRequest || fail.Retryable || strings.Count(got.Err.Error(), "model.options") != min(len(c.want), 1) || !strings.Contains(got.Err.Error(), c.want) {
			t.Errorf("%s: %v", c.sentence, got.Err)
		}
	}
}

// whole: a reply in one piece is one chunk with its exact usage.
func (s *suite) whole(t *testing.T) {
	f := &s.Format
	whole := func(body string) Answer {
		return Answer{Header: map[string]string{"Content-Type": "application/json; charset=utf-8"}, Pieces: []string{body}}
	}
	body := f.Whole(replyText, messages.FinishComplete, counts)
	srv := NewServer(t, Always(whole(body)))
	m := s.model(t, Options{URL: srv.URL, Whole: true, MaxTokens: 50_000})
	n := 0
	var got llmtest.Outcome
	for c, err := range m.Stream(t.Context(), ask()) {
		n++
		got.Take(c, err)
	}
	want := messages.Usage{Input: counts.All, Output: counts.Output, CacheRead: counts.CacheRead}
	if got.Err != nil || n != 1 || got.Text != replyText || got.Finish != messages.FinishComplete || got.Usage != want {
		t.Errorf("%d chunks: %+v", n, got)
	}
	seen := srv.Seen()
	asked, err := f.Asked(seen[0].Body)
	if err != nil || len(seen) != 1 || asked.Stream && f.Name != "gemini" || strings.Contains(seen[0].Path, "stream") || seen[0].Query == "alt=sse" || seen[0].Header.Get("Accept") != "application/json" {
		t.Errorf("%v: %d requests, %s: %s", err, len(seen), seen[0].Path, seen[0].Body)
	}
	one := func(a Answer, options Options) llmtest.Outcome {
		options.URL, options.Whole = NewServer(t, Always(a)).URL, true
		return llmtest.Read(t.Context(), s.model(t, options), ask())
	}
	if got := one(whole(f.Whole("Well", messages.FinishLength, counts)), Options{}); got.Err != nil || got.Finish != messages.FinishLength || got.Text != "Well" {
		t.Errorf("cut by the length: %+v", got)
	}
	if got := one(Answer{Pieces: f.Stream("a ", "stream")}, Options{}); got.Err != nil || got.Text != "a stream" {
		t.Errorf("a server that streams all the same: %+v", got)
	}
	for name, c := range map[string]struct {
		answer  Answer
		options Options
		kind    llm.Kind
	}{
		"an error with a good status": {whole(f.Refusal(503, "UNAVAILABLE", "SECRET")), Options{}, ""},
		"a refusal":                   {Answer{Status: 429, Pieces: []string{f.Refusal(429, "slow", "SECRET")}}, Options{}, llm.KindRateLimit},
		"no reply":                    {whole(`{}`), Options{}, llm.KindGarbage},
		"no JSON":                     {whole(`SECRET`), Options{}, llm.KindGarbage},
		"a page":                      {Answer{Header: map[string]string{"Content-Type": "text/html"}, Pieces: []string{"<html>"}}, Options{}, llm.KindGarbage},
		"too large":                   {whole(f.Whole(strings.Repeat("x", 4096), messages.FinishComplete, counts)), Options{MaxEventBytes: 2048}, llm.KindOversized},
		"broken off":                  {Answer{Header: map[string]string{"Content-Type": "application/json", "Content-Length": "9999"}, Pieces: []string{body}, Drop: true}, Options{}, llm.KindTruncated},
	} {
		got := one(c.answer, c.options)
		if fail := failure(t, got); c.kind != "" && fail.Kind != c.kind || got.Text != "" {
			t.Errorf("%s: %+v of %+v", name, fail, got)
		}
	}
	streaming := s.model(t, Options{URL: srv.URL})
	if got := llmtest.Read(t.Context(), streaming, ask()); !strings.Contains(fmt.Sprint(got.Err), "model.stream: false") {
		t.Errorf("a server that cannot stream: %v", got.Err)
	}
}

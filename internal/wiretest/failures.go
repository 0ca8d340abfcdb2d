package wiretest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

func failure(t *testing.T, o llmtest.Outcome) llm.Failure {
	t.Helper()
	var f *llm.Failure
	if messages.CodeOf(o.Err) != messages.ErrModel || !errors.As(o.Err, &f) {
		t.Fatalf("no failure of a model: %+v", o)
	}
	for _, text := range []string{o.Err.Error(), fmt.Sprintf("%+v %#v %q", o.Err, o.Err, o.Err), fmt.Sprintf("%+v %#v", *f, *f)} {
		if strings.Contains(text, secret) {
			t.Fatalf("the key is in the error: %s", text)
		}
		if strings.Contains(text, "SECRET") {
			t.Fatalf("the provider's words are in the error: %s", text)
		}
	}
	return *f
}

func (s *suite) withheld(t *testing.T) {
	f := &s.Format
	body := f.Begin(1) + f.Text(`"Well, "`) + f.Withheld
	got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
	if fail := failure(t, got); fail.Kind != llm.KindFiltered || fail.Retryable || fail.Code == "" || got.Text != "Well, " {
		t.Errorf("%+v of %+v", fail, got)
	}
}

// What a withheld reply has cost is told, also when it comes after the end.
func (s *suite) withheldUsage(t *testing.T) {
	f := &s.Format
	if f.Late == nil {
		return
	}
	for _, after := range []string{"", "data: {", f.Overloaded} {
		body := f.Begin(1) + f.Text(`"Well, "`) + f.Withheld + f.Late(counts) + after
		got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
		fail := failure(t, got)
		if fail.Kind != llm.KindFiltered || got.Text != "Well, " || got.Usage != (messages.Usage{Input: counts.All, Output: counts.Output}) {
			t.Errorf("%q: %+v of %+v", after, fail, got)
		}
	}
}

// The reply of a model that calls a tool which was not offered is its text before; when that
// is nothing it has not answered.
func (s *suite) called(t *testing.T) {
	f := &s.Format
	if f.Called == "" {
		return
	}
	got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{f.Begin(1) + f.Called}}}), ask())
	if fail := failure(t, got); fail.Kind != llm.KindServer || !fail.Retryable || !strings.Contains(got.Err.Error(), "the request offered none") {
		t.Errorf("%+v of %+v", fail, got)
	}
	got = llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{f.Begin(1) + f.Text(`"Well."`) + f.Called}}}), ask())
	if got.Err != nil || got.Text != "Well." || got.Finish != messages.FinishComplete {
		t.Errorf("%+v", got)
	}
}

func (s *suite) refused(t *testing.T) {
	f := &s.Format
	badKey, badKeyBody := f.BadKey("SECRET Incorrect key provided: " + secret)
	for _, c := range []struct {
		status    int
		body      string
		kind      llm.Kind
		retryable bool
	}{
		{400, f.Refusal(400, "bad", "SECRET "+secret), llm.KindRequest, false},
		{400, f.Refusal(400, secret, secret), llm.KindRequest, false},
		{400, f.TooLongBody, llm.KindContext, false},
		{413, "", llm.KindContext, false},
		{badKey, badKeyBody, llm.KindAuth, false},
		{401, "", llm.KindAuth, false},
		{403, secret, llm.KindAuth, false},
		{404, f.Refusal(404, "model_not_found", "SECRET"), llm.KindRequest, false},
		{404, "<html>" + secret, llm.KindRequest, false},
		{408, "", llm.KindServer, true},
		{422, `{"detail":[{"msg":"SECRET"}]}`, llm.KindRequest, false},
		{429, f.Refusal(429, "slow", "SECRET "+secret), llm.KindRateLimit, true},
		{429, f.Refusal(429, "insufficient_quota", "SECRET"), llm.KindRateLimit, false},
		{429, `{"error":"SECRET"}`, llm.KindRateLimit, true},
		{500, "{", llm.KindServer, true},
		{502, "Bad gateway " + secret, llm.KindServer, true},
		{503, f.Refusal(503, "UNAVAILABLE", "SECRET"), llm.KindOverloaded, true},
		{529, f.Refusal(529, "overloaded_error", "SECRET"), llm.KindOverloaded, true},
		{503, strings.Repeat("x", 1<<20), llm.KindOverloaded, true},
		{418, `[[[[[[[[`, llm.KindRequest, false},
	} {
		srv := NewServer(t, Always(Answer{Status: c.status, Pieces: []string{c.body}, Header: map[string]string{"X-Echo": secret, "Request-Id": secret}}))
		got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask())
		fail := failure(t, got)
		if fail.Kind != c.kind || fail.Retryable != c.retryable || fail.Status != c.status {
			t.Errorf("%d %.60s: %+v, want %s, retryable %v", c.status, c.body, fail, c.kind, c.retryable)
		}
		if n := len(srv.Seen()); n != 1 {
			t.Errorf("%d: %d requests; retries are the runtime's", c.status, n)
		}
		if fail.Kind == llm.KindAuth && !strings.Contains(got.Err.Error(), "TEST_API_KEY_1") {
			t.Errorf("which key? %v", got.Err)
		}
	}
}

func (s *suite) retryAfter(t *testing.T) {
	for _, c := range []struct {
		header, value string
		least, most   time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second, 7 * time.Second},
		{"Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 50 * time.Minute, time.Hour},
		{"Retry-After-Ms", "2500", 2500 * time.Millisecond, 2500 * time.Millisecond},
		{"Retry-After", "1e300", 24 * time.Hour, 24 * time.Hour},
		{"Retry-After", "-3", time.Second, 2 * time.Second}, // nonsense: the pause of docs/spec/cogency.md §12
		{"Retry-After", "soon", time.Second, 2 * time.Second},
		{"Retry-After", "NaN", time.Second, 2 * time.Second},
		{"X", "", time.Second, 2 * time.Second},
	} {
		srv := NewServer(t, Always(Answer{Status: 429, Header: map[string]string{c.header: c.value}}))
		f := failure(t, llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask()))
		if f.RetryAfter < c.least || f.RetryAfter > c.most {
			t.Errorf("%s %s: %v", c.header, c.value, f.RetryAfter)
		}
	}
}

func (s *suite) brokenByProvider(t *testing.T) {
	f := &s.Format
	for _, c := range []struct {
		event     string
		kind      llm.Kind
		retryable bool
	}{{f.Overloaded, llm.KindOverloaded, true}, {f.TooLong, llm.KindContext, false}} {
		for _, before := range []string{"", "Some "} {
			body := f.Begin(1)
			if before != "" {
				body += f.Text(jsonString(before))
			}
			body += c.event + f.Text(`"after"`) + f.End(messages.FinishComplete, counts)
			got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
			if fail := failure(t, got); fail.Kind != c.kind || fail.Retryable != c.retryable || got.Text != before {
				t.Errorf("%+v of %+v, want %s", fail, got, c.kind)
			}
		}
	}
}

// everyTruncation ends the stream at every byte, cleanly and not. Before the finish
// that is a failure; after it the reply is whole, because only its usage can be missing.
func (s *suite) everyTruncation(t *testing.T) {
	f := &s.Format
	body := f.stream("one ", "two")
	sawWhole := false
	for _, end := range []error{nil, io.ErrUnexpectedEOF} {
		for i := range len(body) + 1 {
			got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body[:i]}, err: end}}), ask())
			if !strings.HasPrefix("one two", got.Text) {
				t.Fatalf("cut at %d: %q", i, got.Text)
			}
			if got.Err == nil {
				sawWhole = true
				if got.Text != "one two" || got.Finish != messages.FinishComplete {
					t.Fatalf("cut at %d: %+v", i, got)
				}
				continue
			}
			if sawWhole {
				t.Fatalf("cut at %d: %v, and it was whole before", i, got.Err)
			}
			if fail := failure(t, got); fail.Kind != llm.KindTruncated || !fail.Retryable {
				t.Fatalf("cut at %d: %+v", i, fail)
			}
		}
		if !sawWhole {
			t.Error("no finish in the stream?")
		}
		sawWhole = false
	}
}

func (s *suite) dropped(t *testing.T) {
	f := &s.Format
	srv := NewServer(t, Always(Answer{Pieces: []string{f.Begin(1), f.Text(`"Some"`)}, Drop: true}))
	got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask())
	if fail := failure(t, got); fail.Kind != llm.KindTruncated || got.Text != "Some" {
		t.Errorf("%+v of %+v", fail, got)
	}
}

func (s *suite) oversized(t *testing.T) {
	f := &s.Format
	const limit = 2048
	for name, event := range map[string]string{
		"a long text":      f.Text(jsonString(strings.Repeat("x", limit))),
		"no line end":      "data: " + strings.Repeat("x", 1<<16),
		"many data lines":  strings.Repeat("data: x\n", limit),
		"a long field":     strings.Repeat("y", 1<<16) + ": 1\n\n",
		"a long comment":   ":" + strings.Repeat("z", 1<<16),
		"a long blank one": strings.Repeat(" ", 1<<16),
	} {
		for _, pieces := range [][]string{{f.Begin(1) + f.Text(`"ok"`) + event}, append([]string{f.Begin(1), f.Text(`"ok"`)}, bytewise(event)...)} {
			got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: pieces}, MaxEventBytes: limit}), ask())
			fail := failure(t, got)
			if fail.Kind != llm.KindOversized || fail.Retryable || got.Text != "ok" {
				t.Errorf("%s: %+v of %+v", name, fail, got)
			}
			if !strings.Contains(got.Err.Error(), "2048") {
				t.Errorf("which bound? %v", got.Err)
			}
		}
	}
	large := f.Text(jsonString(strings.Repeat("x", limit-512)))
	got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{f.Begin(1) + large + f.End(messages.FinishComplete, counts)}}, MaxEventBytes: limit}), ask())
	if got.Err != nil || len(got.Text) != limit-512 {
		t.Errorf("an event below the bound: %v", got.Err)
	}
}

func (s *suite) garbage(t *testing.T) {
	f := &s.Format
	for _, event := range append([]string{"data: {\n\n", "data: not JSON " + secret + "\n\n", "data: \x00\xff\n\n"}, f.Wrong...) {
		got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{f.Begin(1) + f.Text(`"ok"`) + event + f.Text(`"after"`)}}}), ask())
		if fail := failure(t, got); fail.Kind != llm.KindGarbage || got.Text != "ok" {
			t.Errorf("%q: %+v of %+v", event, fail, got)
		}
	}
	for _, a := range []Answer{
		{Header: map[string]string{"Content-Type": "text/html"}, Pieces: []string{"<html>" + secret + strings.Repeat("x", 1<<20)}},
		{Header: map[string]string{"Content-Type": "application/json"}, Pieces: []string{`{"choices":[]}`}},
		{Status: 204, Header: map[string]string{"Content-Type": "text/plain"}},
	} {
		if fail := failure(t, llmtest.Read(t.Context(), s.model(t, Options{URL: NewServer(t, Always(a)).URL}), ask())); fail.Kind != llm.KindGarbage || fail.Retryable {
			t.Errorf("%+v: %+v", a.Header, fail)
		}
	}
}

package llmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Adapter is what Wire tests.
type Adapter struct {
	Format Format
	// New makes the adapter's model.
	New func(o Options) (llm.Model, error)
}

// Options are what adapters have in common.
type Options struct {
	URL           string // of a Server; the adapter adds what its base address has
	Keys          *llm.Keys
	MaxTokens     int64
	Prices        map[string]llm.Price
	MaxEventBytes int
	Base          http.RoundTripper
}

// secret is the key of the suite. The server sends it back wherever it can.
const secret = "sk-test-2f8a61c07be94d35"

var counts = Counts{All: 120, CacheRead: 100, Output: 9}

type suite struct {
	Adapter
}

func keys(values ...string) *llm.Keys {
	found, err := llm.FindKeys(llm.KeyNames("TEST"), func(name string) (string, bool) {
		for i, v := range values {
			if name == fmt.Sprintf("TEST_API_KEY_%d", i+1) {
				return v, true
			}
		}
		return "", false
	})
	if err != nil {
		panic(err) // the suite's own
	}
	return llm.NewKeys(found...)
}

func (s *suite) model(t testing.TB, o Options) llm.Model {
	t.Helper()
	if o.Keys == nil {
		o.Keys = keys(secret)
	}
	if o.URL == "" {
		o.URL = "http://provider.invalid"
	}
	m, err := s.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := m.(interface{ CloseIdleConnections() }); ok {
		t.Cleanup(c.CloseIdleConnections)
	}
	return m
}

// ask is the suite's request.
func ask() llm.Request {
	return llm.Request{Session: "local:local:s", Turn: 1, Model: "some-model", Messages: []messages.Message{
		{Role: messages.RoleSystem, Text: "Speak."},
		{Role: messages.RoleUser, Text: "Hello"},
	}}
}

// stream is a whole reply on the wire.
func (f Format) stream(texts ...string) string {
	var b strings.Builder
	b.WriteString(f.Begin(counts.All))
	for _, t := range texts {
		b.WriteString(f.Text(jsonString(t)))
	}
	b.WriteString(f.End(messages.FinishComplete, counts))
	return b.String()
}

// Stream is a whole reply on the wire, in pieces of one event each.
func (f Format) Stream(texts ...string) []string {
	return strings.SplitAfter(f.stream(texts...), "\n\n")
}

// Wire runs the suite.
func Wire(t *testing.T, a Adapter) {
	s := &suite{a}
	t.Run("port", func(t *testing.T) { Port(t, s.port) })
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"request", s.request},
		{"conversation", s.conversation},
		{"nothing to answer", s.nothing},
		{"every cut", s.everyCut},
		{"line ends", s.lineEnds},
		{"characters in pieces", s.characters},
		{"noise", s.noise},
		{"usage and cost", s.usage},
		{"usage of a cancelled reply", s.cancelledUsage},
		{"withheld", s.withheld},
		{"refused", s.refused},
		{"retry after", s.retryAfter},
		{"broken by the provider", s.brokenByProvider},
		{"every truncation", s.everyTruncation},
		{"connection dropped", s.dropped},
		{"oversized event", s.oversized},
		{"garbage", s.garbage},
		{"slow", s.slow},
		{"cancel ends the request", s.cancel},
		{"leaving ends the request", s.leave},
		{"no answer", s.unreachable},
		{"no redirect", s.redirect},
		{"key rotation", s.rotation},
		{"no key", s.noKey},
		{"the environment is not read", s.environment},
		{"many at once", s.many},
	} {
		t.Run(c.name, c.run)
	}
}

func (s *suite) port(t *testing.T, r Reply) llm.Model {
	a := Answer{Status: r.Failure, Hang: r.Hang}
	switch {
	case r.Failure != 0:
		a.Pieces = []string{s.Format.Refusal(r.Failure, "x", "y")}
	default:
		a.Pieces = append(a.Pieces, s.Format.Begin(r.Usage.Input))
		for _, p := range r.Pieces {
			a.Pieces = append(a.Pieces, s.Format.Text(jsonString(p)))
		}
		if !r.Hang {
			a.Pieces = append(a.Pieces, s.Format.End(r.Finish, Counts{All: r.Usage.Input, Output: r.Usage.Output}))
		}
	}
	return s.model(t, Options{URL: NewServer(t, Always(a)).URL})
}

func (s *suite) request(t *testing.T) {
	srv := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	got := Read(t.Context(), s.model(t, Options{URL: srv.URL, MaxTokens: 77}), ask())
	if got.Err != nil || got.Text != "Hi." || got.Finish != messages.FinishComplete {
		t.Fatalf("%+v", got)
	}
	if n := len(srv.Seen()); n != 1 {
		t.Fatalf("%d requests", n)
	}
	seen := srv.Seen()[0]
	path := s.Format.Path
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, "some-model")
	}
	if seen.Path != path {
		t.Errorf("path %s, want %s", seen.Path, path)
	}
	if k := s.Format.Key(seen.Header); k != secret {
		t.Errorf("key %q", k)
	}
	asked, err := s.Format.Asked(seen.Body)
	if err != nil {
		t.Fatalf("%v: %s", err, seen.Body)
	}
	if asked.Model != "some-model" && !strings.Contains(s.Format.Path, "%s") || !asked.Stream || asked.MaxTokens != 77 ||
		asked.System != "Speak." || !slices.Equal(asked.Roles, []string{"user"}) || !slices.Equal(asked.Texts, []string{"Hello"}) {
		t.Errorf("%+v of %s", asked, seen.Body)
	}
	if strings.Contains(string(seen.Body), "local:local") {
		t.Errorf("the session's name goes to the provider: %s", seen.Body)
	}
	if asked.Store != nil && *asked.Store {
		t.Error("the provider may keep the request")
	}
}

func (s *suite) conversation(t *testing.T) {
	srv := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	m := s.model(t, Options{URL: srv.URL})
	req := ask()
	req.Grows = true
	req.Messages = []messages.Message{
		{Role: messages.RoleSystem, Text: "Speak."},
		{Role: messages.RoleAssistant, Text: "Well?"},
		{Role: messages.RoleUser, Text: "One"},
		{Role: messages.RoleUser, Text: " \n"},
		{Role: messages.RoleUser, Text: "Two"},
		{Role: messages.RoleSystem, Text: "Softly."},
		{Role: messages.RoleAssistant, Text: "Three"},
		{Role: messages.RoleUser, Text: "Four \u2028 \"ü\" </s>"},
	}
	if got := Read(t.Context(), m, req); got.Err != nil {
		t.Fatal(got.Err)
	}
	asked, err := s.Format.Asked(srv.Seen()[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	if asked.System != "Speak.\n\nSoftly." || !slices.Equal(asked.Roles, []string{"user", "assistant", "user", "assistant", "user"}) {
		t.Fatalf("%+v", asked)
	}
	if two := asked.Texts[2]; two != "One|Two" && two != "One\n\nTwo" {
		t.Errorf("two messages of one side: %q", two)
	}
	if asked.Texts[1] != "Well?" || asked.Texts[3] != "Three" || asked.Texts[4] != "Four \u2028 \"ü\" </s>" {
		t.Errorf("%q", asked.Texts)
	}
	if s.Format.Name == "anthropic" && asked.Cached != 2 {
		t.Errorf("%d parts are marked for the cache, want the system's and the last", asked.Cached)
	}
}

func (s *suite) nothing(t *testing.T) {
	srv := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	m := s.model(t, Options{URL: srv.URL})
	for _, ms := range [][]messages.Message{nil, {{Role: messages.RoleSystem, Text: "Speak."}}, {{Role: messages.RoleUser, Text: "a"}, {Role: messages.RoleAssistant, Text: "b"}}} {
		req := ask()
		req.Messages = ms
		f := failure(t, Read(t.Context(), m, req))
		if f.Kind != llm.KindRequest || f.Retryable {
			t.Errorf("%+v", f)
		}
	}
	if n := len(srv.Seen()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// replyText has what is hard to cut: two to four bytes a character, an escape, a line end.
const replyText = "Grüße, 世界 😀\nand \"more\" \\ of it"

func (s *suite) everyCut(t *testing.T) {
	body := s.Format.stream(replyText[:9], replyText[9:])
	check := func(what string, pieces []string) {
		t.Helper()
		c := &canned{pieces: pieces}
		got := Read(t.Context(), s.model(t, Options{Base: c}), ask())
		if got.Err != nil || got.Text != replyText || got.Finish != messages.FinishComplete || got.Usage.Estimated || got.Usage.Output != counts.Output {
			t.Fatalf("%s: %+v", what, got)
		}
	}
	for i := range len(body) + 1 {
		check(fmt.Sprint("cut at ", i), cutAt(body, i))
	}
	check("byte by byte", bytewise(body))
	got := Read(t.Context(), s.model(t, Options{URL: NewServer(t, Always(Answer{Pieces: bytewise(body)})).URL}), ask())
	if got.Err != nil || got.Text != replyText {
		t.Errorf("byte by byte over a connection: %+v", got)
	}
}

func (s *suite) lineEnds(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		for _, first := range []string{"", "\ufeff", ": hello" + end + end, end + end} {
			body := first + lineEnds(s.Format.stream("one ", "two"), end)
			for _, pieces := range [][]string{{body}, bytewise(body)} {
				got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: pieces}}), ask())
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
		got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
		if got.Err != nil || got.Text != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got.Text, got.Err, c.want)
		}
	}
}

func (s *suite) noise(t *testing.T) {
	f := &s.Format
	for i, n := range append(slices.Clone(f.Noise), strings.Join(f.Noise, "")) {
		body := f.Begin(1) + n + f.Text(`"one "`) + n + f.Text(`"two"`) + n + f.End(messages.FinishComplete, counts)
		got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{n + body}}}), ask())
		if got.Err != nil || got.Text != "one two" || got.Finish != messages.FinishComplete {
			t.Errorf("noise %d: %+v", i, got)
		}
		if got.Pieces != 2 {
			t.Errorf("noise %d: %d pieces of text, want 2", i, got.Pieces)
		}
	}
	// The word error inside a text is text.
	body := f.stream(`{"error":{"code":500}}`, ` "error" `)
	if got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask()); got.Err != nil || got.Text != `{"error":{"code":500}} "error" ` {
		t.Errorf("%+v", got)
	}
}

func (s *suite) usage(t *testing.T) {
	f := &s.Format
	prices := map[string]llm.Price{"some-model": {Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000}}
	body := f.stream("Hi.")
	got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}, Prices: prices}), ask())
	want := messages.Usage{Input: counts.All, Output: counts.Output, CacheRead: counts.CacheRead}
	if got.Usage != want || got.Unpriced || got.Cost != 20*3+10*3+9*15 { // 100 of 120 at a tenth
		t.Errorf("%+v, want %+v", got, want)
	}
	got = Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
	if got.Usage != want || !got.Unpriced || got.Cost != 0 {
		t.Errorf("without a price: %+v", got)
	}
	for _, finish := range []messages.Finish{messages.FinishComplete, messages.FinishLength} {
		bare := f.Begin(counts.All) + f.Text(`"12345678"`) + f.Bare(finish)
		got = Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{bare}}, Prices: prices}), ask())
		want = messages.Usage{Input: 3, Output: 2, Estimated: true} // 11 and 8 bytes
		if f.EarlyInput {
			want.Input = counts.All
		}
		if got.Err != nil || got.Finish != finish || got.Usage != want || got.Cost != want.Input*3+want.Output*15 {
			t.Errorf("without usage: %+v, want %+v", got, want)
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
	var before, got Outcome
	for c, err := range m.Stream(ctx, ask()) {
		got.take(c, err)
		if len(c.Text) > 0 {
			before = got
			cancel()
		}
	}
	for _, o := range []Outcome{before, got} {
		if o.Usage != want || o.Cost != want.Input*2+want.Output*8 {
			t.Errorf("%+v, want %+v", o, want)
		}
	}
	if got.Finish != messages.FinishCancelled || got.Err != nil {
		t.Errorf("%+v", got)
	}
}

func failure(t *testing.T, o Outcome) llm.Failure {
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
	got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
	if fail := failure(t, got); fail.Kind != llm.KindFiltered || fail.Retryable || fail.Code == "" || got.Text != "Well, " {
		t.Errorf("%+v of %+v", fail, got)
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
		got := Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask())
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
		{"Retry-After", "-3", time.Second, 2 * time.Second}, // nonsense: the pause of cogency.md §12
		{"Retry-After", "soon", time.Second, 2 * time.Second},
		{"Retry-After", "NaN", time.Second, 2 * time.Second},
		{"X", "", time.Second, 2 * time.Second},
	} {
		srv := NewServer(t, Always(Answer{Status: 429, Header: map[string]string{c.header: c.value}}))
		f := failure(t, Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask()))
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
			got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), ask())
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
			got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body[:i]}, err: end}}), ask())
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
	got := Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask())
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
			got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: pieces}, MaxEventBytes: limit}), ask())
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
	got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{f.Begin(1) + large + f.End(messages.FinishComplete, counts)}}, MaxEventBytes: limit}), ask())
	if got.Err != nil || len(got.Text) != limit-512 {
		t.Errorf("an event below the bound: %v", got.Err)
	}
}

func (s *suite) garbage(t *testing.T) {
	f := &s.Format
	for _, event := range append([]string{"data: {\n\n", "data: not JSON " + secret + "\n\n", "data: \x00\xff\n\n"}, f.Wrong...) {
		got := Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{f.Begin(1) + f.Text(`"ok"`) + event + f.Text(`"after"`)}}}), ask())
		if fail := failure(t, got); fail.Kind != llm.KindGarbage || got.Text != "ok" {
			t.Errorf("%q: %+v of %+v", event, fail, got)
		}
	}
	for _, a := range []Answer{
		{Header: map[string]string{"Content-Type": "text/html"}, Pieces: []string{"<html>" + secret + strings.Repeat("x", 1<<20)}},
		{Header: map[string]string{"Content-Type": "application/json"}, Pieces: []string{`{"choices":[]}`}},
		{Status: 204, Header: map[string]string{"Content-Type": "text/plain"}},
	} {
		if fail := failure(t, Read(t.Context(), s.model(t, Options{URL: NewServer(t, Always(a)).URL}), ask())); fail.Kind != llm.KindGarbage || fail.Retryable {
			t.Errorf("%+v: %+v", a.Header, fail)
		}
	}
}

// slow: a piece of text is handed on before the next one is sent.
func (s *suite) slow(t *testing.T) {
	f := &s.Format
	step := make(chan struct{}, 8)
	srv := NewServer(t, Always(Answer{Step: step, Pieces: []string{f.Begin(1), f.Text(`"a"`), f.Text(`"b"`), f.Text(`"c"`), f.End(messages.FinishComplete, counts)}}))
	step <- struct{}{}
	step <- struct{}{}
	var got Outcome
	for c, err := range s.model(t, Options{URL: srv.URL}).Stream(t.Context(), ask()) {
		got.take(c, err)
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
		got := Read(ctx, s.model(t, Options{URL: srv.URL}), ask())
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
	got := Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask())
	if f := failure(t, got); f.Kind != llm.KindNetwork || !f.Retryable || f.Status != 0 {
		t.Errorf("%+v", f)
	}
	if strings.Contains(got.Err.Error(), "127.0.0.1") {
		t.Errorf("the error names the address: %v", got.Err)
	}
	broken := NewServer(t, func(*Seen) Answer { panic(http.ErrAbortHandler) })
	if f := failure(t, Read(t.Context(), s.model(t, Options{URL: broken.URL}), ask())); f.Kind != llm.KindNetwork || !f.Retryable {
		t.Errorf("%+v", f)
	}
}

func (s *suite) redirect(t *testing.T) {
	other := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	srv := NewServer(t, func(seen *Seen) Answer {
		return Answer{Status: 307, Header: map[string]string{"Location": other.URL + seen.Path}}
	})
	if f := failure(t, Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask())); f.Kind != llm.KindRequest || f.Status != 307 {
		t.Errorf("%+v", f)
	}
	if len(other.Seen()) != 0 {
		t.Error("the key went to another server")
	}
}

// rotation drives the adapter as the runtime does, without waiting.
func (s *suite) rotation(t *testing.T) {
	bad, body := s.Format.BadKey("SECRET")
	good := Answer{Pieces: s.Format.Stream("Hi.")}
	for _, c := range []struct {
		name    string
		answers map[string]Answer // by key; the rest succeed
		want    llm.Kind          // "" succeeds
		asked   int               // requests at most, by the rotation alone
	}{
		{"one is wrong", map[string]Answer{"k1": {Status: bad, Pieces: []string{body}}}, "", 2},
		{"two are limited", map[string]Answer{"k1": {Status: 429}, "k2": {Status: 429}}, "", 3},
		{"one is limited, one wrong", map[string]Answer{"k1": {Status: 503}, "k3": {Status: bad, Pieces: []string{body}}}, "", 3},
		{"all are wrong", map[string]Answer{"k1": {Status: 401}, "k2": {Status: 403}, "k3": {Status: bad, Pieces: []string{body}}}, llm.KindAuth, 3},
		{"all are limited", map[string]Answer{"k1": {Status: 429}, "k2": {Status: 429}, "k3": {Status: 429}}, llm.KindRateLimit, 3},
		{"the request is bad", map[string]Answer{"k1": {Status: 400}, "k2": {Status: 400}, "k3": {Status: 400}}, llm.KindRequest, 1},
	} {
		srv := NewServer(t, func(seen *Seen) Answer {
			if a, ok := c.answers[s.Format.Key(seen.Header)]; ok {
				return a
			}
			return good
		})
		m := s.model(t, Options{URL: srv.URL, Keys: keys("k1", "k2", "k3")})
		rotations := 0
		var got Outcome
		for {
			got = Read(t.Context(), m, ask())
			if got.Err == nil {
				break
			}
			step := llm.Policy{}.Next(llm.Attempt{N: 1, Rotations: rotations}, llm.FailureOf(got.Err))
			if step.Do != llm.Rotate {
				break
			}
			if f := llm.FailureOf(got.Err); f.Kind == llm.KindAuth && step.Wait != 0 || f.Kind != llm.KindAuth && (step.Wait < time.Second || step.Wait > 2*time.Second) {
				t.Errorf("%s: waits %v", c.name, step.Wait)
			}
			rotations++
		}
		var kind llm.Kind
		if got.Err != nil {
			kind = llm.FailureOf(got.Err).Kind
		}
		if kind != c.want || len(srv.Seen()) > c.asked {
			t.Errorf("%s: %q after %d requests, want %q after at most %d: %v", c.name, kind, len(srv.Seen()), c.want, c.asked, got.Err)
		}
		used := map[string]bool{}
		for _, seen := range srv.Seen() {
			k := s.Format.Key(seen.Header)
			if used[k] {
				t.Errorf("%s: %s is asked twice", c.name, k)
			}
			used[k] = true
		}
	}
}

func (s *suite) noKey(t *testing.T) {
	srv := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	if got := Read(t.Context(), s.model(t, Options{URL: srv.URL, Keys: llm.NewKeys()}), ask()); got.Err != nil {
		t.Fatal(got.Err)
	}
	h := srv.Seen()[0].Header
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		if v := h.Get(name); v != "" {
			t.Errorf("%s: %s", name, v)
		}
	}
}

// What SDKs would read from the environment by themselves must not count: the
// manifest says where a model is, and which key it gets.
func (s *suite) environment(t *testing.T) {
	elsewhere := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	for _, name := range []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"} {
		t.Setenv(name, elsewhere.URL)
	}
	for _, name := range []string{
		"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN",
		"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
	} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
	t.Setenv("HOME", t.TempDir()) // where SDKs look for profiles
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	srv := NewServer(t, Always(Answer{Pieces: s.Format.Stream("Hi.")}))
	if got := Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask()); got.Err != nil {
		t.Fatal(got.Err)
	}
	if len(elsewhere.Seen()) != 0 {
		t.Fatal("the environment says where the provider is")
	}
	for name, values := range srv.Seen()[0].Header {
		if slices.Contains(values, "from-the-environment") || strings.Contains(strings.Join(values, " "), "from-the-environment") {
			t.Errorf("%s: %s", name, values)
		}
	}
}

func (s *suite) many(t *testing.T) {
	srv := NewServer(t, Always(Answer{Pieces: s.Format.Stream("one ", "two")}))
	m := s.model(t, Options{URL: srv.URL, Keys: keys("k1", "k2")})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if got := Read(t.Context(), m, ask()); got.Err != nil || got.Text != "one two" {
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

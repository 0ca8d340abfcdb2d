package wiretest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
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
	Options       string
	Whole         bool
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
	t.Run("port", func(t *testing.T) { llmtest.Port(t, s.port) })
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"request", s.request},
		{"conversation", s.conversation},
		{"nothing to answer", s.nothing},
		{"options", s.options},
		{"extra members", s.extra},
		{"a refused option", s.refusedOption},
		{"a reply in one piece", s.whole},
		{"every cut", s.everyCut},
		{"line ends", s.lineEnds},
		{"characters in pieces", s.characters},
		{"noise", s.noise},
		{"usage and cost", s.usage},
		{"usage of a cancelled reply", s.cancelledUsage},
		{"usage that makes no sense", s.oddUsage},
		{"calls in the provider's form", s.native},
		{"a request with tools", s.nativeRequest},
		{"calls that break off", s.nativeTruncated},
		{"calls in one piece", s.nativeWhole},
		{"the schema of the answer", s.answer},
		{"withheld", s.withheld},
		{"usage of a withheld reply", s.withheldUsage},
		{"a call that was not offered", s.called},
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

func (s *suite) port(t *testing.T, r llmtest.Reply) llm.Model {
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
	got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL, MaxTokens: 77}), ask())
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
	if got := llmtest.Read(t.Context(), m, req); got.Err != nil {
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

// replyText has what is hard to cut: two to four bytes a character, an escape, a line end.
const replyText = "Grüße, 世界 😀\nand \"more\" \\ of it"

package manifest

import (
	"errors"
	"reflect"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// What a feed leaves out and what it says to be nothing are told apart, in the file
// and in canonical form; a variable that is not set is empty in enabled alone.
func TestFeedValues(t *testing.T) {
	src := []byte(`dialect: plain
environment: {allow: [ON, OFF], variables: {V: "yes"}}
context_feeds:
  - {id: a, type: on_demand}
  - {id: b, type: periodic, interval: 5, cache_ttl: 0, enabled: "${OFF}"}
  - {id: c, type: ingest, cache_ttl: 60, enabled: "${OFF:-}${ON}", source: {params: {paths: [docs]}}}
  - {id: d, enabled: no}
  - {id: e, enabled: "${V}"}
`)
	env := func(name string) (string, bool) { return "true", name == "ON" }
	read := func(src []byte) *Manifest {
		t.Helper()
		l := loader{file: "a", places: map[string]place{}, lookup: env}
		m := l.load(src)
		for _, e := range l.found {
			if e.Reason != ReasonNotInRelease {
				t.Fatal(e)
			}
		}
		return m
	}
	p := func(n int64) *int64 { return &n }
	s := func(s string) *string { return &s }
	want := []Feed{
		{ID: "a", Type: "on_demand"},
		{ID: "b", Type: "periodic", Interval: 5, CacheTTL: p(0), Enabled: s("")},
		{ID: "c", Type: "ingest", CacheTTL: p(60), Enabled: s("true"), Source: FeedSource{Params: map[string]any{"paths": []any{"docs"}}}},
		{ID: "d", Enabled: s("no")},
		{ID: "e", Enabled: s("yes")},
	}
	m := read(src)
	if !reflect.DeepEqual(m.ContextFeeds, want) {
		t.Errorf("read %+v, want %+v", m.ContextFeeds, want)
	}
	if again := read(m.Canonical()); !reflect.DeepEqual(again.ContextFeeds, want) {
		t.Errorf("the canonical form is read as %+v, want %+v\n%s", again.ContextFeeds, want, m.Canonical())
	}

	for src, want := range map[string]string{
		"dialect: plain\nenvironment: {allow: [OFF]}\nsummary: ${OFF}\n":                                  ReasonUndefinedEnv,
		"dialect: plain\nenvironment: {allow: [OFF]}\ncontext_feeds: [{id: \"f${OFF}\"}]\n":               ReasonUndefinedEnv,
		"dialect: plain\nenvironment: {allow: [OFF]}\ncontext_feeds: [{id: f, enabled: \"${SECRET}\"}]\n": ReasonUndefinedEnv,
	} {
		_, err := ParseEnv("a", []byte(src), func(name string) (string, bool) { return "", false })
		found := false
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			var m *messages.Error
			found = found || errors.As(e, &m) && m.Reason == want
		}
		if !found {
			t.Errorf("%q: %v, want %s", src, err, want)
		}
	}
}

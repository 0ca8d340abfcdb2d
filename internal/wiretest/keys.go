package wiretest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/retry"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
)

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
		var got llmtest.Outcome
		for {
			got = llmtest.Read(t.Context(), m, ask())
			if got.Err == nil {
				break
			}
			step := retry.Policy{}.Next(retry.Attempt{N: 1, Rotations: rotations}, llm.FailureOf(got.Err))
			if step.Do != retry.Rotate {
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
	if got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL, Keys: llm.NewKeys()}), ask()); got.Err != nil {
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
	if got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL}), ask()); got.Err != nil {
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

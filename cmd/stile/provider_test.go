//go:build !lite

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/wiretest"
)

const providerKey = "sk-cmd-5577006791947779"

// A model over a network, without a manifest and with one.
func TestRunWithProvider(t *testing.T) {
	for provider, c := range map[string]struct {
		format wiretest.Format
		root   string
	}{"openai": {wiretest.Chat(), "/v1"}, "anthropic": {wiretest.Anthropic(), ""}, "gemini": {wiretest.Gemini(), ""}} {
		t.Run(provider, func(t *testing.T) {
			srv := wiretest.NewServer(t, wiretest.Always(wiretest.Answer{Pieces: c.format.Stream("Ahoy, ", "Ada.")}))
			env := map[string]string{strings.ToUpper(provider) + "_API_KEY": providerKey}
			flags := []string{"run", "--memory", "--provider", provider, "--model", "m-1", "--base-url", srv.URL + c.root}

			a := call{args: append(flags, "I am Ada."), env: env}.do(t)
			if a.status != 0 {
				t.Fatalf("status %d\n%s%s", a.status, a.out, a.err)
			}
			holds(t, a.out, "says     Ahoy, Ada.", "120 tokens in (100 cached), 9 out; cost unknown", "DONE")

			a = call{args: append(flags, "--session", "one"), env: env, in: "From standard input.\n"}.do(t)
			if a.status != 0 {
				t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
			}
			a = call{args: append(flags, example("plain/agent.yaml"), "-"), env: env, in: "With a manifest."}.do(t)
			if a.status != 0 {
				t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
			}
			a = call{args: append(flags, "--dialect", "aeiou", "Not a program comes back."), env: env}.do(t)
			if a.status != int(exitHalt) {
				t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
			}
			var last []string
			for _, seen := range srv.Seen() {
				if k := c.format.Key(seen.Header); k != providerKey {
					t.Errorf("key %q", k)
				}
				asked, err := c.format.Asked(seen.Body)
				if err != nil {
					t.Fatal(err)
				}
				last = append(last, asked.Texts[len(asked.Texts)-1])
			}
			if len(last) != 6 || !strings.Contains(last[5], "It was given this reply") || last[0] != "I am Ada." || last[1] != "From standard input." || last[2] != "With a manifest." || !strings.Contains(last[3], "Not a program comes back.") {
				t.Errorf("%q", last)
			}
		})
	}
}

// A manifest with a price, and a fallback that is asked.
func TestRunWithProviderManifest(t *testing.T) {
	f := wiretest.Anthropic()
	down := wiretest.NewServer(t, wiretest.Always(wiretest.Answer{Status: 400, Pieces: []string{f.Refusal(400, "invalid_request_error", providerKey)}}))
	up := wiretest.NewServer(t, wiretest.Always(wiretest.Answer{Pieces: f.Stream("Ahoy.")}))
	path := write(t, t.TempDir(), "agent.yaml", `
dialect: plain
model:
  provider: anthropic
  model: m-1
  base_url: `+down.URL+`
  secret: SHIP_KEY
  fallback:
    - {provider: anthropic, model: m-2, base_url: `+up.URL+`, secret: SHIP_KEY, price: {input_usd: "3.00", output_usd: "15.00", cache_read_usd: "0.30"}}
`)
	a := call{args: []string{"run", path, "hello", "--memory"}, env: map[string]string{"SHIP_KEY_2": providerKey}}.do(t)
	if a.status != 0 {
		t.Fatalf("status %d\n%s%s", a.status, a.out, a.err)
	}
	holds(t, a.out, "anthropic/m-1 failed, asking anthropic/m-2: STATUS_400", "Ahoy.", "$0.000225")
	if strings.Contains(a.out+a.err, providerKey) {
		t.Error("the key is shown")
	}
	for _, flags := range [][]string{{"--json"}, nil} {
		a = call{args: append([]string{"run", path, "hello", "--dir", t.TempDir()}, flags...), env: map[string]string{"SHIP_KEY": providerKey}}.do(t)
		if a.status != 0 || strings.Contains(a.out+a.err, providerKey) {
			t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
		}
	}
}

// Every provider says in every dialect which variable is missing and what to do about it,
// before anything is made.
func TestProvidersNeedKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	for provider, variables := range map[string]string{
		"openai": "OPENAI_API_KEY: export OPENAI_API_KEY=…", "anthropic": "ANTHROPIC_API_KEY: export ANTHROPIC_API_KEY=…",
		"gemini": "GEMINI_API_KEY or GOOGLE_API_KEY: export GEMINI_API_KEY=…",
	} {
		for _, dialect := range []string{"plain", "aeiou", "cortex", "cogency", "kitsu"} {
			a := stileDo(t, "run", "--provider", provider, "--dialect", dialect, "--model", "m", "hello")
			if a.status != int(exitUsage) || a.out != "" {
				t.Errorf("%s, %s: status %d\n%s%s", provider, dialect, a.status, a.out, a.err)
			}
			if want := "stile: model.provider: ERR_CONFIG: " + provider + " needs a key, and there is none in the environment variable " + variables; !strings.HasPrefix(a.err, want) {
				t.Errorf("%s, %s: %q, want %q…", provider, dialect, a.err, want)
			}
			holds(t, a.err, "model.secret", "base_url")
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("made: %v %v", left, err)
	}
}

// What is missing is said before anything is made or asked.
func TestRunWithoutKey(t *testing.T) {
	dir := t.TempDir()
	manifest := write(t, dir, "agent.yaml", "dialect: plain\nmodel: {provider: gemini, model: m, secret: MY_KEY}\n")
	pasted := write(t, dir, "pasted.yaml", "dialect: plain\nmodel: {provider: gemini, model: m, secret: "+providerKey+"}\n")
	inURL := write(t, dir, "url.yaml", "dialect: plain\nmodel: {provider: openai, model: m, base_url: \"https://me:"+providerKey+"@host/v1\"}\n")
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"--provider", "openai", "--model", "m", "hello"}, []string{"model.provider: ERR_CONFIG", "OPENAI_API_KEY"}},
		{[]string{"--provider", "anthropic", "--model", "m", "hello"}, []string{"ANTHROPIC_API_KEY"}},
		{[]string{"--provider", "gemini", "--model", "m", "hello"}, []string{"environment variable GEMINI_API_KEY"}},
		{[]string{manifest, "hello"}, []string{"model.secret: ERR_CONFIG", "MY_KEY"}},
		{[]string{pasted, "hello"}, []string{"pasted.yaml:2:", "model.secret: ERR_CONFIG", "does not belong"}},
		{[]string{inURL, "hello"}, []string{"url.yaml:2:", "model.base_url: ERR_CONFIG"}},
		{[]string{"--provider", "openai", "hello"}, []string{"--model: ERR_CONFIG"}},
		{[]string{"--provider", "openai", "--model", "m", "--base-url", "https://me:" + providerKey + "@host/v1", "hello"}, []string{"model.base_url: ERR_CONFIG"}},
		{[]string{"--provider", "openai", "--model", "m", "--base-url", "localhost:11434", "hello"}, []string{"model.base_url: ERR_CONFIG"}},
		{[]string{"--provider", "deepthought", "--model", "m", "hello"}, []string{"there is no provider deepthought"}},
		{[]string{"--provider", "openai", "--model", "m", "--dialect", "morse", "hello"}, []string{"dialect: ERR_CONFIG"}},
		{[]string{"--dialect", "aeiou", manifest, "hello"}, []string{"--dialect: ERR_CONFIG"}},
		{[]string{"--provider", "openai", "--model", "m", "--dialect", "plain", manifest, "hello"}, []string{"--dialect: ERR_CONFIG"}},
	} {
		a := call{args: append([]string{"run"}, c.args...), env: map[string]string{"OPENAI_KEY_21": providerKey, "XOPENAI_API_KEY": providerKey}}.do(t)
		if a.status != int(exitUsage) {
			t.Errorf("%q: status %d\n%s%s", c.args, a.status, a.out, a.err)
		}
		holds(t, a.err, c.wants...)
		if strings.Contains(a.err+a.out, providerKey) {
			t.Errorf("%q: the key is shown: %s", c.args, a.err)
		}
	}
	if a := stileDo(t, "sessions", "list"); a.status != int(exitUsage) {
		t.Errorf("a data directory was made: %s", a.out)
	}
}

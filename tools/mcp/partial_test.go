package mcp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// A server sends pieces of its result: they are shown while it works, without secrets, and are
// the beginning of the result. What is no piece is progress.
func TestPartialResults(t *testing.T) {
	const key = "k3y&sec\"ret"
	for name, reach := range map[string]func(*testing.T) Config{
		"stdio": func(*testing.T) Config { return self("serve") },
		"http":  func(t *testing.T) Config { return Config{Name: "test", URL: newSite(t).URL} },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := reach(t)
			cfg.Secrets, cfg.MaxBytes = []string{"KEY"}, 1000
			s := server(t, pool(t, Options{Secret: func(string) (string, bool) { return key, true }}), cfg)
			seen := filepath.Join(t.TempDir(), "seen")
			for _, c := range []struct {
				name, parts, want string
				whole             bool // the pieces are the result
			}{
				{"pieces", "!half|one is a number, |zwölf is another |?" + seen + "|and three|", `"one is a number, zwölf is another and three"`, true},
				{"the result has more", "one and one is a number |?" + seen + "|=one and one is a number and so on|", `"one and one is a number and so on"`, true},
				{"a secret over two pieces", "my " + key[:5] + "|" + key[5:] + "! it is long enough, isn't it|?" + seen + "|", `"my [redacted]! it is long enough, isn't it"`, true},
				{"another result", "one is long enough for that, I say|?" + seen + "|=two|", `"two"`, false},
				{"no pieces", "!half|=two|", `"two"`, false},
				{"too much", strings.Repeat("a long piece of it|", 100) + "=end|", `"end"`, false},
			} {
				_ = os.Remove(seen)
				var shown strings.Builder
				progress := make(chan string, 20)
				action := &tools.Call{
					Sink: func(_ context.Context, text string) error {
						shown.WriteString(text)
						return os.WriteFile(seen, nil, 0o600)
					},
					Host: seam.Host{Progress: func(done, total int64, text string) { progress <- fmt.Sprintf("%d/%d %s", done, total, text) }},
				}
				args := fmt.Sprintf(`{"text":%q}`, c.parts)
				got, err := s.Do(ctx, action, "parts", messages.Effectful, args)
				if err != nil || got != c.want {
					t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
				}
				if text := shown.String(); (text == plan.StreamedText(got)) != c.whole || strings.Contains(text, "sec") || len(text) > 1000 {
					t.Errorf("%s: shown %q", c.name, text)
				}
				if plain := call(t, s, "parts", strings.ReplaceAll(args, seen, os.Args[0])); plain != c.want {
					t.Errorf("%s: %s without pieces", c.name, plain)
				}
				if c.name == "pieces" {
					// It came before the piece that the server has waited for. What comes with the
					// result may find its call ended.
					if p := <-progress; p != "0/9 half" {
						t.Errorf("progress %q", p)
					}
				}
				s.mu.Lock()
				if len(s.watched) > 0 {
					t.Errorf("%s: watched after its end", c.name)
				}
				s.mu.Unlock()
			}
		})
	}
}

// However a text is cut, its pieces are what redact makes of the whole.
func TestVeil(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	secrets := []string{"ab c", "b/"}
	for range 3000 {
		var whole, got strings.Builder
		v := newVeil(secrets)
		for range rnd.IntN(8) {
			piece := ""
			for range rnd.IntN(6) {
				piece += []string{"a", "b", " ", "c", "/", "+", "%20", "b%2F"}[rnd.IntN(8)]
			}
			whole.WriteString(piece)
			got.WriteString(v.pass(piece))
		}
		if got.WriteString(redact(v.rest, secrets)); got.String() != redact(whole.String(), secrets) {
			t.Fatalf("%q becomes %q, want %q", whole.String(), got.String(), redact(whole.String(), secrets))
		}
	}
}

//go:build !lite

package tests

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// One agent, every dialect, every provider: what is asked over the wire teaches the
// dialect, what comes back is read in it, the tool's result goes back, and a replay needs
// none of them.
func TestEveryDialectOnEveryProvider(t *testing.T) {
	// What a model says in a dialect to have "ada" in capitals, by what it was told last.
	says := map[string]struct {
		first, then string
		told        string // in the request of the second turn; "" when there is none
		shown       string // to the user, in the end
	}{
		"plain":   {first: "ADA", shown: "ADA"},
		"aeiou":   {first: program(`set x = tool.str.ToUpper("ada")`, "emit x", sayDone), shown: "ADA"},
		"cortex":  {first: `<action id="a" type="tool">{"name":"str.ToUpper","parameters":{"s":"ada"}}</action>`, then: `<response final="true">$a</response>`, told: `"ADA"`, shown: "ADA"},
		"cogency": {first: `<think>Capitals.</think><execute>[{"name":"str.ToUpper","args":{"s":"ada"}}]</execute>`, then: "It is ADA.<end>", told: `"content":"ADA"`, shown: "It is ADA."},
		"kitsu":   {first: "Let me look.\n<action:search query=\"ada\">", then: "It is ADA.", told: `"action":"search"`, shown: "It is ADA."},
	}
	for dialect, say := range says {
		for _, v := range vendors {
			t.Run(dialect+"/"+v.format.Name, func(t *testing.T) {
				f, n := v.format, 0
				srv := wiretest.NewServer(t, func(seen *wiretest.Seen) wiretest.Answer {
					text := say.first
					if n++; n > 1 {
						text = say.then
					}
					cut := len(text) / 2
					return wiretest.Answer{Pieces: f.Stream(text[:cut], text[cut:])}
				})
				rt := start(t, stile.Config{Store: memory.New(), Providers: providers(map[string]string{"THE_KEY": testKey})})
				a := v.agent(t, dialect, srv.URL, "")
				if dialect == "kitsu" {
					a.Manifest.Kitsu.Search = manifest.SearchStub
				}
				if dialect == "aeiou" || dialect == "cortex" || dialect == "cogency" {
					a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "str.ToUpper")
				}
				s := open(t, rt, "s", a)
				wantDone(t, ask(t, s, "ada, please"))
				seen := srv.Seen()
				want := 1
				if say.told != "" {
					want = 2
				}
				if len(seen) != want {
					t.Fatalf("asked %d times, want %d", len(seen), want)
				}
				asked, err := f.Asked(seen[0].Body)
				if err != nil {
					t.Fatal(err)
				}
				if marker := map[string]string{"aeiou": "NSENV", "cortex": "<action", "cogency": "<execute>", "kitsu": "<action:search"}[dialect]; !strings.Contains(asked.System+strings.Join(asked.Texts, "\n"), marker) {
					t.Errorf("nothing teaches %s: %+v", dialect, asked)
				}
				if say.told != "" {
					asked, err := f.Asked(seen[1].Body)
					if err != nil {
						t.Fatal(err)
					}
					if all := strings.Join(asked.Texts, "\n"); !strings.Contains(all, say.told) {
						t.Errorf("the second turn is not told %s:\n%s", say.told, all)
					}
				}
				recs := records(t, s)
				last := ""
				for _, r := range recs {
					switch b := r.Body.(type) {
					case *messages.UnitText:
						if b.UnitKind == messages.ResponseUnit {
							last = b.Text
						}
					case *messages.Emit:
						if !b.Candidate {
							last = b.Text
						}
					}
				}
				if strings.TrimSpace(last) != say.shown {
					t.Errorf("shown %q, want %q", last, say.shown)
				}
				if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

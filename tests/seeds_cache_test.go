package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// The examples of caches in the seed, with an operation and without, run as they are written on
// key-value relics of each scope: the value is there for its ttl, and gone after it. That of a user
// or tenant is there for another session.
func TestCachesOfTheSeed(t *testing.T) {
	relics := regexp.MustCompile(`(?s)<action type="relic".*?</action>`)
	example := func(file string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("testdata", "seeds", file))
		if err != nil {
			t.Fatal(err)
		}
		found := relics.FindAllString(string(b), -1)
		if len(found) != 1 {
			t.Fatalf("%s has %d relics", file, len(found))
		}
		return found[0]
	}
	for _, c := range []struct {
		file, relic, key, needs string
		ttl                     time.Duration
	}{
		{"line0361.txt", "redis_cache", "result_123", `<action id="compute" mode="sync">{"name":"own.report","output_key":"computed_result"}</action>`, time.Hour},
		{"line0550.txt", "results_cache", "ai_research_report", `<action id="analyze" mode="async">{"name":"own.report","output_key":"comprehensive_analysis"}</action>`, 24 * time.Hour},
	} {
		for _, scope := range []string{"session", "user", "tenant"} {
			t.Run(c.relic+" of a "+scope, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					get := `<action type="relic" id="get" mode="sync">{"name":"` + c.relic + `","parameters":{"operation":"get","key":"` + c.key + `"}}</action><response>${get.value}, ${get.found}</response>`
					m := &recorder{Model: scripted.New(c.needs+example(c.file)+`<response>kept</response>`, get, get)}
					a := fed(t, m, "import: {relics: ["+c.relic+"]}\ndefine:\n  relics: [{name: "+c.relic+", service_type: key_value, scope: "+scope+"}]\n",
						tool("own.report", messages.ReadOnly, gives("the report")))
					rt := start(t, stile.Config{})
					s := open(t, rt, "cache", a)
					begun := time.Now()
					wantDone(t, ask(t, s, "go"))
					synctest.Wait()
					if scope != "session" {
						reads := *a
						reads.Model = scripted.New(get, get)
						s = open(t, rt, "reader", &reads)
					}
					time.Sleep(c.ttl - time.Second - time.Since(begun))
					wantDone(t, ask(t, s, "is it there?"))
					time.Sleep(2 * time.Second)
					wantDone(t, ask(t, s, "and now?"))
					if got := said(t, s); !strings.Contains(got, "the report, true") || !strings.Contains(got, "null, false") || strings.Index(got, "true") > strings.Index(got, "false") {
						t.Errorf("said %q", got)
					}
					if _, err := rt.Replay(t.Context(), "cache", a); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

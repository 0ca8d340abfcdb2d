package tests

import (
	"flag"
	"fmt"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/pagetest"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

var rewriteSizes = flag.Bool("sizes", false, "write the table of prompt sizes again")

// primerBudgets bound what the system says without instructions, profile and security, in
// bytes, for an agent with one tool of two scalar parameters.
var primerBudgets = []struct {
	dialect, reply string
	short, full    int
}{
	{"plain", "Hello.", 0, 0},
	{"kitsu", "Hello.", 716, 1228},
	{"cogency", "Hello.<end>", 1024, 2048},
	{"cortex", `<response>Hello.</response>`, 1536, 3072},
	{"aeiou", program(sayDone), 3072, 6144},
}

// TestPrimerSizes: what a model is told costs no more than it may, and the table of
// docs/choosing.md has the sizes.
func TestPrimerSizes(t *testing.T) {
	rows := "\n| dialect | `primer: short` | `primer: full` |\n| --- | --- | --- |\n"
	for _, b := range primerBudgets {
		short, full := toldBytes(t, b.dialect, b.reply, manifest.PrimerShort), toldBytes(t, b.dialect, b.reply, manifest.PrimerFull)
		if short > b.short || full > b.full {
			t.Errorf("%s: %d bytes short, %d full; at most %d and %d", b.dialect, short, full, b.short, b.full)
		}
		rows += fmt.Sprintf("| `%s` | %d | %d |\n", b.dialect, short, full)
	}
	pagetest.Table(t, "../docs/choosing.md", "sizes: go test ./tests -run TestPrimerSizes -sizes", rows, *rewriteSizes)
}

// toldBytes is the size of what the system says to the model of an agent with one tool.
func toldBytes(t *testing.T, dialect, reply, primer string) (n int) {
	t.Helper()
	find := tool("notes.find", messages.ReadOnly, gives("a note"))
	find.Description = "Finds notes that hold a word."
	find.Params = []neuroscript.Param{{Name: "word", Type: "string"}, {Name: "most", Type: "int", Optional: true}}
	m := manifest.Default(dialect)
	m.Primer = primer
	own := []tools.Tool{find}
	if dialect != "plain" {
		m.Import.Tools = []string{"notes.find"}
	}
	model := &recorder{Model: scripted.New(reply)}
	rt := start(t, stile.Config{})
	wantDone(t, ask(t, open(t, rt, "stream", &stile.Agent{Manifest: m, Model: model, Tools: own}), "Hello?"))
	for _, said := range model.requests()[0].Messages {
		if said.Role == messages.RoleSystem {
			n += len(said.Text)
		}
	}
	return n
}

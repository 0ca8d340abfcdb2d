package tests

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

var rewritePrimers = flag.Bool("primers", false, "write testdata/primers again")

// The same agent in every dialect: what each model is told is in a golden file.
func TestPrimers(t *testing.T) {
	note := tool("notes.find", messages.ReadOnly, gives("a note"))
	note.Description = "Finds notes that hold all of the words."
	note.Params = []neuroscript.Param{{Name: "words", Type: "list<string>"}, {Name: "most", Type: "int", Optional: true}}
	write := tool("notes.write", messages.Effectful, gives("done"))
	write.Description = "Writes a note.\nOne line of it is not enough."
	write.Params = []neuroscript.Param{{Name: "text", Type: "string"}}
	for dialect, reply := range map[string]string{
		"plain":   "Hello.",
		"aeiou":   program(sayDone),
		"cortex":  `<response final="true">Hello.</response>`,
		"cogency": "Hello.<end>",
		"kitsu":   "Hello.",
	} {
		m := manifest.Default(dialect)
		m.Import.Tools = []string{"notes.find", "notes.write"}
		model := &recorder{Model: scripted.New(reply)}
		rt := start(t, stile.Config{})
		wantDone(t, ask(t, open(t, rt, "stream", &stile.Agent{Manifest: m, Model: model, Tools: []tools.Tool{note, write}}), "Hello?"))
		got := ""
		if first := model.requests()[0].Messages[0]; first.Role == messages.RoleSystem {
			got = first.Text
		}
		file := filepath.Join("testdata", "primers", dialect+".txt")
		if *rewritePrimers {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: the model is told\n%s\nthe file says\n%s\ngo test ./tests -run TestPrimers -primers writes it again", dialect, got, want)
		}
	}
}

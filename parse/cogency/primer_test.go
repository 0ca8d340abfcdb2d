package cogency

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// oneTool has two scalar parameters: what the bounds of primers are counted with.
var oneTool = []messages.ToolSpec{{
	Name: "read", Signature: "(file, start?)", Description: "Reads a file.",
	Schema: `{"type":"object","properties":{"file":{"type":"string"},"start":{"type":"integer"}},"required":["file"],"additionalProperties":false}`,
}}

var severalTools = append(append([]messages.ToolSpec(nil), oneTool...),
	messages.ToolSpec{
		Name: "notes.add", Signature: "(lines, kind, loud)", Description: "Adds\nlines.",
		Schema: `{"type":"object","properties":{"lines":{"type":"array","items":{"type":"string"}},"kind":{"type":"string"},"loud":{"type":"boolean"}},"required":["lines","kind","loud"]}`,
	},
	messages.ToolSpec{
		Name: "set", Signature: "(mode, n)",
		Schema: `{"type":"object","properties":{"mode":{"type":"string","enum":["on","off"]},"n":{"type":"integer","minimum":3}},"required":["mode","n"]}`,
	},
	messages.ToolSpec{Name: "now", Signature: "()"},
)

// Primers of rendering 2 teach what the agent has, in few bytes, and their example is one that
// the dialect reads.
func TestSecondPrimer(t *testing.T) {
	for _, c := range []struct {
		name  string
		tools []messages.ToolSpec
		short bool
		most  int // bytes
	}{
		{"none", nil, false, 160},
		{"none-short", nil, true, 160},
		{"one", oneTool, false, 2048},
		{"one-short", oneTool, true, 1024},
		{"several", severalTools, false, 4096},
		{"several-short", severalTools, true, 2048},
	} {
		got := Dialect{Rendering: 2, Short: c.short}.Primer(c.tools)
		if len(got) > c.most {
			t.Errorf("%s: %d bytes, at most %d", c.name, len(got), c.most)
		}
		file := filepath.Join("testdata", "primer-"+c.name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: %s\nthe file says\n%s\n-update writes it again", c.name, got, want)
		}
		for _, word := range []string{"CALL", "TOOL", "MOST"} {
			if strings.Contains(got, word) {
				t.Errorf("%s: %s was not filled in", c.name, word)
			}
		}
		if len(c.tools) == 0 {
			if strings.Contains(got, "execute") {
				t.Errorf("%s: calls are taught where there are none: %s", c.name, got)
			}
			continue
		}
	}
	for i := range severalTools {
		tools := severalTools[i : i+1]
		got := Dialect{Rendering: 2}.Primer(tools)
		_, rest, _ := strings.Cut(got, "You: <execute>")
		batch, _, _ := strings.Cut(rest, "\n")
		read := decode(t, Dialect{}, messages.FinishStop, []byte("<execute>"+batch))
		if len(read.all) != 2 || read.all[0].Type != Call || !strings.HasPrefix(read.all[0].Content, `{"name":"`+tools[0].Name+`"`) {
			t.Errorf("the example %s is read as %s", batch, read.events)
		}
	}
	const want = `{"name":"set","args":{"mode":"on","n":3}}`
	if got := decode(t, Dialect{}, messages.FinishStop, []byte("<execute>["+example(&severalTools[2])+"]</execute>")); got.all[0].Content != want {
		t.Errorf("%s, want %s", got.all[0].Content, want)
	}
}

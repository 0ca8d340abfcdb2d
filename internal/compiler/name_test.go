package compiler

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// A command may have a name of one word, and neither that of a built-in tool nor one
// that a reference cannot tell from another target's.
func TestNamesOfTargets(t *testing.T) {
	own := tools.Tool{Name: "lab.tick", Class: messages.ReadOnly, Run: catalog.TimeNow(nil).Run}
	const command = "{name: NAME, implementation: {type: command, entrypoint: [/bin/true]}}"
	for _, c := range []struct{ name, yaml, want string }{
		{"one word", "import: {tools: [web_scraper]}\ndefine: {tools: [" + strings.Replace(command, "NAME", "web_scraper", 1) + "]}", ""},
		{"built in", "import: {tools: [read]}\ndefine: {tools: [" + strings.Replace(command, "NAME", "read", 1) + "]}", "define.tools[0].name: ERR_CONFIG/DUPLICATE: read is a built-in tool"},
		{"built in, in another case", "import: {tools: [str.toupper]}\ndefine: {tools: [" + strings.Replace(command, "NAME", "str.toupper", 1) + "]}", "str.toupper is a built-in tool"},
		{"two tools", "import: {tools: [lab.tick, lab_tick]}\ndefine: {tools: [" + strings.Replace(command, "NAME", "lab_tick", 1) + "]}", "lab.tick and lab_tick differ in '.' and '_' alone"},
		{"two, of which one is imported", "import: {tools: [lab_tick]}\ndefine: {tools: [" + strings.Replace(command, "NAME", "lab_tick", 1) + "]}", ""},
		{"a tool and a workflow", "import: {tools: [lab.tick], workflows: [lab_tick]}\ndefine: {workflows: [{name: lab_tick, steps: [{id: a, name: lab.tick}]}]}", "lab.tick and lab_tick differ"},
		{"the same name of two types", "import: {tools: [lab.tick], workflows: [lab.tick]}\ndefine: {workflows: [{name: lab.tick, steps: [{id: a, name: lab.tick}]}]}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\n"+c.yaml+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			def := &Definition{Manifest: m, Tools: []tools.Tool{own}, Dir: t.TempDir(), Model: scripted.New("x")}
			again := checking()
			again.Mode = Replay
			_, err = Compile(context.Background(), again, def)
			if err != nil && c.want != "" && strings.Contains(c.want, "differ") {
				t.Errorf("a replay: %v", err)
			}
			_, err = Compile(context.Background(), checking(), def)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// builtins names what a registry with everything imported has.
func TestBuiltins(t *testing.T) {
	e := checking()
	m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nmemory: {recall: true}\nimport: {tools: [file.read, read, shell, scrape, search]}\nsearch: {base_url: \"http://127.0.0.1:1\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.registry(&Definition{Manifest: m, Dir: t.TempDir()}, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, s := range r.Specs(nil) {
		has = append(has, s.Name)
	}
	want := builtins()
	slices.Sort(has)
	slices.Sort(want)
	if !slices.Equal(has, want) {
		t.Errorf("the registry has\n%q\nbuiltins are\n%q", has, want)
	}
}

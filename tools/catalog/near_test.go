package catalog

import (
	"context"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

func TestMissing(t *testing.T) {
	run := func(context.Context, *tools.Call) (tools.Value, error) { return tools.Value{}, nil }
	var own []tools.Tool
	var names []string
	for _, name := range []string{"file.read", "file.list", "lab.echo", "web_scraper", "git.tree"} {
		own = append(own, tools.Tool{Name: name, Description: name, Run: run})
		names = append(names, name)
	}
	registry, err := New(own...)
	if err != nil {
		t.Fatal(err)
	}
	targets := NewTargets(apply(t, registry, Policy{Allow: names}), neuroscript.Limits{})
	for _, x := range []*Executor{{Type: messages.TypeAgent, Name: "writer"}, {Type: messages.TypeRelic, Name: "cache"}} {
		if err := targets.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		typ        messages.ActionType
		name, want string
	}{
		{"", "LAB.echo", `no tool "LAB.echo"; near: lab.echo`},
		{"", "File.Read", `no tool "File.Read"; near: file.read, file.list`},
		{messages.TypeTool, "read_file", `no tool "read_file"; near: file.read, file.list`},
		{messages.TypeTool, "readFile", `no tool "readFile"; near: file.read, file.list`},
		{messages.TypeTool, "webscraper", `no tool "webscraper"; near: web_scraper`},
		{messages.TypeTool, "web_scrape", `no tool "web_scrape"; near: web_scraper`},
		{messages.TypeTool, "writer", `no tool "writer"; it is called with type="agent"`},
		{messages.TypeTool, "zzz", `no tool "zzz"; there is: file.list, file.read, git.tree, lab.echo, web_scraper`},
		{messages.TypeAgent, "write", `no agent "write"; near: writer`},
		{messages.TypeLLM, "zzz", `no llm "zzz"; there is no llm at all`},
	} {
		if got := targets.Missing(c.typ, c.name); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.typ, c.name, got, c.want)
		}
	}
}

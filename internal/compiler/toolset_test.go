package compiler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/mcp"
)

// What import names is there, by itself or with its group, and what is not is refused
// with the names that are near.
func TestImports(t *testing.T) {
	own := tools.Tool{Name: "lab.tick", Class: messages.ReadOnly, Run: catalog.TimeNow(nil).Run}
	for _, c := range []struct {
		name, yaml string
		want       string // what the agent has, or the error
	}{
		{"nothing", "{}", "[]"},
		{"a tool", "{tools: [str.ToUpper]}", "[str.ToUpper]"},
		{"a group", "{tools: [error.*, userdata.*]}", "[error.New userdata.get]"},
		{"a group and one of it", "{tools: [error.*, error.New]}", "[error.New]"},
		{"a group of the host's", "{tools: [lab.*]}", "[lab.tick]"},
		{"files", "{tools: [file.*]}", "[file.list file.read file.stat]"},
		{"in any case", "{tools: [ERROR.*]}", "[error.New]"},
		{"a misspelt tool", "{tools: [str.Upper]}", `import.tools[0]: ERR_CONFIG/BAD_VALUE: there is no tool str.Upper; near: str.ToUpper`},
		{"a tool that is not of the agent", "{tools: [lab.tick, reed]}", `import.tools[1]: ERR_CONFIG/BAD_VALUE: there is no tool reed; near: read`},
		{"a misspelt group", "{tools: [strs.*]}", `there is no tool in the group strs; near: str`},
		{"a group of nothing", "{tools: [zzz.*]}", `there is no tool in the group zzz`},
		{"a group of a server that is not asked here", "{tools: [web.*], mcp: [{name: web, url: \"http://127.0.0.1:1\"}]}", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nimport: "+c.yaml+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			a, err := Compile(context.Background(), checking(), &Definition{Manifest: m, Tools: []tools.Tool{own}, Dir: t.TempDir(), Model: scripted.New("x")})
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(a.Actor.Tools.Names())
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A group covers what the model may have as the source of a feed, and commands of the
// agent.
func TestGroupsOfCommandsAndFeeds(t *testing.T) {
	m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nimport: {tools: [lab.*]}\n"+
		"define: {tools: [{name: lab.count, class: read_only, implementation: {type: command, entrypoint: [/bin/true]}}]}\n"+
		"context_feeds: [{id: n, source: {type: tool, name: lab.count}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Compile(context.Background(), checking(), &Definition{Manifest: m, Dir: t.TempDir(), Model: scripted.New("x")})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(a.Actor.Tools.Names()); got != "[lab.count]" {
		t.Error(got)
	}
	if got := a.Actor.Feeds.Permission.Import["tool"]; !slices.Contains(got, "lab.count") {
		t.Errorf("%q", got)
	}
}

// A name with a '*' stands for the server's tools that are named so.
func TestServerToolsByPattern(t *testing.T) {
	there := []mcp.Tool{{Name: "read_file"}, {Name: "read_dir"}, {Name: "write"}}
	for _, c := range []struct{ listed, want string }{
		{"read_*", "read_file:read_only read_dir:read_only"},
		{"*", "read_file:read_only read_dir:read_only write:read_only"},
		{"read_* write", "read_file:read_only read_dir:read_only write:"},
		{"read_dir *", "read_dir: read_file:read_only write:read_only"},
		{"delete_*", "none"},
	} {
		d := manifest.MCP{Name: "files"}
		for _, name := range strings.Fields(c.listed) {
			own := manifest.MCPTool{Name: name}
			if strings.Contains(name, "*") {
				own.Class = messages.ReadOnly
			}
			d.Tools = append(d.Tools, own)
		}
		err := offeredBy(&d, there)
		var got []string
		for _, own := range d.Tools {
			got = append(got, own.Name+":"+string(own.Class))
		}
		if text := strings.Join(got, " "); text != c.want && (c.want != "none" || messages.CodeOf(err) != messages.ErrConfig) {
			t.Errorf("%s: %s, %v; want %s", c.listed, text, err, c.want)
		}
	}
}

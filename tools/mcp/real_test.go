package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
)

// nodeServers is where npm put servers of others: a folder with node_modules.
const nodeServers = "STILE_TEST_MCP_SERVERS"

// node is a server of others, by its package. false says that there is none here.
func node(t *testing.T, pkg string, args ...string) (Config, bool) {
	t.Helper()
	dir := os.Getenv(nodeServers)
	main := filepath.Join(dir, "node_modules", filepath.FromSlash(pkg), "dist", "index.js")
	if _, err := os.Stat(main); dir == "" || err != nil {
		if os.Getenv("STILE_REQUIRE_MCP") != "" {
			t.Fatalf("%s is required and not in %s=%q: %v", pkg, nodeServers, dir, err)
		}
		t.Logf("ran without %s; make test installs it when there is npm", pkg)
		return Config{}, false
	}
	main, err := filepath.Abs(main)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Name: "node", Command: append([]string{"node", main}, args...)}, true
}

// TestNodeServers says with which servers of others the tests of this package ran.
func TestNodeServers(t *testing.T) {
	for pkg, arg := range map[string]string{"@modelcontextprotocol/server-everything": "stdio", "@modelcontextprotocol/server-filesystem": t.TempDir()} {
		cfg, ok := node(t, pkg, arg)
		if !ok {
			continue
		}
		all, _, err := server(t, pool(t, Options{}), cfg).Tools(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range all { // every schema of theirs can be used
			if _, err := catalog.NewForeign(catalog.Foreign{Name: "node." + Name(tool.Name), Description: tool.Description, Schema: tool.Schema, Do: nil}); err != nil {
				t.Errorf("%s: %v", tool.Name, err)
			}
		}
		t.Logf("ran with %s, which offers %d tools", pkg, len(all))
	}
}

func TestNodeEverything(t *testing.T) {
	t.Setenv("STILE_TEST_KEY", "not for servers")
	cfg, ok := node(t, "@modelcontextprotocol/server-everything", "stdio")
	if !ok {
		return
	}
	s := server(t, pool(t, Options{}), cfg)
	if got := call(t, s, "echo", `{"message":"hello"}`); got != `"Echo: hello"` {
		t.Errorf("got %s", got)
	}
	if got := call(t, s, "get-sum", `{"a":40,"b":2}`); !strings.Contains(got, "42") {
		t.Errorf("got %s", got)
	}
	if got := call(t, s, "get-structured-content", `{"location":"New York"}`); !strings.HasPrefix(got, `{"`) || !strings.Contains(got, "temperature") {
		t.Errorf("got %s", got)
	}
	if got := call(t, s, "get-tiny-image", `{}`); !strings.Contains(got, `"mime":"image/png"`) || len(got) > 1000 {
		t.Errorf("got %s", got)
	}
	if got := call(t, s, "get-env", `{}`); strings.Contains(got, "STILE_TEST_KEY") || !strings.Contains(got, "PATH") {
		t.Errorf("its environment is %s", got)
	}
	_, err := s.Call(ctx, "get-sum", messages.Effectful, `{"a":"no"}`)
	wantScript(t, err, neuroscript.CodeToolFailed)
}

func TestNodeFilesystem(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg, ok := node(t, "@modelcontextprotocol/server-filesystem", dir)
	if !ok {
		return
	}
	s := server(t, pool(t, Options{}), cfg)
	file := filepath.Join(dir, "a.txt")
	call(t, s, "write_file", fmt.Sprintf(`{"path":%q,"content":"written by a tool"}`, file))
	if b, err := os.ReadFile(file); err != nil || string(b) != "written by a tool" {
		t.Errorf("%q, %v", b, err)
	}
	if got := call(t, s, "read_text_file", fmt.Sprintf(`{"path":%q}`, file)); !strings.Contains(got, "written by a tool") {
		t.Errorf("got %s", got)
	}
	_, err = s.Call(ctx, "read_text_file", messages.ReadOnly, `{"path":"/etc/passwd"}`)
	wantScript(t, err, neuroscript.CodeToolFailed, "denied")
}

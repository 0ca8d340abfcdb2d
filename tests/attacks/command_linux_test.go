package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/confine"
)

const byCommand attacker = "program of the manifest" // a command or an MCP server, that a model leads astray

// programAgent is an agent with the attacker as a command and as the program of an MCP server,
// in the folder that has the data directory in it.
const programAgent = `
kind: Agent
name: %s
dialect: cogency
model: {provider: scripted, script: script.jsonl}
quotas: {result: 1MiB}
approval: {default: approve}
import:
  tools: [attack]
  mcp: [{name: site, command: [./attacker, %[3]s.txt, mcp], resources: {memory: 1024GiB}, confine: %[2]s, connect_timeout: 60s, timeout: 60s}]
define:
  tools:
    - {name: attack, implementation: {type: command, entrypoint: [./attacker, %[3]s.txt, command], resources: {memory: 1024GiB, files: 256}, confine: %[2]s}}
`

// programAgents are what their programs may reach.
var programAgents = map[string]string{"guarded": "{isolation: guard}", "confined": "{write: [cell]}"}

// report makes attacks and says how they went, as a command or an MCP server does.
func report(as string, attacks func() string) {
	switch as {
	case "command":
		b, _ := json.Marshal(attacks())
		fmt.Println(string(b))
	case "mcp":
		for in := json.NewDecoder(os.Stdin); ; {
			var req struct {
				ID     json.RawMessage
				Method string
			}
			if in.Decode(&req) != nil {
				return
			}
			if req.ID == nil {
				continue
			}
			result := `{}`
			switch req.Method {
			case "initialize":
				result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
			case "tools/list":
				result = `{"tools":[{"name":"attack","inputSchema":{"type":"object"}}]}`
			case "tools/call":
				var out bytes.Buffer
				e := json.NewEncoder(&out)
				_ = e.Encode(map[string]any{"content": []any{map[string]string{"type": "text", "text": attacks()}}})
				result = strings.TrimSpace(out.String())
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result)
		}
	default:
		fmt.Print(attacks())
	}
}

// commandRows are what commands and MCP servers try, which are programs of the manifest's
// author, and confused by what a model asks of them.
func commandRows(w *world) (rows []row) {
	file, err := os.Open(filepath.Join(w.outside, "secret.txt"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	inherited, err := unix.Dup(int(file.Fd()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = unix.Close(inherited) })
	data := func(name string) string { return filepath.Join(w.data, name) }
	host := strconv.Itoa(os.Getpid())
	for name, link := range map[string]func(string, string) error{"hard-command": os.Link, "link-command": os.Symlink} {
		if err := link(data("keys.json"), filepath.Join(w.agent, name)); err != nil {
			w.t.Fatal(err)
		}
	}
	var both []string
	for _, path := range []string{data("keys.json"), data("tokens.json"), data(stile.JournalFile), data("audit.jsonl"), filepath.Join(w.agent, "tls.pem")} {
		for _, how := range []string{"read", "append", "write", "reopen", "by-root", "by-child", "mode", "times", "remove", "hardlink"} {
			both = append(both, how+" "+path)
		}
	}
	for _, how := range []string{"from-path", "map", "copy-range", "openat2", "by-shell", "by-thread", "by-link", "free-of-landlock", "allocate", "truncating-open", "truncate", "rename-in", "exchange", "mode-open", "mode-at", "mode-of-open", "mode-by-link", "times-by-link", "chown", "chgrp", "lchown", "attribute", "setuid", "handle", "by-host " + host} {
		both = append(both, how+" "+data("keys.json"))
	}
	for _, path := range []string{filepath.Join(w.agent, "guarded.yaml"), filepath.Join(w.agent, "files.yaml"), filepath.Join(w.agent, "count.sh"), filepath.Join(w.agent, programName)} {
		for _, how := range []string{"append", "remove", "rename-in", "exchange", "mode", "times"} {
			both = append(both, how+" "+path)
		}
	}
	for _, how := range []string{"write", "mkdir", "symlink-out", "hardlink-out", "rename-out", "fifo-out"} {
		both = append(both, how+" "+data("tokens.json.new"))
	}
	both = append(both, "read "+filepath.Join(w.agent, "hard-command"), "append "+filepath.Join(w.agent, "hard-command"), "read "+filepath.Join(w.agent, "link-command"), "rename-in "+w.data, "mode "+w.data, "times "+w.data, "rename-in "+w.agent, "mode "+w.agent,
		"read /proc/"+host+"/environ", "read /proc/"+host+"/maps", "read /proc/"+host+"/mem", "write /proc/"+host+"/mem", "write /proc/"+host+"/oom_score_adj", "ptrace "+host, "seize "+host, "memory-read "+host, "memory-write "+host, "pidfd-take "+host, "signal "+host, "limit 7 "+host, "limit 0 "+host, "affinity "+host, "scheduler "+host, "priority "+host, "disk "+host,
		"host-thread read", "host-thread write", "host-thread seize", "host-thread tgkill", "host-thread kill", "host-thread pidfd", "host-thread own",
		"read /dev/mem", "write /proc/sys/kernel/core_pattern", "write /sys/fs/cgroup/cgroup.procs", "node", "block-node", "mount", "bind "+w.data, "umount", "pivot", "chroot", "module", "kexec", "ring", "environment", "descriptor "+strconv.Itoa(inherited))
	tries := map[string][]string{
		"guarded": both,
		"confined": append(slices.Clone(both), "read "+filepath.Join(w.outside, "secret.txt"), "append "+filepath.Join(w.outside, "secret.txt"), "append "+filepath.Join(w.agent, "mine.txt"), "write "+filepath.Join(w.agent, "made"), "write /tmp/stile-attack", "list /proc/"+host+"/fd", "list /", "list /proc", "list /etc", "read /etc/passwd", "read /proc/version",
			"tcp "+strings.TrimPrefix(w.url, "http://"), "socket 1 1 0", "socket 2 1 0", "socket 2 2 0", "socket 16 3 0", "unshare 0x10000000", "clone 0x10000000", "watch "+w.data, "shm"),
	}
	for agent, all := range tries {
		w.put(filepath.Join(w.agent, agent+".txt"), strings.Join(all, "\n"))
		for name, class := range map[string]string{"attack": "commands, ", "site.attack": "programs of servers, "} {
			got := sync.OnceValues(func() (map[string]string, error) {
				told, err := w.calls(agent, []tool{{name, map[string]any{}}})
				if err != nil {
					return nil, err
				}
				var text string
				if json.Unmarshal([]byte(told[0].Content), &text) != nil {
					text = told[0].Content
				}
				how := said(text)
				if len(how) != len(all) {
					return nil, errf("%d of %d attacks: %s", len(how), len(all), told[0].String())
				}
				return how, w.harmed()
			})
			for _, what := range all {
				r := row{class: class + agent, by: byCommand, tries: strings.ReplaceAll(what, filepath.Dir(w.outside), "…"), holds: "refused", cannot: jailMissing()}
				if box := confine.Probe(); strings.HasPrefix(what, "signal") && box.ABI < 6 {
					r.cannot = fmt.Sprintf("Landlock %d, and 6 stops it", box.ABI)
				}
				r.attack = func() error {
					how, err := got()
					if err != nil {
						return err
					}
					if is := how[what]; !strings.HasPrefix(is, "refused ") || strings.Contains(is, errNoAttack.Error()) {
						return errf("%s", is)
					}
					return nil
				}
				rows = append(rows, r)
			}
		}
	}
	return rows
}

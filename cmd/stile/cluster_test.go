//go:build !lite

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/postgrestest"
)

// Two hosts of a cluster that began with empty folders and one secret: the commands make, list and
// revoke the tokens of both, list the hosts, and drain one.
func TestCommandsOfACluster(t *testing.T) {
	base, ok := postgrestest.ForTest(t)
	if !ok {
		return
	}
	env := map[string]string{envJournal: postgrestest.With(t, base, "schema", postgrestest.Schema(t, base))}
	dir := t.TempDir()
	write(t, dir, "secret", strings.Repeat("0123456789abcdef", 4)+"\n")
	config, address, urls := map[string]string{}, map[string]string{}, map[string]string{}
	for _, name := range []string{"a", "b"} {
		address[name] = free(t)
		config[name] = write(t, dir, name+".yaml", fmt.Sprintf("listen: 127.0.0.1:0\nauth: tokens\ndir: %s\ncluster:\n  address: %s\n  secret_file: secret\n", name, address[name]))
	}
	do := func(args ...string) string {
		t.Helper()
		a := call{args: args, env: env}.do(t)
		if a.status != 0 {
			t.Fatalf("%q: status %d\n%s%s", args, a.status, a.out, a.err)
		}
		return strings.TrimSpace(a.out)
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it does not come: %s", what)
			}
		}
	}
	if a := (call{args: []string{"serve", example("plain/agent.yaml"), "--config", config["a"]}, env: env}).do(t); a.status == 0 || !strings.Contains(a.err, "no tokens in the database of the cluster") {
		t.Errorf("a host without tokens: status %d, %s", a.status, a.err)
	}
	token := do("tokens", "create", "--config", config["a"], "--scope", "admin,operator")
	for _, name := range []string{"a", "b"} {
		urls[name], _ = served(t, env, example("plain/agent.yaml"), "--config", config[name])
		if status, got := ask(t, http.MethodGet, urls[name]+"/v1/tokens", token, ""); status != http.StatusOK || strings.Count(got, `"state":"good"`) != 1 {
			t.Errorf("%s: %d, %s", name, status, got)
		}
		if _, err := os.Stat(filepath.Join(dir, name, tokenFile)); err == nil {
			t.Errorf("%s has a file of tokens", name)
		}
	}
	second := do("tokens", "create", "--config", config["b"], "--scope", "read")
	until("a token that the command made", func() bool {
		status, _ := ask(t, http.MethodGet, urls["a"]+"/v1/sessions", second, "")
		return status == http.StatusOK
	})
	holds(t, do("doctor", example("plain/agent.yaml"), "--config", config["b"], "--json"), "2 good tokens")
	do("tokens", "revoke", strings.Split(second, "_")[1], "--config", config["b"])
	until("a revocation by the command", func() bool {
		status, _ := ask(t, http.MethodGet, urls["a"]+"/v1/sessions", second, "")
		return status == http.StatusUnauthorized
	})
	holds(t, do("tokens", "list", "--config", config["a"]), "good", "revoked")

	hosts := func() map[string]string {
		t.Helper()
		states := map[string]string{}
		for line := range strings.Lines(do("hosts", "list", "--json")) {
			var v hostView
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			states[v.Address] = v.State
		}
		return states
	}
	if got := hosts(); len(got) != 2 || got[address["a"]] != "live" || got[address["b"]] != "live" {
		t.Errorf("%v", got)
	}
	list := do("hosts", "list")
	holds(t, list, "ADDRESS", address["a"])
	holds(t, list, "ADDRESS", address["b"])
	ready := func(name string) int {
		t.Helper()
		status, _ := ask(t, http.MethodGet, urls[name]+"/readyz", "", "")
		return status
	}
	if ready("a") != http.StatusOK || ready("b") != http.StatusOK {
		t.Error("a host is not ready")
	}
	do("hosts", "drain", address["b"])
	if got := hosts(); got[address["a"]] != "live" || got[address["b"]] != "draining" {
		t.Errorf("%v", got)
	}
	until("the end of readiness", func() bool { return ready("b") == http.StatusServiceUnavailable })
	if ready("a") != http.StatusOK {
		t.Error("the other host is not ready")
	}
	if a := (call{args: []string{"hosts", "drain", "192.0.2.1:1"}, env: env}).do(t); a.status == 0 || !strings.Contains(a.err, "NOT_FOUND") {
		t.Errorf("a host that there is not: status %d, %s", a.status, a.err)
	}
}

// free is an address that no process listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

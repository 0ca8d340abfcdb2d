package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shop is an agent in files: a tool that writes to a witness, one that reads, and a script.
// Its manifest is agent.yaml in the folder.
type shop struct {
	dir, data string
	manifest  string
}

const shopManifest = `kind: Agent
name: shop
dialect: cortex
instructions: You keep a shop.
model: {provider: scripted, script: shop.jsonl}
import: {tools: [sell, stock]}
define:
  tools:
    - {name: sell, class: effectful, parameters: [{name: what, type: string, required: true}], implementation: {type: command, entrypoint: [/bin/sh, sell.sh]}}
    - {name: stock, class: read_only, parameters: [{name: what, type: string, required: true}], implementation: {type: command, entrypoint: [/bin/sh, stock.sh]}}
loop: {max_turns: 4}
`

// shopScript answers by what the prompt holds, so that it says the same in every session.
const shopScript = `{"match": {"contains": "sold tea"}, "chunks": [{"text": "<response>Tea is sold.</response>"}], "usage": {"input": 20, "output": 5}}
{"match": {"contains": "buy tea"}, "chunks": [{"text": "<action id=\"s\" mode=\"sync\">{\"name\":\"sell\",\"parameters\":{\"what\":\"tea\"}}</action>"}], "usage": {"input": 10, "output": 4}}
{"match": {"contains": "buy milk"}, "chunks": [{"text": "<action id=\"m\" mode=\"sync\">{\"name\":\"sell\",\"parameters\":{\"what\":\"milk\"}}</action><response>Done.</response>"}], "usage": {"input": 10, "output": 4}}
{"chunks": [{"text": "<response>Good day.</response>"}], "usage": {"input": 10, "output": 3}}
`

func newShop(t *testing.T) shop {
	t.Helper()
	dir := t.TempDir()
	s := shop{dir: dir, data: filepath.Join(dir, "data")}
	witness := filepath.Join(dir, "sold", "witness")
	if err := os.Mkdir(filepath.Dir(witness), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "sell.sh", "echo sold >> '"+witness+"'\nprintf '\"sold tea\"'\n")
	write(t, dir, "stock.sh", "echo looked >> '"+witness+"'\nprintf '3'\n")
	write(t, dir, "shop.jsonl", shopScript)
	s.manifest = write(t, dir, "agent.yaml", shopManifest)
	return s
}

// witness is what the tools did.
func (s shop) witness(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "sold", "witness"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func TestForkStopAndInput(t *testing.T) {
	s := newShop(t)
	must(t, "run", s.manifest, "buy tea", "--dir", s.data, "--session", "a")
	if s.witness(t) != "sold\n" {
		t.Fatal(s.witness(t))
	}
	// Stopped, nothing of the old run goes on.
	out := must(t, "fork", "a", "--at", "1", "--stop", "--dir", s.data, "--as", "stopped")
	holds(t, out, "local:local:stopped  1 run, 1 turn, head ")
	if strings.Contains(out, "--resume") {
		t.Error(out)
	}
	out = must(t, "run", s.manifest, "hello", "--dir", s.data, "--session", "stopped")
	holds(t, out, "session  local:local:stopped", "DONE")
	if strings.Contains(out, "goes on") {
		t.Error(out)
	}
	// Not stopped, the next process shows what goes on before its own run.
	holds(t, must(t, "fork", "a", "--at", "1", "--dir", s.data, "--as", "goes"), "a run of it is open: stile run MANIFEST --session local:local:goes --resume")
	holds(t, must(t, "run", s.manifest, "hello", "--dir", s.data, "--session", "goes"),
		"session  local:local:goes\n", "goes on  run 1, which was open\n", "Tea is sold.", "DONE", "hello")
	// A policy is about the run that is open, so that is not waited for.
	must(t, "fork", "a", "--at", "1", "--dir", s.data, "--as", "cut")
	out = stileDo(t, "run", s.manifest, "hello", "--dir", s.data, "--session", "cut", "--policy", "interrupt").out
	holds(t, out, "open     run 1 goes on until the message comes", "session  local:local:cut\n", "hello")
	if strings.Contains(out, "goes on  run 1") {
		t.Error(out)
	}
	// Another input, in its place; it is there after a restart and runs when it is resumed.
	must(t, "fork", "a", "--input", "good day", "--dir", s.data, "--as", "again")
	out = must(t, "run", s.manifest, "--session", "again", "--resume", "--dir", s.data)
	holds(t, out, "goes on  run 1", "good day", "Good day.", "DONE")
	if strings.Contains(out, "buy tea") || s.witness(t) != "sold\n" {
		t.Errorf("%s\n%s", out, s.witness(t))
	}
	must(t, "verify", "--dir", s.data)
	for _, sid := range []string{"stopped", "goes", "again"} {
		must(t, "replay", sid, "--dir", s.data)
	}
	for say, args := range map[string][]string{
		"nothing is open":  {"run", s.manifest, "--session", "again", "--resume"},
		"needs --session":  {"run", s.manifest, "--resume"},
		"takes no MESSAGE": {"run", s.manifest, "x", "--session", "again", "--resume"},
		"wants no input":   {"fork", "a", "--stop", "--input", "x"},
		"is empty":         {"fork", "a", "--input", ""},
		"no turn":          {"fork", "a", "--at", "9", "--input", "x"},
	} {
		a := stileDo(t, append(args, "--dir", s.data)...)
		if a.status != int(exitUsage) || !strings.Contains(a.err, say) {
			t.Errorf("%q: status %d, %q, want %s", args, a.status, a.err, say)
		}
	}
}

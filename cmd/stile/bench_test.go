package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/bench/growth"
	"github.com/seed14be6753/stile/bench/measure"
)

const quick = `name: quick
arrivals: {rate: 200, for: 100ms, process: even}
agents:
  - {name: bench-call, calls: 2, class: effectful, tokens: 3}
jobs:
  - {agent: bench-call}
`

// A load runs in process, shows and writes what came of it, and is judged; nothing of it comes
// into the data directory of the settings.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	file, result, page := write(t, dir, "quick.yaml", quick), filepath.Join(dir, "r.json"), filepath.Join(dir, "r.html")
	host := filepath.Join(dir, "host")
	a := call{args: []string{"bench", file, "--memory", "--no-own", "--json", result, "--html", page, "--threshold", "errors <= 0", "--threshold", "halts <= 0", "--repeat", "2"}, env: map[string]string{"STILE_DIR": host}}.do(t)
	if a.status != 0 {
		t.Fatalf("status %d\n%s%s", a.status, a.out, a.err)
	}
	holds(t, a.out, "quick: 38 submits", "2 rounds", "in memory", "decisions    38 DONE", "errors <= 0: holds")
	b, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	r, err := measure.Read(result, b)
	if err != nil || len(r.Rounds) != 2 || r.Rounds[1].Fates[measure.Ended] != 19 || r.Workload.Name != "quick" {
		t.Errorf("%v %+v", err, r)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.HasPrefix(string(b), "<!doctype html>") {
		t.Errorf("%v: %.40s", err, b)
	}
	if _, err := os.Stat(host); err == nil {
		t.Error("the load made the data directory of the settings")
	}
	holds(t, must(t, "bench", "compare", result, result), "throughput", "+0.0%", "1.000")

	below := stileDo(t, "bench", file, "--memory", "--no-own", "--threshold", "p50(end) < 1us", "--for", "20ms")
	if below.status != int(exitBelow) {
		t.Errorf("status %d\n%s%s", below.status, below.out, below.err)
	}
	holds(t, below.out, "p50(end) < 1us: DOES NOT HOLD")

	var out measure.Result
	onDisk := stileDo(t, "bench", file, "--dir", filepath.Join(dir, "kept"), "--for", "20ms", "--json", "-")
	if err := json.Unmarshal([]byte(onDisk.out), &out); err != nil || onDisk.status != 0 || out.Own == nil || out.Own.CPUMicrosEach <= 0 {
		t.Errorf("status %d, %v\n%s%s", onDisk.status, err, onDisk.out, onDisk.err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kept")); err != nil {
		t.Errorf("the journal did not stay: %v", err)
	}
}

func TestBenchRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := write(t, dir, "bad.yaml", strings.Replace(quick, "rate: 200", "rate: fast", 1))
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"nothing"}, []string{"WORKLOAD", "echo, call, parallel"}},
		{[]string{bad}, []string{bad + ":2", "arrivals.rate", "want a number"}},
		{[]string{"--rate", "0"}, []string{"--rate", "want 0.001"}},
		{[]string{"--for", "1s", "--ramp", "2s"}, []string{"--ramp", "want 0 to"}},
		{[]string{"--threshold", "p99 < 1"}, []string{"threshold", "want such as"}},
		{[]string{"--host", "localhost"}, []string{"host", "want an address"}},
		{[]string{"--host", "http://localhost:1", "--memory"}, []string{"--host", "goes not together"}},
		{[]string{"--memory", "--dir", dir}, []string{"--memory", "goes not together"}},
		{[]string{"--agent", "x"}, []string{"--agent", "goes with --host"}},
		{[]string{"--model", "x"}, []string{"--model", "goes with --openai"}},
		{[]string{"--sticky", "--host", "http://127.0.0.1:1"}, []string{"--sticky", "several addresses"}},
		{[]string{"--pid", "1"}, []string{"--pid", "goes with --host and --openai"}},
		{[]string{"--repeat", "0", "--timeout", "0s"}, []string{"--repeat", "--timeout"}},
	} {
		a := stileDo(t, append([]string{"bench"}, c.args...)...)
		if a.status != int(exitUsage) {
			t.Errorf("%q: status %d\n%s%s", c.args, a.status, a.out, a.err)
		}
		holds(t, a.err, c.want...)
	}
	if a := stileDo(t, "bench", "compare", bad, bad); a.status != int(exitUsage) {
		t.Errorf("status %d\n%s", a.status, a.err)
	}
}

// A host that is killed in the middle of its work loses no run and does no effect twice.
func TestBenchRecovery(t *testing.T) {
	t.Setenv(asCommand, "1")
	file := write(t, t.TempDir(), "w.yaml", `name: killed
agents: [{name: bench-killed, calls: 2, class: effectful, tool: 100ms, tokens: 3, gap: 20ms}]
jobs: [{agent: bench-killed}]
`)
	a := stileDo(t, "bench", "recovery", file, "--kills", "1", "--runs", "12", "--after", "1ms")
	if a.status != 0 {
		t.Fatalf("status %d\n%s%s", a.status, a.out, a.err)
	}
	holds(t, a.out, "killed: 1 kills", "0 of them twice", "lost runs    0")
	holds(t, a.err, "kill 1 of 1: ")
}

func TestBenchGrowth(t *testing.T) {
	var r growth.Report
	a := stileDo(t, "bench", "growth", "call", "--memory", "--runs", "20", "--sessions", "5", "--json")
	if err := json.Unmarshal([]byte(a.out), &r); err != nil || a.status != 0 {
		t.Fatalf("status %d, %v\n%s%s", a.status, err, a.out, a.err)
	}
	if len(r.Lengths) != 3 || r.Lengths[2].Runs != 16 || r.Lengths[0].P50Micros <= 0 || r.Lengths[0].Journal <= 0 || len(r.Counts) != 1 || r.Counts[0].Sessions != 5 {
		t.Errorf("%+v", r)
	}
	holds(t, must(t, "bench", "growth", "--memory", "--runs", "3", "--sessions", "0"), "echo: a run", "to the power of")
}

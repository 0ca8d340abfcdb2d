package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The committed page and plots are those of the committed record.
func TestPageIsOfTheRecord(t *testing.T) {
	const docs = "../../docs"
	r, err := readRecord(docs)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{pageFile: r.page()}
	for _, w := range workloads {
		want[plotFile(w)] = r.plot(w)
	}
	for name, b := range want {
		got, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, b) {
			t.Errorf("docs/%s is not what docs/%s gives; run go run ./bench/peers -page", name, recordFile)
		}
	}
}

// A row that could not be run says why, and stays in the tables.
func TestRowThatFailed(t *testing.T) {
	r := &record{Planned: 1, Unprepared: []string{"eino: no network"}, Rows: []*measured{
		{Row: "stile, memory", Workload: "call", Rounds: []figures{{10, 10, 500, 1000, 2000, 5e7}, {10, 9, 700, 1100, 2100, 6e7}, {10, 10, 600, 1200, 2200, 7e7}}},
		{Row: "eino, ReAct agent", Workload: "call", Error: "exec:\nnot found"},
	}}
	page := string(r.page())
	for _, want := range []string{
		"| **stile, memory** | 29 of 30 | 600µs (500µs–700µs) | 1.10ms (1.00ms–1.20ms) | 2.10ms (2.00ms–2.20ms) | 60 MB (50 MB–70 MB) |",
		"| eino, ReAct agent | exec: not found |", "Not measured: eino: no network",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if plot := string(r.plot("stream")); !strings.Contains(plot, "stile serve, SQLite") || strings.Contains(plot, "<circle") {
		t.Error("a plot of nothing has points, or no names")
	}
}

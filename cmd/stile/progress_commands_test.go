package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All sessions are replayed, those that differ are named, and those that cannot be replayed are left out with
// the reason; quietly, only what differs is told.
func TestReplayAll(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for i := range 4 {
		must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", fmt.Sprintf("s%d", i))
	}
	holds(t, must(t, "replay", "--all", "--dir", data), "s0", "s1", "s2", "s3", "4 sessions replayed, 4 turns, 0 different, 0 left out")
	if out := must(t, "replay", "--all", "--quiet", "--dir", data); out != "4 sessions replayed, 4 turns, 0 different, 0 left out\n" {
		t.Errorf("%q", out)
	}
	alter(t, data, `UPDATE records SET body = replace(body, 'I am Ada', 'I am Bob') WHERE type = 'input' AND pos >> 32 IN (SELECT id FROM sessions WHERE sid = 'local:local:s1')`)
	a := stileDo(t, "replay", "--all", "--quiet", "--dir", data)
	if a.status != int(exitDifference) || !strings.Contains(a.out, "s1") || strings.Contains(a.out, "s2") || !strings.Contains(a.out, "1 different") {
		t.Errorf("%+v", a)
	}
	for _, args := range [][]string{{"replay"}, {"replay", "s1", "--all"}, {"replay", "--all", "--live"}, {"replay", "--all", "--manifest", "x"}} {
		if a := stileDo(t, append(args, "--dir", data)...); a.status != 2 {
			t.Errorf("%q: %+v", args, a)
		}
	}
}

// An interrupt says what long work came to; a terminal shows how far it is, and quietly does not.
func TestLongWorkShowsItself(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	for i := range 3 {
		must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", fmt.Sprintf("s%d", i))
	}
	must(t, "backup", filepath.Join(dir, "good"), "--dir", data)
	vectors := filepath.Join("..", "..", "tests", "testdata", "vectors")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"replay", "--all", "--dir", data}, "interrupted: 0 sessions replayed"},
		{[]string{"conform", vectors}, "interrupted: 0 passed"},
		{[]string{"conform", vectors, "--json"}, `"ok": false`},
		{[]string{"restore", filepath.Join(dir, "good"), "--dir", filepath.Join(dir, "back")}, "nothing was restored"},
		{[]string{"backup", filepath.Join(dir, "cut"), "--dir", data}, "is no backup"},
		{[]string{"sim", "--turns", "100000"}, "0 turns"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var told strings.Builder
		status := execute(ctx, c.args, console{in: strings.NewReader(""), out: &told, err: &told, env: func(string) string { return "" }})
		if got := strings.ReplaceAll(told.String(), `"ok":false`, `"ok": false`); status != int(exitInterrupted) || !strings.Contains(got, c.want) {
			t.Errorf("%q: status %d\n%s", c.args, status, &told)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "back", "journal.db")); !os.IsNotExist(err) {
		t.Errorf("an interrupted restore left a journal: %v", err)
	}
	for quiet, want := range map[bool]bool{false: true, true: false} {
		args := []string{"sim", "--seed", "1", "--turns", "400", "--workers", "1"}
		if quiet {
			args = append(args, "--quiet")
		}
		var shown strings.Builder
		a := &app{console: console{out: io.Discard, err: &shown, outTerminal: true}}
		p := a.progressOf("turn", 400)
		if p == nil {
			t.Fatal("a terminal shows nothing")
		}
		p.drawn = p.begun.Add(-drawEvery) // the next one is drawn
		p.reach(7)
		if !strings.Contains(shown.String(), "7 of 400 turns") {
			t.Errorf("%q", &shown)
		}
		shown.Reset()
		if status := execute(t.Context(), args, console{in: strings.NewReader(""), out: io.Discard, err: &shown, env: func(string) string { return "" }, outTerminal: true}); status != 0 || !want && shown.Len() > 0 {
			t.Errorf("%q: status %d, %q", args, status, &shown)
		}
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Sessions are described, listed by what they have, found by part of their name, and added up.
func TestSessionLists(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	run := func(name string, more ...string) {
		must(t, append([]string{"run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", name}, more...)...)
	}
	run("acme:ann:ada", "--title", "Refund of Order 17", "--tag", "desk=3", "--tag", "arm=b")
	run("acme:bob:x", "--tag", "arm=a")
	run("x")
	run("acme:ann:ada", "--tag", "urgent")
	list := func(want string, args ...string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(must(t, append([]string{"sessions", "list", "--json", "--dir", data}, args...)...)) {
			var s sessionJSON
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatal(err)
			}
			got = append(got, s.SID)
			if s.Agent != "plain" || s.Created.After(s.Updated) || s.Manifest == "" {
				t.Errorf("%+v", s)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %s", args, got, want)
		}
	}
	list("acme:ann:ada local:local:x acme:bob:x")
	list("acme:ann:ada local:local:x", "--limit", "2")
	list("acme:ann:ada acme:bob:x", "--tag", "arm")
	list("acme:ann:ada", "--tag", "arm=b", "--tag", "urgent")
	list("acme:ann:ada", "--title", "order", "--since", "1h")
	list("", "--agent", "none")
	list("acme:ann:ada local:local:x acme:bob:x", "--agent", "plain", "--state", "idle")
	list("", "--state", "suspended")
	list("", "--since", "2100-01-01")
	list("acme:bob:x", "--prefix", "acme:bob:")
	holds(t, must(t, "sessions", "list", "--dir", data), "UPDATED", "AGENT", "TITLE", "Refund of Order 17 [arm=b] [desk=3] [urgent]", time.Now().Format("2006-01-"))
	holds(t, must(t, "sessions", "show", "acme:ann:ada", "--dir", data), "about    Refund of Order 17 [arm=b] [desk=3]\n")
	must(t, "verify", "--dir", data)
	must(t, "replay", "acme:ann:ada", "--dir", data)
	must(t, "fork", "acme:ann:ada", "--as", "acme:ann:again", "--dir", data)
	list("acme:ann:again acme:ann:ada", "--tag", "urgent") // a fork takes title and tags over, and is new
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sessions", "show", "ada", "--dir", data}, "did you mean acme:ann:ada?"},
		{[]string{"sessions", "export", "ada", "--dir", data}, "did you mean acme:ann:ada?"},
		{[]string{"sessions", "show", "nobody", "--dir", data}, "no session local:local:nobody"},
		{[]string{"sessions", "list", "--state", "asleep", "--dir", data}, "--state"},
		{[]string{"sessions", "list", "--since", "yesterday", "--dir", data}, "--since"},
		{[]string{"sessions", "cost", "--by", "moon", "--dir", data}, "--by"},
		{[]string{"sessions", "set", "ada"}, "nothing to set"},
		{[]string{"run", example("plain/agent.yaml"), "hi", "--tag", "a b", "--dir", filepath.Join(t.TempDir(), "none")}, "has a space"},
	} {
		if a := stileDo(t, c.args...); a.status != int(exitUsage) || !strings.Contains(a.err, c.want) {
			t.Errorf("%q: %+v", c.args, a)
		}
	}
	for i := range 6 {
		run(fmt.Sprintf("acme:u%d:many", i))
	}
	if a := stileDo(t, "sessions", "show", "many", "--dir", data); strings.Count(a.err, ":many") != 6 || !strings.Contains(a.err, "and others") {
		t.Errorf("%+v", a)
	}
	sums := func(by string) (n int, replies, tokens int64) {
		for line := range strings.Lines(must(t, "sessions", "cost", "--by", by, "--json", "--dir", data)) {
			var b bill
			if err := json.Unmarshal([]byte(line), &b); err != nil {
				t.Fatal(err)
			}
			n, replies, tokens = n+1, replies+b.Replies, tokens+b.Input+b.Output
		}
		return n, replies, tokens
	}
	_, replies, tokens := sums("session")
	if replies != 10 || tokens == 0 { // what the fork took over is counted once
		t.Errorf("%d replies, %d tokens", replies, tokens)
	}
	for by, lines := range map[string]int{"agent": 1, "user": 9, "day": 0, "model": 1} {
		n, r, k := sums(by)
		if r != replies || k != tokens || lines > 0 && n != lines {
			t.Errorf("by %s: %d lines, %d replies, %d tokens", by, n, r, k)
		}
	}
	holds(t, must(t, "sessions", "cost", "acme:ann:ada", "--dir", data), "SESSION", "COST", "acme:ann:ada  2 ", "all           2 ")
}

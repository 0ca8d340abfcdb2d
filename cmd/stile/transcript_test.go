package main

import (
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Show and export say what a session took; an export with blobs can be checked.
func TestSessionsShowAndExport(t *testing.T) {
	dir := t.TempDir()
	must(t, "run", example("research/agent.yaml"), "How many kestrels did we count?", "--dir", dir, "--session", "birds")
	shown := must(t, "sessions", "show", "birds", "--dir", dir, "--times")
	holds(t, shown, "north ok, ", " ms, ", "model    160 tokens in, 420 out\n", "sum      2 turns, 3,060 in, 600 out, ")
	for line := range strings.Lines(shown) {
		if _, err := time.Parse("15:04:05.000 ", line[:min(13, len(line))]); err != nil && !strings.HasPrefix(line, "session ") && !strings.HasPrefix(line, "sum ") && !strings.HasPrefix(line, " ") {
			t.Errorf("no time: %q", line)
		}
	}
	holds(t, must(t, "sessions", "export", "birds", "--dir", dir, "--format", "markdown"),
		"# Session local:local:birds\n", "**User, ", "```text\nHow many kestrels did we count?\n```\n", "**Call north: file.read**", `**Result of north\_kestrels math.Subtract: ok, `,
		"**DONE** after ", "Run 1 ended DONE after 2 turns.", "2 turns, 3,060 in, 600 out")
	plain, whole := must(t, "sessions", "export", "birds", "--dir", dir), must(t, "sessions", "export", "birds", "--dir", dir, "--blobs")
	if !strings.HasPrefix(whole, plain) || strings.Count(whole[len(plain):], "{\"blob\":{\"data\":\"") < 3 {
		t.Errorf("blobs: %d bytes behind %d", len(whole)-len(plain), len(plain))
	}
	file := write(t, t.TempDir(), "birds.jsonl", whole)
	holds(t, must(t, "verify", "--export", file), "ok       local:local:birds")
	at := strings.LastIndex(whole, "\"data\":\"") + 12
	other := "A"
	if whole[at] == 'A' {
		other = "B"
	}
	changed := write(t, t.TempDir(), "changed.jsonl", whole[:at]+other+whole[at+1:])
	if a := stileDo(t, "verify", "--export", changed); a.status == 0 || !strings.Contains(a.err+a.out, "blob") {
		t.Errorf("a changed blob: %+v", a)
	}
	for _, args := range [][]string{{"--format", "html"}, {"--format", "markdown", "--blobs"}} {
		if a := stileDo(t, append([]string{"sessions", "export", "birds", "--dir", dir}, args...)...); a.status != int(exitUsage) {
			t.Errorf("%v: %+v", args, a)
		}
	}
}

// What people and models say does not leave its fence, and is no markup.
func TestTranscriptIsSafe(t *testing.T) {
	var b strings.Builder
	tr := &transcript{w: &b, names: map[string]string{}}
	hostile := "```\n# A heading\n````\n<script>\x1b[2J\u202e"
	for _, body := range []messages.Body{
		&messages.Input{Text: hostile}, &messages.UnitText{UnitKind: messages.ResponseUnit, Text: hostile},
		&messages.ActionDeclared{ID: "**x**", Name: "a<b>", Args: hostile}, &messages.ActionEnded{ID: "**x**", State: messages.ActionOK, Result: hostile, Reason: "[a](http://b)"},
	} {
		tr.record(&stile.Record{Body: body, Turn: 1, Run: 1, TS: time.Unix(0, 0)})
	}
	if tr.err != nil {
		t.Fatal(tr.err)
	}
	got := b.String()
	for _, bad := range []string{"\x1b", "\u202e", "\n**x**", "[a](http"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q is in\n%s", bad, got)
		}
	}
	fence, outside := "", ""
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence = strings.TrimSuffix(line, "text")
		case fence == "":
			outside += line + "\n"
		case strings.HasPrefix(line, fence) && strings.Trim(line, "`") == "":
			fence = ""
		}
	}
	if fence != "" || strings.Contains(outside, "heading") || strings.Contains(outside, "<script>") {
		t.Errorf("outside of fences:\n%s", outside)
	}
}

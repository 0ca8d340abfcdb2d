package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/promptview"
)

func TestSessionsPrompt(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"I am Ada.", "Why are you called stile?"} {
		must(t, "run", example("plain/agent.yaml"), "--dir", dir, "--session", "ada", text)
	}
	show := func(args ...string) string {
		return must(t, append([]string{"sessions", "prompt", "ada", "--dir", dir}, args...)...)
	}
	last, first := show(), show("--turn", "1")
	holds(t, first, "turn 1, run 1, request 1 of 1", "scripted, 2 messages, exact\n", "--- system\nYou know stiles", "--- user\nI am Ada.\n")
	holds(t, last, "turn 2, run 2", "4 messages, exact", "--- assistant\nGood morning, Ada.", "--- user\nWhy are you called stile?\n")
	if strings.Contains(first, "Good morning") {
		t.Errorf("the reply is in its own prompt:\n%s", first)
	}
	holds(t, show("--turn", "2", "--reply"), "reply ", "complete, 58 tokens in, 23 out", "You said it yourself, Ada:")
	replies := show("--turn", "2", "--reply", "--diff", "1")
	holds(t, replies, "reply    turn 2", "complete, beside turn 1, complete\n", "\n-Good morning, Ada.", "\n+You said it yourself, Ada:")
	if strings.Contains(replies, "--- ") {
		t.Errorf("a difference of replies has messages of the prompts:\n%s", replies)
	}
	holds(t, show("--turn", "2", "--reply", "--diff", "2"), "same     no difference\n")
	diff := show("--turn", "2", "--diff", "1")
	holds(t, diff, "beside turn 1, exact", "\n+--- assistant\n+Good morning, Ada.", "\n+Why are you called stile?\n")
	if strings.Contains(diff, "\n-") {
		t.Errorf("nothing was taken out:\n%s", diff)
	}
	var all struct{ Requests []promptview.PromptView }
	if err := json.Unmarshal([]byte(show("--json")), &all); err != nil || len(all.Requests) != 1 || !all.Requests[0].Exact || all.Requests[0].Reply == nil || all.Requests[0].Text() == "" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--turn", "9"}, "turn 9 does not exist in this session"},
		{[]string{"--turn", "-1"}, "--turn"},
		{[]string{"--request", "2"}, "the turn has 1 request"},
		{[]string{"--reply", "--json"}, "none of the others can be"},
		{[]string{"--diff", "1", "--json"}, "none of the others can be"},
		{[]string{"--reply", "--diff", "9"}, "turn 9 does not exist in this session"},
		{[]string{"--manifest", "none.yaml"}, "none.yaml"},
	} {
		if a := stileDo(t, append([]string{"sessions", "prompt", "ada", "--dir", dir}, c.args...)...); a.status == 0 || !strings.Contains(a.err, c.want) {
			t.Errorf("%v: %+v", c.args, a)
		}
	}
}

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// runEnvelope judges every class of faulty envelope as docs/spec/aeiou.md §13 has it.
func TestEnvelopes(t *testing.T) {
	envelope := func(userdata, rest string) string {
		return "<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n" + userdata + "\n" + rest + "<<<NSENV:V3:END>>>\n"
	}
	const user = `{"subject":"s","fields":{"text":"hi"}}`
	actions := func(lines string) string { return "<<<NSENV:V3:ACTIONS>>>\ncommand\n" + lines + "\nendcommand\n" }
	done := actions(`emit userdata["fields"]["text"]` + "\n" + `emit tool.aeiou.magic("LOOP", {"action": "done"})`)
	for name, c := range map[string]struct {
		envelope string
		decision stile.Decision
		reason   messages.Code
	}{
		"done":       {envelope(user, done), stile.Done, ""},
		"continue":   {envelope(user, actions(`emit tool.aeiou.magic("LOOP", {"action": "continue"})`)), stile.Continue, ""},
		"no token":   {envelope(user, actions(`emit "x"`)), stile.Halt, messages.ErrTokenMissing},
		"no markers": {"hello", stile.Halt, messages.ErrEnvMarkersInvalid},
		"no end":     {strings.TrimSuffix(envelope(user, done), "<<<NSENV:V3:END>>>\n"), stile.Halt, messages.ErrEnvMarkersInvalid},
		"no actions": {envelope(user, ""), stile.Halt, messages.ErrEnvSectionMissing},
		"order":      {"<<<NSENV:V3:START>>>\n" + done + "<<<NSENV:V3:USERDATA>>>\n" + user + "\n<<<NSENV:V3:END>>>\n", stile.Halt, messages.ErrEnvOrder},
		"size":       {envelope(user, actions("# "+strings.Repeat("x", 3<<20))), stile.Halt, messages.ErrEnvSize},
		"userdata":   {envelope(`{"subject":1}`, done), stile.Halt, messages.ErrUserdataSchema},
		"parse":      {envelope(user, actions("emit (")), stile.Halt, messages.ErrActionsParse},
		"runtime":    {envelope(user, actions("emit 1/0")), stile.Halt, messages.ErrActionsRuntime},
		"quota":      {envelope(user, actions("while true\n set x = 1\nendwhile")), stile.Halt, messages.ErrQuota},
		"crash":      {envelope(user, actions(`set x = tool.demo.panic("x")`)), stile.Halt, messages.ErrCrash},
	} {
		m := manifest.Default("aeiou")
		m.Import.Tools = []string{"demo.panic"}
		res, err := runEnvelope(context.Background(), []byte(c.envelope), &stile.Agent{Manifest: m})
		if err != nil || res.Decision != c.decision || res.Reason != c.reason {
			t.Errorf("%s: %s(%s) %s, %v", name, res.Decision, res.Reason, res.Detail, err)
		}
		if name == "done" && !strings.HasPrefix(res.Output, "hi\n") {
			t.Errorf("OUTPUT %q", res.Output)
		}
	}
	_, err := runEnvelope(context.Background(), []byte(envelope(user, done)), &stile.Agent{Manifest: manifest.Default("plain")})
	if messages.CodeOf(err) != messages.ErrConfig {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := runEnvelope(ctx, []byte(envelope(user, done)), nil); err == nil {
		t.Error("a context that has ended ran an envelope")
	}
}

// The result tells of what was passed over in the envelope, and of what the next one would
// have to do with the streams; a manifest may refuse the former.
func TestEnvelopeLints(t *testing.T) {
	const twice = "<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n{\"subject\":\"s\",\"fields\":{}}\n<<<NSENV:V3:ACTIONS>>>\ncommand\n" +
		"emit \"<<<NSENV:V3:END>>>\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n<<<NSENV:V3:ACTIONS>>>\nx\n<<<NSENV:V3:END>>>\n"
	res, err := runEnvelope(context.Background(), []byte(twice), nil)
	want := []execLint{{Code: messages.LintDupSectionIgnored, Section: "ACTIONS", Line: 9}, {Code: messages.LintMarkerEscaped}}
	if err != nil || res.Decision != stile.Done || !slices.Equal(res.Lints, want) {
		t.Errorf("%s(%s) %s, lints %+v, %v", res.Decision, res.Reason, res.Detail, res.Lints, err)
	}
	if _, err := time.Parse(time.RFC3339Nano, res.TS); err != nil {
		t.Error(err)
	}
	m := manifest.Default("aeiou")
	m.Envelope.StrictDuplicates = true
	res, err = runEnvelope(context.Background(), []byte(twice), &stile.Agent{Manifest: m})
	if err != nil || res.Decision != stile.Halt || res.Reason != messages.ErrEnvSectionDup {
		t.Errorf("strict: %s(%s) %s, %v", res.Decision, res.Reason, res.Detail, err)
	}
}

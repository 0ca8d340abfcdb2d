package tests

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// The rows of docs/spec/aeiou.md §20 that show at this level: what an author's reply makes of
// a turn. Rows not listed are proved in parse/aeiou, crypto/token and conform.
func TestProtocolRows(t *testing.T) {
	mint := func(action string) string { return `tool.aeiou.magic("LOOP", {"action": "` + action + `"})` }
	envelope := func(userdata, actions string) string {
		return "Here you are:\n<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n" + userdata + "\n<<<NSENV:V3:ACTIONS>>>\n" + actions + "<<<NSENV:V3:END>>>\nBye."
	}
	for name, c := range map[string]struct {
		replies  []string
		decision messages.Decision
		reason   messages.Code
		failure  string   // verification_failure_reason
		emitted  []string // token lines aside; nil is not checked
		turns    int64
		change   func(*manifest.Manifest)
	}{
		"1 duplicate sections are linted": {replies: []string{"<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n{}\n<<<NSENV:V3:ACTIONS>>>\n" + program(sayDone) +
			"<<<NSENV:V3:ACTIONS>>>\n" + program(sayAbort) + "<<<NSENV:V3:END>>>\n"}, decision: stile.Done},
		"1 duplicate sections are refused when asked": {
			replies: []string{"<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n{}\n<<<NSENV:V3:ACTIONS>>>\n" + program(sayDone) +
				"<<<NSENV:V3:ACTIONS>>>\n" + program(sayAbort) + "<<<NSENV:V3:END>>>\n"}, decision: stile.Halt, reason: messages.ErrEnvSectionDup,
			change: func(m *manifest.Manifest) { m.Envelope.StrictDuplicates = true },
		},
		"7 an oversize line is ERR_ENV_SIZE, uncatchable": {
			replies:  []string{program("on error as e do\nclear_error\nendon", `set s = "`+strings.Repeat("x", 4000)+`"`, "emit s + s + s", sayDone)},
			decision: stile.Halt, reason: messages.ErrEnvSize,
		},
		"8 an oversize candidate is PARSE":          {replies: []string{program(`emit "<<<NSMAG:V3:` + strings.Repeat("x", 1100) + `>>>"`)}, decision: stile.Halt, reason: messages.ErrTokenParse, failure: "ERR_TOKEN_PARSE/OVERSIZE"},
		"10 a token typed by hand is PARSE":         {replies: []string{program(`emit "<<<NSMAG:V3:LOOP:done>>>"`)}, decision: stile.Halt, reason: messages.ErrTokenParse, failure: "ERR_TOKEN_PARSE/BAD_SHAPE"},
		"10 a quoted token is MISSING":              {replies: []string{program(`emit "'" + ` + mint("done") + ` + "'"`)}, decision: stile.Halt, reason: messages.ErrTokenMissing},
		"10 an indented token is MISSING":           {replies: []string{program(`emit " " + ` + mint("done"))}, decision: stile.Halt, reason: messages.ErrTokenMissing},
		"13 edited text does not verify":            {replies: []string{program("set t = "+mint("done"), `emit tool.str.Replace(t, "LOOP", "LOOP2")`)}, decision: stile.Halt, reason: messages.ErrTokenParse, failure: "ERR_TOKEN_PARSE/KIND_MISMATCH"},
		"14 three equal turns, first counts":        {replies: []string{program(`emit "x"`, sayContinue)}, decision: stile.Halt, reason: messages.ErrNoProgress, turns: 3},
		"16 an earlier HALT keeps its reason":       {replies: []string{program(`emit "x"`, sayContinue), program(`emit "x"`, sayContinue), program(`emit "x"`)}, decision: stile.Halt, reason: messages.ErrTokenMissing, turns: 3},
		"17 a token in SCRATCHPAD is no progress":   {replies: []string{program(`emit "x"`, `whisper self, `+mint("continue"), sayContinue)}, decision: stile.Halt, reason: messages.ErrNoProgress, turns: 3},
		"20 ttl 0 is a fault, not absent":           {replies: []string{program(`emit tool.aeiou.magic("LOOP", {"action": "done"}, {"ttl": 0})`)}, decision: stile.Halt, reason: messages.ErrActionsRuntime},
		"21 integers beyond 2^53−1 are refused":     {replies: []string{program(`emit tool.aeiou.magic("LOOP", {"action": "done", "n": 9007199254740992})`)}, decision: stile.Halt, reason: messages.ErrActionsRuntime},
		"22 an error after a token voids it":        {replies: []string{program(sayDone, `emit 1/0`)}, decision: stile.Halt, reason: messages.ErrActionsRuntime},
		"24 a token line inside an emission counts": {replies: []string{program(`emit "one\n" + ` + mint("done") + ` + "\n"`)}, decision: stile.Done},
		"25 every whisper target is the SCRATCHPAD": {replies: []string{program(`whisper "anyone", "note"`, sayDone)}, decision: stile.Done},
		"27 only the member action is known":        {replies: []string{program(`emit tool.aeiou.magic("LOOP", {"control": "done"})`)}, decision: stile.Halt, reason: messages.ErrActionsRuntime},
		"30 prose around an envelope is skipped, its USERDATA not believed": {
			replies: []string{envelope(`{"subject":"forged","fields":{}}`, program(`emit userdata["subject"]`, sayDone))}, decision: stile.Done, emitted: []string{"message"},
		},
		"no START: the whole reply is ACTIONS": {replies: []string{"\n\n  " + program(sayDone) + "\n"}, decision: stile.Done},
		"a token in USERDATA is inert":         {replies: []string{program(`emit "x"`)}, decision: stile.Halt, reason: messages.ErrTokenMissing},
		"a token split over two lines":         {replies: []string{program("set t = "+mint("done"), `emit tool.str.Replace(t, ":LOOP", ":\nLOOP")`)}, decision: stile.Halt, reason: messages.ErrTokenParse},
		"trailing blank":                       {replies: []string{program("emit " + mint("done") + ` + " "`)}, decision: stile.Halt, reason: messages.ErrTokenParse, failure: "ERR_TOKEN_PARSE/BAD_SHAPE"},
		"abort over done over continue":        {replies: []string{program(sayAbort, sayDone, sayContinue)}, decision: stile.Abort},
		"done over continue":                   {replies: []string{program(sayDone, sayContinue)}, decision: stile.Done},
		"a program that does not parse":        {replies: []string{program("set = 3", sayDone)}, decision: stile.Halt, reason: messages.ErrActionsParse},
		"max_turns": {
			replies: []string{program(`emit "1"`, sayContinue), program(`emit "2"`, sayContinue)}, decision: stile.Halt, reason: messages.ErrMaxTurns, turns: 2,
			change: func(m *manifest.Manifest) { m.Loop.MaxTurns = 2 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				s := open(t, rt, "rows", agent(once(c.replies...), c.change))
				o := ask(t, s, "the text, with <<<NSMAG:V3:LOOP:x.y>>> in it")
				if o.Decision != c.decision || o.Reason != c.reason {
					t.Fatalf("the run ended %s(%s) %q, want %s(%s)", o.Decision, o.Reason, o.Detail, c.decision, c.reason)
				}
				if c.failure != "" && o.Turn.Verification != c.failure {
					t.Errorf("the failure is %s, want %s", o.Turn.Verification, c.failure)
				}
				if c.turns != 0 && o.Turns != c.turns {
					t.Errorf("%d turns, want %d", o.Turns, c.turns)
				}
				if c.emitted != nil {
					if got := strings.Join(texts(records(t, s)), "|"); got != strings.Join(c.emitted, "|") {
						t.Errorf("emitted %q, want %q", got, c.emitted)
					}
				}
				if o.Turn.TurnIndex != o.Turns {
					t.Errorf("the first run ended in turn_index %d after %d turns: the first is 1", o.Turn.TurnIndex, o.Turns)
				}
			})
		})
	}
}

// USERDATA that is none is refused before anything is recorded, and the session
// goes on.
func TestUserdataIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "checked", agent(says(program(`emit userdata["subject"]`, sayDone)), nil))
		for _, bad := range []string{
			`{"subject":"x","fields":[]}`, `{"subject":1,"fields":{}}`, `{"subject":"x","subject":"y","fields":{}}`, `{"subject":"x","fields":{},"brief":2}`,
		} {
			_, err := s.Submit(t.Context(), bad)
			wantCode(t, err, messages.ErrUserdataSchema)
		}
		if n := len(stored(t, s)); n != 1 {
			t.Errorf("%d records", n)
		}
		wantDone(t, ask(t, s, `{"subject":"taken as it is","fields":{},"more":[1,2]}`))
		wantDone(t, ask(t, s, `{"not":"userdata"}`))
		if got := texts(records(t, s)); len(got) != 2 || got[0] != "taken as it is" || got[1] != "message" {
			t.Errorf("emitted %q", got)
		}
	})
}

// A token is good to its last second, and expired one later.
func TestTokenExpires(t *testing.T) {
	for wait, want := range map[time.Duration]messages.Code{5 * time.Second: "", 6 * time.Second: messages.ErrTokenTTL} {
		synctest.Test(t, func(t *testing.T) {
			rt := start(t, stile.Config{})
			slow := tool("test.slow", messages.ReadOnly, pause(wait))
			s := open(t, rt, "expiring", agent(says(program(`set t = tool.aeiou.magic("LOOP", {"action": "done"}, {"ttl": 5})`, "set x = tool.test.slow()", "emit t")), nil, slow))
			if o := ask(t, s, "go"); o.Reason != want {
				t.Errorf("after %s: %s(%s)", wait, o.Decision, o.Reason)
			}
			if n := metric(t, rt, "ttl_expired_total"); (n == 1) != (want != "") {
				t.Errorf("after %s: %v expired tokens counted", wait, n)
			}
		})
	}
}

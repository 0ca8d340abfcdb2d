package aeiou

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

func ok(line int, action string) messages.TokenCheck {
	return messages.TokenCheck{Line: line, Action: action, JTI: "j", KID: "k"}
}

func bad(line int, code messages.Code, reason string) messages.TokenCheck {
	return messages.TokenCheck{Line: line, Failure: code, Reason: reason, Action: "abort"}
}

func TestSelect(t *testing.T) {
	const multi, post = messages.LintMultiTokens, messages.LintPostTokenText
	for _, c := range []struct {
		name   string
		checks []messages.TokenCheck
		out    string
		d      messages.Decision
		token  int
		lints  []messages.Code
	}{
		{"alone", []messages.TokenCheck{ok(0, "continue")}, "T\n", messages.Continue, 0, nil},
		{"without a final LF", []messages.TokenCheck{ok(0, "continue")}, "T", messages.Continue, 0, nil},
		{"blanks behind", []messages.TokenCheck{ok(1, "done")}, "a\nT\n \t\r\v\f\n\n", messages.Done, 0, nil},
		{"text behind", []messages.TokenCheck{ok(1, "done")}, "a\nT\n\n \u00a0\n", messages.Done, 0, []messages.Code{post}},
		{"text before", []messages.TokenCheck{ok(2, "abort")}, "a\nb\nT\n", messages.Abort, 0, nil},
		{"done then continue", []messages.TokenCheck{ok(0, "done"), ok(1, "continue")}, "T\nT\n", messages.Done, 0, []messages.Code{multi, post}},
		{"continue then done", []messages.TokenCheck{ok(0, "continue"), ok(1, "done")}, "T\nT\n", messages.Done, 1, []messages.Code{multi}},
		{"done then abort", []messages.TokenCheck{ok(0, "done"), ok(1, "abort")}, "T\nT\n", messages.Abort, 1, []messages.Code{multi}},
		{"abort then done", []messages.TokenCheck{ok(0, "abort"), ok(1, "done")}, "T\nT\n", messages.Abort, 0, []messages.Code{multi, post}},
		{"continue then abort", []messages.TokenCheck{ok(0, "continue"), ok(1, "abort")}, "T\nT\n", messages.Abort, 1, []messages.Code{multi}},
		{"abort then continue", []messages.TokenCheck{ok(0, "abort"), ok(1, "continue")}, "T\nT\n", messages.Abort, 0, []messages.Code{multi, post}},
		{"last of equals", []messages.TokenCheck{ok(0, "done"), ok(1, "done"), ok(2, "done")}, "T\nT\nT\n", messages.Done, 2, []messages.Code{multi}},
		{"a replayed copy is text, not a second token", []messages.TokenCheck{ok(0, "done"), bad(1, messages.ErrTokenReplay, "JTI")}, "T\nT\n", messages.Done, 0, []messages.Code{post}},
		{"failures before", []messages.TokenCheck{bad(0, messages.ErrTokenReplay, "JTI"), ok(1, "continue")}, "T\nT\n", messages.Continue, 1, nil},
		{"a line out of range", []messages.TokenCheck{ok(7, "done")}, "T\nx\n", messages.Done, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Select(c.checks, []byte(c.out))
			if v.Decision != c.d || v.Token != c.token || !slices.Equal(v.Lints, c.lints) || v.Code != "" || v.Detail != "" {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestSelectHalts(t *testing.T) {
	stages := []messages.Code{messages.ErrTokenParse, messages.ErrTokenVerify, messages.ErrTokenScope, messages.ErrTokenTTL, messages.ErrTokenReplay}
	for i, a := range stages {
		for j, b := range stages {
			checks := []messages.TokenCheck{bad(0, a, "A"), bad(1, b, "B")}
			want := 1
			if i > j {
				want = 0
			}
			v := Select(checks, []byte("T\nT\n"))
			if v.Decision != messages.Halt || v.Token != -1 || v.Code != checks[want].Failure || v.Detail != FailureText(checks[want]) || v.Lints != nil || Furthest(checks) != want {
				t.Errorf("%s, %s: %+v", a, b, v)
			}
		}
	}
	if v := Select(nil, []byte("text\n")); v.Code != messages.ErrTokenMissing || v.Token != -1 {
		t.Errorf("nothing: %+v", v)
	}
	if v := Select([]messages.TokenCheck{ok(0, "jump")}, nil); v.Decision != messages.Halt {
		t.Errorf("a valid token of no action: %+v", v)
	}
}

func TestFailures(t *testing.T) {
	checks := []messages.TokenCheck{bad(0, messages.ErrTokenTTL, "EXPIRED"), ok(1, "done"), bad(2, messages.ErrTokenParse, "OVERSIZE"), bad(3, messages.ErrTokenTTL, "FUTURE"), bad(4, messages.ErrTokenScope, "")}
	if got := Failures(checks); !slices.Equal(got, []string{"ERR_TOKEN_TTL/EXPIRED", "ERR_TOKEN_PARSE/OVERSIZE", "ERR_TOKEN_TTL/FUTURE", "ERR_TOKEN_SCOPE"}) {
		t.Errorf("Failures = %q", got)
	}
	if Furthest(checks) != 3 || Furthest(checks[1:2]) != -1 || Failures(checks[1:2]) != nil || FailureText(checks[1]) != "" {
		t.Error("Furthest")
	}
}

func TestCandidates(t *testing.T) {
	out := candidatePrefix + "\n" + // a bare prefix is one
		" " + candidatePrefix + "x\n" + "\"" + candidatePrefix + "x\"\n`" + candidatePrefix + "x`\n" + "a " + candidatePrefix + "\n" + candidatePrefix[:11] + "\n" +
		candidatePrefix + "LOOP:a.b>>> \r\n" + "\n" + "x\r" + candidatePrefix + "\n" + strings.Replace(candidatePrefix, "V3", "V4", 1) + "\n" + candidatePrefix + "end"
	var got []string
	var lines []int
	for n, l := range Candidates([]byte(out)) {
		got, lines = append(got, string(l)), append(lines, n)
	}
	if !slices.Equal(lines, []int{0, 6, 10}) || !slices.Equal(got, []string{candidatePrefix, candidatePrefix + "LOOP:a.b>>> \r", candidatePrefix + "end"}) {
		t.Errorf("%v %q", lines, got)
	}
	for range Candidates([]byte(out)) {
		break
	}
}

func TestDecide(t *testing.T) {
	good := []messages.TokenCheck{ok(0, "done")}
	for _, c := range []struct {
		name string
		f    messages.Facts
		d    messages.Decision
		code messages.Code
	}{
		{"a token", messages.Facts{Finish: messages.FinishComplete, Tokens: good}, messages.Done, ""},
		{"a token of a reply cut behind END", messages.Facts{Finish: messages.FinishLength, Tokens: good}, messages.Done, ""},
		{"a breach voids tokens", messages.Facts{Breach: messages.ErrTimeout, Tokens: good}, messages.Halt, messages.ErrTimeout},
		{"an uncaught error voids tokens", messages.Facts{Breach: messages.ErrActionsRuntime, Tokens: good}, messages.Halt, messages.ErrActionsRuntime},
		{"breach before all", messages.Facts{Breach: messages.ErrQuota, Errors: []messages.ParseError{{Code: messages.ErrEnvSize}}, Finish: messages.FinishError, MagicFailed: true}, messages.Halt, messages.ErrQuota},
		{"the first error", messages.Facts{Errors: []messages.ParseError{{Code: messages.ErrEnvOrder}, {Code: messages.ErrEnvSize}}, Finish: messages.FinishError, MagicFailed: true}, messages.Halt, messages.ErrEnvOrder},
		{"model", messages.Facts{Finish: messages.FinishError, MagicFailed: true}, messages.Halt, messages.ErrModel},
		{"cancel", messages.Facts{Finish: messages.FinishCancelled, MagicFailed: true}, messages.Halt, messages.ErrCancelled},
		{"no signer, though an older token is valid", messages.Facts{Finish: messages.FinishComplete, MagicFailed: true, Tokens: good}, messages.Halt, messages.ErrMagicToolInternal},
		{"nothing", messages.Facts{Finish: messages.FinishComplete}, messages.Halt, messages.ErrTokenMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Dialect{}.Decide(c.f)
			if v.Decision != c.d || v.Code != c.code || v.Decision == messages.Halt && v.Token != -1 {
				t.Errorf("%+v", v)
			}
		})
	}
	if tr := (Dialect{}).Traits(); !tr.Carry || !tr.GuardFinal || tr.MaxTurns != 0 || tr.Busy != messages.Enqueue || tr.InStreamActions || tr.AppendOnly {
		t.Errorf("Traits = %+v", tr)
	}
	if (Dialect{}).Name() != "aeiou" {
		t.Error("name")
	}
}

package token

import (
	"bytes"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// VerifyLines judges the candidate lines of an OUTPUT in their order, all at one time
// (docs/spec/aeiou.md §10). The number of a line counts from 0.
func VerifyLines(out []byte, scope Scope, keys KeySource, replay *ReplaySet, policy Policy, now time.Time) []messages.TokenCheck {
	var checks []messages.TokenCheck
	n := 0
	for line := range bytes.Lines(out) {
		if line = bytes.TrimSuffix(line, []byte("\n")); Candidate(line) {
			ck := Verify(line, scope, keys, replay, policy, now)
			checks = append(checks, messages.TokenCheck{Line: n, Action: ck.Action, KID: ck.KID, JTI: ck.JTI, Failure: ck.Failure, Reason: ck.Reason})
		}
		n++
	}
	return checks
}

package aeiou

import (
	"bytes"
	"iter"

	"github.com/seed14be6753/stile/messages"
)

// candidatePrefix makes a line of OUTPUT a candidate (§10). There is no trimming:
// a quoted, indented or mid-line token is plain text.
const candidatePrefix = "<<<NSMAG:V3:"

// IsCandidate reports whether a line is a token candidate, by its first 12 bytes. It may still be
// malformed.
func IsCandidate(line []byte) bool { return bytes.HasPrefix(line, []byte(candidatePrefix)) }

// Candidates yields the candidate lines of a current-turn OUTPUT in emission
// order, each with its 0-based physical line. Lines end at LF, which is not part
// of them; a CR is. They alias out.
func Candidates(out []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for n := 0; len(out) > 0; n++ {
			line, rest, _ := bytes.Cut(out, []byte{'\n'})
			out = rest
			if IsCandidate(line) && !yield(n, line) {
				return
			}
		}
	}
}

// FailureText is the CODE/DETAIL form of a failed check (§10), "" for a valid one.
func FailureText(c messages.TokenCheck) string {
	if c.Failure == "" || c.Reason == "" {
		return string(c.Failure)
	}
	return string(c.Failure) + "/" + c.Reason
}

// Failures lists the failed checks in emission order, in the form of FailureText.
func Failures(checks []messages.TokenCheck) []string {
	var all []string
	for _, c := range checks {
		if c.Failure != "" {
			all = append(all, FailureText(c))
		}
	}
	return all
}

// Furthest returns the index of the failed check that passed most stages of §10, the last of
// several such checks, or -1 when none failed
// (§11 rule 3). Its FailureText is the decision log's verification_failure_reason.
func Furthest(checks []messages.TokenCheck) int {
	best := -1
	for i, c := range checks {
		if c.Failure == "" {
			continue
		}
		if best < 0 || messages.TokenStage(c.Failure) >= messages.TokenStage(checks[best].Failure) {
			best = i
		}
	}
	return best
}

// rank orders the actions a token may ask for: abort > done > continue.
func rank(action string) (int, messages.Decision) {
	switch action {
	case "abort":
		return 3, messages.Abort
	case "done":
		return 2, messages.Done
	case "continue":
		return 1, messages.Continue
	}
	return 0, ""
}

// Select decides a turn by its verified candidates, given in emission order, and
// its OUTPUT (§11). The highest action wins, among equals the last emitted; lints
// never change that. Without a valid token it is HALT, with ERR_TOKEN_MISSING or
// the code of the failure that got furthest. Pure.
func Select(checks []messages.TokenCheck, out []byte) messages.Verdict {
	v := messages.Verdict{Token: -1}
	best, valid := 0, 0
	for i, c := range checks {
		if c.Failure != "" {
			continue
		}
		r, d := rank(c.Action)
		if r == 0 {
			continue // the check found it invalid
		}
		valid++
		if r >= best {
			best, v.Decision, v.Token = r, d, i
		}
	}
	if valid == 0 {
		v.Decision = messages.Halt
		v.Code, v.Detail = messages.ErrTokenMissing, "the program emitted no control token"
		if i := Furthest(checks); i >= 0 {
			v.Code, v.Detail = checks[i].Failure, FailureText(checks[i])
		}
		return v
	}
	if valid > 1 {
		v.Lints = append(v.Lints, messages.LintMultiTokens)
	}
	if textAfter(out, checks[v.Token].Line) {
		v.Lints = append(v.Lints, messages.LintPostTokenText)
	}
	return v
}

// textAfter reports whether a line after the given one holds more than SP, HTAB, CR, VT and FF.
func textAfter(out []byte, line int) bool {
	for ; line >= 0; line-- {
		lf := bytes.IndexByte(out, '\n')
		if lf < 0 {
			return false
		}
		out = out[lf+1:]
	}
	for _, c := range out {
		switch c {
		case ' ', '\t', '\r', '\v', '\f', '\n':
		default:
			return true
		}
	}
	return false
}

package token

import "testing"

// Candidate lines are judged in their order, by the number of their line; a token counts once.
func TestVerifyLines(t *testing.T) {
	line := string(newBuild().make(t))
	out := "text\n" + line + "\n\n" + line + "\n<<<NSMAG:V3:LOOP:broken>>>"
	checks := VerifyLines([]byte(out), testScope, hostSet(t), NewReplaySet(0, 0), Policy{}, at(testUnix))
	if len(checks) != 3 {
		t.Fatalf("%+v", checks)
	}
	for i, want := range []struct {
		line  int
		valid bool
	}{{1, true}, {3, false}, {4, false}} {
		if checks[i].Line != want.line || (checks[i].Failure == "") != want.valid {
			t.Errorf("check %d: %+v", i, checks[i])
		}
	}
	if checks[0].KID == "" || checks[0].JTI == "" || checks[0].JTI != checks[1].JTI {
		t.Errorf("%+v", checks[:2])
	}
	if VerifyLines(nil, testScope, hostSet(t), NewReplaySet(0, 0), Policy{}, at(testUnix)) != nil {
		t.Error("no line has a check")
	}
}

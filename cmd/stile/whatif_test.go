package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// edit gives a manifest in which text stands for old.
func (s shop) edit(t *testing.T, old, text string) string {
	t.Helper()
	if !strings.Contains(shopManifest, old) {
		t.Fatalf("the manifest has no %q", old)
	}
	return write(t, s.dir, "edited.yaml", strings.Replace(shopManifest, old, text, 1))
}

// Under an edited manifest the first prompt and the first decision that differ are shown, what
// is the same is counted, and where it stops is said.
func TestReplayUnderAnEditedManifest(t *testing.T) {
	s := newShop(t)
	must(t, "run", s.manifest, "buy tea", "--dir", s.data, "--session", "a")
	must(t, "run", s.manifest, "hello", "--dir", s.data, "--session", "a")
	before := must(t, "sessions", "export", "a", "--dir", s.data)
	for _, c := range []struct {
		name, old, new string
		parts          []string
		same, differ   int64
		turn           int64 // of the stop
	}{
		{"the same", "You", "You", []string{"same     local:local:a  3 turns the same, 0 otherwise"}, 3, 0, 0},
		{"summary", "name: shop\n", "name: shop\nsummary: A shop.\n", []string{"same     "}, 3, 0, 0},
		{
			"instructions", "You keep a shop.", "You keep a tea shop.",
			[]string{"prompt   turn 1, record 5: the first of 3 turns whose prompt differs", "@@ -1,5 +1,5 @@", "-You keep a shop.", "+You keep a tea shop.", "differs  local:local:a  0 turns the same, 3 otherwise\n"},
			0, 3, 0,
		},
		{
			"loop limit", "max_turns: 4", "max_turns: 1",
			[]string{
				"prompt   turn 1", "+This is the last turn", "decision turn 1, record ", "-decision: CONTINUE", "+decision: HALT", "+reason: ERR_MAX_TURNS",
				"stopped  turn 1", "the run ends at this turn, and it had gone on", "0 turns the same, 1 otherwise, 2 not reached",
			},
			0, 1, 1,
		},
		{
			"tool taken away", "tools: [sell, stock]", "tools: [stock]",
			[]string{"prompt   turn 1", "-- sell(what: string)", "stopped  turn 1", "the start of call s", "unknown_target"},
			0, 1, 1,
		},
		{"denied", "loop:", "approval: {default: deny}\nloop:", []string{"stopped  turn 1", "the start of call s", "(denied)"}, 0, 1, 1},
		{"class", "sell, class: effectful", "sell, class: read_only", []string{"call     turn 1", "-class: effectful", "+class: read_only", "2 turns the same, 1 otherwise"}, 2, 1, 0},
		{"quota", "loop:", "quotas: {tokens: 1}\nloop:", []string{"decision turn 1", "+reason: ERR_QUOTA"}, 0, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			edited := s.edit(t, c.old, c.new)
			want := exitDifference
			if c.differ == 0 {
				want = exitOK
			}
			a := stileDo(t, "replay", "a", "--manifest", edited, "--dir", s.data)
			if a.status != int(want) {
				t.Errorf("status %d, want %d\n%s%s", a.status, want, a.out, a.err)
			}
			holds(t, a.out, c.parts...)
			var got trialJSON
			if err := json.Unmarshal([]byte(stileDo(t, "replay", "a", "--manifest", edited, "--json", "--dir", s.data).out), &got); err != nil {
				t.Fatal(err)
			}
			stop := int64(0)
			if got.Stopped != nil {
				stop = got.Stopped.Turn
			}
			if got.OK != (c.differ == 0) || got.Turns != 3 || got.Same != c.same || got.Differ != c.differ || got.NotReached != 3-c.same-c.differ || stop != c.turn {
				t.Errorf("%+v, stopped %+v", got, got.Stopped)
			}
		})
	}
	// Nothing is asked, done or written, and the strict replay is what it was.
	if s.witness(t) != "sold\n" || must(t, "sessions", "export", "a", "--dir", s.data) != before {
		t.Error("a trial leaves something behind")
	}
	holds(t, must(t, "replay", "a", "--dir", s.data), "ok       local:local:a  ", "3 turns decided again")
	if a := stileDo(t, "replay", "a", "--manifest", write(t, s.dir, "broken.yaml", "kind: Agent\ndialekt: x\n"), "--dir", s.data); a.status != int(exitUsage) || !strings.Contains(a.err, "dialekt") {
		t.Errorf("status %d\n%s", a.status, a.err)
	}
}

// Two sessions are compared by what they were told, said, called and decided, at rest and over
// a host.
func TestSessionsDiff(t *testing.T) {
	s := newShop(t)
	must(t, "run", s.manifest, "buy tea", "--dir", s.data, "--session", "a")
	must(t, "run", s.manifest, "buy tea", "--dir", s.data, "--session", "b")
	must(t, "fork", "a", "--input", "good day", "--as", "c", "--dir", s.data)
	must(t, "run", s.manifest, "--session", "c", "--resume", "--dir", s.data)
	holds(t, must(t, "sessions", "diff", "a", "b", "--dir", s.data), "a        local:local:a", "b        local:local:b", "same     no difference")
	a := stileDo(t, "sessions", "diff", "a", "c", "--dir", s.data, "--turns")
	if a.status != int(exitDifference) {
		t.Errorf("status %d\n%s", a.status, a.err)
	}
	holds(t, a.out, "first    input of run 1", "-buy tea", "+good day", "also     reply of run 1, turn 1: - | Good day.",
		"TURN", "1 input *", "1.1 call *", `sell {"what":"tea"} ok`, "1.2 tokens *", "20 in, 5 out", "runs  turns  calls", "a     1      2      1", "b     1      1      0", "differs  in ")
	var at, host diffJSON
	if err := json.Unmarshal([]byte(stileDo(t, "sessions", "diff", "a", "c", "--dir", s.data, "--json", "--turns").out), &at); err != nil || at.Same || at.Differences[0].Sort != "input" || len(at.A.Runs) != 1 || at.B.Sums.Turns != 1 {
		t.Errorf("%+v %v", at, err)
	}
	url, stop := served(t, nil, s.manifest, "--dir", s.data)
	defer stop()
	remote := stileDo(t, "sessions", "diff", "a", "c", "--host", url, "--json", "--turns")
	if err := json.Unmarshal([]byte(remote.out), &host); err != nil || remote.status != int(exitDifference) || !reflect.DeepEqual(at, host) {
		t.Errorf("status %d, %v\n%s%s", remote.status, err, remote.out, remote.err)
	}
	if a := stileDo(t, "sessions", "diff", "a", "nobody", "--dir", s.data); a.status != int(exitUsage) {
		t.Errorf("status %d\n%s", a.status, a.err)
	}
}

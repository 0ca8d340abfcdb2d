package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/messages"
)

// edit gives a manifest in which text stands for old.
func (s shop) edit(t *testing.T, old, text string) string {
	t.Helper()
	if !strings.Contains(shopManifest, old) {
		t.Fatalf("the manifest has no %q", old)
	}
	return write(t, s.dir, fmt.Sprintf("edited-%x.yaml", text), strings.Replace(shopManifest, old, text, 1))
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
		{"the same", "You", "You", []string{"same     local:local:a  3 turns the same, 0 otherwise, every hash too\n"}, 3, 0, 0},
		{"summary", "name: shop\n", "name: shop\nsummary: A shop.\n", []string{"same     local:local:a  3 turns the same, 0 otherwise\n"}, 3, 0, 0},
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
	// A run that had ended and would go on.
	short := s.edit(t, "max_turns: 4", "max_turns: 1")
	if a := stileDo(t, "run", short, "buy tea", "--dir", s.data, "--session", "short"); a.status != int(exitHalt) {
		t.Fatalf("status %d\n%s", a.status, a.out)
	}
	holds(t, stileDo(t, "replay", "short", "--manifest", s.manifest, "--dir", s.data).out,
		"decision turn 1", "-decision: HALT", "+decision: CONTINUE", "the run goes on behind this turn, and it had ended: no reply is recorded for its next turn", "0 turns the same, 1 otherwise\n")
	if err := os.Remove(filepath.Join(s.dir, "sold", "witness")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.dir, "sold"), "witness", "sold\n")
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

// asked runs a live replay and gives what it says.
func asked(t *testing.T, s shop, manifest string, want status, args ...string) liveJSON {
	t.Helper()
	a := stileDo(t, append([]string{"replay", "a", "--manifest", manifest, "--live", "--json", "--dir", s.data}, args...)...)
	var out liveJSON
	if err := json.Unmarshal([]byte(a.out), &out); err != nil || a.status != int(want) {
		t.Fatalf("%q: status %d, want %d, %v\n%s%s", args, a.status, want, err, a.out, a.err)
	}
	return out
}

// The model of an edited agent is asked again in a fork: a recorded call has its result and is
// not done, one that only reads is, another effect is refused, counted and told to the model.
func TestReplayLive(t *testing.T) {
	s := newShop(t)
	must(t, "run", s.manifest, "buy tea", "--dir", s.data, "--session", "a")
	must(t, "run", s.manifest, "hello", "--dir", s.data, "--session", "a")
	before := must(t, "sessions", "export", "a", "--dir", s.data)

	// Nothing differs: nothing is asked.
	if out := asked(t, s, s.manifest, exitOK); out.Fork != "" || out.At != 0 || !out.Trial.OK {
		t.Errorf("%+v", out)
	}
	edited := s.edit(t, "You keep a shop.", "You keep a tea shop.")
	out := asked(t, s, edited, exitOK)
	if out.Fork != "local:local:a-live-1" || out.At != 1 || out.Calls.Reused != 1 || out.Calls.Ran != 0 || out.Calls.Refused != 0 || !out.Diff.Same || out.Used.Tokens != 52 {
		t.Errorf("%+v", out)
	}
	// From a turn in the midst of a run, and from that of a later run: what was before stays.
	if out = asked(t, s, edited, exitOK, "--at", "2"); out.Fork != "local:local:a-live-2" || out.Calls.Reused != 0 || out.Used.Tokens != 38 {
		t.Errorf("%+v", out)
	}
	if out = asked(t, s, edited, exitOK, "--at", "3", "--as", "third"); out.Fork != "local:local:third" || out.Used.Tokens != 13 {
		t.Errorf("%+v", out)
	}
	if s.witness(t) != "sold\n" {
		t.Errorf("the recorded call was done again: %q", s.witness(t))
	}

	// Another model: it looks, and sells something else.
	write(t, s.dir, "other.jsonl", `{"match": {"contains": "Nothing was changed"}, "chunks": [{"text": "<response>No tea today.</response>"}], "usage": {"input": 20, "output": 5}}
{"match": {"contains": "buy tea"}, "chunks": [{"text": "<action id=\"l\" mode=\"sync\">{\"name\":\"stock\",\"parameters\":{\"what\":\"tea\"}}</action><action id=\"s\" mode=\"sync\">{\"name\":\"sell\",\"parameters\":{\"what\":\"all\"}}</action>"}], "usage": {"input": 10, "output": 4}}
{"chunks": [{"text": "<response>Good day.</response>"}], "usage": {"input": 10, "output": 3}}
`)
	other := s.edit(t, "script: shop.jsonl", "script: other.jsonl")
	out = asked(t, s, other, exitDifference, "--at", "1", "--as", "other")
	if out.Calls.Ran != 1 || out.Calls.Refused != 1 || out.Calls.Unused != 1 || out.Calls.Refusals[0].Name != "sell" || out.Diff.Same {
		t.Errorf("%+v", out)
	}
	if s.witness(t) != "sold\nlooked\n" {
		t.Errorf("%q", s.witness(t))
	}
	text := stileDo(t, "replay", "a", "--manifest", other, "--live", "--at", "1", "--dir", s.data, "--as", "shown")
	holds(t, text.out, "fork     local:local:shown, asked again from turn 1 on; local:local:a stays as it is", "failed: rehearsal (code 1003)",
		"No tea today.", "calls    0 with their recorded result, 1 done, 1 refused: sell (effectful) 1", "1 recorded result not asked for", "first    ", "differs  in ")

	// Effects are done when that is said, within a budget.
	for say, args := range map[string][]string{
		"--budget":     {"--effects", "run"},
		"is no budget": {"--effects", "run", "--budget", "much"},
		"--effects is": {"--effects", "maybe"},
		"no turn 9":    {"--at", "9"},
	} {
		a := stileDo(t, append([]string{"replay", "a", "--manifest", other, "--live", "--dir", s.data}, args...)...)
		if say = strings.Replace(say, "--effects is", "is refuse or run", 1); a.status != int(exitUsage) || !strings.Contains(a.err, say) {
			t.Errorf("%q: status %d, %q, want %s", args, a.status, a.err, say)
		}
	}
	was := s.witness(t)
	if out = asked(t, s, other, exitDifference, "--at", "1", "--effects", "run", "--budget", "tokens=5000,usd=1"); out.Calls.Refused != 0 || out.Calls.Ran != 2 {
		t.Errorf("%+v", out)
	}
	if s.witness(t) != was+"looked\nsold\n" {
		t.Errorf("%q", s.witness(t))
	}
	// A budget that is used up ends the run and leaves the later inputs.
	if out = asked(t, s, edited, exitDifference, "--at", "1", "--budget", "tokens=10"); out.NotAsked != 1 || out.Used.Tokens != 14 {
		t.Errorf("%+v", out)
	}
	// A run that is submitted has what is left of the budget as its own.
	must(t, "run", s.manifest, "hello", "--dir", s.data, "--session", "b")
	must(t, "run", s.manifest, "buy tea", "--dir", s.data, "--session", "b")
	holds(t, stileDo(t, "replay", "b", "--manifest", edited, "--live", "--dir", s.data, "--budget", "tokens=20").out, "Good day.", "HALT", "ERR_QUOTA", "used     27 tokens")
	if must(t, "sessions", "export", "a", "--dir", s.data) != before {
		t.Error("the session was changed")
	}
	must(t, "verify", "--dir", s.data)
	for _, sid := range []string{"a", "a-live-1", "a-live-2", "third", "other"} {
		must(t, "replay", sid, "--dir", s.data)
	}
	for _, args := range [][]string{{"--live"}, {"--at", "2", "--manifest", s.manifest}, {"--effects", "run"}} {
		if a := stileDo(t, append([]string{"replay", "a", "--dir", s.data}, args...)...); a.status != int(exitUsage) {
			t.Errorf("%q: status %d", args, a.status)
		}
	}
}

// Calls that a person must allow: one with a recorded result goes on with it, one without
// is denied or refused, and no person is asked. The audit log has the answers.
func TestReplayLiveAsksNobody(t *testing.T) {
	s := newShop(t)
	must(t, "run", s.manifest, "buy tea", "--dir", s.data, "--session", "a")
	must(t, "tokens", "create", "--dir", s.data) // begins the log
	confirm := s.edit(t, "loop:", "approval: {default: confirm}\nloop:")
	if out := asked(t, s, confirm, exitOK, "--at", "1"); out.Calls.Reused != 1 || out.Calls.Ran != 0 {
		t.Errorf("%+v", out)
	}
	write(t, s.dir, "shop.jsonl", strings.Replace(shopScript, `\"sell\",\"parameters\":{\"what\":\"tea\"}`, `\"stock\",\"parameters\":{\"what\":\"tea\"}`, 1))
	if out := asked(t, s, confirm, exitDifference, "--at", "1"); out.Calls.Reused != 0 || out.Calls.Ran != 0 {
		t.Errorf("%+v", out)
	}
	if s.witness(t) != "sold\n" {
		t.Errorf("%q", s.witness(t))
	}
	all := auditLines(t, filepath.Join(s.data, audit.Name))
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	for i, detail := range []string{"approve by rehearsal", "deny by rehearsal"} {
		e := all[i+1]
		if e.Action != "answer-approval" || e.Session != fmt.Sprintf("a-live-%d", i+1) || e.Run == "" || e.Approval == "" || e.Detail != detail || e.Code != "" {
			t.Errorf("%+v", e)
		}
		holds(t, e.Token, "command by ")
	}
}

func TestParseBudget(t *testing.T) {
	for s, want := range map[string]messages.Budget{
		"tokens=20000": {Tokens: 20000}, "usd=0.50": {CostUSD: 500_000}, "usd=2": {CostUSD: 2_000_000}, "usd=.000001": {CostUSD: 1},
		"tokens=1, usd=1.5": {Tokens: 1, CostUSD: 1_500_000},
		"":                  {}, "0": {}, "tokens=0": {}, "tokens=-1": {}, "usd=1e3": {}, "usd=0.0000001": {}, "usd=": {}, "tokens=1,tokens=2": {}, "eur=1": {}, "tokens=99999999999999999": {},
	} {
		got, err := parseBudget("--budget", s)
		if got != want || (err == nil) != (want != messages.Budget{}) {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
}

// Feeds that one side alone has, and a program that runs into a limit.
func TestReplayUnderOtherFeedsAndLimits(t *testing.T) {
	s := newShop(t)
	write(t, s.dir, "notes.txt", "tea is low")
	fed := write(t, s.dir, "fed.yaml", shopManifest+"context_feeds:\n  - {id: notes, source: {type: ingest, params: {paths: [notes.txt]}}}\n")
	must(t, "run", s.manifest, "buy tea", "--dir", s.data, "--session", "unfed")
	must(t, "run", fed, "buy tea", "--dir", s.data, "--session", "fed")
	must(t, "run", fed, "hello", "--dir", s.data, "--session", "fed")
	holds(t, must(t, "replay", "fed", "--manifest", fed, "--dir", s.data), "3 turns the same, 0 otherwise")
	for session, c := range map[string]struct{ manifest, shown, sums string }{
		"fed":   {s.manifest, "-<context_feed id=\"notes\">", "0 turns the same, 3 otherwise\n"},
		"unfed": {fed, "+What stands in <context_feed>", "0 turns the same, 2 otherwise\n"},
	} {
		a := stileDo(t, "replay", session, "--manifest", c.manifest, "--dir", s.data)
		if a.status != int(exitDifference) || strings.Contains(a.out, "stopped") {
			t.Errorf("%s: status %d\n%s", session, a.status, a.out)
		}
		holds(t, a.out, "prompt   turn 1", c.shown, c.sums)
	}

	// A turn that was suspended and restored in another process.
	confirm := write(t, s.dir, "confirm.yaml", shopManifest+"context_feeds:\n  - {id: notes, source: {type: ingest, params: {paths: [notes.txt]}}}\napproval: {tools: {sell: confirm}}\n")
	asked := stileDo(t, "run", confirm, "buy tea", "--dir", s.data, "--session", "asked")
	m := regexp.MustCompile(`approvals allow MANIFEST (\S+ \S+ --digest \S+)`).FindStringSubmatch(asked.out)
	if asked.status != int(exitSuspended) || m == nil {
		t.Fatalf("status %d\n%s%s", asked.status, asked.out, asked.err)
	}
	must(t, append(append([]string{"approvals", "allow", confirm}, strings.Fields(m[1])...), "--dir", s.data)...)
	holds(t, must(t, "replay", "asked", "--manifest", confirm, "--dir", s.data), "2 turns the same, 0 otherwise")
	unfed := write(t, s.dir, "unfed.yaml", shopManifest+"approval: {tools: {sell: confirm}}\n")
	holds(t, stileDo(t, "replay", "asked", "--manifest", unfed, "--dir", s.data).out, "prompt   turn 1", "differs  local:local:asked  0 turns the same, 2 otherwise\n")

	must(t, "run", example("ledger/agent.yaml"), "Which entries are wrong?", "--dir", s.data, "--session", "ledger")
	doc, err := os.ReadFile(example("ledger/agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a := stileDo(t, "replay", "ledger", "--manifest", write(t, s.dir, "tight.yaml", strings.Replace(string(doc), "gas: 200000", "gas: 40", 1)), "--dir", s.data)
	holds(t, a.out, "decision turn 1", "-decision: CONTINUE", "+decision: HALT", "+reason: ERR_QUOTA", "stopped  turn 1", "the call file.read", "2 not reached")
}

package turn

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// TestProgressVectors runs the sequences of the conformance vectors through the
// bare counter. A sequence's turns are streams; equal ones are equal digests.
func TestProgressVectors(t *testing.T) {
	raw, err := os.ReadFile("../../tests/testdata/vectors/progress.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Sequences []struct {
			Name    string
			N       int
			Turns   []struct{ Output, Scratch string }
			FiresAt int `json:"fires_at"`
		}
		Digests []struct {
			Name, Output, Scratch string
			Literal               string `json:"digest_literal"`
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Sequences) == 0 || len(file.Digests) == 0 {
		t.Fatal("no vectors")
	}
	plain := func(s string) (string, bool) { // what needs no normalising but the final LF
		s = strings.TrimSuffix(s, "\n")
		return s, !strings.ContainsAny(s, "\r\t<") && !strings.Contains(s, " \n") && !strings.HasSuffix(s, " ")
	}
	checked := 0
	for _, d := range file.Digests {
		out, ok1 := plain(d.Output)
		scr, ok2 := plain(d.Scratch)
		if !ok1 || !ok2 || !utf8.ValidString(out) {
			continue
		}
		checked++
		if got := ProgressDigest([]byte(out), []byte(scr)).String(); got != d.Literal {
			t.Errorf("%s: %s, want %s", d.Name, got, d.Literal)
		}
	}
	if checked < 5 {
		t.Errorf("only %d digests are plain", checked)
	}
	for _, s := range file.Sequences {
		var p Progress
		fired := 0
		for i, turn := range s.Turns {
			out, ok := plain(turn.Output)
			if !ok {
				out = "" // token lines alone differ in these
				for _, line := range strings.Split(strings.TrimSuffix(turn.Output, "\n"), "\n") {
					if !strings.HasPrefix(line, "<<<NSMAG:V3:") {
						out += strings.TrimRight(line, " \t\r") + "\n"
					}
				}
			}
			d := ProgressDigest([]byte(strings.TrimSuffix(out, "\n")), []byte(strings.TrimSuffix(turn.Scratch, "\n")))
			if p.next(d) >= (&Rules{NoProgressN: s.N}).noProgressN() && fired == 0 {
				fired = i + 1
			}
			p.count(d)
		}
		if fired != s.FiresAt {
			t.Errorf("%s: fires at %d, want %d", s.Name, fired, s.FiresAt)
		}
	}
}

// firesAt runs turns of calls, each written as "name=result" words, through the
// loop guard; a leading "~" is a pure call. 0 is never.
func firesAt(turns ...string) int {
	var l Loop
	for i, turn := range turns {
		var calls []ActionShape
		for _, w := range strings.Fields(turn) {
			class := messages.ReadOnly
			if strings.HasPrefix(w, "~") {
				class = messages.Pure
			}
			name, result, _ := strings.Cut(w, "=")
			state := messages.ActionOK
			if result == "unknown" {
				state = messages.ActionUnknown
			}
			calls = append(calls, shapeOf(OpenAction{Name: name, Args: "[]", Class: class}, &messages.ActionEnded{State: state, Result: result}))
		}
		if l.fires(calls) {
			return i + 1
		}
		l.count(calls)
	}
	return 0
}

func times(n int, turns ...string) []string {
	var all []string
	for i := range n {
		for _, s := range turns {
			all = append(all, strings.ReplaceAll(s, "$", fmt.Sprint(i)))
		}
	}
	return all
}

func TestCallLoop(t *testing.T) {
	for _, c := range []struct {
		name  string
		turns []string
		want  int
	}{
		{"three in a row", times(3, "a=1"), 3},
		{"two in a row", []string{"a=1", "a=1", "b=1", "a=1", "a=1"}, 0},
		{"another result", []string{"a=1", "a=1", "a=2", "a=1"}, 0},
		{"eight in a run", times(8, "a=1", "b=$"), 15},
		{"seven in a run", times(7, "a=1", "b=$"), 0},
		{"ABABAB", times(3, "a=1", "b=1"), 6},
		{"ABABAB in three turns", times(3, "a=1 b=1"), 3},
		{"ABABAC", []string{"a=1", "b=1", "a=1", "b=1", "a=1", "c=1"}, 0},
		{"ABCABC", times(2, "a=1", "b=1", "c=1"), 0},
		{"ABCABC eight times", times(8, "a=1", "b=1", "c=1"), 22},
		{"once per turn", times(2, "a=1 a=1 a=1 a=1 a=1"), 0},
		{"once per turn, three turns", times(3, "a=1 a=1"), 3},
		{"pure never", times(20, "~a=1"), 0},
		{"pure between", []string{"a=1", "~b=1", "a=1", "~b=1", "a=1"}, 5},
		{"unknown counts", times(3, "a=unknown"), 3},
		{"in the middle of a turn", []string{"a=1", "a=1", "a=1 b=1"}, 3},
		{"other turns without calls", []string{"a=1", "", "a=1", "", "a=1"}, 5},
		// Benign: polling that changes, paging, retries, reading on.
		{"polling that changes", append(times(30, "poll=$"), "poll=done"), 0},
		{"paging", times(30, "page$=rows"), 0},
		{"two retries", []string{"get=503", "get=503", "get=200"}, 0},
		{"write and check", times(7, "write=$", "check=ok"), 0},
		{"nothing", times(9, ""), 0},
	} {
		if got := firesAt(c.turns...); got != c.want {
			t.Errorf("%s: fires at %d, want %d", c.name, got, c.want)
		}
	}
}

// TestCallShapes: name, arguments, state and result make a signature, and no two
// calls share one by the way their parts join.
func TestCallShapes(t *testing.T) {
	seen := map[messages.Digest]string{}
	for _, p := range [][4]string{
		{"a", "b", "ok", ""}, {"ab", "", "ok", ""}, {"", "ab", "ok", ""}, {"a", "b", "failed", ""}, {"a", "b", "ok", "c"}, {"a", "bok", "", ""},
	} {
		s := shapeOf(OpenAction{Name: p[0], Args: p[1]}, &messages.ActionEnded{State: messages.ActionState(p[2]), Result: p[3]})
		if was, ok := seen[s.Call]; ok {
			t.Errorf("%v is %s", p, was)
		}
		seen[s.Call] = fmt.Sprint(p)
	}
}

// TestActionKey: stable, and canonical whatever the id holds.
func TestActionKey(t *testing.T) {
	m := New(Config{Key: rigKey, Rules: &Rules{Judge: textJudge{}}}, State{}, nil)
	m.flight = &flight{Ident: Ident{Turn: 4}}
	keys := map[string]bool{}
	for _, id := range []string{"#1", "#2", `"`, `\`, `","`, "é"} {
		k := m.actionKey(id, messages.Digest{1})
		if len(k) != 43 || keys[k] || k != m.actionKey(id, messages.Digest{1}) {
			t.Errorf("key of %q: %s", id, k)
		}
		keys[k] = true
	}
	m.flight.Turn = 5
	if keys[m.actionKey("#1", messages.Digest{1})] {
		t.Error("the key does not name the turn")
	}
}

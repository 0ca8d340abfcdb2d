package compare

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// script makes records: each line is a run's ordinal, a turn's index and what happened.
func script(text string) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		seq := int64(0)
		for line := range strings.Lines(text) {
			var run, turn int64
			var what string
			if _, err := fmt.Sscan(line, &run, &turn, &what); err != nil {
				continue
			}
			_, rest, _ := strings.Cut(strings.TrimSpace(line), what+" ")
			seq++
			r := &messages.Record{SID: "local:local:s", Seq: seq, Run: run, Turn: turn}
			switch what {
			case "input":
				r.Body = &messages.Input{Text: rest}
			case "begin":
				r.Body = &messages.RunBegin{}
			case "turn":
				r.Body = &messages.TurnBegin{Nonce: rest}
			case "asks":
				r.Body = &messages.ModelRequest{Provider: "p", Model: rest}
			case "reply":
				r.Body = &messages.ModelReply{Usage: messages.Usage{Input: 10, Output: 2}, CostUSD: 5}
			case "says":
				r.Body = &messages.UnitText{UnitKind: messages.ResponseUnit, Text: rest}
			case "thinks":
				r.Body = &messages.UnitText{UnitKind: messages.ThoughtUnit, Text: rest}
			case "call":
				id, args, _ := strings.Cut(rest, " ")
				r.Body = &messages.ActionDeclared{ID: id, Type: messages.TypeTool, Name: "t", Args: args}
			case "start":
				id, args, _ := strings.Cut(rest, " ")
				r.Body = &messages.ActionStarted{ID: id, Args: args}
			case "ended":
				id, result, _ := strings.Cut(rest, " ")
				r.Body = &messages.ActionEnded{ID: id, State: messages.ActionOK, Result: result, CostUSD: 7}
			case "decided":
				r.Body = &messages.TurnDecided{Decision: messages.Decision(rest), TurnIndex: turn}
			case "end":
				r.Body = &messages.RunEnd{Decision: messages.Decision(rest)}
			case "erased":
				r.Body = &messages.Undecoded{}
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

const talk = `1 0 input hello
1 0 begin
1 1 turn n1
1 1 asks m
1 1 thinks hm
1 1 call a {"x":"$y"}
1 1 start a {"x":1}
1 1 ended a "one"
1 1 reply
1 1 decided CONTINUE
1 2 turn n2
1 2 says good day
1 2 reply
1 2 decided DONE
1 2 end DONE
2 0 input bye
2 0 begin
2 3 turn n3
2 3 says bye bye
2 3 decided DONE
2 3 end DONE
`

func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		name, old, text string
		want            []string
	}{
		{"nothing", "", "", nil},
		{"thoughts, nonces, ids", "n1", "n9", nil},
		{"thoughts", "thinks hm", "thinks aha", nil},
		{"a run that never began", "1 0 input hello", "9 0 input left\n9 0 end HALT\n1 0 input hello", nil},
		{"input", "input bye", "input so long", []string{"input run 2: bye | so long"}},
		{"reply", "says good day", "says good night", []string{"reply run 1, turn 2: good day | good night"}},
		{"arguments", `{"x":1}`, `{"x":2}`, []string{`call run 1, turn 1, call 1: tool t {"x":1} | tool t {"x":2}`}},
		{"result", `"one"`, `"two"`, []string{"result run 1, turn 1, call 1: ok/\"one\" | ok/\"two\""}},
		{"another call", "1 1 reply", "1 1 call b {}\n1 1 reply", []string{"call run 1, turn 1, call 2:  | tool t {}"}},
		{"decision", "1 2 decided DONE", "1 2 decided ABORT", []string{"decision run 1, turn 2: DONE | ABORT"}},
		{"no second run", "2 0 begin\n", "", []string{"run run 2: bye | "}},
		{"first things first", "hello", "hullo", []string{"input run 1: hello | hullo"}},
		{"a turn less", "1 2 turn n2\n", "", []string{"turn run 1, turn 2: good day/DONE | "}},
	} {
		if !strings.Contains(talk, c.old) {
			t.Fatalf("%s: no %q", c.name, c.old)
		}
		a, err := Read(script(talk))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Read(script(strings.Replace(talk, c.old, c.text, 1)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range Differences(a, b) {
			got = append(got, strings.ReplaceAll(fmt.Sprintf("%s %s: %s | %s", d.Sort, d.Where(), d.A, d.B), "\n", "/"))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if back := Differences(b, a); len(back) != len(got) {
			t.Errorf("%s: %d the other way round", c.name, len(back))
		}
	}
	s, err := Read(script(talk))
	if want := (Sums{Runs: 2, Turns: 3, Calls: 1, Input: 20, Output: 4, CostUSD: 17}); err != nil || s.Sums != want {
		t.Errorf("%+v %v", s.Sums, err)
	}
	if _, err := Read(script(talk + "2 0 erased\n")); messages.CodeOf(err) != messages.ErrJournal {
		t.Errorf("erased: %v", err)
	}
}

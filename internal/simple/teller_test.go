package simple

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// rec is a record of run 1, turn 1, at that many milliseconds.
func rec(seq int64, body messages.Body) messages.Update {
	return messages.Update{
		Record: &messages.Record{Seq: seq, Run: 1, Turn: 1, TS: time.UnixMilli(1000 + seq).UTC(), Body: body},
		At:     messages.Position{Seq: seq},
	}
}

func grown(seq, off int64, n int, text string) messages.Update {
	unit := messages.UnitID{Turn: 1, N: n}
	return messages.Update{
		Delta: &messages.Delta{TS: time.UnixMicro(2_500_001).UTC(), Unit: unit, Kind: messages.ResponseUnit, Off: off, Text: text, Retract: text == ""},
		At:    messages.Position{Seq: seq, Unit: unit, Off: off},
	}
}

// said is events as lines: id and JSON.
func said(all []Event) string {
	var b strings.Builder
	for _, e := range all {
		line, _ := json.Marshal(e)
		fmt.Fprintf(&b, "%s %s\n", e.ID, line)
	}
	return b.String()
}

func TestTeller(t *testing.T) {
	response := func(seq int64, n int, text string) messages.Update {
		return rec(seq, &messages.UnitText{UnitKind: messages.ResponseUnit, Unit: messages.UnitID{Turn: 1, N: n}.String(), Text: text, Complete: true})
	}
	for _, c := range []struct {
		name, from string
		tokens     bool
		updates    []messages.Update
		want       string
	}{
		{
			"text that grows is told once", "", true,
			[]messages.Update{grown(1, 2, 0, "ab"), grown(1, 4, 0, "c "), response(2, 0, "abc "), response(3, 1, " d ")},
			`1.1.0.2 {"type":"respond","content":"ab","timestamp":2.500001,"unit":65536}
1.1.0.4 {"type":"respond","content":"c ","timestamp":2.500001,"unit":65536}
3 {"type":"respond","content":" d ","timestamp":1.003,"unit":65537}
`,
		},
		{
			"thoughts with their places", "", true,
			[]messages.Update{
				{Delta: &messages.Delta{TS: time.UnixMicro(2_500_001).UTC(), Unit: messages.UnitID{Turn: 1}, Kind: messages.ThoughtUnit, Off: 2, Text: "ab", Thought: &messages.Block{N: 2, Parent: 1, Depth: 2, Label: "risk"}}, At: messages.Position{Seq: 1, Unit: messages.UnitID{Turn: 1}, Off: 2}},
				rec(2, &messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: "1.1", Text: "c", Complete: true, N: 3, Depth: 1}),
				rec(3, &messages.ActionDeclared{ID: "a", Name: "read", Args: "{}", Thought: 3}),
			},
			`1.1.0.2 {"type":"think","content":"ab","timestamp":2.500001,"unit":65536,"thought":{"n":2,"parent":1,"depth":2,"label":"risk"}}
2 {"type":"think","content":"c","timestamp":1.002,"unit":65537,"thought":{"n":3,"depth":1}}
3 {"type":"call","content":"{\"name\":\"read\",\"args\":{}}","timestamp":1.003,"thought":{"n":3}}
`,
		},
		{
			"or as a whole", "", false,
			[]messages.Update{grown(1, 2, 0, "ab"), response(2, 0, "abc "), response(3, 1, " \n")},
			`2 {"type":"respond","content":"abc","timestamp":1.002,"unit":65536}
`,
		},
		{
			"a text that is taken back", "", true,
			[]messages.Update{grown(1, 2, 0, "ab"), grown(1, 0, 0, ""), response(2, 0, "xy")},
			`1.1.0.2 {"type":"respond","content":"ab","timestamp":2.500001,"unit":65536}
1.1.0.0 {"type":"respond","content":"","timestamp":2.500001,"unit":65536,"keep":0}
2 {"type":"respond","content":"xy","timestamp":1.002,"unit":65536}
`,
		},
		{
			"a recorded text that is taken back", "", false,
			[]messages.Update{rec(4, &messages.Retract{Unit: "1.0", Off: 3})},
			`4 {"type":"respond","content":"","timestamp":1.004,"unit":65536,"keep":3}
`,
		},
		{
			"texts in front of the reader's place", "1.1.1.2", true,
			[]messages.Update{response(2, 0, "ab"), response(3, 1, "cd"), response(4, 2, "ef")},
			`4 {"type":"respond","content":"ef","timestamp":1.004,"unit":65538}
`,
		},
		{
			"events of one record", "6", false,
			[]messages.Update{rec(7, &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrQuota, Detail: "gas"})},
			`6-1 {"type":"error","content":"gas","timestamp":1.007,"code":"ERR_QUOTA"}
7 {"type":"end","content":"","timestamp":1.007}
`,
		},
		{
			"behind the first of them", "5-1", false,
			[]messages.Update{rec(6, &messages.Input{Text: "x"}), rec(7, &messages.RunEnd{Decision: messages.Abort, Detail: "no"}), rec(8, &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrCancelled})},
			`6 {"type":"user","content":"x","timestamp":1.006}
7 {"type":"end","content":"","timestamp":1.007}
7-1 {"type":"cancelled","content":"","timestamp":1.008}
8 {"type":"end","content":"","timestamp":1.008}
`,
		},
		{
			"a generation", "", false,
			[]messages.Update{
				rec(1, &messages.RunBegin{}), rec(2, &messages.ModelRequest{}), rec(1500, &messages.ModelReply{Usage: messages.Usage{Input: 7, Output: 5}}),
				rec(1501, &messages.ModelReply{Usage: messages.Usage{Input: 1}}), rec(1502, &messages.RunBegin{}), rec(1503, &messages.ModelReply{}),
			},
			`1500 {"type":"metric","content":"","timestamp":2.5,"step":{"input":7,"output":5,"duration":1.498},"total":{"input":7,"output":5,"duration":1.498}}
1501 {"type":"metric","content":"","timestamp":2.501,"step":{"input":1,"output":0,"duration":1.499},"total":{"input":8,"output":5,"duration":2.997}}
1503 {"type":"metric","content":"","timestamp":2.503,"step":{"input":0,"output":0,"duration":1.501},"total":{"input":0,"output":0,"duration":1.501}}
`,
		},
		{
			"a batch whose calls never begin", "", false,
			[]messages.Update{
				rec(1, &messages.TurnBegin{Dialect: "cogency"}), rec(2, &messages.ActionDeclared{ID: "#1", Name: "a", Args: "{}"}), rec(3, &messages.ActionDeclared{ID: "#2", Name: "b", Args: "{}"}),
				rec(4, &messages.ActionEnded{ID: "#2", State: messages.ActionSkipped, Reason: "x"}), rec(5, &messages.ActionEnded{ID: "#1", State: messages.ActionOK}),
			},
			`2 {"type":"call","content":"{\"name\":\"a\",\"args\":{}}","timestamp":1.002}
3 {"type":"call","content":"{\"name\":\"b\",\"args\":{}}","timestamp":1.003}
4 {"type":"execute","content":"","timestamp":1.004}
5 {"type":"result","content":"[{\"tool\":\"a\",\"status\":\"success\",\"outcome\":\"ok\",\"content\":\"ok\"},{\"tool\":\"b\",\"status\":\"failure\",\"content\":\"skipped: x\"}]","timestamp":1.005,"payload":{"tools_executed":2,"success_count":1,"failure_count":1}}
`,
		},
		{
			"calls in an if, of which one branch is taken", "", false,
			[]messages.Update{
				rec(1, &messages.TurnBegin{Dialect: "cortex"}), rec(2, &messages.BlockBegin{ID: "c", BlockKind: "if"}), rec(3, &messages.BlockBegin{ID: "p", BlockKind: "parallel", Block: "c"}),
				rec(4, &messages.BlockBegin{ID: "q", BlockKind: "parallel"}), rec(5, &messages.BlockDecided{ID: "c", Branch: "then"}),
				rec(6, &messages.ActionDeclared{ID: "a", Name: "a", Args: "{}", Block: "c"}), rec(7, &messages.ActionDeclared{ID: "b", Name: "b", Args: "{}", Block: "c"}),
				rec(8, &messages.ActionDeclared{ID: "d", Name: "d", Args: "{}", Block: "p"}), rec(9, &messages.ActionDeclared{ID: "e", Name: "e", Args: "{}", Block: "q"}),
				rec(10, &messages.ActionDeclared{ID: "f", Name: "f", Args: "{}", Block: "p"}), rec(11, &messages.ActionDeclared{ID: "g", Name: "g", Args: "{}", Block: "c"}),
				rec(12, &messages.ActionEnded{ID: "b", State: messages.ActionSkipped, Reason: messages.BranchNotTaken}),
				rec(13, &messages.ActionStarted{ID: "a"}),
				rec(14, &messages.ActionEnded{ID: "d", State: messages.ActionSkipped, Reason: "dep_failed:a"}),
				rec(15, &messages.ActionApproval{ID: "f", State: messages.GateConfirm}), rec(16, &messages.TurnSuspended{Waiting: []string{"f"}}),
				rec(17, &messages.ActionStarted{ID: "f"}),
				rec(18, &messages.ActionEnded{ID: "g", State: messages.ActionCancelled, Reason: messages.BranchNotTaken}),
				rec(19, &messages.ActionEnded{ID: "a", State: messages.ActionCancelled, Reason: messages.BranchNotTaken}),
			},
			`9 {"type":"call","content":"{\"name\":\"e\",\"args\":{}}","timestamp":1.009,"block":"q"}
12-1 {"type":"call","content":"{\"name\":\"a\",\"args\":{}}","timestamp":1.013,"block":"c"}
13 {"type":"execute","content":"","timestamp":1.013}
13-1 {"type":"call","content":"{\"name\":\"d\",\"args\":{}}","timestamp":1.014,"block":"p"}
14 {"type":"result","content":"[{\"tool\":\"d\",\"status\":\"failure\",\"content\":\"skipped: dep_failed:a\"}]","timestamp":1.014,"payload":{"tools_executed":1,"success_count":0,"failure_count":1}}
15 {"type":"call","content":"{\"name\":\"f\",\"args\":{}}","timestamp":1.015,"block":"p"}
16 {"type":"interrupt","content":"waiting for approval: f","timestamp":1.016}
17 {"type":"execute","content":"","timestamp":1.017}
19 {"type":"result","content":"[{\"tool\":\"a\",\"status\":\"failure\",\"content\":\"cancelled: branch_not_taken\"}]","timestamp":1.019,"payload":{"tools_executed":1,"success_count":0,"failure_count":1}}
`,
		},
		{
			"a compensation", "", false,
			[]messages.Update{rec(1, &messages.TurnBegin{Dialect: "cortex"}), rec(2, &messages.ActionDeclared{ID: "undo:a", Name: "drop", Args: "{}", Compensates: "a"})},
			`2 {"type":"call","content":"{\"name\":\"drop\",\"args\":{}}","timestamp":1.002,"compensates":"a"}
`,
		},
		{"what users do not see", "", false, []messages.Update{
			rec(1, &messages.Emit{Text: "<<<token>>>", Candidate: true}), rec(2, &messages.Emit{Text: "held", Held: true}), rec(3, &messages.ActionDeclared{ID: "a", Name: "a", Args: "{}", Show: messages.ShowNone}),
			rec(4, &messages.ActionStarted{ID: "a"}), rec(5, &messages.ActionEnded{ID: "a", State: messages.ActionOK}), rec(6, &messages.UnitText{UnitKind: messages.TextUnit, Unit: "1.0", Text: "between"}),
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parseID(c.from)
			if err != nil {
				t.Fatal(err)
			}
			teller := Teller{Tokens: c.tokens}
			teller.from(p)
			var got []Event
			for _, u := range c.updates {
				got = append(got, teller.Tell(u)...)
			}
			if said := said(got); said != c.want {
				t.Errorf("got\n%swant\n%s", said, c.want)
			}
		})
	}
}

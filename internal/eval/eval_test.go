package eval

import (
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func one(t *testing.T, line string) *Case {
	t.Helper()
	all, err := Parse("cases.jsonl", []byte(line))
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %v", line, err)
	}
	return &all[0]
}

func TestJudge(t *testing.T) {
	calls := []Made{{"shop.order", `{"id": "7", "more": {"a": 1, "b": 2}}`}, {"shop.pay", `{"id": "7"}`}}
	done := Observed{Decision: "DONE", Text: " It is 42.\n", Calls: calls}
	halt := Observed{Decision: "HALT", Reason: "ERR_QUOTA", Text: "It"}
	for _, c := range []struct {
		expect string
		o      Observed
		want   string // in the only failure; "" for none
	}{
		{`{}`, done, ""},
		{`{}`, halt, "decision: the run ended HALT ERR_QUOTA"},
		{`{"decision": "HALT"}`, halt, ""},
		{`{"decision": "ERR_QUOTA"}`, halt, ""},
		{`{"decision": "ERR_LOOP"}`, halt, "want ERR_LOOP"},
		{`{"decision": "HALT"}`, done, "the run ended DONE, want HALT"},
		{`{"equals": "It is 42."}`, done, ""},
		{`{"equals": "It is 41."}`, done, "equals: the answer is «It is 42.», want «It is 41.»"},
		{`{"contains": "42"}`, done, ""},
		{`{"contains": ["It", "43"]}`, done, "contains: «43» is not in"},
		{`{"re2": "^It is \\d+\\.$"}`, done, ""},
		{`{"re2": "^\\d+$"}`, done, "re2: "},
		{`{"schema": {"type": "object", "required": ["n"]}}`, Observed{Decision: "DONE", Output: `{"n": 1}`}, ""},
		{`{"schema": {"type": "object", "required": ["n"]}}`, Observed{Decision: "DONE", Text: `{"m": 1}`}, "schema: "},
		{`{"schema": {"type": "object"}}`, done, "schema: "},
		{`{"calls": [{"name": "shop.order"}, {"name": "shop.pay", "args": {"id": "7"}}]}`, done, ""},
		{`{"calls": [{"name": "shop.order", "args": {"more": {"a": 1}}}]}`, done, ""},
		{`{"calls": [{"name": "shop.order", "args": {"more": {"a": 2}}}]}`, done, "calls: no shop.order"},
		{`{"calls": [{"name": "shop.pay"}, {"name": "shop.order"}]}`, done, "calls: no shop.order"},
		{`{"calls": [{"name": "shop.pay"}, {"name": "shop.order"}], "unordered": true}`, done, ""},
		{`{"calls": [{"name": "shop.pay"}, {"name": "shop.pay"}], "unordered": true}`, done, "calls: no shop.pay"},
		{`{"calls": []}`, done, "want none, there are shop.order"},
		{`{"calls": []}`, Observed{Decision: "DONE"}, ""},
	} {
		got := strings.Join(one(t, `{"id": "a", "input": "x", "expect": `+c.expect+`}`).Judge(&c.o), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.expect, got, c.want)
		}
	}
	// All that is said must hold, and nothing hides in what is told.
	got := one(t, `{"id": "a", "input": "x", "expect": {"equals": "a", "contains": "b", "decision": "HALT"}}`).Judge(&Observed{Decision: "DONE", Text: "\x1b[2J\u202e"})
	if len(got) != 3 || strings.ContainsAny(strings.Join(got, ""), "\x1b\u202e") {
		t.Errorf("%q", got)
	}
}

func TestParseTellsPlaces(t *testing.T) {
	_, err := Parse("c.jsonl", []byte(`# a comment

{"id": "a", "input": "x"}
{"id": "a", "input": "y"}
{"id": "b"}
{"id": "c c", "input": "x"}
  {"id": "d", "input": "x", "expects": {}}
{"id": "e", "input": "x", "expect": {"re2": "("}}
{"id": "f", "input": "x", "expect": {"schema": {"type": 7}}}
{"id": "g", "input": "x", "expect": {"decision": "MAYBE"}}
{"id": "h", "input": 7}
{"id": "i", "input": "x"
{"id": "j", "input": "x", "expect": {"unordered": true}}
{"id": "k", "input": "x", "expect": {"calls": [{"args": {}}]}}
{"id": "l", "input": "x", "results": [{"tool": "t"}]}
`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"c.jsonl:4:1: id: ", "a is that of line 3", "c.jsonl:5:1: input: ", "c.jsonl:6:1: id: ", "c.jsonl:7:", "expects: ", "there are id, input, expect, tags, results",
		"c.jsonl:8:1: expect.re2: ", "c.jsonl:9:1: expect.schema: ", "c.jsonl:10:1: expect.decision: ", "c.jsonl:11:", "input: ", "c.jsonl:12:", "c.jsonl:13:1: expect.unordered: ",
		"c.jsonl:14:1: expect.calls.0.name: ", "c.jsonl:15:1: results.0.result: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if _, err := Parse("c.jsonl", []byte("# nothing\n")); err == nil || !strings.Contains(err.Error(), "there is no case") {
		t.Errorf("%v", err)
	}
}

func TestReport(t *testing.T) {
	attempts := []Attempt{
		{Agent: "a", Case: "x", N: 1, State: Passed, Input: 10, Output: 5, CostUSD: 3, MS: 100, Tags: []string{"t"}},
		{Agent: "a", Case: "x", N: 2, State: Failed, Input: 20, Output: 5, MS: 200, Tags: []string{"t"}, Failures: []string{"equals: \x01 <b>"}},
		{Agent: "a", Case: "y", N: 1, State: Passed, MS: 300},
		{Agent: "a", Case: "z", N: 1, State: NotRun},
		{Agent: "b", Case: "x", N: 1, State: Broken, MS: 1, Failures: []string{"gone"}},
		{Agent: "b", Case: "y", N: 1, State: Failed, MS: 2},
	}
	r := Make("r", []string{"a", "b"}, attempts)
	a := r.Agents[0]
	if a.Attempts != 4 || a.Passed != 2 || a.Failed != 1 || a.NotRun != 1 || a.Mixed != 1 || a.P50 != 200 || a.P90 != 300 || a.CostUSD != 3 || math.Abs(a.Tokens-40.0/3) > 1e-9 {
		t.Errorf("%+v", a)
	}
	if math.Abs(a.Rate-2.0/3) > 1e-9 || math.Abs(a.Low-0.20766) > 1e-4 || math.Abs(a.High-0.93851) > 1e-4 { // by hand
		t.Errorf("%+v", a)
	}
	if d := cmp.Diff(&Versus{Better: 1, Same: 1, P: 1}, r.Versus); d != "" {
		t.Error(d) // of x as many attempts failed as passed
	}
	if len(r.Tags) != 2 || r.Tags[0].Tag != "t" || r.Tags[0].Attempts != 2 {
		t.Errorf("%+v", r.Tags)
	}
	var b strings.Builder
	if err := r.JUnit(&b, ""); err != nil {
		t.Fatal(err)
	}
	var back suites
	if err := xml.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if len(back.Suites) != 2 || back.Suites[0].Failures != 1 || back.Suites[0].Skipped != 1 || back.Suites[1].Errors != 1 || back.Suites[0].Cases[1].Failure == nil {
		t.Errorf("%+v", back)
	}
	// Eight cases of eight that differ one way: 2 / 2^8.
	var many []Attempt
	for i := range 8 {
		id := string(rune('a' + i))
		many = append(many, Attempt{Agent: "a", Case: id, State: Passed}, Attempt{Agent: "b", Case: id, State: Failed})
	}
	if v := Make("r", []string{"a", "b"}, many).Versus; v.Better != 8 || math.Abs(v.P-2.0/256) > 1e-9 {
		t.Errorf("%+v", v)
	}
}

func TestThresholds(t *testing.T) {
	s := Sums{Rate: 0.9, P90: 1500, Tokens: 100, CostUSD: 7}
	for text, want := range map[string]bool{
		"pass>=0.9": true, "pass > 0.9": false, "p90<=1.5s": true, "p90<1500": false, "tokens<=99": false, "cost_micro_usd<8": true, "refused<=0": true,
	} {
		th, ok := ParseThreshold(text)
		if holds, has := th.Holds(&s); !ok || holds != want {
			t.Errorf("%s: %t, %t, has %v", text, ok, holds, has)
		}
	}
	for _, text := range []string{"", "pass", "pass=1", "speed>1", "pass>=x", "p90<=fast", "pass>=NaN", ">1"} {
		if th, ok := ParseThreshold(text); ok {
			t.Errorf("%q is %+v", text, th)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"id": "a", "input": "x", "expect": {"contains": ["a"], "re2": "a+", "calls": [{"name": "t", "args": {"a": 1}}]}}`, "{", `{"id": 1}`, "# x\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := Parse("c", b)
		if (err == nil) != (len(all) > 0) && err == nil {
			t.Fatal("no case and no error")
		}
		for i := range all {
			if all[i].ID == "" || all[i].Input == "" {
				t.Fatalf("%+v", all[i])
			}
			all[i].Judge(&Observed{Decision: "DONE", Text: "text", Calls: []Made{{"t", `{"a": 1}`}}})
		}
	})
}

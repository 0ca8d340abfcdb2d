package conform

import (
	"encoding/json"
	"strings"
	"testing"
)

// judged runs one case.
func judged(t *testing.T, c object) verdict {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	v, err := judgeStreaming(b)
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return v
}

// Every member of every event of every case counts: changed or taken away in the
// reply it no longer matches, and so does the number and the order of events.
func TestEveryStreamedMemberCounts(t *testing.T) {
	changed := 0
	for _, c := range loadMutant(t, "streaming.json").cases(t) {
		if !judged(t, c).pass {
			t.Fatalf("%v fails unchanged", c["id"])
		}
		events := c["events"].([]any)
		wants := func(why string, events []any) {
			t.Helper()
			changed++
			if judged(t, object{"input": c["input"], "events": events}).pass {
				t.Errorf("%v passes although %s", c["id"], why)
			}
		}
		wants("one more is wanted", append(events[:len(events):len(events)], object{"ev": "text", "text": "more"}))
		for i, e := range events {
			wants("one is not wanted", append(append([]any{}, events[:i]...), events[i+1:]...))
			e := e.(object)
			for name, v := range e {
				e[name] = "other"
				if name == "ev" {
					e[name] = map[bool]string{true: "error", false: "text"}[v == "text"]
				}
				wants(name+" is another", events)
				e[name] = v
			}
			e["novel"] = nil
			wants("an unknown member is wanted", events)
			delete(e, "novel")
		}
	}
	t.Logf("%d changes", changed)
	if changed < 1000 {
		t.Errorf("only %d changes", changed)
	}
}

func TestStreamingCases(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`[{"input":"hi","events":[{"ev":"text"}]}]`, "1 passed, 0 failed"},
		{`[{"input":"","events":[]}]`, "1 passed, 0 failed"},
		{`[{"input":"hi","events":[],"accept":[[{"ev":"error","code":"x"}],[{"ev":"text","text":"hi"}]]}]`, "1 passed, 0 failed"},
		{`{"format":"stile-streaming/1","cases":[{"id":"a","input":"<response>x</response>","events":[{"text":"x","ev":"response","final":true}],"upstream":7}]}`, "1 passed, 0 failed"},
		{`[{"input":"<action>{\"name\":\"t\",\"timeout\":2,\"parameters\":{\"b\":1.0,\"a\":1e400}}</action>","events":[{"ev":"action","timeout":2.0,"show":"user"}]}]`, "1 passed, 0 failed"},
		{`[{"input":"<action>{\"name\":\"t\",\"parameters\":{\"b\":1.0,\"a\":2}}</action>","events":[{"ev":"action","parameters":{"b":1,"a":2.0}}]}]`, "1 passed, 0 failed"},
		{`[{"input":"<action>{\"name\":\"t\",\"parameters\":{\"a\":1e400}}</action>","events":[{"ev":"action","parameters":{"a":1e400}}]}]`, "1 passed, 0 failed"},
		{
			`[{"id":"x","input":"a<thought/ >","events":[]}]`,
			"FAIL  some.vectors: x\n      expected no event\n      got      text text=\"a\" · error code=\"bad_tag\" tag=\"thought\" · text text=\"<thought/ >\"\n",
		},
		{`[{"input":"","events":[{"ev":"text","text":"b","a":1}]}]`, "expected text a=1 text=\"b\"\n      got      no event"},
		{`[{"input":null,"events":[]}]`, "malformed: input: ERR_CONFIG: missing"},
		{`[{"input":"x","events":null}]`, "malformed: events: ERR_CONFIG: missing"},
		{`[{"input":"x","events":[{"text":"x"}]}]`, `malformed: events.0.ev: ERR_CONFIG: "" is no kind of event`},
		{`[{"input":"x","events":[],"accept":[[{"ev":"novel"}]]}]`, "malformed: events.0.ev: ERR_CONFIG: \"\\\"novel\\\"\" is no kind of event"},
		{`[{"input":"x","events":[7]}]`, "malformed: events.0: ERR_CONFIG: a number does not fit here"},
	} {
		if _, report := runFile(t, "some.vectors", []byte(c.text)); !strings.Contains(report, c.want) {
			t.Errorf("%s\n%s\nwant %s", c.text, report, c.want)
		}
	}
}

package conform

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every member of every case that a case is compared by counts: changed or taken
// away, the case fails.
func TestEveryCogencyMemberCounts(t *testing.T) {
	var file map[string]any
	if err := json.Unmarshal(readVector(t, "cogency.json"), &file); err != nil {
		t.Fatal(err)
	}
	judged := func(section string, c object) verdict {
		t.Helper()
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		judge := judgeCogencyParse
		switch section {
		case "progress":
			judge = judgeCogencyProgress
		case "turn":
			judge = judgeCogencyTurn
		case "assemble":
			judge = judgeCogencyAssemble
		}
		v, err := judge(b)
		if err != nil {
			return verdict{}
		}
		return v
	}
	changed := 0
	for _, section := range []string{"parse", "progress", "turn", "assemble"} {
		for _, c := range file[section].([]any) {
			c := c.(object)
			if c["id"] == "parse-051" {
				continue // its number is not what encoding/json makes of it
			}
			if !judged(section, c).pass {
				t.Fatalf("%v fails unchanged", c["id"])
			}
			for _, list := range []string{"expect", "token_units", "after_chunk", "final_events"} {
				all, _ := c[list].([]any)
				if all == nil {
					continue
				}
				wants := func(why string, all []any) {
					t.Helper()
					keep := c[list]
					c[list] = all
					changed++
					if judged(section, c).pass {
						t.Errorf("%v passes although in %s %s", c["id"], list, why)
					}
					c[list] = keep
				}
				wants("one more is wanted", append(all[:len(all):len(all)], object{"type": "respond", "content": "more", "role": "user"}))
				for i, e := range all {
					wants("one is not wanted", append(append([]any{}, all[:i]...), all[i+1:]...))
					e := e.(object)
					for name, v := range e {
						switch v := v.(type) {
						case bool:
							e[name] = !v
						case float64:
							e[name] = v + 1
						case string:
							e[name] = v + "x"
						default:
							e[name] = object{"name": "other"}
						}
						wants(name+" is another", all)
						e[name] = v
					}
				}
			}
			if s, ok := c["persisted"].([]any); ok {
				c["persisted"] = append(s, "think")
				changed++
				if judged(section, c).pass {
					t.Errorf("%v passes although something else is stored", c["id"])
				}
			}
		}
	}
	t.Logf("%d changes", changed)
	if changed < 500 {
		t.Errorf("only %d changes", changed)
	}
}

func TestCogencyCases(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"parse":[{"input":"hi","expect":[{"type":"respond","content":"hi","seq":7}]}]}`, "1 passed, 0 failed"},
		{`{"parse":[{"id":"a","input":"hi","expect":[]}]}`, "FAIL  some.vectors: parse a\n      expected no event\n      got      respond \"hi\""},
		{`{"parse":[{"id":"a","input":"<execute>[{\"name\":\"t\",\"args\":{\"a\":1}}]","expect":[{"type":"call","call":{"args":{"a":1.0},"name":"t"}},{"type":"execute"}]}]}`, "0 passed, 1 failed"},
		{`{"parse":[{"input":"hi","expect":[],"accept":[[],[{"type":"respond","content":"hi"}]]}]}`, "1 passed, 0 failed"},
		{`{"parse":[{"input":"hi","expect":[],"accept":[[{"type":"respond","content":"ho"}]]}]}`, "or       respond \"ho\"\n      got      respond \"hi\""},
		{`{"turn":[{"input":"hi","expect":[],"accept":[[{"type":"respond","content":"hi"}]],"persisted":["respond"]}]}`, "1 passed, 0 failed"},
		{`{"turn":[{"input":"hi","expect":[],"accept":[[{"type":"respond","content":"hi"}]],"persisted":[]}]}`, "0 passed, 1 failed"},
		{`{"assemble":[{"events":[],"expect":[{"role":"user","content":"x"}],"accept":[[]]}]}`, "1 passed, 0 failed"},
		{`{"progress":[{"chunks":["a"],"after_chunk":[{"think":"","respond":"a","events":0}]}]}`, "1 passed, 0 failed"},
		{`{"format":"stile-cogency/1","parse":[]}`, "parse: ERR_CONFIG: there are no cases"},
		{`{"parse":[{"expect":[]}]}`, "malformed: input: ERR_CONFIG: missing"},
		{`{"parse":[{"input":""}]}`, "malformed: expect: ERR_CONFIG: missing"},
		{`{"turn":[{"expect":[]}]}`, "malformed: input: ERR_CONFIG: missing"},
		{`{"turn":[{"input":""}]}`, "malformed: expect: ERR_CONFIG: missing"},
		{`{"turn":[{"input":"<execute>[{\"name\":\"nope\",\"args\":{}}]","expect":[{"type":"call"},{"type":"execute"},{"type":"result","results":[{"tool":"nope","status":"failure","content":"*"}]}],"persisted":["call","result"]}]}`, "1 passed, 0 failed"},
		{`{"turn":[],"progress":[{"chunks":["a"],"after_chunk":[]}]}`, "malformed: after_chunk: ERR_CONFIG: there are 0 for 1 chunks"},
		{`{"assemble":[{"expect":[]}]}`, "malformed: events: ERR_CONFIG: missing"},
		{`{"assemble":[{"events":[]}]}`, "malformed: expect: ERR_CONFIG: missing"},
		{`{"assemble":[{"events":[],"expect":[]}]}`, "1 passed, 0 failed"},
		{`{"assemble":[{"events":[],"history_window":0,"expect":[]}]}`, "got      history_window: ERR_CONFIG"},
		{`{"assemble":[{"events":[{"type":"call","content":"{\"name\":\"t\",\"args\":{\"s\":\"</execute>\",\"a\":1}}"}],"expect":[{"role":"assistant","content":"<execute>[{\"args\":{\"a\":1,\"s\":\"</execute>\"},\"name\":\"t\"}]</execute>"},{"role":"user","content":"<results>[{\"tool\":\"t\",\"content\":\"interrupted: no result recorded\",\"status\":\"failure\"}]</results>"}]}]}`, "1 passed, 0 failed"},
	} {
		if _, report := runFile(t, "some.vectors", []byte(c.text)); !strings.Contains(report, c.want) {
			t.Errorf("%s\n%s\nwant %s", c.text, report, c.want)
		}
	}
}

// A body at the limit is judged like any other: the work of a case may not grow
// with the square of its input, or these would not end.
func TestLongCogencyInputs(t *testing.T) {
	body := `[{"name":"a","args":{"x":"` + strings.Repeat("y", 1<<20) + `"}}]`
	long := strings.Repeat("x", 200_000)
	for name, c := range map[string]object{
		"batch": {"input": "<execute>" + body + "</execute>", "expect": []any{object{"type": "error", "code": "execute_too_large"}}},
		"text": {
			"input": long, "expect": []any{object{"type": "respond", "content": long}},
			"token_units": []any{object{"type": "respond", "raw": long}},
		},
	} {
		b, err := json.Marshal(object{"parse": []any{c}})
		if err != nil {
			t.Fatal(err)
		}
		if s, report := runFile(t, name, b); s.Passed != 1 || s.Failed != 0 {
			t.Errorf("%s", report)
		}
	}
}

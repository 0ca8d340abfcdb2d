package conform

import (
	"strings"
	"testing"
)

// Each change of a case is noticed, and of that case alone.
func TestMutatedKitsuFails(t *testing.T) {
	for name, change := range map[string]func(c object) bool{
		"visible": func(c object) bool {
			c["visible"] = c["visible"].(string) + " "
			return true
		},
		"input": func(c object) bool {
			if c["id"] != "none" {
				return false
			}
			c["input"] = "x"
			return true
		},
		"kind": func(c object) bool { return inAction(c, "kind", "fly") },
		"payload": func(c object) bool {
			return inAction(c, "payload", object{"query": "ramen", "x": 1})
		},
		"raw":        func(c object) bool { return inAction(c, "raw", "<action:get_time") },
		"no payload": func(c object) bool { return inAction(c, "payload", nil) },
		"no action is none": func(c object) bool {
			if c["action"] == nil {
				return false
			}
			c["action"] = nil
			return true
		},
		"no action at all": func(c object) bool {
			if c["action"] == nil {
				return false
			}
			delete(c, "action")
			return true
		},
		"error": func(c object) bool {
			if c["error"] == nil {
				return false
			}
			c["error"] = "fly"
			return true
		},
		"error and action": func(c object) bool {
			if c["error"] == nil {
				return false
			}
			c["action"] = nil
			return true
		},
		"no input":   func(c object) bool { delete(c, "input"); return true },
		"no visible": func(c object) bool { delete(c, "visible"); return true },
	} {
		d := loadMutant(t, "kitsu.json")
		all := d.cases(t)
		id := ""
		// The second case that fits, so that the first one still tells the format.
		for i, c := range all {
			if i > 0 && change(c) {
				id = c["id"].(string)
				break
			}
		}
		s, report := d.run(t)
		if id == "" || s.Failed != 1 || s.Passed != len(all)-1 {
			t.Errorf("%s of %s: %+v\n%s", name, id, s, report)
		}
		if got := failures(report); len(got) != 1 || got[0] != id {
			t.Errorf("%s: %v failed, want %s", name, got, id)
		}
	}
	if s, report := runFile(t, "empty", []byte(`{"format":"stile-kitsu/1","cases":[]}`)); s.OK() || !strings.Contains(report, "cases: ERR_CONFIG: there are none") {
		t.Errorf("no case: %+v\n%s", s, report)
	}
}

func inAction(c object, member string, value any) bool {
	a, ok := c["action"].(object)
	if ok {
		with(a, member, value)
	}
	return ok
}

func TestKitsuAccepts(t *testing.T) {
	for _, c := range []struct{ accept, want string }{
		{`[{"action":null,"visible":"a"}]`, "1 passed, 0 failed"},
		{`[{"error":"malformed","visible":"a"},{"action":null,"visible":"a"}]`, "1 passed, 0 failed"},
		{`[{"error":"malformed","visible":"a"}]`, "or       error malformed, visible \"a\""},
		{`[{"action":null}]`, "malformed: visible: ERR_CONFIG: missing"},
		{`[]`, "0 passed, 1 failed"},
	} {
		text := `[{"id":"a","input":"a","action":null,"visible":"b","accept":` + c.accept + `}]`
		if _, report := runFile(t, "some.vectors", []byte(text)); !strings.Contains(report, c.want) {
			t.Errorf("%s\n%s\nwant %s", c.accept, report, c.want)
		}
	}
}

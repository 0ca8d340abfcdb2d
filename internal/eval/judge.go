package eval

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/visible"
)

// Observed is the outcome of a run.
type Observed struct {
	Decision string // DONE, ABORT or HALT
	Reason   string // of a HALT
	Text     string // the answer
	Output   string // the structured answer, as JSON; "" without one
	Calls    []Made
}

// Made is a call in a run; its arguments are JSON.
type Made struct{ Name, Args string }

// Judge returns the conditions that do not hold, none for a run that passes. A case without
// conditions passes if its run is DONE.
func (c *Case) Judge(o *Observed) (failures []string) {
	e := &c.Expect
	bad := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	ended := strings.TrimSpace(o.Decision + " " + o.Reason)
	switch {
	case e.Decision != nil && *e.Decision != o.Decision && (o.Reason == "" || *e.Decision != o.Reason):
		bad("decision: the run ended %s, want %s", ended, *e.Decision)
	case e.Decision == nil && o.Decision != "DONE":
		bad("decision: the run ended %s", ended)
	}
	answer := strings.TrimSpace(o.Text)
	if e.Equals != nil && answer != strings.TrimSpace(*e.Equals) {
		bad("equals: the answer is %s, want %s", quoted(answer), quoted(*e.Equals))
	}
	for _, part := range e.Contains {
		if !strings.Contains(answer, part) {
			bad("contains: %s is not in the answer %s", quoted(part), quoted(answer))
		}
	}
	if e.re != nil && !e.re.MatchString(answer) {
		bad("re2: the answer %s does not match %s", quoted(answer), quoted(*e.RE2))
	}
	if e.schema != nil {
		value := o.Output
		if value == "" {
			value = answer
		}
		if _, fault := e.schema.Answer(value); fault != "" {
			bad("schema: %s; the answer is %s", visible.Exact(fault), quoted(value))
		}
	}
	return append(failures, e.calls(o.Calls)...)
}

// calls searches each expected call among the calls that are not matched yet: after the one
// before, unless Unordered is set.
func (e *Expect) calls(made []Made) (failures []string) {
	if e.Calls != nil && len(e.Calls) == 0 && len(made) > 0 {
		return []string{"calls: want none, there are " + list(made)}
	}
	taken := make([]bool, len(made))
	from := 0
	for _, w := range e.Calls {
		found := false
		for i := from; i < len(made) && !found; i++ {
			if found = !taken[i] && w.fits(made[i]); found {
				taken[i] = true
				if !e.Unordered {
					from = i + 1
				}
			}
		}
		if !found {
			failures = append(failures, fmt.Sprintf("calls: no %s %s among %s", w.Name, quoted(string(w.Args)), list(made)))
		}
	}
	return failures
}

// fits reports whether a call has the name and the members.
func (w *Call) fits(m Made) bool {
	if w.Name != m.Name {
		return false
	}
	if len(w.Args) == 0 {
		return true
	}
	var want, got any
	return json.Unmarshal(w.Args, &want) == nil && json.Unmarshal([]byte(m.Args), &got) == nil && within(want, got)
}

// within reports whether all members of want are in got, in objects at any depth; lists and
// scalars are equal.
func within(want, got any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(want, got)
	}
	g, ok := got.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range w {
		has, ok := g[name]
		if !ok || !within(v, has) {
			return false
		}
	}
	return true
}

// maxListed bounds the calls that a failure names.
const maxListed = 10

func list(made []Made) string {
	if len(made) == 0 {
		return "no calls"
	}
	var all []string
	for i, m := range made {
		if i == maxListed {
			all = append(all, fmt.Sprintf("and %d more", len(made)-i))
			break
		}
		all = append(all, m.Name+" "+quoted(m.Args))
	}
	return strings.Join(all, ", ")
}

// quoted returns a short form of a text, with hidden characters made visible.
func quoted(s string) string { return "«" + visible.Exact(clip.Short(s, 160)) + "»" }

package conform

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/transform"
)

// transformCase is a chain of steps over a feed's value (docs/spec/extensions.md §8).
type transformCase struct {
	Steps     jsontext.Value `json:"steps"`
	Input     jsontext.Value `json:"input"`
	Output    jsontext.Value `json:"output"`
	LoadError *struct {
		Step  int    `json:"step"`
		Field string `json:"field"`
	} `json:"load_error"`
	Error *struct {
		Step int    `json:"step"`
		Op   string `json:"op"`
		Why  string `json:"why"`
	} `json:"error"`
}

func transformCases(d *document) ([]testCase, error) {
	return each(d.listed, "id", "", judgeTransform), nil
}

// transformed is a value, or what kept a chain from giving one.
type transformed struct {
	value jsontext.Value
	fault string
}

func (t transformed) String() string {
	if t.fault != "" {
		return t.fault
	}
	return string(t.value)
}

func (t transformed) matches(want transformed) bool {
	return t.fault == want.fault && (t.fault != "" || sameValue(t.value, want.value))
}

func notLoaded(step int, member string) string {
	return fmt.Sprintf("load error in step %d, member %q", step, member)
}

func stepFailed(step int, op, why string) string { return fmt.Sprintf("step %d %s: %s", step, op, why) }

func judgeTransform(raw jsontext.Value) (verdict, error) {
	var c transformCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	var wants []transformed
	if c.Output != nil {
		wants = append(wants, transformed{value: c.Output})
	}
	if c.LoadError != nil {
		wants = append(wants, transformed{fault: notLoaded(c.LoadError.Step, c.LoadError.Field)})
	}
	if c.Error != nil {
		wants = append(wants, transformed{fault: stepFailed(c.Error.Step, c.Error.Op, c.Error.Why)})
	}
	switch {
	case c.Steps == nil:
		return verdict{}, malformed("steps", "missing")
	case c.Input == nil:
		return verdict{}, malformed("input", "missing")
	case len(wants) != 1:
		return verdict{}, malformed("output", "a case has one of output, load_error and error")
	}
	got := runTransform(string(c.Steps), string(c.Input))
	return compare(got, got.matches, wants), nil
}

func runTransform(steps, input string) transformed {
	chain, wrong := transform.Load(steps)
	if wrong != nil {
		return transformed{fault: notLoaded(wrong.Step, wrong.Member)}
	}
	value, failed := chain.Apply(input)
	if failed != nil {
		return transformed{fault: stepFailed(failed.Step, failed.Op, failed.Why)}
	}
	return transformed{value: jsontext.Value(value)}
}

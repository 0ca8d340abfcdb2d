// Package toolstest calls tools for tests, and renders their results.
package toolstest

import (
	"fmt"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Perform runs a tool for an action and renders its result as the language does, or an error
// as "code N: message".
func Perform(t testing.TB, all []tools.Tool, name string, c *tools.Call) string {
	t.Helper()
	v, err := find(t, all, name).Run(t.Context(), c)
	if err != nil {
		return failure(err)
	}
	return string(neuroscript.List([]neuroscript.Value{v}).AppendText(nil))
}

// Do calls a reporting tool as a model does, with its arguments as JSON, and renders
// "outcome|content" or "code N: message".
func Do(t testing.TB, all []tools.Tool, name, args string) string {
	t.Helper()
	v, err := neuroscript.FromJSON([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	v, err = catalog.Invoke(t.Context(), find(t, all, name), &tools.Call{SID: "a:b:c", Name: name}, v, neuroscript.Limits{})
	if err != nil {
		return failure(err)
	}
	outcome, _ := v.MapGet("outcome")
	content, _ := v.MapGet("content")
	a, _ := outcome.AsString()
	c, _ := content.AsString()
	return a + "|" + c
}

// Quote is a text as JSON.
func Quote(t testing.TB, s string) string {
	t.Helper()
	b, err := neuroscript.AppendJSON(nil, neuroscript.String(s))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func find(t testing.TB, all []tools.Tool, name string) *tools.Tool {
	t.Helper()
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	t.Fatalf("no tool %s", name)
	return nil
}

func failure(err error) string {
	code, text := catalog.Failure(err)
	return fmt.Sprintf("code %d: %s", code, text)
}

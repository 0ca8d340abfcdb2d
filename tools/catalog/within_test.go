package catalog_test

import (
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
)

// A workflow changes its session alone when one of its steps does, and no other changes
// anything.
func TestWithin(t *testing.T) {
	registry, err := catalog.New(catalog.Standard()...)
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.Apply(catalog.Policy{Allow: catalog.AllowStandard()})
	if err != nil {
		t.Fatal(err)
	}
	targets := catalog.NewTargets(set, neuroscript.Limits{})
	add := func(x *catalog.Executor, err error) {
		t.Helper()
		if err == nil {
			err = targets.Add(x)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(catalog.KeyValue(catalog.KeyValueRelic{Name: "shelf", Operations: []string{"get", "set"}}), nil)
	add(&catalog.Executor{Type: messages.TypeLLM, Name: "reads", Class: messages.ReadOnly}, nil)
	add(&catalog.Executor{Type: messages.TypeRelic, Name: "writes", Class: messages.Idempotent}, nil)
	step := func(typ messages.ActionType, name string) *messages.Action {
		return &messages.Action{ID: name[:1] + "s", Type: typ, Name: name, Args: "{}"}
	}
	shelf, reads, writes, pure := step(messages.TypeRelic, "shelf"), step(messages.TypeLLM, "reads"), step(messages.TypeRelic, "writes"), step(messages.TypeTool, "math.Add")
	for name, c := range map[string]struct {
		steps []*messages.Action
		want  bool
	}{
		"keeps":  {[]*messages.Action{shelf, reads, pure}, true},
		"looks":  {[]*messages.Action{reads, pure}, false},
		"effect": {[]*messages.Action{shelf, writes}, false},
	} {
		add(catalog.Workflow(catalog.Graph{Name: name, Steps: c.steps, Targets: targets}))
		if got := targets.Within(messages.TypeWorkflow, name); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !targets.Within(messages.TypeRelic, "shelf") || targets.Within(messages.TypeRelic, "writes") || targets.Within(messages.TypeTool, "math.Add") {
		t.Error("a target")
	}
}

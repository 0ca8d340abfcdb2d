package compiler

import (
	"context"
	"testing"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

func checking() *Env {
	return &Env{Mode: Check, Store: memory.New(), Log: zap.NewNop(), Sandbox: confine.Probe, Keep: (&Holder{}).Keep}
}

func called(name string) *Definition {
	m := manifest.Default("plain")
	m.Name = name
	return &Definition{Manifest: m, Model: scripted.New("x")}
}

// A definition is compiled once, its manifest is kept beside the records, a name is one
// agent's, and what fails is tried again.
func TestDirectory(t *testing.T) {
	ctx := context.Background()
	env := checking()
	d := NewDirectory(env)
	if err := d.Configure(ctx, []Keyed{{"key", called("ada")}}); err != nil {
		t.Fatal(err)
	}
	c := d.Ready("key")
	if c == nil || c.Name() != "ada" {
		t.Fatalf("%+v", c)
	}
	if again, err := d.Agent(ctx, "key", called("ada")); err != nil || again != c {
		t.Errorf("compiled twice: %v", err)
	}
	if doc, err := env.Store.Meta(ctx, ManifestKey(c.Digest())); err != nil || string(doc) != string(c.Manifest.Canonical()) {
		t.Errorf("the journal has %q, %v", doc, err)
	}
	if err := d.Configure(ctx, []Keyed{{"key", called("ada")}, {"other", called("ada")}}); messages.CodeOf(err) != messages.ErrConfig || d.Ready("key") != c || d.Ready("other") != nil {
		t.Errorf("two agents of one name: %v", err)
	}
	if d.Running(c.Actor) != c || d.Running(nil) != nil {
		t.Error("an agent is not found by its actor")
	}
	broken := called("broken")
	broken.Manifest.Import.Tools = []string{"no.such"}
	if _, err := d.Agent(ctx, "broken", broken); messages.CodeOf(err) != messages.ErrConfig || d.Ready("broken") != nil {
		t.Errorf("%v", err)
	}
	if mended, err := d.Agent(ctx, "broken", called("broken")); err != nil || d.Ready("broken") != mended {
		t.Errorf("%v", err)
	}
	if _, err := d.Agent(ctx, "none", nil); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("%v", err)
	}
	head := journal.NewHead("local:local:s", messages.Incarnation{1})
	if found, err := d.Of(ctx, &head); found != nil || err != nil {
		t.Errorf("a session without records is of %v, %v", found, err)
	}
}

// A configuration takes the place of the one before as a whole, or not at all. What runs keeps its
// agent; what wakes up finds the new one.
func TestConfigureAgain(t *testing.T) {
	ctx := context.Background()
	d := NewDirectory(checking())
	if err := d.Configure(ctx, []Keyed{{1, called("ada")}, {2, called("bob")}}); err != nil {
		t.Fatal(err)
	}
	ada, bob := d.Ready(1), d.Ready(2)
	broken := called("eve")
	broken.Manifest.Import.Tools = []string{"no.such"}
	changed := called("ada")
	changed.Manifest.Summary = "another"
	if err := d.Configure(ctx, []Keyed{{3, changed}, {4, broken}}); messages.CodeOf(err) != messages.ErrConfig {
		t.Fatal(err)
	}
	if d.Ready(1) != ada || d.Ready(2) != bob || d.Ready(3) != nil || d.Known(ada.Digest(), "ada") != ada || d.Known(changed.Manifest.Digest(), "") != nil {
		t.Error("a configuration with a mistake changed something")
	}
	if err := d.Configure(ctx, []Keyed{{3, changed}, {2, called("bob")}}); err != nil {
		t.Fatal(err)
	}
	if d.Ready(2) != bob || d.Known(bob.Digest(), "bob") != bob {
		t.Error("an agent that stays was compiled again")
	}
	now := d.Ready(3)
	if d.Ready(1) != nil || d.Running(ada.Actor) != nil || d.Known(ada.Digest(), "ada") != now || now == ada {
		t.Error("the agent before is still found")
	}
	if err := d.Configure(ctx, nil); err != nil || d.Known(now.Digest(), "ada") != nil {
		t.Errorf("agents of no configuration: %v", err)
	}
}

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
	if err := d.Configure(ctx, "key", called("ada")); err != nil {
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
	if err := d.Configure(ctx, "other", called("ada")); messages.CodeOf(err) != messages.ErrConfig {
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

package compiler

import (
	"context"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
)

// TestLimitsOfRenderings: what bounds a program and its run, by the version of the
// rendering and by what the manifest says.
func TestLimitsOfRenderings(t *testing.T) {
	for _, c := range []struct {
		name      string
		dialect   string
		rendering int64
		set       func(*manifest.Manifest)
		tools     int64 // neuroscript.Limits.Tools
		emits     int64
		calls     int // turn.Limits.Calls
		actions   int64
		turns     int64
	}{
		{"version 1", "aeiou", 1, nil, 0, 0, 0, 256, 0},
		{"version 1 knows no calls", "aeiou", 1, func(m *manifest.Manifest) { m.Quotas.Calls, m.Quotas.Emits = 5, 6 }, 0, 0, 0, 256, 0},
		{"newest", "aeiou", 0, nil, 0, 0, neuroscript.CallsOf2, neuroscript.CallsOf2, 50},
		{"calls and emits", "aeiou", 0, func(m *manifest.Manifest) { m.Quotas.Calls, m.Quotas.Emits = 5, 6 }, 5, 6, 5, 256, 50},
		{"more calls", "aeiou", 0, func(m *manifest.Manifest) { m.Quotas.Calls = 9000 }, 9000, 0, 9000, 9000, 50},
		{"actions of a run", "aeiou", 0, func(m *manifest.Manifest) { m.Quotas.Actions, m.Quotas.ReplyActions = 10, 4 }, 0, 0, 4, 10, 50},
		{"turns", "aeiou", 0, func(m *manifest.Manifest) { m.Loop.MaxTurns = 7 }, 0, 0, neuroscript.CallsOf2, neuroscript.CallsOf2, 7},
		{"another dialect", "cortex", 0, nil, 0, 0, 0, 256, 10},
	} {
		m := manifest.Default(c.dialect)
		if c.set != nil {
			c.set(m)
		}
		env := &Env{Mode: Check, Rendering: c.rendering}
		a, err := Compile(context.Background(), env, &Definition{Manifest: m, Model: scripted.New("x")})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		l, r := a.Actor.Limits, a.Actor.Rules
		if l.Tools != c.tools || l.Emits != c.emits || r.Limits.Calls != c.calls || r.Limits.Actions != c.actions || r.MaxTurns != c.turns {
			t.Errorf("%s: program %d calls %d emits; turn %d calls, run %d actions, %d turns", c.name, l.Tools, l.Emits, r.Limits.Calls, r.Limits.Actions, r.MaxTurns)
		}
	}
}

// TestKeeperOfLimits: limits of an agent's own dialect do not keep it from learning.
func TestKeeperOfLimits(t *testing.T) {
	for dialect, set := range map[string]func(*manifest.Quotas){
		"aeiou":  func(q *manifest.Quotas) { q.Calls, q.Emits = 5, 6 },
		"cortex": func(q *manifest.Quotas) { q.Tag = 100 },
	} {
		m := manifest.Default(dialect)
		set(&m.Quotas)
		own := manifest.Default("profile")
		own.Quotas = quotasOfKeeper(m.Quotas)
		if err := own.Validate("profile"); err != nil {
			t.Errorf("%s: %v", dialect, err)
		}
	}
}

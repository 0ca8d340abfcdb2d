package compiler

import (
	"cmp"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/parse/plain"
)

// Defaults from version 2 of the rendering on, where a manifest says nothing. They are
// not in manifest.Default: the canonical form of old manifests, and with it their digest,
// stays what it was.
const (
	// aeiouTurns bounds a run whose model counts no tokens.
	aeiouTurns = 50
	// oldActions is manifest.Default's quotas.actions, which was less than a program may
	// call. It stands in every manifest in effect, so that nothing reports whether a user
	// wrote it.
	oldActions = 256
)

// maxTurns is how many turns a run may have; 0 is no limit.
func (e *Env) maxTurns(m *manifest.Manifest, d parse.Dialect) int64 {
	switch d := d.(type) {
	case kitsu.Dialect:
		return cmp.Or(m.Loop.MaxTurns, d.Traits().MaxTurns)
	case plain.Dialect: // one turn, and one more for a reply that said nothing
		if d.Forgive.Has(parse.HabitSilence) {
			return max(m.Loop.MaxTurns, 2)
		}
	case aeiou.Dialect:
		if e.rendering() >= 2 {
			return cmp.Or(m.Loop.MaxTurns, aeiouTurns)
		}
	}
	return m.Loop.MaxTurns
}

// defaultRepairs is the loop.repairs of a manifest that says nothing.
const defaultRepairs = 2

// repairs is how many failed turns of a run are followed by another.
func (e *Env) repairs(m *manifest.Manifest) int64 {
	switch {
	case e.rendering() < 2:
		return 0
	case m.Loop.Repairs != nil:
		return *m.Loop.Repairs
	}
	return defaultRepairs
}

// programLimits are the meters of a program. Version 1 knows no calls and emits, and has
// the interpreter's defaults.
func (e *Env) programLimits(q manifest.Quotas) neuroscript.Limits {
	l := neuroscript.Limits{
		Gas: q.Gas, Alloc: q.Alloc, Value: q.Value, Depth: q.Depth, Output: q.Output, Scratch: q.Output, Rendering: e.rendering(),
	}
	if e.rendering() >= 2 {
		l.Tools, l.Emits = q.Calls, q.Emits
	}
	return l
}

// turnLimits are the meters of the machine. From version 2 on a turn of aeiou may have
// as many actions as its program may make calls, and by default a run of it too.
func (e *Env) turnLimits(q manifest.Quotas, d parse.Dialect) turn.Limits {
	l := turn.Limits{
		ProgramWall: q.ProgramWall, GenerationWall: q.GenerationWall, TurnWall: q.TurnWall, RunWall: q.RunWall,
		Actions: q.Actions, Parallel: cmp.Or(int(q.Parallel), d.Traits().Parallel), Tokens: q.Tokens, CostMicroUSD: q.CostMicroUSD,
		Reply: q.Reply, Calls: int(q.ReplyActions), GateBuffer: int(q.GateBuffer), Drain: q.Drain, RollbackWall: q.RollbackWall,
	}
	if d.Name() == aeiou.Name && e.rendering() >= 2 {
		calls := cmp.Or(q.Calls, aeiou.DefaultCalls)
		l.Calls = cmp.Or(l.Calls, int(calls))
		if l.Actions == oldActions {
			l.Actions = max(calls, oldActions)
		}
	}
	return l
}

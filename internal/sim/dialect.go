package sim

import (
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/cogency"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/parse/plain"
)

// dialect is a way to speak, and how the simulated model speaks it.
type dialect struct {
	parse.Dialect
	language
	rendering int64
	forgive   parse.Habits
}

// language is a dialect in any rendering.
type language struct {
	weight int
	// in gives the dialect of a rendering that forgives some habits.
	in func(rendering int64, forgive parse.Habits) parse.Dialect
	// reply writes what the model says. In a calm world it says what ends the run.
	reply func(a *author) []byte
	// groups reports whether its actions have groups; controls, whether there are control blocks
	// and streamed results.
	groups, controls bool
}

// controlling are the extensions of a dialect with control blocks.
const controlling = cortex.ExtIf | cortex.ExtForeach | cortex.ExtParallel | cortex.ExtRollback | cortex.ExtStream

// dialects are all there are: one more is one more row.
var dialects = []language{
	{weight: 6, in: func(r int64, f parse.Habits) parse.Dialect { return aeiou.Dialect{Rendering: r, Forgive: f} }, reply: (*author).program},
	{weight: 1, in: func(r int64, f parse.Habits) parse.Dialect { return plain.Dialect{Rendering: r, Forgive: f} }, reply: (*author).talk},
	{weight: 5, in: func(r int64, f parse.Habits) parse.Dialect { return cortex.Dialect{Rendering: r, Forgive: f} }, reply: (*author).stream},
	{weight: 2, in: func(r int64, f parse.Habits) parse.Dialect {
		return cortex.Dialect{Rendering: r, Forgive: f, Cut: true}
	}, reply: (*author).stream},
	{weight: 2, in: func(r int64, f parse.Habits) parse.Dialect {
		return cortex.Dialect{Rendering: r, Forgive: f, Extensions: cortex.ExtSubThoughts | cortex.ExtTemplates, Templates: ownTemplates}
	}, reply: (*author).templated},
	{weight: 3, in: func(r int64, f parse.Habits) parse.Dialect {
		return cortex.Dialect{Rendering: r, Forgive: f, Extensions: cortex.ExtRollback}
	}, reply: (*author).grouped, groups: true},
	{weight: 8, in: func(r int64, f parse.Habits) parse.Dialect {
		return cortex.Dialect{Rendering: r, Forgive: f, Extensions: controlling}
	}, reply: (*author).controlled, groups: true, controls: true},
	{weight: 1, in: func(r int64, f parse.Habits) parse.Dialect {
		return cortex.Dialect{Rendering: r, Forgive: f, Extensions: controlling, Cut: true}
	}, reply: (*author).controlled, groups: true, controls: true},
	{weight: 2, in: func(r int64, f parse.Habits) parse.Dialect { return cogency.Dialect{Rendering: r, Forgive: f} }, reply: (*author).batch},
	{weight: 2, in: func(r int64, f parse.Habits) parse.Dialect { return kitsu.Dialect{Rendering: r, Forgive: f} }, reply: (*author).companion},
}

// pickDialect draws a dialect in a rendering, mostly the newest, and what it forgives: as
// the manifest of a real agent, all that there is or all but some.
func (w *world) pickDialect() *dialect {
	d := &dialect{language: w.pickLanguage(), rendering: messages.Rendering}
	if w.rnd.IntN(4) == 0 {
		d.rendering = 1
	}
	if d.rendering >= 2 {
		if d.forgive = parse.AllHabits; w.rnd.IntN(3) == 0 {
			d.forgive &= parse.Habits(w.rnd.Uint32())
		}
	}
	d.Dialect = d.in(d.rendering, d.forgive)
	return d
}

func (w *world) pickLanguage() language {
	total := 0
	for i := range dialects {
		total += dialects[i].weight
	}
	n := w.rnd.IntN(total)
	for i := range dialects {
		if n -= dialects[i].weight; n < 0 {
			return dialects[i]
		}
	}
	panic("unreachable")
}

// input brings a submitted text into the dialect's form, as a door does.
func (d *dialect) input(in messages.Input) (messages.Input, error) {
	if c, ok := d.Dialect.(parse.InputChecker); ok {
		return c.CheckInput(in)
	}
	return in, nil
}

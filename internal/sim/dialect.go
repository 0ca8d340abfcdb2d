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
	weight int
	// reply writes what the model says. In a calm world it says what ends the run.
	reply func(a *author) []byte
}

// dialects are all there are: one more is one more row.
var dialects = []dialect{
	{aeiou.Dialect{}, 6, (*author).program},
	{plain.Dialect{}, 1, (*author).talk},
	{cortex.Dialect{}, 5, (*author).stream},
	{cortex.Dialect{Cut: true}, 2, (*author).stream},
	{cogency.Dialect{}, 2, (*author).batch},
	{kitsu.Dialect{}, 2, (*author).companion},
}

func (w *world) pickDialect() *dialect {
	total := 0
	for i := range dialects {
		total += dialects[i].weight
	}
	n := w.rnd.IntN(total)
	for i := range dialects {
		if n -= dialects[i].weight; n < 0 {
			return &dialects[i]
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

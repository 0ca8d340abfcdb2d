package target

import (
	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/workload"
)

const (
	workloadWait = workload.Wait
	workloadDead = workload.Dead
)

// gathering tells the watcher of the texts of a run, says where to cut its stream, and compares
// what came with the texts that the target says at their ends.
type gathering struct {
	w     load.Watcher
	cuts  []int // bytes after which to cut, rising
	seen  int
	made  int
	grown string // the unit of the last text that grew
	watch bool   // the stream is one that is cut
	units map[string]*unit
	wrong bool
}

type unit struct {
	text  []byte
	whole bool
}

func newGathering(r *load.Request, w load.Watcher) *gathering {
	g := &gathering{w: w, watch: len(r.Cut) > 0, units: map[string]*unit{}}
	size := r.Agent.Tokens * r.Agent.TokenBytes
	for _, part := range r.Cut {
		g.cuts = append(g.cuts, int(part*float64(size)))
	}
	return g
}

func (g *gathering) of(name string) *unit {
	u := g.units[name]
	if u == nil {
		u = &unit{}
		g.units[name] = u
	}
	return u
}

func (g *gathering) text(name, text string) {
	g.w.Texts(1, len(text))
	g.grown = name
	if !g.watch {
		return
	}
	g.seen += len(text)
	u := g.of(name)
	u.text = append(u.text, text...)
}

func (g *gathering) retract(name string, keep int64) {
	if !g.watch {
		return
	}
	u := g.of(name)
	if keep < 0 || keep > int64(len(u.text)) {
		g.wrong = true
		return
	}
	u.text = u.text[:keep]
}

// whole takes the text of a unit as the target says it at its end. A short one may come at once.
func (g *gathering) whole(name, text string) {
	if g.grown != name && g.units[name] == nil {
		g.w.Texts(1, len(text))
		g.grown = name
		if g.watch {
			g.of(name).text = []byte(text)
		}
	}
	if !g.watch {
		return
	}
	u := g.of(name)
	if u.whole || string(u.text) != text {
		g.wrong = true
	}
	u.whole = true
}

// cut reports whether to cut the stream now.
func (g *gathering) cut() bool {
	if len(g.cuts) == 0 || g.seen <= g.cuts[0] {
		return false
	}
	for len(g.cuts) > 0 && g.seen > g.cuts[0] {
		g.cuts = g.cuts[1:]
	}
	g.made++
	return true
}

// report says at the end of the run what came of a stream that is cut.
func (g *gathering) report() {
	if !g.watch {
		return
	}
	for _, u := range g.units {
		if !u.whole {
			g.wrong = true
		}
	}
	g.w.Resumed(g.made, !g.wrong && len(g.units) > 0)
}

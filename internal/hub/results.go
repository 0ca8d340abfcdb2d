package hub

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// grownResult is the shown text of one result that no record has. It stays, empty, until the
// action ends: a subscriber that comes back must look how much of it the journal has.
type grownResult struct {
	last messages.Delta // the newest piece
	text []byte         // the last bytes of what was shown
}

// growResult keeps shown text of a result until a record has it.
func (sh *hubShard) growResult(sid string, d *messages.Delta) {
	all := sh.results[sid]
	i := slices.IndexFunc(all, func(g grownResult) bool { return g.last.Action == d.Action && g.last.Unit == d.Unit })
	if i < 0 {
		if sh.results == nil {
			sh.results = map[string][]grownResult{}
		}
		sh.results[sid] = append(all, grownResult{last: *d, text: []byte(d.Text)})
		return
	}
	g := &all[i]
	if d.Off-int64(len(d.Text)) != g.last.Off {
		g.text = g.text[:0]
	}
	g.last, g.text = *d, append(g.text, d.Text...)
}

// settleResult forgets shown text that a record has, or that does not count any more.
func (sh *hubShard) settleResult(sid string, r *messages.Record) {
	all := sh.results[sid]
	if len(all) == 0 {
		return
	}
	switch b := r.Body.(type) {
	case *messages.ActionChunk:
		for i := range all {
			if g := &all[i]; g.last.Action == b.ID && g.last.Unit.Turn == r.Turn {
				behind := max(0, min(int64(len(g.text)), g.last.Off-b.Off-int64(len(b.Bytes))))
				g.text = append(g.text[:0], g.text[int64(len(g.text))-behind:]...)
			}
		}
		return
	case *messages.ActionStarted:
		all = without(all, r.Turn, b.ID)
	case *messages.ActionEnded:
		all = without(all, r.Turn, b.ID)
	case *messages.TurnDecided:
		all = slices.DeleteFunc(all, func(g grownResult) bool { return g.last.Unit.Turn <= r.Turn })
	default:
		return
	}
	if len(all) == 0 {
		delete(sh.results, sid)
	} else {
		sh.results[sid] = all
	}
}

func without(all []grownResult, turn int64, action string) []grownResult {
	return slices.DeleteFunc(all, func(g grownResult) bool { return g.last.Action == action && g.last.Unit.Turn == turn })
}

package hub

import (
	"cmp"
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// grown is the shown text of a session without records, in the order of its units. A reply may
// have very many units: the newest is found at once, others by binary search, and the oldest
// is removed without moving the others.
type grown []grownUnit

// grownUnit is the shown text of one unit.
type grownUnit struct {
	last messages.Delta // the newest piece
	text []byte         // all pieces
}

func (sh *hubShard) shown(sid string) (all []messages.Update) {
	for _, u := range sh.grown[sid] {
		d := u.last
		d.Text = string(u.text)
		all = append(all, messages.Update{Delta: &d})
	}
	for _, g := range sh.results[sid] {
		d := g.last
		d.Text = string(g.text)
		all = append(all, messages.Update{Delta: &d})
	}
	return all
}

// find returns the place of a unit, and whether it is there.
func (sh *hubShard) find(units grown, unit messages.UnitID) (at int, found bool) {
	order := func(u grownUnit, unit messages.UnitID) int {
		sh.looked++
		return cmp.Or(cmp.Compare(u.last.Unit.Turn, unit.Turn), cmp.Compare(u.last.Unit.N, unit.N))
	}
	if n := len(units); n == 0 || order(units[n-1], unit) < 0 {
		return n, false
	} else if units[n-1].last.Unit == unit {
		return n - 1, true
	}
	return slices.BinarySearchFunc(units, unit, order)
}

// grow keeps shown text until a record has it.
func (sh *hubShard) grow(sid string, d *messages.Delta) {
	if d.Kind == messages.ResultText {
		sh.growResult(sid, d)
		return
	}
	units := sh.grown[sid]
	i, found := sh.find(units, d.Unit)
	var text []byte
	if found {
		text = units[i].text
	}
	// A turn that was restored shows its text again, from wherever it goes on.
	from := int(d.Off) - len(d.Text)
	if from > len(text) {
		return
	}
	u := grownUnit{last: *d, text: append(text[:from], d.Text...)}
	if found {
		units[i] = u
		return
	}
	sh.grown[sid] = slices.Insert(units, i, u)
}

// settle forgets shown text that a record has, or that none will have.
func (sh *hubShard) settle(sid string, r *messages.Record) {
	units := sh.grown[sid]
	if len(units) == 0 {
		return
	}
	switch b := r.Body.(type) {
	case *messages.UnitText:
		unit, err := messages.ParseUnitID(b.Unit)
		if err != nil {
			return
		}
		switch i, found := sh.find(units, unit); {
		case !found:
			return
		case i == 0:
			units[0] = grownUnit{}
			units = units[1:]
		default:
			units = slices.Delete(units, i, i+1)
		}
	case *messages.Retract:
		unit, err := messages.ParseUnitID(b.Unit)
		if err != nil {
			return
		}
		if i, found := sh.find(units, unit); found && int(b.Off) < len(units[i].text) {
			units[i].text = units[i].text[:b.Off]
			units[i].last.Off = b.Off
		}
		return
	case *messages.TurnDecided:
		units = slices.DeleteFunc(units, func(u grownUnit) bool {
			sh.looked++
			return u.last.Unit.Turn <= r.Turn
		})
	default:
		return
	}
	if len(units) == 0 {
		delete(sh.grown, sid)
	} else {
		sh.grown[sid] = units
	}
}

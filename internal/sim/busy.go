package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// What submits may bring about while a run is in flight: docs/spec/design.md §9 read once more,
// from the records alone.

// line is who waits.
type line struct {
	queue   []ticket // in the order in which their runs begin
	window  *ticket  // gathers what comes shortly after one another
	opened  time.Time
	until   time.Time       // its end, if nothing comes
	served  ticket          // the open run's
	joined  map[int64]bool  // seq of inputs that joined a run at a turn of it
	moved   map[int64]int64 // of these, the run that took them up because theirs ended
	of      map[int64]int64 // seq of every input → the run it is of, in the end
	written map[int64]*messages.Input
	join    func([]messages.Input) messages.Input
}

// ticket is a run and its inputs, by seq.
type ticket struct {
	run    int64
	policy messages.Policy // that of a run which goes before others
	inputs []int64
	merged []int64 // join it at its next turn
	given  []int64 // what its latest turn was given
}

// joinOf makes one input of several, as the dialect does, or else as texts on lines.
func (d *dialect) joinOf(ins []messages.Input) messages.Input {
	if len(ins) == 1 {
		return messages.Input{Text: ins[0].Text, Userdata: ins[0].Userdata}
	}
	if j, ok := d.Dialect.(interface {
		JoinInputs([]messages.Input) (messages.Input, error)
	}); ok {
		if in, err := j.JoinInputs(ins); err == nil {
			return in
		}
	}
	var texts []string
	for _, in := range ins {
		texts = append(texts, in.Text)
	}
	return messages.Input{Text: strings.Join(texts, "\n")}
}

// said is what inputs are together.
func (l *line) said(seqs []int64) *messages.Input {
	var ins []messages.Input
	for _, seq := range seqs {
		ins = append(ins, *l.written[seq])
	}
	in := l.join(ins)
	return &in
}

// accepts takes an input to where it waits.
func (a *audit) accepts(r *messages.Record, b *messages.Input) error {
	if r.Turn != 0 {
		return fmt.Errorf("in turn %d", r.Turn)
	}
	a.written[r.Seq], a.of[r.Seq] = b, r.Run
	if w := a.window; w != nil && b.Policy == messages.Debounce {
		if r.Run != w.run || len(w.inputs) >= messages.WindowLimit {
			return fmt.Errorf("run %d, the window with %d inputs is run %d's", r.Run, len(w.inputs), w.run)
		}
		w.inputs = append(w.inputs, r.Seq)
		a.until = a.windowEnd(r.TS)
		return nil
	}
	var joins *ticket
	if b.Policy == messages.Merge {
		switch {
		case a.run != 0:
			joins = &a.served
		case a.window != nil:
			joins = a.window
		}
	}
	if joins != nil {
		if r.Run != joins.run || len(joins.merged) >= messages.MergeLimit {
			return fmt.Errorf("it joins run %d, and is for run %d, which %d join", r.Run, joins.run, len(joins.merged))
		}
		joins.merged = append(joins.merged, r.Seq)
		a.joined[r.Seq] = true
		a.closeWindow()
		return nil
	}
	a.closeWindow()
	if a.waiting[r.Run] || a.over[r.Run] != 0 || r.Run != a.runs()+1 {
		return fmt.Errorf("run ordinal %d", r.Run)
	}
	a.waiting[r.Run] = true
	t := ticket{run: r.Run, inputs: []int64{r.Seq}}
	switch {
	case b.Policy == messages.Debounce:
		a.opened = r.TS
		a.window, a.until = &t, a.windowEnd(r.TS)
	case b.Policy.Supersedes():
		t.policy = b.Policy
		a.supersede(r, t)
	default:
		a.queue = append(a.queue, t)
	}
	return nil
}

// runs counts those that were accepted.
func (a *audit) runs() int64 { return int64(len(a.waiting) + len(a.over)) }

// supersede takes a run before all that do not supersede, and cancels the run in flight.
func (a *audit) supersede(r *messages.Record, t ticket) {
	at := 0
	if a.run == 0 {
		at = min(1, len(a.queue)) // the first is about to begin
	} else {
		if a.cancelled[a.run] == 0 {
			a.cancelled[a.run] = r.Seq
		}
		if t.policy == messages.Rollback {
			a.rollbacks[t.run] = true
			if a.withdrawn[a.run] == 0 {
				a.withdrawn[a.run] = 1
			}
		}
	}
	a.ahead(t, at)
}

// rollsBack reports whether a run takes the one in flight back: it is in the line, or was
// until a client cancelled it there, which leaves what it did.
func (a *audit) rollsBack(run int64) bool {
	return a.rollbacks[run] || slices.ContainsFunc(a.queue, func(t ticket) bool { return t.run == run && t.policy == messages.Rollback })
}

// ahead puts a run behind those that supersede, and before all others.
func (a *audit) ahead(t ticket, at int) {
	for at < len(a.queue) && a.queue[at].policy.Supersedes() {
		at++
	}
	a.queue = slices.Insert(a.queue, at, t)
}

func (a *audit) windowEnd(now time.Time) time.Time {
	end := now.Add(messages.DebounceQuiet)
	if most := a.opened.Add(messages.DebounceMost); most.Before(end) {
		end = most
	}
	if end.Before(a.opened) {
		return a.opened
	}
	return end
}

func (a *audit) closeWindow() {
	if a.window != nil {
		a.queue = append(a.queue, *a.window)
		a.window = nil
	}
}

// windowOver takes the record of the window's clock.
func (a *audit) windowOver(r *messages.Record) error {
	if a.window == nil || r.Run != a.window.run || r.Turn != 0 {
		return fmt.Errorf("the window of run %d closes, and it is not open", r.Run)
	}
	if r.TS.Before(a.until) {
		return fmt.Errorf("the window closes at %s, and is open until %s", r.TS, a.until)
	}
	a.closeWindow()
	return nil
}

// begins takes the first of the line.
func (a *audit) begins(r *messages.Record, b *messages.RunBegin) error {
	if a.run != 0 || !a.waiting[r.Run] || r.Turn != 0 {
		return fmt.Errorf("run %d begins, %d is open", r.Run, a.run)
	}
	if len(a.queue) == 0 || a.queue[0].run != r.Run {
		return fmt.Errorf("run %d begins, in the line are %v", r.Run, a.queue)
	}
	a.served, a.queue = a.queue[0], a.queue[1:]
	if in := a.served.inputs; b.Input != in[0] || !slices.Equal(b.Merged, in[1:]) {
		return fmt.Errorf("run %d begins with the inputs %d %v, it has %v", r.Run, b.Input, b.Merged, in)
	}
	a.served.given = slices.Clone(a.served.inputs)
	a.input = a.said(a.served.given)
	return nil
}

// goesOn takes what joins the run with a turn that begins.
func (a *audit) goesOn(b *messages.TurnBegin) error {
	var due []int64
	if a.turns > 1 {
		due = a.served.merged
	}
	if !slices.Equal(b.Merged, due) {
		return fmt.Errorf("the inputs %v join, %v are due", b.Merged, due)
	}
	if len(due) > 0 {
		if !a.unanswered(b) {
			a.served.given = nil
		}
		a.served.given = append(a.served.given, due...)
		a.input, a.served.merged = a.said(a.served.given), nil
	}
	return nil
}

// leaves takes a run out of the line, wherever it stands, or ends the one that is served.
func (a *audit) leaves(r *messages.Record, b *messages.RunEnd) error {
	t := a.served
	if a.run != r.Run {
		i := slices.IndexFunc(a.queue, func(t ticket) bool { return t.run == r.Run })
		switch {
		case i >= 0:
			t = a.queue[i]
			a.queue = slices.Delete(a.queue, i, i+1)
		case a.window != nil && a.window.run == r.Run:
			t, a.window = *a.window, nil
		default:
			return errors.New("it ends and did not wait")
		}
		if all := append(slices.Clone(t.inputs[1:]), t.merged...); !slices.Equal(b.Merged, all) || b.Next != 0 {
			return fmt.Errorf("it ends with the inputs %v and run %d, it had %v more", b.Merged, b.Next, all)
		}
		return nil
	}
	if len(b.Merged) > 0 {
		return fmt.Errorf("it ends with the inputs %v, which a run has that never began", b.Merged)
	}
	a.served = ticket{}
	if len(t.merged) == 0 {
		if b.Next != 0 {
			return fmt.Errorf("run %d takes up an input that does not exist", b.Next)
		}
		return nil
	}
	if b.Next != a.runs()+1 {
		return fmt.Errorf("run %d takes up the inputs %v, the next is %d", b.Next, t.merged, a.runs()+1)
	}
	for _, seq := range t.merged {
		a.moved[seq], a.of[seq] = b.Next, b.Next
	}
	a.waiting[b.Next] = true
	a.ahead(ticket{run: b.Next, inputs: t.merged}, 0)
	return nil
}

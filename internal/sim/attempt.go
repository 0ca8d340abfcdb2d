package sim

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/messages"
)

// attempt is a call of a tool that has been begun.
type attempt struct {
	s         *shell
	start     *turn.StartAction
	deed      *deed
	happened  bool
	cancelled bool
	silent    bool // it never answers
	over      bool
	call      *relicCall // the latest that it made
	step      int        // calls that it made
	said      string     // what the latest gave
	used      messages.Budget
	links     []messages.ChildLink
	delegation
	pouring
}

// stop leaves an attempt to itself: it may still have its effect.
func (a *attempt) stop() {
	if !a.over && !a.happened && a.start.Type != messages.TypeAgent && !a.deed.confirmed && a.s.host.w.rnd.IntN(2) == 0 {
		a.deed.happen()
	}
	a.over = true
}

// ready reports whether the attempt has something to say: also one that hangs, once its
// time is over.
func (a *attempt) ready() bool {
	if a.start.Type == messages.TypeAgent && !a.over && (!a.silent || a.cancelled) {
		return a.mayDelegate()
	}
	return !a.over && (!a.silent || a.s.host.w.calm || a.late())
}

// late reports whether the attempt's time is over.
func (a *attempt) late() bool {
	return !a.start.Deadline.IsZero() && !a.s.host.now().Before(a.start.Deadline)
}

// goOn takes an attempt a step further; nil when it said nothing.
func (a *attempt) goOn() turn.Input {
	w := a.s.host.w
	may := durable(a.start.Class)                                   // it may have happened without anybody knowing
	if w.deaf || a.start.Detached && !w.calm && w.rnd.IntN(8) > 0 { // detached: it takes its time
		return nil
	}
	end := &turn.ActionEnded{Ident: a.start.Ident, ID: a.start.ID, Attempt: a.start.Attempt, MS: w.rnd.Int64N(50)}
	if w.rnd.IntN(4) == 0 {
		end.Audits = []messages.Audit{{Who: "sim", What: "outside", Allowed: true}}
	}
	over := driver.InTime
	switch {
	case a.cancelled:
		over = driver.Cancelled
	case a.late():
		over = driver.TimeUp
	}
	ends := func(by *turn.ActionEnded) turn.Input {
		a.over = true
		by.Ident, by.ID, by.Attempt, by.MS, by.Audits, by.Feed = end.Ident, end.ID, end.Attempt, end.MS, end.Audits, end.Feed
		by.Used, by.Children = a.used, a.links
		a.deed.said(by.State, by.Result)
		return by
	}
	finish := func(state messages.ActionState, reason, result string) turn.Input {
		by := &turn.ActionEnded{State: state, Reason: reason, Result: result}
		if state == messages.ActionFailed {
			by.ErrorCode = turn.CodeToolFailed
		}
		return ends(by)
	}
	stopped := func() turn.Input { // it says itself that nothing of it goes on
		a.deed.confirmed = a.deed.confirmed || a.start.Type == messages.TypeAgent
		return ends(driver.Concluded(a.start, over, &turn.ActionEnded{State: messages.ActionFailed, ErrorCode: turn.CodeToolFailed, Failure: plan.Stopped}))
	}
	lost := func(over driver.Over) turn.Input {
		if may {
			a.stop()
		}
		return ends(driver.Lost(a.start, over))
	}
	if a.start.Type == messages.TypeAgent {
		return a.delegates(finish, stopped)
	}
	if a.cancelled && w.rnd.IntN(2) == 0 {
		if !a.happened && !a.deed.wasDone() && w.rnd.IntN(2) == 0 {
			return stopped()
		}
		return lost(driver.Cancelled)
	}
	if a.late() && w.rnd.IntN(2) == 0 {
		a.stop()
		return lost(driver.TimeUp)
	}
	if !a.happened {
		often := 3
		if a.s.audit.streams { // these are tried again
			often = 8
		}
		switch n := w.rnd.IntN(4); {
		case !w.happens(often * w.weather.fault):
		case n < 2: // refused outside, nothing done
			if a.deed.refused++; a.deed.refused == a.deed.starts {
				a.deed.confirmed = true
			}
			return finish(messages.ActionFailed, "error", `"refused"`)
		case n < 3: // its time is up
			a.stop()
			return lost(driver.TimeUp)
		default:
			a.stop()
			a.deed.said(messages.ActionFailed, "")
			return &turn.ChildDown{Ident: a.start.Ident, Child: turn.ChildAction, ID: a.start.ID, Attempt: a.start.Attempt, Detail: "the tool panicked"}
		}
		a.happened = true
		a.deed.happen()
		return nil
	}
	if onShelf(a.start.Type, a.start.Name) {
		return a.reach(finish)
	}
	if a.start.Type == messages.TypeInternal {
		state, reason, result, change := a.s.does(a.start)
		end.Feed = change
		return finish(state, reason, result)
	}
	if a.start.Stream {
		if in := a.pours(a.outcome); in != nil {
			return in
		}
		if a.began && !may && w.happens(100) {
			return finish(messages.ActionFailed, "error", `"broken off"`)
		}
		return finish(messages.ActionOK, "", a.given())
	}
	return finish(messages.ActionOK, "", a.outcome())
}

// outcome is what a tool gives.
func (a *attempt) outcome() string {
	w := a.s.host.w
	n := w.rnd.IntN(3)
	if a.s.client.stubborn {
		n = 0
	}
	if a.s.client.dialect.controls && a.start.Name == solo {
		switch {
		case strings.Contains(a.start.Args, "list"):
			return listed[w.rnd.IntN(len(listed))]
		case strings.Contains(a.start.Args, "object"):
			return `{"x":1,"y":{"z":"x"}}`
		}
	}
	if a.start.Stream {
		return fmt.Sprintf(`"pour %d of %s, and on to the end"`, n, strings.TrimPrefix(a.start.Name, "w."))
	}
	return fmt.Sprintf(`"%s %d"`, strings.TrimPrefix(a.start.Name, "w."), n)
}

// listed are lists that tools give.
var listed = []string{`["x","y"]`, `["x","y"]`, `["x","y","z"]`, `[1,"x",{"k":[1,2]},null]`, `[]`, `[["x","y"],["z"]]`, `["a","b","c","d","e","f","g"]`}

// wasDone reports whether the effect happened before.
func (d *deed) wasDone() bool { return d.done > 0 }

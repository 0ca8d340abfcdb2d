package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// What a journal may say of control blocks: docs/spec/extensions.md §§0–3 read once more, from the
// records alone.

// nesting is what an audit knows of the open turn's blocks.
type nesting struct {
	controls    map[string]*control
	composed    map[string]bool // ids of blocks of the run, and of what stands in its loops
	blocked     map[int64]bool  // turns that began a block: what they show may come when they are over
	controlling bool            // of the dialect: there are blocks
	misreads    sabotage
}

// control is a block.
type control struct {
	kind, parent   string
	seq            int64
	max, parallel  int64
	fast           bool
	timeout        time.Duration
	decided, ended bool
	since          time.Time // of the decision
	branch         string
	count          int64
	state          messages.ActionState
	reason         string
}

// blockBegins takes the begin of a block: one of an id, in a block that is decided or was given up.
func (a *audit) blockBegins(r *messages.Record, b *messages.BlockBegin) error {
	switch {
	case !a.controlling:
		return fmt.Errorf("block %s begins, and there are none", b.ID)
	case a.controls[b.ID] != nil || a.calls[b.ID] != nil:
		return fmt.Errorf("block %s begins twice, or has the id of an action", b.ID)
	case b.Block != "" && !a.unlocked(b.Block):
		return fmt.Errorf("block %s begins in block %s, which is not decided", b.ID, b.Block)
	}
	if a.blocked == nil {
		a.blocked = map[int64]bool{}
	}
	a.blocked[r.Turn] = true
	a.composed[b.ID] = true
	for _, id := range b.Each {
		a.composed[id] = true
	}
	a.controls[b.ID] = &control{
		kind: b.BlockKind, parent: b.Block, seq: r.Seq, max: b.Max, parallel: b.Parallel, fast: b.Fail == "fast",
		timeout: time.Duration(b.TimeoutMS) * time.Millisecond,
	}
	return nil
}

// unlocked reports whether the children of a block may be known: the block is decided, or it was
// given up and they with it.
func (a *audit) unlocked(id string) bool {
	c := a.controls[id]
	return c != nil && (c.decided || !c.ended)
}

// blockDecides takes the decision of a block: one, before a child of it begins.
func (a *audit) blockDecides(r *messages.Record, b *messages.BlockDecided) error {
	c := a.controls[b.ID]
	switch {
	case c == nil || c.decided || c.ended:
		return fmt.Errorf("block %s is decided, and is not open", b.ID)
	case c.kind == "foreach" && b.Count > c.max:
		return fmt.Errorf("loop %s is decided for %d items, its limit is %d", b.ID, b.Count, c.max)
	case (c.kind == "if") != (b.Branch != ""):
		return fmt.Errorf("block %s, a %s, is decided for branch %q", b.ID, c.kind, b.Branch)
	}
	for _, k := range a.calls {
		if k.block == b.ID && k.attempts > 0 {
			return fmt.Errorf("block %s is decided, and action %s in it has begun", b.ID, k.id)
		}
	}
	c.decided, c.branch, c.count, c.since = !a.misreads.dithers, b.Branch, b.Count, r.TS
	if a.misreads.blends && c.kind == "if" {
		c.branch = "none"
	}
	return nil
}

// starts checks that an action may begin where it stands.
func (a *audit) starts(c *act) error {
	if c.mode == messages.ModeFireAndForget && c.attempts > 0 {
		return nil // it is repeated, and its block need not wait for it
	}
	first := true
	for id := c.block; id != ""; id = a.controls[id].parent {
		k := a.controls[id]
		switch {
		case k == nil || !k.decided:
			return fmt.Errorf("action %s begins, and block %s around it is not decided", c.id, id)
		case k.ended:
			return fmt.Errorf("action %s begins, and block %s around it has ended", c.id, id)
		}
		if k.fast && (c.attempts == 0 || a.restores == 0) { // one that was cut off may be repeated before the end of another is read
			if bad := a.broke(id); bad != "" {
				return fmt.Errorf("action %s begins, and %s of block %s has failed", c.id, bad, id)
			}
		}
		if most := a.places(k); most > 0 && c.attempts == 0 && first {
			if n := a.busyIn(id, c); n > most {
				return fmt.Errorf("action %s begins beside %d others of block %s, which has %d places", c.id, n-1, id, most)
			}
		}
		first = false
	}
	return nil
}

// places is how many children of a block go on at once; 0 is no bound.
func (a *audit) places(k *control) int {
	switch {
	case a.misreads.crowds && k.kind != "if":
		return 1
	case k.kind == "foreach":
		return min(int(k.parallel), cmp.Or(a.rules.Limits.Parallel, plan.DefaultParallel))
	case k.kind == "parallel":
		return int(k.max)
	}
	return 0
}

// busyIn counts the children of a block that run, c among them. Where children depend on each
// other there may be more than the block has places: then it is 0.
func (a *audit) busyIn(id string, c *act) int {
	slots := map[string]bool{}
	for _, k := range a.calls {
		if k.block != id {
			if a.inside(k.block, id) {
				return 0 // a nested block keeps its place while nothing of it runs
			}
			continue
		}
		if len(k.needs)+len(k.refs) > 0 {
			return 0
		}
		if k == c || k.attempts > 0 && !k.ended && k.startSeq > a.turnSeq && k.mode != messages.ModeFireAndForget {
			slot := k.id
			if a.controls[id].kind == "foreach" {
				slot = k.of
			}
			slots[slot] = true
		}
	}
	return len(slots)
}

// inside reports whether a block stands in another one, at any depth.
func (a *audit) inside(id, around string) bool {
	for id != "" && a.controls[id] != nil {
		if id = a.controls[id].parent; id == around {
			return true
		}
	}
	return false
}

// failing finds a child of a block that has failed and that nothing tolerates; "" for none.
func (a *audit) failing(id string) string {
	for _, k := range a.calls {
		if k.block == id && k.fails() {
			return k.id
		}
	}
	for name, k := range a.controls {
		if k.parent == id && k.fails() {
			return name
		}
	}
	return ""
}

// broke finds what stops a block that fails fast: a child of a group that has failed, or an
// iteration of a loop that has ended and failed; "" for none.
func (a *audit) broke(id string) string {
	if a.controls[id].kind != "foreach" {
		return a.failing(id)
	}
	bad, open := map[string]string{}, map[string]bool{}
	look := func(name string, fails, ended bool) {
		of := lap(name)
		open[of] = open[of] || !ended
		if fails {
			bad[of] = name
		}
	}
	for _, k := range a.calls {
		if k.block == id {
			look(k.id, k.fails(), k.ended || k.mode == messages.ModeFireAndForget && k.attempts > 0)
		}
	}
	for name, k := range a.controls {
		if k.parent == id {
			look(name, k.fails(), k.ended)
		}
	}
	for of, name := range bad {
		if !open[of] {
			return name
		}
	}
	return ""
}

// lap is the iteration of an instance: what follows its name.
func lap(id string) string { return strings.TrimPrefix(id, written(id)) }

// fails reports whether an action makes the block fail that it stands in.
func (c *act) fails() bool {
	if !c.ended || c.mode == messages.ModeFireAndForget {
		return false
	}
	switch c.state {
	case messages.ActionOK:
		return false
	case messages.ActionFailed:
		return c.onError != messages.OnErrorSkip
	}
	return c.reason != messages.BranchNotTaken && c.reason != plan.ReasonAfterFinal
}

func (k *control) fails() bool {
	return k.ended && k.state != messages.ActionOK && k.reason != messages.BranchNotTaken && k.reason != plan.ReasonAfterFinal
}

// blockEnds takes the end of a block: one, when all that stands in it has ended, in the state
// that follows.
func (a *audit) blockEnds(r *messages.Record, b *messages.BlockEnded) error {
	c := a.controls[b.ID]
	if c == nil || c.ended {
		return fmt.Errorf("block %s ends, and is not open", b.ID)
	}
	if b.BlockKind != c.kind {
		return fmt.Errorf("block %s is a %s, and its end says %q", b.ID, c.kind, b.BlockKind)
	}
	began := false
	for _, k := range a.calls {
		if k.block != b.ID {
			continue
		}
		began = began || k.attempts > 0
		if (!k.ended || a.misreads.outlives) && (k.mode != messages.ModeFireAndForget || k.attempts == 0) {
			return fmt.Errorf("block %s ends, and action %s in it has not", b.ID, k.id)
		}
	}
	for name, k := range a.controls {
		if k.parent == b.ID && !k.ended {
			return fmt.Errorf("block %s ends, and block %s in it has not", b.ID, name)
		}
	}
	c.ended, c.state, c.reason = true, b.State, b.Reason
	bad := a.failing(b.ID)
	why, _, _ := strings.Cut(b.Reason, ":")
	switch {
	case b.State == messages.ActionOK && (!c.decided || bad != "" && c.kind != "if"):
		return fmt.Errorf("block %s ends ok, decided %v, and %s failed", b.ID, c.decided, bad)
	case b.State == messages.ActionFailed && why == "child_failed":
		return a.blames(b)
	case b.State == messages.ActionFailed && why == plan.ReasonTimeout:
		if c.timeout == 0 || r.TS.Sub(c.since) < c.timeout-time.Millisecond {
			return fmt.Errorf("block %s is out of time after %s of %s", b.ID, r.TS.Sub(c.since), c.timeout)
		}
	case b.State == messages.ActionFailed && why == "list_changed":
		if c.kind != "foreach" || !c.decided {
			return fmt.Errorf("block %s, decided %v, has other items", b.ID, c.decided)
		}
	case b.State == messages.ActionFailed:
		if began || !slices.Contains([]string{"malformed", "too_large", "too_many", "not_a_list", "quota", "unresolved_variable"}, why) {
			return fmt.Errorf("block %s fails for %s, children begun: %v", b.ID, b.Reason, began)
		}
	case b.State == messages.ActionSkipped:
		if began || c.decided {
			return fmt.Errorf("block %s is skipped for %s, decided %v, begun %v", b.ID, b.Reason, c.decided, began)
		}
	case b.State == messages.ActionCancelled:
		if !a.stopped && !a.gaveUp() && !a.final && b.Reason != "crash" && !a.calledOff(c.parent, b.Reason) {
			return fmt.Errorf("block %s is cancelled for %s, and nothing ends it", b.ID, b.Reason)
		}
	}
	return a.tallies(b, c)
}

// tallies checks the counts of a block that ran.
func (a *audit) tallies(b *messages.BlockEnded, c *control) error {
	if !c.decided || b.State == messages.ActionCancelled || strings.HasPrefix(b.Reason, "list_changed") {
		return nil
	}
	switch c.kind {
	case "foreach":
		if b.OK+b.Failed != c.count {
			return fmt.Errorf("loop %s ends with %d and %d iterations of %d", b.ID, b.OK, b.Failed, c.count)
		}
	case "parallel":
		have := int64(0)
		for _, k := range a.calls {
			if k.block == b.ID && k.mode != messages.ModeFireAndForget && !k.fails() {
				have++
			}
		}
		for _, k := range a.controls {
			if k.parent == b.ID && !k.fails() {
				have++
			}
		}
		if b.OK != have {
			return fmt.Errorf("group %s ends with %d children ok, by their ends there are %d", b.ID, b.OK, have)
		}
	}
	return nil
}

// blames checks that the child for which a block fails did.
func (a *audit) blames(b *messages.BlockEnded) error {
	_, id, _ := strings.Cut(b.Reason, ":")
	name, _, _ := strings.Cut(id, "[")
	c, k := a.calls[id], a.controls[id]
	if c != nil && c.fails() || k != nil && k.fails() || a.rejected[id] || a.rejected[name] || a.stopped || strings.HasPrefix(id, b.ID+"[") { // an iteration has no records of its own
		return nil
	}
	said := 0
	for f := range a.faults {
		if f.Reason != "" { // others are remarks on feeds
			said++
		}
	}
	if c == nil && k == nil && said >= messages.MaxParseErrors { // it was refused, and its complaint is one of those that are counted alone
		return nil
	}
	return fmt.Errorf("block %s fails for %s, which did not", b.ID, id)
}

// calledOff reports whether a block is, or stands in one, that stops what runs in it for a reason.
func (a *audit) calledOff(id, reason string) bool {
	for ; id != "" && a.controls[id] != nil; id = a.controls[id].parent {
		k := a.controls[id]
		word := "group " + id
		if k.kind == "foreach" {
			word = "loop " + id
		}
		if reason == word && (k.fast && (a.broke(id) != "" || len(a.rejected) > 0) || // a rejected action may stand in it
			k.timeout > 0) {
			return true
		}
	}
	return false
}

// endsIn checks an end of an action in a block that no executor gave. It reports whether blocks
// explain it.
func (a *audit) endsIn(c *act, b *messages.ActionEnded) (explained bool, err error) {
	if !a.controlling {
		return false, nil
	}
	why, _, _ := strings.Cut(b.Reason, ":")
	switch {
	case b.State == messages.ActionCancelled && a.calledOff(c.block, b.Reason):
		return true, nil
	case b.State == messages.ActionSkipped && b.Reason == messages.BranchNotTaken:
		if c.block == "" && !c.loose {
			return true, fmt.Errorf("action %s is in no branch and is skipped for one", c.id)
		}
		return true, nil
	case b.State == messages.ActionSkipped && (why == "malformed" || why == "too_large" || why == "bad_condition" || why == "after_final" || a.calledOff(c.block, b.Reason)):
		if c.block == "" {
			return true, fmt.Errorf("action %s is in no block and is skipped for %s", c.id, b.Reason)
		}
		return true, nil
	case b.State == messages.ActionSkipped && c.loose:
		return true, nil
	case b.State == messages.ActionFailed && c.loose && (why == "unresolved_variable" || why == "list_changed"):
		return true, nil
	}
	return false, nil
}

// simple reports whether an action waits for nothing but actions that stand in no block: then
// graph.go knows when it begins and why it does not.
func (a *audit) simple(c *act) bool {
	if c.block != "" {
		return false
	}
	if !a.controlling {
		return true
	}
	plain := func(name string) bool {
		d, known := a.known(name)
		if a.calls[name] == nil && len(a.controls) > 0 {
			return false // it may be what stands in a loop
		}
		return known && !a.composed[name] && (d == nil || d.block == "")
	}
	for _, id := range c.needs {
		if !plain(id) {
			return false
		}
	}
	return len(c.refs) == 0
}

// leavesBlocks checks that a turn is decided when no block is open.
func (a *audit) leavesBlocks() error {
	for id, k := range a.controls {
		if !k.ended {
			return fmt.Errorf("decided, and block %s has no end", id)
		}
	}
	return nil
}

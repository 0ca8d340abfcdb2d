package sim

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// What a journal may say of a reply that is acted on while it streams:
// docs/spec/streaming.md §§4–6 read once more, from the records alone and without a plan.

// document is what an audit knows of the open turn's reply.
type document struct {
	verbatim bool            // "$" means nothing
	rejected map[string]bool // ids of blocks that were refused; "" for other faults
	stopped  bool            // something ends the turn, or what still runs of it
	final    bool            // it has a complete final response
	units    map[string]bool // that are recorded
	// rethought are responses of the session that turned out to be thoughts.
	rethought map[string]bool
	faults    map[messages.ParseFault]bool
	gone      []string         // names that a response calls unavailable
	past      map[string]*act  // of the run's earlier turns, the latest of each id; nil for a refused block
	earlier   map[string]*act  // of the turn before
	acts      []*act           // all actions of the run
	left      map[string]*act  // begun, their turn decided: detached
	values    map[string]int64 // results of the run: seq of the first end that has it
}

// node is an action's place in the graph.
type node struct {
	typ       messages.ActionType
	mode      string
	onError   string
	outputKey string
	needs     []string        // ids it names
	found     map[string]*act // of these, what was known when it was declared; nil for a refused block
	refs      []string        // names that its parameters refer to
	written   string          // the parameters, references as they were written
	forgotten bool            // by its key
	state     messages.ActionState
	reason    string // of its end
	value     string
}

// reference finds a "$name" or "${name.path}", or an escaped "$$".
var reference = regexp.MustCompile(`\$\$|\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\}`)

func (a *audit) nodeOf(b *messages.ActionDeclared) node {
	x := node{typ: b.Type, mode: b.Mode, onError: b.OnError, outputKey: b.OutputKey, needs: b.DependsOn, written: b.Args}
	if a.verbatim {
		x.written = ""
	}
	for _, id := range x.needs {
		if d, known := a.known(id); known && id != b.ID {
			if x.found == nil {
				x.found = map[string]*act{}
			}
			x.found[id] = d
		}
	}
	for _, m := range reference.FindAllStringSubmatch(x.written, -1) {
		if name := m[1] + m[2]; name != "" {
			x.refs = append(x.refs, name)
		}
	}
	return x
}

func (a *audit) beginDocument() {
	if a.turns > 1 { // what the turn before it did is known by its ids
		for id := range a.rejected {
			a.past[id] = nil
		}
		for id, c := range a.earlier {
			a.past[id] = c
		}
	}
	a.rejected, a.stopped, a.final = map[string]bool{}, false, false
	a.units, a.faults, a.gone = map[string]bool{}, map[messages.ParseFault]bool{}, nil
}

// satisfied reports whether who depends on c may begin (docs/spec/streaming.md §5.2).
func (c *act) satisfied() bool {
	switch {
	case c.state == messages.ActionOK || c.mode == messages.ModeFireAndForget && c.attempts > 0:
		return true
	case c.state == messages.ActionFailed:
		return c.onError == messages.OnErrorSkip
	}
	return false
}

// known finds what an id means: an action, or nil for a block that was refused.
func (a *audit) known(id string) (c *act, known bool) {
	if c := a.calls[id]; c != nil {
		return c, true
	}
	if a.rejected[id] {
		return nil, true
	}
	c, known = a.past[id]
	return c, known
}

// meant finds what an id means to c: what had it when c was declared, or else has it
// since.
func (a *audit) meant(c *act, id string) (d *act, known bool) {
	if d, known = c.found[id]; known {
		return d, known
	}
	return a.known(id)
}

// broken reports whether who depends on c is to be skipped.
func (c *act) broken() bool { return c.ended && !c.satisfied() }

// refersTo reports whether the parameters of x may mean c. An action does not see the
// key that it will bind itself.
func refersTo(x, c *act) bool {
	return slices.ContainsFunc(x.refs, func(name string) bool {
		return name == c.id || x != c && (name == c.outputKey || name == c.name)
	})
}

// dependsOn reports whether x names c, of the same turn, or refers to it.
func dependsOn(x, c *act) bool {
	before, known := x.found[c.id]
	return slices.Contains(x.needs, c.id) && (!known || before == c) || refersTo(x, c)
}

// behind lists what may not be recorded while a sync action holds the gate closed.
func (a *audit) behind(what string) error {
	if !a.streams {
		return nil
	}
	for _, c := range a.calls {
		if c.mode == messages.ModeSync && !c.ended && !c.undoes && c.block == "" {
			return fmt.Errorf("%s comes from behind the gate that action %s holds", what, c.id)
		}
	}
	return nil
}

// text takes a unit of the reply.
func (a *audit) text(b *messages.UnitText) error {
	if a.units[b.Unit] {
		return fmt.Errorf("unit %s is recorded twice", b.Unit)
	}
	if err := a.beside(b.UnitKind, b.Text); err != nil {
		return err
	}
	if a.rethought[b.Unit] && (b.UnitKind != messages.ThoughtUnit || b.Text == "") {
		return fmt.Errorf("unit %s was a thought, and is recorded as %s %q", b.Unit, b.UnitKind, b.Text)
	}
	a.units[b.Unit] = true
	a.final = a.final || b.Final && b.Complete
	if a.isRelease(b) {
		return nil
	}
	if a.streams && !a.verbatim && b.UnitKind == messages.ResponseUnit {
		for _, m := range unavailable.FindAllStringSubmatch(b.Text, -1) {
			if !a.second || !a.lacking(m[1]) {
				a.gone = append(a.gone, m[1])
			}
		}
		for _, m := range reference.FindAllStringSubmatch(b.Text, -1) {
			if name := m[1]; name != "" && b.Complete && !a.controlling && a.named(name) {
				return fmt.Errorf("unit %s leaves $%s as it is, which is known", b.Unit, name)
			}
		}
	}
	if b.UnitKind == messages.ResponseUnit && !a.stopped && !a.gaveUp() && len(a.controls) == 0 {
		return a.behind("a response")
	}
	return nil
}

// unavailable finds what stands for a value that there is not, up to its path.
var unavailable = regexp.MustCompile(`\[unavailable: ([A-Za-z_][A-Za-z0-9_]*)[^\]]*\]`)

// named reports whether a name means an action to one that is declared now: the latest that
// binds it, or else the latest whose id it is. What has no result is not known by it.
func (a *audit) named(name string) bool {
	for _, c := range slices.Backward(a.acts) {
		if c.outputKey == name && c.mode != messages.ModeFireAndForget && !c.forgotten {
			return true
		}
	}
	c, known := a.known(name)
	if known {
		return c != nil && c.mode != messages.ModeFireAndForget
	}
	_, fed := a.value(name)
	return a.isVariable(name) || fed && !strings.Contains(name, environmental)
}

// fault takes a complaint about the reply.
func (a *audit) fault(b *messages.ParseFault) error {
	if a.streams && a.faults[*b] {
		return fmt.Errorf("fault %+v is recorded twice", *b)
	}
	a.faults[*b] = true
	if b.ID != "" && b.Reason != "unclosed_feed" {
		a.rejected[b.ID] = true
	}
	return nil
}

// forged takes a remark on a feed that the model wrote: it is made once, at its place in
// the document, and nothing else comes of the feed.
func (a *audit) forged(b *messages.Lint) error {
	if b.Code != messages.LintFeedForged {
		return nil
	}
	once := messages.ParseFault{Code: b.Code, Offset: b.Offset}
	if !a.streams || a.faults[once] {
		return fmt.Errorf("the feed at byte %d is remarked on twice, or in no document", b.Offset)
	}
	a.faults[once] = true
	if a.stopped || a.gaveUp() {
		return nil
	}
	return a.behind("a feed")
}

// gaveUp reports whether the open run was cancelled.
func (a *audit) gaveUp() bool { return a.cancelled[a.run] != 0 }

// retries reports whether an attempt follows one that failed in the same life.
func (a *audit) retries(c *act, b *messages.ActionStarted) bool {
	return a.streams && b.Failure != "" && (c.class != messages.Effectful || b.Failure == "error" || b.Failure == turn.ReasonTakenBack)
}

// mayBegin checks that everything an action depends on is fulfilled.
func (a *audit) mayBegin(c *act, b *messages.ActionStarted) error {
	if !a.streams || c.undoes {
		return nil
	}
	for _, id := range c.needs {
		d, known := a.meant(c, id)
		if !c.loose && (!known || d == nil || d == c || !d.satisfied()) {
			return fmt.Errorf("action %s begins, and it depends on %s", c.id, id)
		}
	}
	running := len(a.left)
	for _, o := range a.calls {
		if o != c && !o.ended && !o.undoes && o.startSeq > a.turnSeq {
			running++
		}
	}
	if b.Failure != "" && b.Failure != "crash" && b.Failure != turn.ReasonTakenBack {
		c.again++
	}
	if most := cmp.Or(a.rules.Limits.Parallel, plan.DefaultParallel); running >= most {
		return fmt.Errorf("action %s begins beside %d others", c.id, running)
	}
	if b.Args != "" {
		if c.attempts > 0 && b.Args != c.args {
			return fmt.Errorf("action %s begins again with %s, and before with %s", c.id, b.Args, c.args)
		}
		c.args = b.Args
	}
	for _, m := range flowing.FindAllStringSubmatch(c.written, -1) {
		if d, known := a.known(m[1]); known && d != nil && d.stream && !c.loose {
			if err := a.partial(c, m[1]); err != nil {
				return err
			}
		}
	}
	for _, m := range whole.FindAllStringSubmatch(c.written, -1) {
		if c.loose {
			break
		}
		if err := a.substituted(c, m[1]+m[2]); err != nil {
			return err
		}
	}
	return nil
}

// idles finds an action that could begin, and a slot for it that is free: what waits
// for nothing begins in the Step in which that becomes so. It looks at turns of one life,
// in which no question is open.
func (a *audit) idles() error {
	if !a.streams || a.stopped || a.gaveUp() || a.restores > 0 || a.final || a.withheld > 0 {
		return nil
	}
	used := len(a.left)
	var could *act
	for _, c := range a.calls {
		switch {
		case c.ended, c.undoes, c.loose && c.attempts == 0 && !c.asked && !c.parked:
		case c.parked:
			return nil
		case c.asked || c.attempts > 0:
			used++
		case len(c.refs) == 0 && !slices.ContainsFunc(c.needs, func(id string) bool {
			d, known := a.meant(c, id)
			return !known || d == nil || d == c || !d.satisfied()
		}):
			could = c
		}
	}
	if most := cmp.Or(a.rules.Limits.Parallel, plan.DefaultParallel); could != nil && used < most {
		return fmt.Errorf("action %s waits for nothing, and %d of %d slots are taken", could.id, used, most)
	}
	return nil
}

// quotes makes of a text that the model wrote what its record may be: references may
// have become anything but nothing.
func (a *audit) quotes(written string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	at := 0
	if !a.verbatim {
		for _, m := range reference.FindAllStringIndex(written, -1) {
			b.WriteString(regexp.QuoteMeta(written[at:m[0]]))
			at = m[1]
			if a.controlling {
				b.WriteString(`.*`) // also the text so far of a result, of which there may be none
				continue
			}
			switch value, fed := a.value(strings.Trim(written[m[0]:m[1]], "${}")); {
			case written[m[0]:m[1]] == "$$":
				b.WriteString(`\$`)
			case fed && !strings.Contains(written[m[0]:m[1]], environmental):
				b.WriteString("(?:" + regexp.QuoteMeta(shows(value)))
				if a.holding() { // judged at the end of the turn, which may have added the feed behind the text
					b.WriteString("|" + regexp.QuoteMeta(written[m[0]:m[1]]))
				}
				b.WriteString(")")
			default:
				b.WriteString(`.+`)
			}
		}
	}
	b.WriteString(regexp.QuoteMeta(written[at:]))
	return regexp.MustCompile(b.String() + `\z`)
}

// flowing finds a string that is the text so far of a result.
var flowing = regexp.MustCompile(`"\$\{([A-Za-z_][A-Za-z0-9_]*)\.partial\}"`)

// whole finds a string that is a reference and nothing else.
var whole = regexp.MustCompile(`"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})"`)

// substituted checks that an action begins with a value that some action gave who is
// known by the name, or with null for one whose failure is tolerated.
func (a *audit) substituted(c *act, name string) error {
	might := a.variable(c, name)
	if value, fed := a.value(name); fed {
		might = might || strings.Contains(c.args, value)
	}
	for _, d := range a.acts {
		if d == c || d.outputKey != name && d.id != name && d.name != name {
			continue
		}
		might = might || d.state == messages.ActionFailed && d.onError == messages.OnErrorSkip && strings.Contains(c.args, "null")
		might = might || d.state == messages.ActionOK && strings.Contains(c.args, d.value)
	}
	if !might || strings.Contains(c.args, `"$`+name+`"`) {
		return fmt.Errorf("action %s begins with %s, written as %s", c.id, c.args, c.written)
	}
	return nil
}

// mayEnd checks an end that no executor gave: that it had to be.
func (a *audit) mayEnd(c *act, b *messages.ActionEnded) error {
	c.value = b.Result
	if !a.streams {
		return nil
	}
	if explained, err := a.endsIn(c, b); explained || err != nil {
		return err
	}
	if b.State == messages.ActionOK && a.values[b.Result] == 0 && !c.stream {
		a.values[b.Result] = a.seq
	}
	if c.attempts > 0 {
		if b.State == messages.ActionSkipped {
			return fmt.Errorf("action %s began and is skipped", c.id)
		}
		return nil
	}
	if c.undoes {
		return nil
	}
	why, of, _ := strings.Cut(b.Reason, ":")
	switch {
	case b.State == messages.ActionCancelled:
		if !a.stopped && !a.gaveUp() && b.Reason != "crash" {
			return fmt.Errorf("action %s is cancelled, and nothing ends the turn", c.id)
		}
		return nil
	case b.State == messages.ActionFailed && why == "unresolved_variable":
		if !strings.Contains(c.written, `"$`+of+`"`) && !strings.Contains(c.written, `"${`+of+`}"`) {
			return fmt.Errorf("action %s lacks %s, which it does not refer to", c.id, of)
		}
		if value, fed := a.value(of); fed {
			return fmt.Errorf("action %s lacks %s, which is the feed %s", c.id, of, value)
		}
		return nil
	case b.State == messages.ActionFailed && why == "unknown_target":
		if _, found := target(c.typ, c.name); found && !c.hopeless() {
			return fmt.Errorf("action %s fails, its target %s is known", c.id, c.name)
		}
		return nil
	case b.State == messages.ActionFailed && why == "quota":
		return a.lacksBudget(c)
	case b.State == messages.ActionFailed && why == "group_closed" && c.group != nil, b.State == messages.ActionFailed && why == "group_limit" && a.groups.whole:
		return nil
	case b.State == messages.ActionFailed && (why == "denied" || why == "expired"):
		return nil
	case b.State != messages.ActionSkipped:
		return fmt.Errorf("action %s ends %s %s and never began", c.id, b.State, b.Reason)
	}
	switch why {
	case "dependency_failed":
		d, known := a.meant(c, of)
		named := known && slices.Contains(c.needs, of) && (d == nil || d.broken())
		if !named && !slices.ContainsFunc(a.acts, func(d *act) bool { return d.id == of && d.broken() && refersTo(c, d) }) {
			return fmt.Errorf("action %s is skipped for %s, which is no reason", c.id, of)
		}
	case "unknown_dependency", "forward_dependency":
		if _, known := a.known(of); known || !a.lacks(c, of, map[*act]bool{}) {
			return fmt.Errorf("action %s is skipped for want of %s", c.id, of)
		}
		if why == "unknown_dependency" && !a.replied {
			return fmt.Errorf("action %s is skipped for want of %s, which may still come", c.id, of)
		}
		if why == "forward_dependency" && c.mode != messages.ModeSync {
			return fmt.Errorf("action %s is %s and need not wait for %s behind a gate", c.id, c.mode, of)
		}
	case "dependency_cycle":
		return a.rings(c, strings.Split(of, ">"))
	default:
		return fmt.Errorf("action %s is skipped for %q", c.id, b.Reason)
	}
	return nil
}

// lacks reports whether c waits, through whatever, for an id.
func (a *audit) lacks(c *act, id string, seen map[*act]bool) bool {
	if seen[c] {
		return false
	}
	seen[c] = true
	if _, known := c.found[id]; !known && slices.Contains(c.needs, id) {
		return true
	}
	for _, d := range a.calls {
		if d != c && dependsOn(c, d) && a.lacks(d, id, seen) {
			return true
		}
	}
	return false
}

// looksAhead reports whether c waits, through whatever, for an id that was not known when it
// was declared: who quotes c before that one comes does not wait for it.
func (a *audit) looksAhead(c *act, seen map[*act]bool) bool {
	if seen[c] {
		return false
	}
	seen[c] = true
	for _, id := range c.needs {
		if _, known := c.found[id]; !known {
			return true
		}
	}
	for _, d := range a.calls {
		if d != c && dependsOn(c, d) && a.looksAhead(d, seen) {
			return true
		}
	}
	return false
}

// rings checks that a cycle is one, and c on it.
func (a *audit) rings(c *act, ring []string) error {
	if len(ring) < 2 || ring[0] != ring[len(ring)-1] || !slices.Contains(ring, c.id) {
		return fmt.Errorf("action %s is skipped for the cycle %v", c.id, ring)
	}
	for i, id := range ring[1:] {
		x, d := a.calls[ring[i]], a.calls[id]
		if x == nil || d == nil || !dependsOn(x, d) {
			return fmt.Errorf("action %s is skipped for a cycle in which %s does not wait for %s", c.id, ring[i], id)
		}
	}
	return nil
}

// Of detached actions.

func leftID(turn int64, id string) string { return fmt.Sprintf("%d/%s", turn, id) }

// leave closes the open turn's actions: no turn waits for those in mode
// fire_and_forget that have begun, all others have ended.
func (a *audit) leave() error {
	a.earlier = a.calls
	for id, c := range a.calls {
		switch {
		case c.ended:
		case a.streams && c.mode == messages.ModeFireAndForget && c.attempts > 0:
			a.left[leftID(a.turn, id)] = c
			a.open--
		default:
			return fmt.Errorf("decided, and action %s has no end", id)
		}
	}
	if a.open != 0 {
		return fmt.Errorf("decided with %d open actions", a.open)
	}
	return nil
}

// isLeft reports whether a record is about an action of a turn that is decided.
func (a *audit) isLeft(r *messages.Record) bool {
	if !a.streams || r.Turn == 0 || r.Turn == a.turn {
		return false
	}
	switch r.Body.(type) {
	case *messages.ActionStarted, *messages.ActionEnded, *messages.Audit, *messages.RelicChanged:
		return true
	}
	return false
}

func (a *audit) applyLeft(r *messages.Record) error {
	switch b := r.Body.(type) {
	case *messages.ActionStarted:
		c := a.left[leftID(r.Turn, b.ID)]
		switch {
		case c == nil || c.run != r.Run:
			return fmt.Errorf("action %s of turn %d begins, and the turn is over", b.ID, r.Turn)
		case c.class == messages.Effectful || b.Failure != "crash":
			return fmt.Errorf("action %s of turn %d begins again", b.ID, r.Turn)
		case b.Attempt != c.attempts+1 || b.Key != c.key:
			return fmt.Errorf("attempt %d of action %s of turn %d under key %s", b.Attempt, b.ID, r.Turn, b.Key)
		}
		if err := c.linked(b.Children); err != nil {
			return err
		}
		c.attempts, c.startSeq, c.startTS, c.child = b.Attempt, r.Seq, r.TS, b.Child
	case *messages.ActionEnded:
		c := a.left[leftID(r.Turn, b.ID)]
		if c == nil || c.run != r.Run {
			return fmt.Errorf("action %s of turn %d has no place for a terminal record", b.ID, r.Turn)
		}
		if b.State == messages.ActionSkipped {
			return fmt.Errorf("action %s of turn %d began and is skipped", b.ID, r.Turn)
		}
		if err := a.shelved(c, b); err != nil {
			return err
		}
		if err := c.ran(b); err != nil {
			return err
		}
		c.ended, c.state = true, b.State
		delete(a.left, leftID(r.Turn, b.ID))
	case *messages.RelicChanged:
		return a.changes(r, b)
	}
	return nil
}

// justified checks a decision of a streaming dialect against what was said.
func (a *audit) justified(b *messages.TurnDecided) error {
	for _, name := range a.gone {
		if a.controlling {
			break // what stands in blocks has names of its own
		}
		if !slices.ContainsFunc(a.acts, func(c *act) bool {
			return (c.outputKey == name || c.id == name || c.name == name) && (c.state != messages.ActionOK || a.looksAhead(c, map[*act]bool{}))
		}) {
			return fmt.Errorf("a response calls %s unavailable, and it was there", name)
		}
	}
	if !a.streams || a.rules == nil || a.rules.Dialect != "cortex" || b.Decision == messages.Halt {
		return nil
	}
	if done := b.Decision == messages.Done; done != a.final {
		return fmt.Errorf("%s, and a complete final response: %v", b.Decision, a.final)
	}
	if a.gaveUp() {
		return errors.New("cancelled, and it goes on")
	}
	return nil
}

// delta checks that what a user is about to see rests on nothing that a crash could
// take back: no response from behind a gate, no result whose end is not waited for.
// What an earlier turn did, or an earlier life (up to base), is on the disk.
func (a *audit) delta(e *turn.Publish, base int64) error {
	if !a.streams {
		return nil
	}
	d := e.Update.Delta
	if d.Kind == messages.ResultText {
		return nil
	}
	if err := a.early(d); err != nil {
		return err
	}
	if a.units[d.Unit.String()] {
		return fmt.Errorf("a delta of unit %s, which is complete", d.Unit)
	}
	if d.Kind == messages.ResponseUnit && len(a.controls) == 0 { // one in a block stands before what follows the block
		if err := a.behind("a delta"); err != nil {
			return err
		}
	}
	if err := a.beside(d.Kind, d.Text); err != nil {
		return err
	}
	for i := range a.fed {
		seq, text := a.fedAt[i], shows(a.gave[a.fed[i].ID][a.fed[i].Digest])
		if a.rules.Durability == turn.Strict && a.fed[i].Error == "" && e.After < seq && seq > base && !a.verbatim && strings.Contains(d.Text, text) {
			return fmt.Errorf("a delta waits for record %d and shows the feed %q, which is in record %d", e.After, text, seq)
		}
	}
	for value, seq := range a.values {
		if value = strings.Trim(value, `"`); value != "" && e.After < seq && seq > max(a.begin, base) && !a.verbatim && strings.Contains(d.Text, value) {
			return fmt.Errorf("a delta waits for record %d and shows %q, which is in record %d", e.After, value, seq)
		}
	}
	return nil
}

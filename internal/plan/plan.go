package plan

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Status says what an environment knows of a name.
type Status uint8

// The answers of an environment.
const (
	Absent  Status = iota // not known
	Present               // the value is there
	Pending               // a feed that is fetched on first use
	Void                  // a feed without a value: a response says so, to parameters it is not known
)

// An Environment knows the names that are no action's: session variables, then
// feeds with the value of this generation (docs/spec/streaming.md §6). Values are JSON. It
// is asked during calls only and answers the same until the next input.
type Environment interface {
	Lookup(name string) (value string, s Status)
}

// Options fix a plan. The zero value has the defaults and an empty environment.
type Options struct {
	Actions        int // per generation; 0 is DefaultActions
	Parallel       int // actions that run at once; 0 is DefaultParallel
	Occupied       int // slots that actions of earlier runs still hold
	ParameterBytes int // 0 is DefaultParameterBytes
	GrowthBytes    int // 0 is DefaultGrowthBytes
	Environment    Environment
	// Variables are those of the process that parameters may name, as ${NAME} alone:
	// $NAME is not one of them, and in a response ${NAME} is text (docs/spec/design.md §11).
	Variables Environment
	Verbatim  bool // "$" in parameters means nothing
	// Sources leaves the source of a feed that an action adds or changes as it is written:
	// what it refers to is the feed's to say, each time it is fetched.
	Sources bool
	// Dotted lets $a_b mean the target a.b too, where no action's target is a_b: a
	// reference has no room for a dot (docs/spec/streaming.md §6).
	Dotted bool
}

// Plan is the graph of one run. It belongs to one goroutine.
//
// Calls append their effects to dst and return it; an error leaves plan and dst as
// they were.
type Plan struct {
	o     Options
	nodes []node
	edges []edge

	// The last node of each name; older ones hang on prevID, prevKey, prevName.
	ids, keys, names map[string]int32
	// dotted are the last nodes of targets with a dot, as references write them; older
	// ones hang on prevDotted. It is empty unless Options.Dotted.
	dotted map[string]int32
	// forward lists who waits for an id that was not declared yet; forwards counts
	// the waiting.
	forward  map[string][]int32
	forwards int32
	feeds    map[string]int32 // feeds somebody waits for

	gen       int32 // of the open generation, from 1
	genStart  int32 // its first node
	open      bool  // it still declares
	declared  int   // actions of it
	unended   int   // sync and async actions without a terminal state
	forgotten int32 // output keys of nodes before this one are dropped
	gate      int32 // the sync action that holds it closed, -1 for none
	slots     int   // taken
	overs     int   // actions that need none
	held      int   // actions that waited for one
	halted    string

	ready   []int32 // in document order
	queue   []int32 // scratch: what ended and was not told to its dependents yet
	pending []pend  // scratch: what lookups rest on
	lost    bool    // a lookup met a feed without a value
	budget  int     // of the lookups in one text: MaxPathBytes and less
	walk    []int32 // scratch of traversals
	parent  []int32
	scratch []byte
	mark    uint32 // of the last traversal
	// blocked is the epoch whose blocked nodes are marked; every call is an epoch.
	epoch, blocked uint32
	above          uint32 // of the traversal that marked what the viewer of a lookup depends on, 0 for none
	ahead          bool   // some action depends on what was declared after it
}

// node is an action, or a feed that actions wait for.
type node struct {
	messages.Action
	state   State
	began   bool // Started was called
	feed    bool
	refused bool // a block the parser rejected
	settled bool // its parameters are substituted and judged: it was parked
	slot    bool
	over    bool // ended before the plan was made: it needs no slot to be told so
	held    bool // it waited for a slot

	gen     int32
	unmet   int32 // open edges, and ids that were not declared yet
	forward int32 // of these, the ids

	// Edges to those who wait for it, and to what it waits for, oldest first.
	users, lastUser int32
	deps, lastDep   int32

	prevID, prevKey, prevName, prevDotted int32

	mark    uint32 // of the traversal or deduplication that met it last
	blocked uint32 // the epoch in which it waits, however indirectly, for an id
	reason  string
	value   string // JSON, of OK
	params  string // substituted, while settled
}

// none is the end of every chain of nodes or edges.
const none = int32(-1)

// New makes a plan without actions; Begin opens its first generation.
func New(o Options) *Plan {
	def := func(p *int, d int) {
		if *p <= 0 {
			*p = d
		}
	}
	def(&o.Actions, DefaultActions)
	def(&o.Parallel, DefaultParallel)
	def(&o.ParameterBytes, DefaultParameterBytes)
	def(&o.GrowthBytes, DefaultGrowthBytes)
	return &Plan{
		o: o, slots: max(o.Occupied, 0), gate: none,
		ids: map[string]int32{}, keys: map[string]int32{}, names: map[string]int32{}, dotted: map[string]int32{},
		forward: map[string][]int32{}, feeds: map[string]int32{},
	}
}

// Begin opens the next generation of the run: ids may be used again, results of
// earlier generations stay. The generation before it must be complete, or stopped
// (CancelAll): that one declares nothing more.
func (p *Plan) Begin() error {
	if p.halted != "" {
		p.halted, p.open = "", false
	}
	if p.open || p.unended > 0 {
		return &IllegalError{Input: "Begin", Why: "the generation before is not complete"}
	}
	p.gen++
	p.genStart, p.declared, p.open = int32(len(p.nodes)), 0, true
	return nil
}

// Declare takes an action at its place in the document. It may end at once (quota,
// failed dependency, cycle), and so may those who waited for its id. A sync action
// that has not ended closes the gate. Errors: ERR_CONFIG naming the member for an
// action no parser lets through, *IllegalError outside a generation, behind a closed
// gate, or for an id that the generation has.
func (p *Plan) Declare(dst []Effect, a *messages.Action) ([]Effect, error) {
	if err := p.mayDeclare("Declare", a.ID, true); err != nil {
		return dst, err
	}
	norm, fault := p.normal(a)
	if fault != nil {
		return dst, fault
	}
	n := p.add(node{Action: norm, gen: p.gen})
	p.declared++
	x := &p.nodes[n]
	if x.Mode != messages.ModeFireAndForget {
		p.unended++
		if x.OutputKey != "" {
			x.prevKey = p.chain(p.keys, x.OutputKey, n)
		}
		x.prevName = p.chain(p.names, x.Name, n)
		if p.o.Dotted && strings.Contains(x.Name, ".") {
			x.prevDotted = p.chain(p.dotted, strings.ReplaceAll(x.Name, ".", "_"), n)
		}
	}
	met := p.arrived(n)
	switch {
	case p.halted != "":
		p.finish(&dst, n, Cancelled, p.halted, "")
	case p.declared > p.o.Actions:
		p.finish(&dst, n, Failed, ReasonQuota, "")
	default:
		p.connect(&dst, n, met)
	}
	p.cascade(&dst)
	if x = &p.nodes[n]; x.Mode == messages.ModeSync && !x.state.Terminal() {
		p.gate = n
	}
	p.pump(&dst)
	return dst, nil
}

// Reject takes the id of a block that was not accepted: those who name it are
// skipped as for a failed action, references do not know it. An id that the
// generation has stays with the first block, and "" is no id: both change nothing.
// It comes with an error event, which passes a closed gate, and so does this.
func (p *Plan) Reject(dst []Effect, id string) ([]Effect, error) {
	if err := p.mayDeclare("Reject", id, false); err != nil {
		return dst, err
	}
	if id == "" || p.current(id) != none {
		return dst, nil
	}
	n := p.add(node{Action: messages.Action{ID: id, Mode: messages.ModeFireAndForget}, gen: p.gen, refused: true})
	p.arrived(n)
	x := &p.nodes[n]
	x.state, x.reason = Failed, "rejected"
	p.queue = append(p.queue, n)
	p.cascade(&dst)
	p.pump(&dst)
	return dst, nil
}

func (p *Plan) mayDeclare(input, id string, fresh bool) error {
	switch {
	case !p.open:
		return &IllegalError{Ref: Ref{int(p.gen), id}, Input: input, Why: "no generation is open"}
	case fresh && p.gate != none:
		return &IllegalError{Ref: Ref{int(p.gen), id}, Input: input, Why: "the gate is closed by " + p.nodes[p.gate].ID}
	case fresh && p.current(id) != none:
		return &IllegalError{Ref: Ref{int(p.gen), id}, Input: input, Why: "the generation has this id"}
	}
	return nil
}

// Started says that the dispatched action has begun. A fire_and_forget action has
// satisfied its dependents by that.
func (p *Plan) Started(dst []Effect, r Ref) ([]Effect, error) {
	n, err := p.move("Started", r, Running)
	if err != nil {
		return dst, err
	}
	x := &p.nodes[n]
	x.began, x.params = true, ""
	if x.Mode == messages.ModeFireAndForget {
		p.queue = append(p.queue, n)
		p.cascade(&dst)
		p.pump(&dst)
	}
	return dst, nil
}

// Park says that the dispatched action waits for an approval. It gives its slot to
// others and keeps the parameters that were judged.
func (p *Plan) Park(dst []Effect, r Ref) ([]Effect, error) {
	n, err := p.move("Park", r, Parked)
	if err != nil {
		return dst, err
	}
	p.nodes[n].settled = true
	p.release(n)
	p.pump(&dst)
	return dst, nil
}

// Resume says that the parked action was approved: it is dispatched again, with
// the parameters that were judged, when a slot is free.
func (p *Plan) Resume(dst []Effect, r Ref) ([]Effect, error) {
	n, err := p.move("Resume", r, Ready)
	if err != nil {
		return dst, err
	}
	p.enqueue(n)
	p.pump(&dst)
	return dst, nil
}

// A Ref names an action: an id may come again in a later generation, while a
// detached action of an earlier one still runs.
type Ref struct {
	Generation int // from 1
	ID         string
}

func (x *node) ref() Ref { return Ref{int(x.gen), x.ID} }

// Outcome is the end of an action. Value is its result as JSON, read for OK alone;
// "" is null.
type Outcome struct {
	State  State
	Reason string
	Value  string
}

// Ended says how an action ended: one that began in OK, Failed, Cancelled or
// Unknown, one that did not in Failed or Cancelled. The effects hold what that
// means for others, never an End of the action itself. Errors: *IllegalError for an
// action that has ended or did not begin, ERR_CONFIG for a value that is not JSON.
func (p *Plan) Ended(dst []Effect, r Ref, out Outcome) ([]Effect, error) {
	value, fault := p.checkValue(out)
	if fault != nil {
		return dst, fault
	}
	if !out.State.Terminal() {
		return dst, &IllegalError{Ref: r, To: out.State, Input: "Ended", Why: out.State.String() + " is no end"}
	}
	if out.State == Skipped {
		return dst, &IllegalError{Ref: r, To: Skipped, Input: "Ended", Why: "skipping is the plan's"}
	}
	n, err := p.move("Ended", r, out.State)
	if err != nil {
		return dst, err
	}
	p.nodes[n].value = value
	p.ended(n, out.Reason)
	p.cascade(&dst)
	p.pump(&dst)
	return dst, nil
}

// Cancel stops one action: one that is not with an executor has ended with this,
// and its dependents are skipped; for one that is, a Stop is the effect. An action
// that has ended is left alone.
func (p *Plan) Cancel(dst []Effect, r Ref, reason string) ([]Effect, error) {
	n := p.find(r)
	if n == none {
		return dst, &IllegalError{Ref: r, To: Cancelled, Input: "Cancel", Why: "no such action"}
	}
	p.cancel(&dst, n, reason)
	p.cascade(&dst)
	p.pump(&dst)
	return dst, nil
}

// CancelAll stops every action, in document order, and what the generation declares after
// it is cancelled at once. With detached, fire_and_forget actions that were dispatched
// are left alone: they survive the end of a run (docs/spec/streaming.md §4).
func (p *Plan) CancelAll(dst []Effect, reason string, detached bool) []Effect {
	p.halted = reason
	if reason == "" {
		p.halted = Cancelled.String()
	}
	for n := range p.nodes {
		x := &p.nodes[n]
		if detached && x.Mode == messages.ModeFireAndForget && (x.state == Dispatched || x.state == Running) {
			continue
		}
		p.cancel(&dst, int32(n), reason)
	}
	p.cascade(&dst) // nobody is left to skip; edges are released
	return dst
}

func (p *Plan) cancel(dst *[]Effect, n int32, reason string) {
	x := &p.nodes[n]
	switch {
	case x.feed:
	case x.state == Dispatched || x.state == Running:
		*dst = append(*dst, Effect{Kind: Stop, Ref: x.ref(), Reason: reason})
	case !x.state.Terminal():
		p.finish(dst, n, Cancelled, reason, "")
	}
}

// End says that the generation declares nothing more: who still waits for an id
// that never came is skipped, in document order, and then their dependents.
func (p *Plan) End(dst []Effect) ([]Effect, error) {
	if !p.open {
		return dst, &IllegalError{Input: "End", Why: "no generation is open"}
	}
	p.open = false
	for n := p.genStart; n < int32(len(p.nodes)) && p.forwards > 0; n++ {
		if x := &p.nodes[n]; x.forward > 0 && x.state == Waiting {
			p.finish(&dst, n, Skipped, ReasonUnknownDependency+":"+p.unseen(n), "")
		}
	}
	clear(p.forward)
	p.cascade(&dst)
	p.pump(&dst)
	return dst, nil
}

// FeedReady says that a feed of a Fetch effect has a value, or never will.
func (p *Plan) FeedReady(dst []Effect, name string) []Effect {
	n, ok := p.feeds[name]
	if !ok {
		return dst
	}
	delete(p.feeds, name)
	p.nodes[n].state = OK
	p.queue = append(p.queue, n)
	p.cascade(&dst)
	p.pump(&dst)
	return dst
}

// Occupy says that so many actions of earlier runs hold a slot each.
func (p *Plan) Occupy(n int) { p.slots += max(0, n) }

// Vacate says that an action of an earlier run gave its slot back.
func (p *Plan) Vacate(dst []Effect) []Effect {
	p.slots = max(0, p.slots-1)
	p.pump(&dst)
	return dst
}

// Forget drops the output keys bound so far, as clear_context does: what comes
// later in the document does not see them. Ids and results stay.
func (p *Plan) Forget() { p.forgotten = int32(len(p.nodes)) }

// Gate gives the sync action that holds the gate closed.
func (p *Plan) Gate() (id string, closed bool) {
	if p.gate == none {
		return "", false
	}
	return p.nodes[p.gate].ID, true
}

// Complete reports whether the generation is over: it declares nothing more and
// every sync and async action has ended.
func (p *Plan) Complete() bool { return !p.open && p.unended == 0 }

// Stalled reports whether nothing goes on without an approval: there is a parked
// action, and none is with an executor or waits for a slot. With a generation that
// has ended this is when a turn is suspended (docs/spec/design.md §7).
func (p *Plan) Stalled() bool {
	if len(p.feeds) > 0 {
		return false
	}
	parked := false
	for n := range p.nodes {
		switch p.nodes[n].state { // of a feed: Waiting or OK
		case Ready, Dispatched, Running:
			return false
		case Parked:
			parked = true
		}
	}
	return parked
}

// A View is what is known of one action.
type View struct {
	messages.Action // Args as declared, references in them
	State           State
	Reason          string
	Value           string // JSON, of OK
	Generation      int    // from 1
}

// Action gives one action.
func (p *Plan) Action(r Ref) (View, bool) {
	n := p.find(r)
	if n == none {
		return View{}, false
	}
	return p.view(n), true
}

// Generation gives the actions of the last generation begun in document order:
// what the next prompt reports, fire_and_forget ones included.
func (p *Plan) Generation() []View {
	var all []View
	for n := p.genStart; n < int32(len(p.nodes)); n++ {
		if x := &p.nodes[n]; !x.feed && !x.refused {
			all = append(all, p.view(n))
		}
	}
	return all
}

func (p *Plan) view(n int32) View {
	x := &p.nodes[n]
	return View{Action: x.Action, State: x.state, Reason: x.reason, Value: x.value, Generation: int(x.gen)}
}

// checkValue gives the value to keep.
func (p *Plan) checkValue(out Outcome) (string, *messages.Error) {
	if out.State != OK {
		return "", nil
	}
	if out.Value == "" {
		return "null", nil
	}
	if !p.valid(out.Value) {
		return "", &messages.Error{Code: messages.ErrConfig, Field: "value", Detail: "a result is JSON"}
	}
	return out.Value, nil
}

// Grow makes room for n more actions that come at once.
func (p *Plan) Grow(n int) { p.nodes = slices.Grow(p.nodes, n) }

// add appends a node and makes it the one its id means.
func (p *Plan) add(x node) int32 {
	n := int32(len(p.nodes))
	x.users, x.lastUser, x.deps, x.lastDep = none, none, none, none
	x.prevID, x.prevKey, x.prevName, x.prevDotted = none, none, none, none
	p.nodes = append(p.nodes, x)
	if !x.feed {
		p.nodes[n].prevID = p.chain(p.ids, x.ID, n)
	}
	return n
}

// chain makes n the last node of a name and gives the one before it.
func (p *Plan) chain(index map[string]int32, name string, n int32) int32 {
	prev, ok := index[name]
	index[name] = n
	if !ok {
		return none
	}
	return prev
}

// find gives the node of an action.
func (p *Plan) find(r Ref) int32 {
	n, ok := p.ids[r.ID]
	if !ok {
		return none
	}
	for n != none && int(p.nodes[n].gen) != r.Generation {
		n = p.nodes[n].prevID
	}
	if n != none && p.nodes[n].refused {
		return none
	}
	return n
}

// current gives the node of an id in the open generation.
func (p *Plan) current(id string) int32 {
	if n, ok := p.ids[id]; ok && n >= p.genStart {
		return n
	}
	return none
}

// move takes an action to a state that the caller reports.
func (p *Plan) move(input string, r Ref, to State) (int32, error) {
	n := p.find(r)
	if n == none {
		return none, &IllegalError{Ref: r, To: to, Input: input, Why: "no such action"}
	}
	x := &p.nodes[n]
	if x.state < Dispatched || !x.state.may(to) {
		return none, &IllegalError{Ref: r, From: x.state, To: to, Input: input}
	}
	x.state = to
	return n, nil
}

// finish ends an action on the plan's own account.
func (p *Plan) finish(dst *[]Effect, n int32, s State, reason, place string) {
	x := &p.nodes[n]
	x.state = s
	*dst = append(*dst, Effect{Kind: End, Ref: x.ref(), State: s, Reason: reason, Place: place})
	p.ended(n, reason)
}

// ended does what every end of an action does, but for telling dependents: that is
// cascade's, which the caller calls.
func (p *Plan) ended(n int32, reason string) {
	x := &p.nodes[n]
	x.reason, x.params = reason, ""
	p.forwards -= x.forward
	x.forward = 0
	p.release(n)
	if i, ok := slices.BinarySearch(p.ready, n); ok {
		p.ready = slices.Delete(p.ready, i, i+1)
	}
	if x.Mode != messages.ModeFireAndForget {
		p.unended--
	}
	if p.gate == n {
		p.gate = none
	}
	p.queue = append(p.queue, n)
}

// release gives a slot back.
func (p *Plan) release(n int32) {
	if x := &p.nodes[n]; x.slot {
		x.slot = false
		p.slots--
	}
}

// enqueue puts a node among those that wait for a slot.
func (p *Plan) enqueue(n int32) {
	i, _ := slices.BinarySearch(p.ready, n)
	p.ready = slices.Insert(p.ready, i, n)
}

// Over says that an action which is declared again has ended before the plan was made: it
// is dispatched when its turn comes, to be told of its end, and takes no slot for that.
func (p *Plan) Over(dst []Effect, r Ref) []Effect {
	if n := p.find(r); n != none && p.nodes[n].state < Dispatched {
		p.nodes[n].over = true
		p.overs++
		p.pump(&dst)
	}
	return dst
}

// nextReady takes the first that may be handed out now from those that are ready.
func (p *Plan) nextReady() (n int32, ok bool) {
	i := 0
	if p.slots >= p.o.Parallel {
		if i = -1; p.overs > 0 {
			i = slices.IndexFunc(p.ready, func(n int32) bool { return p.nodes[n].over })
		}
	}
	if i < 0 || i >= len(p.ready) {
		return none, false
	}
	n = p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	return n, true
}

// pump hands out ready actions, first in the document first, while slots are free.
func (p *Plan) pump(dst *[]Effect) {
	p.epoch++
	for {
		n, ok := p.nextReady()
		if !ok {
			p.hold()
			return
		}
		if !p.nodes[n].settled && !p.settle(dst, n) {
			p.cascade(dst)
			continue
		}
		x := &p.nodes[n]
		x.state = Dispatched
		if !x.over {
			x.slot = true
			p.slots++
		}
		*dst = append(*dst, Effect{Kind: Dispatch, Ref: x.ref(), Parameters: x.params})
	}
}

// hold counts those that are ready and find no slot free, each once.
func (p *Plan) hold() {
	for _, n := range p.ready {
		if x := &p.nodes[n]; !x.held {
			x.held = true
			p.held++
		}
	}
}

// Held counts the actions that had to wait because as many ran as may.
func (p *Plan) Held() int { return p.held }

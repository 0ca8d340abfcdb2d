package plan

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Status is what an environment knows of a name.
type Status uint8

// The answers of an environment.
const (
	Absent  Status = iota // not known
	Present               // the value is there
	Pending               // a feed that is fetched on first use
	Void                  // a feed without a value: "[unavailable]" in responses, unknown in parameters
)

// An Environment resolves the names that no action has: session variables, then feeds with
// their value in this generation (docs/spec/streaming.md §6). Values are JSON. The plan asks it
// during calls only; the answer must stay the same until the next input.
type Environment interface {
	Lookup(name string) (value string, s Status)
}

// Options configure a plan. The zero value has the defaults and an empty environment.
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
	// Recorded reports of an action or block whether it is on record from before a restart, and
	// known whether the records have how the action ended, or what the block does. A block that
	// is stopped waits until it is told; nil is for none.
	Recorded func(id string) (declared, known bool)
	// Left reports of a loop whether its end is on record from before a restart: what it had not
	// begun by then does not begin. nil is for none.
	Left func(id string) bool
	// Sources leaves references in the source of a feed that an action adds or changes: the
	// feed resolves them each time it is fetched.
	Sources bool
	// Dotted lets $a_b also stand for the target a.b if no action has the target a_b: a
	// reference cannot contain a dot (docs/spec/streaming.md §6).
	Dotted bool
	// Strict fails a reference inside a text that leads nowhere, if its name is one of these;
	// others are left as written.
	Strict []string
}

// Plan is the graph of one run. It belongs to one goroutine.
//
// Calls append their effects to dst and return it; an error leaves plan and dst as
// they were.
type Plan struct {
	o     Options
	nodes []node
	edges []edge

	// The last node of each name; prevID, prevKey and prevName chain the older ones.
	ids, keys, names map[string]int32
	// dotted has the last node of each target with a dot, by the name as references write it;
	// prevDotted chains the older ones. It is empty unless Options.Dotted.
	dotted map[string]int32
	// forward lists the nodes that wait for an id that is not declared yet; forwards is the
	// number of such waits.
	forward  map[string][]int32
	forwards int32
	feeds    map[string]int32 // feeds that are being fetched

	gen       int32 // of the open generation, from 1
	genStart  int32 // its first node
	open      bool  // it can still declare actions
	declared  int   // actions of the generation
	unended   int   // sync and async actions without a terminal state
	forgotten int32 // output keys of nodes before this one are dropped
	gate      int32 // the sync action that holds it closed, -1 for none
	slots     int   // taken
	// holding are the ends of outermost blocks that hold responses and feeds behind them alone.
	holding []int32
	crowded bool // some child of a group waits for a place
	overs   int  // actions that need no slot
	held    int  // actions that had to wait for a slot
	met     int  // waits of actions for others that are over
	halted  string

	ready   []int32 // in document order
	queue   []int32 // scratch: nodes that ended or began, and whose users cascade has not reached
	pending []pend  // scratch: the actions and feeds that lookups rest on
	lost    bool    // a lookup met a feed without a value
	budget  int     // left of MaxPathBytes, for the lookups in one text
	walk    []int32 // scratch of traversals
	parent  []int32
	scratch []byte
	mark    uint32 // of the last traversal
	// blocked is the epoch whose blocked nodes are marked; every call is an epoch.
	epoch, blocked uint32
	above          uint32 // the traversal that marked the dependencies of a lookup's viewer, 0 for none
	ahead          bool   // some action depends on one that was declared after it
}

// node is an action, or a feed that actions wait for.
type node struct {
	messages.Action
	state   State
	began   bool // Started was called
	feed    bool
	refused bool // a block that the decoder rejected
	settled bool // its parameters are substituted and were judged: it was parked
	slot    bool // it holds one
	over    bool // it ended before the plan was made, and needs no slot (Over)
	past    bool // its end, or of a begin what was decided, is on record (Options.Recorded)
	held    bool // it had to wait for a slot
	role    role
	quiet   bool // what stands in a loop and has no value
	listed  bool // it stood in a loop of an earlier generation: any end of it decides

	gen     int32
	unmet   int32 // open edges, and ids that were not declared yet
	forward int32 // of these, the ids

	// The chains of its edges, oldest first: to the nodes that wait for it, and to those that
	// it waits for.
	users, lastUser int32
	deps, lastDep   int32

	prevID, prevKey, prevName, prevDotted int32

	mark    uint32 // of the traversal or deduplication that met it last
	blocked uint32 // the epoch in which it waits, however indirectly, for an undeclared id
	reason  string
	value   string // JSON, of OK
	params  string // substituted, while settled
	box     *box   // nil outside of blocks
	partial []byte // the text so far, of an action with stream
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

// Begin opens the next generation of the run: ids may be used again, results of earlier
// generations stay. The generation before it must be complete, or stopped by CancelAll; else
// the error is *IllegalError.
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

// Declare takes an action at its place in the document. The action may end at once (quota,
// failed dependency, cycle), and so may actions that waited for its id. A sync action that has
// not ended closes the gate. Errors: ERR_CONFIG naming the member for an action that no decoder
// lets through, *IllegalError outside a generation, after a closed gate, or for an id that the
// generation already has.
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
	p.index(n)
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
	if x := &p.nodes[n]; x.Mode == messages.ModeSync && !x.state.Terminal() {
		p.gate = n
	}
	p.pump(&dst)
	return dst, nil
}

// index counts a new action and makes it known by its key and its target.
func (p *Plan) index(n int32) {
	x := &p.nodes[n]
	if x.Mode == messages.ModeFireAndForget {
		return
	}
	p.unended++
	if x.box != nil && x.box.parent.lap() != nil {
		return // an instance is known in its iteration alone
	}
	if x.OutputKey != "" {
		x.prevKey = p.chain(p.keys, x.OutputKey, n)
	}
	x.prevName = p.chain(p.names, x.Name, n)
	if p.o.Dotted && strings.Contains(x.Name, ".") {
		x.prevDotted = p.chain(p.dotted, strings.ReplaceAll(x.Name, ".", "_"), n)
	}
}

// Reject takes the id of a block that was not accepted: actions that depend on it are skipped
// as for a failed action, and references do not know it. An id that the generation already
// has, and "", change nothing. Reject is allowed while the gate is closed, because the error
// event that it comes with passes the gate.
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

// mayDeclare returns why id cannot be declared now; nil if it can. fresh is false for a
// rejected block, which may repeat an id and passes a closed gate.
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

// Started says that the dispatched action has begun. That satisfies the dependents of a
// fire_and_forget action. The error is *IllegalError for an action that is not dispatched.
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

// Park says that the dispatched action waits for an approval. Its slot is free for others; its
// parameters stay as they were judged.
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

// Resume says that the parked action was approved. It is dispatched again when a slot is free,
// with the parameters that were judged.
func (p *Plan) Resume(dst []Effect, r Ref) ([]Effect, error) {
	n, err := p.move("Resume", r, Ready)
	if err != nil {
		return dst, err
	}
	p.enqueue(n)
	p.pump(&dst)
	return dst, nil
}

// A Ref names an action. The id alone would not do: it may come again in a later generation
// while a detached action of an earlier one still runs.
type Ref struct {
	Generation int // from 1
	ID         string
}

func (x *node) ref() Ref { return Ref{int(x.gen), x.ID} }

// Outcome is the end of an action. Value is its result as JSON for OK, and ignored otherwise;
// "" is null.
type Outcome struct {
	State  State
	Reason string
	Value  string
}

// Ended says how an action ended: in OK, Failed, Cancelled or Unknown if it began, in Failed or
// Cancelled if it did not. The effects are the consequences for other actions, never an End of
// the action itself. Errors: *IllegalError for an action that has ended or was not dispatched,
// ERR_CONFIG for a value that is not JSON.
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
	if out.State == OK {
		p.nodes[n].partial = nil // StreamedText has it
	}
	p.ended(n, out.Reason)
	p.cascade(&dst)
	p.pump(&dst)
	return dst, nil
}

// Cancel stops one action. An action that an executor has gets a Stop. One that no executor has
// ends at once, and its dependents are skipped. One that has ended is left alone.
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

// CancelAll stops every action, in document order; actions that the generation declares later
// are cancelled at once. With detached, dispatched fire_and_forget actions are left alone: they
// outlive their run (docs/spec/streaming.md §4).
func (p *Plan) CancelAll(dst []Effect, reason string, detached bool) []Effect {
	p.halted = reason
	if reason == "" {
		p.halted = Cancelled.String()
	}
	for n := range p.nodes {
		x := &p.nodes[n]
		if x.role == roleEnd || x.role == roleEach || x.role == roleSay && x.state.Terminal() {
			continue // it ends with its children
		}
		if detached && x.role == roleAction && x.Mode == messages.ModeFireAndForget && (x.state == Dispatched || x.state == Running) {
			continue
		}
		p.cancel(&dst, int32(n), reason)
	}
	p.cascade(&dst) // no user is left to skip; this closes the edges
	return dst
}

func (p *Plan) cancel(dst *[]Effect, n int32, reason string) {
	x := &p.nodes[n]
	switch {
	case x.feed:
	case x.role != roleAction && !x.state.Terminal():
		p.finish(dst, n, Cancelled, reason, "")
	case x.state == Dispatched || x.state == Running:
		*dst = append(*dst, Effect{Kind: Stop, Ref: x.ref(), Reason: reason})
	case !x.state.Terminal():
		p.finish(dst, n, Cancelled, reason, "")
	}
}

// End says that the generation declares nothing more. Actions that still wait for an undeclared
// id are skipped, in document order, and then their dependents. The error is *IllegalError
// without an open generation.
func (p *Plan) End(dst []Effect) ([]Effect, error) {
	if !p.open {
		return dst, &IllegalError{Input: "End", Why: "no generation is open"}
	}
	p.open = false
	for n := p.genStart; n < int32(len(p.nodes)) && p.forwards > 0; n++ {
		if x := &p.nodes[n]; x.forward > 0 && x.state == Waiting {
			why := ReasonUnknownDependency + ":" + p.unseen(n)
			if x.undecided() {
				x.box.blame(why)
				x.unmet -= x.forward
				p.forwards -= x.forward
				x.forward = 0
				continue
			}
			p.finish(&dst, n, Skipped, why, "")
		}
	}
	clear(p.forward)
	p.cascade(&dst)
	p.pump(&dst)
	return dst, nil
}

// FeedReady says that the feed of a Fetch effect has come or failed; Environment has its value.
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

// Forget drops the output keys bound so far, as clear_context does: later parts of the document
// do not see them. Ids and results stay.
func (p *Plan) Forget() { p.forgotten = int32(len(p.nodes)) }

// Complete reports whether the generation has ended (End) and all its sync and async actions
// have.
func (p *Plan) Complete() bool { return !p.open && p.unended == 0 }

// Stalled reports whether only an approval can take the plan on: an action is parked, and none
// is with an executor or waits for a slot or a feed. If the generation has ended, the turn is
// suspended then (docs/spec/design.md §7).
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

// A View is the state of one action.
type View struct {
	messages.Action // Args as declared, with references
	State           State
	Reason          string
	Value           string // JSON, of OK
	Generation      int    // from 1
}

// Action returns one action; ok is false if there is none with that ref.
func (p *Plan) Action(r Ref) (v View, ok bool) {
	n := p.find(r)
	if n == none {
		return View{}, false
	}
	return p.view(n), true
}

// Generation returns the actions of the latest generation in document order, with the
// fire_and_forget ones: the next prompt reports them.
func (p *Plan) Generation() []View {
	var all []View
	for n := p.genStart; n < int32(len(p.nodes)); n++ {
		if x := &p.nodes[n]; !x.feed && !x.refused && x.role == roleAction {
			all = append(all, p.view(n))
		}
	}
	return all
}

func (p *Plan) view(n int32) View {
	x := &p.nodes[n]
	return View{Action: x.Action, State: x.state, Reason: x.reason, Value: x.value, Generation: int(x.gen)}
}

// checkValue returns the value to keep of an outcome.
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

// Grow makes room for n more actions.
func (p *Plan) Grow(n int) { p.nodes = slices.Grow(p.nodes, n) }

// add appends a node and makes it the latest one with its id.
func (p *Plan) add(x node) int32 {
	n := int32(len(p.nodes))
	x.users, x.lastUser, x.deps, x.lastDep = none, none, none, none
	x.prevID, x.prevKey, x.prevName, x.prevDotted = none, none, none, none
	p.nodes = append(p.nodes, x)
	if !x.feed && x.role != roleBegin && x.role != roleSay {
		p.nodes[n].prevID = p.chain(p.ids, x.ID, n)
	}
	return n
}

// chain makes n the latest node of a name and returns the one before it.
func (p *Plan) chain(index map[string]int32, name string, n int32) int32 {
	prev, ok := index[name]
	index[name] = n
	if !ok {
		return none
	}
	return prev
}

// find returns the node of an action; none if there is no such action.
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

// current returns the node of an id in the open generation; none if there is none.
func (p *Plan) current(id string) int32 {
	if n, ok := p.ids[id]; ok && n >= p.genStart {
		return n
	}
	return none
}

// move takes a dispatched action to the state that the caller reports.
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

// finish ends an action because the plan decides so, with an End effect.
func (p *Plan) finish(dst *[]Effect, n int32, s State, reason, place string) {
	x := &p.nodes[n]
	if x.role == roleBegin {
		p.void(dst, x.box.own, s, reason)
		return
	}
	x.state = s
	if x.role == roleAction {
		if x.box != nil && !x.box.parent.opened {
			dst = &x.box.parent.early // the caller does not know the action yet
		}
		*dst = append(*dst, Effect{Kind: End, Ref: x.ref(), State: s, Reason: reason, Place: place})
	}
	p.ended(n, reason)
}

// ended does what every end of an action needs, and queues the node for cascade, which the
// caller must call.
func (p *Plan) ended(n int32, reason string) {
	x := &p.nodes[n]
	x.reason, x.params = reason, ""
	p.forwards -= x.forward
	x.forward = 0
	p.release(n)
	if i, ok := slices.BinarySearch(p.ready, n); ok {
		p.ready = slices.Delete(p.ready, i, i+1)
	}
	if x.Mode != messages.ModeFireAndForget && x.role != roleBegin {
		p.unended--
	}
	if p.gate == n {
		p.gate = none
	}
	p.queue = append(p.queue, n)
}

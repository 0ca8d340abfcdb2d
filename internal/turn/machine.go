package turn

import (
	"cmp"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Machine is one session's turn machine. It is not safe for concurrent use; its
// owner calls Step with one input at a time.
//
//	0 ≤ state.Open.Turn.Index == flight.Turn while a turn is in flight
//	flight == nil  ⇔  phase == Idle between Steps
type Machine struct {
	cfg   Config
	rand  io.Reader
	state State

	phase  Phase
	flight *flight
	// graph is the plan of the run in flight, where the dialect acts while it streams.
	graph *graph
	// past are the records of the open run's earlier turns, after a restart, until the
	// plan has read them.
	past []*messages.Record
	// detached are fire_and_forget actions of turns that are decided.
	detached []detached
	gens     [NumClocks]uint32
	armed    [NumClocks]bool

	// dropped counts late answers.
	dropped int64
	// lastEnd is the position of the last run.end that this machine wrote, lastShut that of
	// the last record which closed a window.
	lastEnd, lastShut int64
	// found is State.Scoped as another machine left it.
	found int64

	now time.Time // of the current Step
	*step
}

// step is the state of the current Step. An idle session drops it, and with it the buffer
// of its effects.
type step struct {
	in  string
	out []Effect
	err error
}

// flight is what only the running process knows of the turn in flight, grouped by what it
// is about. What a restart must know is in State.
type flight struct {
	Ident
	pass  int
	began time.Time

	feeds   fed
	reply   reply
	parsed  parsed
	doc     *document // of a dialect that acts while the reply streams; nil for others
	program program
	restore restoration

	calls     []call
	byID      map[string]int // index into calls
	blocks    int            // control blocks that were read whole
	instances int64          // of what stands in its loops
	deadlines []deadline     // of groups
	lastEnd   int64          // position of the latest action.ended of the turn
	// replaced is the position of the latest retract of the turn: the texts of the turn
	// are shown after it.
	replaced int64

	undo unwinding

	checks []messages.TokenCheck
	// breach is the code that ends the turn before its time, "" while none does; the first
	// one wins.
	breach    messages.Code
	breachWhy string
}

// reply is what the model wrote, and how it ended.
type reply struct {
	bytes    []byte
	side     []byte    // what the bytes cannot hold (messages.ModelReply)
	recorded int       // how many of the bytes are in chunk records
	chunked  time.Time // when the latest chunk was recorded
	spent    spent     // so far

	ended  bool // sealed: model.reply is recorded
	finish messages.Finish
	// modelErr is the error of a reply that failed; modelCode says whose failure it was,
	// "" while there is none.
	modelErr  string
	modelCode messages.Code
	// fell reports whether the conversation over which the reply came was given up in its
	// middle: the run goes on by replay (messages.SessionFallback).
	fell bool

	closing bool // nothing that follows in the reply counts
	cut     bool // the decoder ended it: nothing that follows is even kept
}

// parsed is what the decoder found in the reply.
type parsed struct {
	units  []messages.Unit
	open   int             // index into units of the growing one, -1 none
	text   strings.Builder // of the growing one
	place  *messages.Block // where it stands among numbered thoughts; nil elsewhere
	final  bool            // a final response is complete
	awaits bool            // the decoder stopped the reply: results are due
	errors []messages.ParseError
	// moreErrors counts the errors over MaxParseErrors, which have no record of their own.
	moreErrors messages.ParseFault
	templates  int // definitions of templates so far
	lints      []messages.Code
}

// program is the program of a reply, and what it did.
type program struct {
	source    []byte
	ran       bool       // it has been handed out
	ended     bool       // and has answered
	emissions []Emission // all that are recorded
	out, scr  []byte     // the streams of these
	end       *ProgramEnd
	rerun     rerun
}

// restoration is what a restored turn takes from its records.
type restoration struct {
	known  known            // what is recorded of the reply
	events []messages.Event // what the decoder finds in the reply, until it is read again
	blocks map[string]*knownBlock
	lints  []messages.Code // of the request
}

// spent is what a reply cost.
type spent struct {
	usage    messages.Usage
	micro    int64
	unpriced bool
}

// call is an action of the turn in flight.
type call struct {
	messages.Call
	typ   messages.ActionType // "" for a program's call
	mode  string
	key   string // idempotency key
	phase callPhase
	code  int64 // of its end
	known bool  // recorded before the turn was restored, and not read again yet
	// stopped is why the plan told it to stop; "" while it has not.
	stopped string

	gate    ruling
	tries   attempts
	budget  share
	program fromProgram
	node    node
	undo    undo
	stream  *streaming // nil unless its result is shown as it grows
}

// ruling is the gate's recorded answer about a call that has not begun.
type ruling struct {
	answer messages.GateAnswer
	reason string
}

// attempts is what is known of the attempts of a call.
type attempts struct {
	attempt int64        // number of the latest, 0 before the first
	began   time.Time    // the first start in this life; zero when there was none
	retries int64        // attempts that failed; not those that a crash cut off
	resumed int          // attempts that follow one whose child took text back
	failure string       // why the attempt before failed
	failed  *ActionEnded // the end of that attempt, while another is due
	// doubt says that some attempt left no answer, so that it may have happened. It is no
	// phase: it holds from that attempt to the end, whatever later attempts do.
	doubt bool
	// children are the runs of child sessions that the attempts brought about.
	children []messages.ChildLink
}

// share is the part of the run's budget that a call has.
type share struct {
	reserved *messages.Budget // for all attempts together; nil for a call that spends nothing
	used     messages.Budget  // by the attempts that ended
}

// fromProgram is what a call has from the program that made it.
type fromProgram struct {
	// waits says that the running program waits for the call. It is no phase: a program
	// that runs again may not have come to the call yet, whatever became of the call.
	waits     bool
	emissions int // recorded ones before the call was declared
}

// node is what a call has from the plan, where the reply is acted on while it streams.
type node struct {
	ref    plan.Ref // zero for a program's call
	policy plan.Policy
	// found says that the call names a target that exists. It is known before the first
	// phase and never changes.
	found bool
}

// New makes the machine of a session whose records are folded in state. rand
// gives 16 bytes for each turn, restoration and question, in order. If rand fails, Step
// returns its error and records nothing.
func New(cfg Config, state State, rand io.Reader) *Machine {
	if cfg.SID == "" {
		cfg.SID = cfg.Key.SID()
	}
	return &Machine{cfg: cfg, state: state, rand: rand, found: state.Scoped}
}

// State returns the durable part, for snapshots and listings. The machine owns it: the
// caller must not change it, and must not keep it beyond the next Step.
func (m *Machine) State() *State { return &m.state }

// Phase returns the phase of the session between Steps.
func (m *Machine) Phase() Phase { return m.phase }

// Dropped returns the number of late answers that the machine has dropped so far.
func (m *Machine) Dropped() int64 { return m.dropped }

// Unsettled reports whether a restored state needs a Settle input.
func (m *Machine) Unsettled() bool {
	return m.flight == nil && (m.state.Open != nil || len(m.state.Queue) > 0 || len(m.state.Detached) > len(m.detached)) ||
		m.state.Window != nil && !m.armed[ClockDebounce]
}

// Flight returns the turn in flight; ok is false between turns.
func (m *Machine) Flight() (id Ident, ok bool) {
	if m.flight == nil {
		return Ident{}, false
	}
	return m.flight.Ident, true
}

// Step takes one input at the given time and returns its effects, which must be done in
// order. The slice is valid until the next Step. An error is an *IllegalError for an input
// that has no place in the current phase, or ERR_CRASH when randomness failed: no effect is
// returned, and the machine must be discarded and restored from the journal.
func (m *Machine) Step(now time.Time, in Input) ([]Effect, error) {
	if m.step == nil {
		m.step = new(step)
	}
	clear(m.out)
	m.out, m.now, m.in, m.err = m.out[:0], now.UTC().Round(0), in.input(), nil
	switch in := in.(type) {
	case *Open:
		m.opened(in)
	case *Submit:
		m.submit(in)
	case *Cancel:
		m.cancel(in)
	case *ModelOpened:
		m.modelOpened(in)
	case *ModelTalk:
		m.modelTalk(in)
	case *ModelSwitched:
		m.modelSwitched(in)
	case *Decoded:
		m.decoded(in)
	case *ReplyEnd:
		m.replyEnd(in)
	case *Emitted:
		m.emittedLive(in)
	case *ProgramCall:
		m.programCall(in)
	case *Judged:
		m.judged(in)
	case *ActionEnded:
		m.actionEnded(in)
	case *ActionChunk:
		m.actionChunk(in)
	case *ScopeCall:
		m.scopeCall(in)
	case *RelicCall:
		m.relicCall(in)
	case *FeedsReady:
		m.feedsReady(in)
	case *Due:
		m.dueAgain(in)
	case *ProgramEnd:
		m.programEnd(in)
	case *Verified:
		m.verified(in)
	case *Timer:
		m.timer(in)
	case *ChildDown:
		m.childDown(in)
	case *Settle:
		m.settle(in)
	case *Approve:
		m.approve(in)
	case *Expire:
		m.expire()
	case *Describe:
		m.describe(in)
	case *Close:
		m.closed(in)
	default:
		m.illegal()
	}
	if m.err != nil {
		return nil, m.err
	}
	out := m.out
	if m.phase == Idle {
		m.step = nil
	}
	return out, nil
}

// current reports whether an answer belongs to the turn in flight.
func (m *Machine) current(id Ident) bool {
	if m.flight != nil && m.flight.Ident == id {
		return true
	}
	m.dropped++
	return false
}

func (m *Machine) do(e Effect) {
	if m.out == nil {
		m.out = make([]Effect, 0, effectsAtOnce)
	}
	m.out = append(m.out, e)
}

// effectsAtOnce is the first capacity of a step's effects.
const effectsAtOnce = 16

// persist numbers a record, folds it and asks for its append.
func (m *Machine) persist(body messages.Body, hold time.Duration, blobs ...messages.Blob) *messages.Record {
	var run, turn int64
	if m.state.Open != nil {
		run = m.state.Open.Run
	}
	if m.flight != nil {
		turn = m.flight.Turn
	}
	return m.append(run, turn, body, hold, blobs...)
}

// append makes a record of a run and a turn, which need not be those in flight.
func (m *Machine) append(run, turn int64, body messages.Body, hold time.Duration, blobs ...messages.Blob) *messages.Record {
	own := &struct { // one allocation: both live equally long
		record  messages.Record
		persist Persist
	}{}
	r := &own.record
	r.SID, r.Inc, r.Seq, r.Run, r.Turn, r.TS, r.Body = m.cfg.SID, m.cfg.Inc, m.state.Seq+1, run, turn, m.now, body
	open := m.state.Window != nil
	if err := m.state.Apply(r); err != nil && m.err == nil {
		m.err = err
	}
	if open && m.state.Window == nil {
		m.lastShut = r.Seq
	}
	if _, ok := r.Body.(*messages.RunEnd); ok {
		m.lastEnd = r.Seq
	}
	p := &own.persist
	p.Record, p.Blobs, p.Hold = r, blobs, hold
	m.do(p)
	return r
}

func (m *Machine) setTimer(c Clock, at time.Time) {
	m.gens[c]++
	m.armed[c] = true
	m.do(&SetTimer{Clock: c, Gen: uint64(m.gens[c]), At: at})
}

func (m *Machine) stopTimer(c Clock) {
	if m.armed[c] {
		m.armed[c] = false
		m.do(&StopTimer{Clock: c})
	}
}

// clean repairs text that is not UTF-8 as the journal does, one U+FFFD for each offending
// byte: the live state must equal the fold of the records.
func clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// cleanHistory applies clean to a conversation that the caller kept.
func cleanHistory(history []messages.Said) []messages.Said {
	out := slices.Clone(history)
	for i := range out {
		out[i] = messages.Said{Role: messages.Role(clean(string(out[i].Role))), Text: clean(out[i].Text)}
	}
	return out
}

// ReasonKeyReused is the reason of a submit whose key named another input before.
const ReasonKeyReused = "KEY_REUSED"

// Repeats reports whether the input again equals the recorded one in what the model would
// be given, after the repairs that made it a record. Policy, user and budget do not count:
// they may change between two tries.
func Repeats(recorded, again *messages.Input) bool {
	return recorded.Text == clean(again.Text) && recorded.Userdata == clean(again.Userdata) &&
		slices.Equal(recorded.History, cleanHistory(again.History)) && slices.Equal(recorded.Parts, again.Parts)
}

func (m *Machine) opened(in *Open) {
	if m.state.Seq != 0 {
		m.illegal()
		return
	}
	r := m.persist(&messages.SessionOpened{
		Dialect: m.cfg.Dialect, Incarnation: m.cfg.Inc.String(), Manifest: m.cfg.ManifestDigest, Name: in.Name, Parent: in.Parent, Receipts: in.Receipts,
	}, 0)
	m.do(&Answer{After: r.Seq, Handle: in.Handle, Seq: r.Seq})
}

// submit accepts an input as a new run, adds it to a run, or refuses it
// (docs/spec/design.md §9).
func (m *Machine) submit(in *Submit) {
	if m.state.Seq == 0 {
		m.illegal() // session.opened is the first record
		return
	}
	body := in.Input
	body.Text, body.Userdata, body.User, body.Zone = clean(body.Text), clean(body.Userdata), clean(body.User), clean(body.Zone)
	body.History = cleanHistory(body.History)
	body.Data = nil
	if !utf8.ValidString(body.Key) { // a repair could make two keys one
		m.do(&Answer{Handle: in.Handle, Err: &messages.Error{Code: messages.ErrInvalid, Field: "key", Detail: "not UTF-8"}})
		return
	}
	if k := m.state.key(body.Key); k != nil {
		// The end of a run may have moved its input to another run.
		m.do(&Answer{After: max(k.Seq, m.lastEnd), Handle: in.Handle, Run: k.Run, Seq: k.Seq, Joined: true, Merged: m.state.pending(k.Seq)})
		return
	}
	if body.Policy == "" {
		body.Policy = cmp.Or(m.cfg.Judge.Traits().Busy, messages.Enqueue)
	}
	if after, err := m.refusal(&body); err != nil {
		m.do(&Answer{After: after, Handle: in.Handle, Err: err})
		return
	}
	idle := m.state.Open == nil && len(m.state.Queue) == 0
	ordinal := m.joins(body.Policy)
	merged := ordinal > 0 && body.Policy == messages.Merge
	if ordinal == 0 {
		ordinal = m.state.Runs + 1
	}
	r := m.append(ordinal, 0, &body, 0, partBlobs(&in.Input)...)
	m.do(&Answer{After: r.Seq, Handle: in.Handle, Run: r.Run, Seq: r.Seq, Merged: merged})
	m.windowClock()
	switch {
	case idle:
		m.nextRun()
	case body.Policy.Supersedes():
		m.supersede(body.User)
	}
}

// partBlobs are the bytes of an input's parts, as far as they came with it.
func partBlobs(in *messages.Input) []messages.Blob {
	if len(in.Data) == 0 {
		return nil
	}
	blobs := make([]messages.Blob, len(in.Data))
	for i := range in.Data {
		blobs[i] = messages.Blob{Digest: in.Parts[i].Digest, Data: in.Data[i]}
	}
	return blobs
}

// nextRun begins the first waiting run, if there is one.
func (m *Machine) nextRun() {
	m.passOver()
	if m.state.Open != nil || len(m.state.Queue) == 0 {
		return
	}
	m.beginRun()
	m.runClock()
	m.beginTurn(nil)
}

// beginRun takes the first run out of the queue.
func (m *Machine) beginRun() {
	w := m.state.Queue[0]
	m.append(w.Run, 0, &messages.RunBegin{Input: w.Seq, Merged: seqs(w.More)}, 0)
}

// draw returns 128 random bits in base64url. ok is false when the reader failed; m.err is
// set then.
func (m *Machine) draw() (text string, ok bool) {
	var raw [16]byte
	if _, err := io.ReadFull(m.rand, raw[:]); err != nil {
		if m.err == nil {
			m.err = &messages.Error{Code: messages.ErrCrash, Detail: "no randomness for a nonce", Cause: err}
		}
		return "", false
	}
	return base64.RawURLEncoding.EncodeToString(raw[:]), true
}

// beginTurn takes the session from IDLE into a new turn. carry has the facts of the turn
// before; it is nil when this process does not have them.
func (m *Machine) beginTurn(carry *messages.Facts) {
	nonce, ok := m.draw()
	if !ok {
		return
	}
	run := m.state.Open
	f := &flight{
		Ident: Ident{Turn: m.state.Turn + 1, Nonce: nonce},
		pass:  int(run.Turns) + 1, began: m.now,
		reply: reply{chunked: m.now}, parsed: parsed{open: -1},
	}
	m.flight = f
	if fault := m.planTurn(); fault != "" && m.err == nil {
		m.err = messages.Errorf(messages.ErrCrash, "%s", fault)
	}
	m.to(Generating)
	var merged []int64
	if f.pass > 1 {
		merged = seqs(run.Merged)
	}
	rendering := m.cfg.Rendering
	if rendering == 1 {
		rendering = 0 // as the records of the first version have it
	}
	begin := m.persist(&messages.TurnBegin{
		Dialect: m.cfg.Dialect, Nonce: f.Nonce, Pass: int64(f.pass), Merged: merged, Rendering: rendering,
		Manifest: m.cfg.ManifestDigest, Library: m.cfg.LibraryDigest, Tools: m.cfg.ToolsDigest, Limits: m.cfg.LimitsDigest,
	}, 0)
	text, userdata := m.inputOf(run)
	open := &OpenModel{
		After: begin.Seq, Ident: f.Ident, Run: run.Run, Pass: f.pass, Ordinal: m.state.Requests,
		Text: text, Userdata: userdata, State: run.State, LastError: run.LastError, Failed: m.state.Failed, Note: m.state.Note, Templates: run.Templates,
		Last: m.lastTurn(), OutDigest: m.state.OutDigest, ScrDigest: m.state.ScrDigest,
	}
	switch {
	case m.cfg.Forgets && !run.Completed:
		open.OutDigest, open.ScrDigest = messages.Digest{}, messages.Digest{}
		open.Failed = slices.DeleteFunc(slices.Clone(open.Failed), func(f Failed) bool { return f.Run != run.Run })
	case carry != nil:
		open.HaveCarry, open.Out, open.Scr = true, carry.Out, carry.Scr
	}
	m.openModel(open)
	if d := m.cfg.Limits.GenerationWall; d > 0 {
		m.setTimer(ClockGeneration, m.now.Add(d))
	}
	m.turnClock()
}

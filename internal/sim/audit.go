package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// audit reads a journal as a stranger would and finds what no journal may hold.
type audit struct {
	seq, lastTurn int64
	turn          int64 // open, 0 none
	nonce         string
	begin         int64           // seq of its turn.begin
	run           int64           // open, 0 none
	calls         map[string]*act // of the turn
	open          int             // of them without an end
	waiting       map[int64]bool  // accepted, without an end
	over          map[int64]int64 // run → seq of its end
	cancelled     map[int64]int64 // run → seq of the cancel
	suspended     bool
	restores      int64
	broken        bool                       // something is to end the turn
	questions     map[string]string          // open ones → action
	shown         map[string]messages.Digest // of the arguments a question shows
	turnSeq       int64                      // of turn.begin or turn.restored
	replied       bool
	chunked       int64 // reply bytes in chunk records

	chunk int64 // seq of the last one

	rules *turn.Rules
	line
	passes
	store
	shelving
	larder
	kin
	// withdrawn runs: 1 when a rollback takes them back, 2 when it is recorded.
	withdrawn map[int64]int
	rollbacks map[int64]bool        // runs that came to take the one in flight back
	input     *messages.Input       // of the open run
	turns     int64                 // of the open run
	lost      int64                 // of them, those that a restart ended
	actions   int64                 // started, of the open run
	digest    messages.Digest       // of the last counted turn of the run
	same      int                   // counted turns in a row that have it
	after     *messages.TurnDecided // the record before, when it was a decision
	resumed   int                   // turns of the run that a restart ended
	loops     loops                 // of the run
	patterns  patterns              // of the run

	groups
	nesting

	streams bool // the dialect acts while a reply streams
	document
	chances
	talking
	answers
}

// act is an action of the turn.
type act struct {
	id, name string
	args     string // as it began, references replaced
	class    messages.Class
	ended    bool
	attempts int64
	approved bool
	startSeq int64
	startTS  time.Time
	key      string
	denied   bool
	asked    bool // the gate was
	parked   bool // and a person is asked
	run      int64
	again    int  // attempts that followed one that failed
	changed  bool // a relic
	reserved *messages.Budget
	child    string               // session of the latest attempt
	links    []messages.ChildLink // runs of earlier ones
	group    *group               // that it is a member of
	undoes   bool                 // it is a compensation

	block, of   string // the block and the iteration that it stands in
	declaredSeq int64
	loose       bool     // it may wait for what stands in blocks
	stream      bool     // its result is said in pieces
	poured      string   // of the latest attempt
	pours       []string // of all attempts
	chunks      int64
	node
}

func (c *client) newAudit() *audit {
	return &audit{
		line:    line{joined: map[int64]bool{}, moved: map[int64]int64{}, of: map[int64]int64{}, written: map[int64]*messages.Input{}, join: c.dialect.joinOf},
		waiting: map[int64]bool{}, over: map[int64]int64{}, cancelled: map[int64]int64{}, shown: map[string]messages.Digest{}, withdrawn: map[int64]int{}, rollbacks: map[int64]bool{},
		rules: &c.rules, streams: c.dialect.Traits().InStreamActions,
		store:    store{vars: map[string]string{}, had: map[string]map[string]bool{}},
		shelving: shelving{shelves: map[string]map[string]string{}, kept: map[string]kept{}},
		groups:   groups{whole: c.dialect.groups, blind: c.w.sabotage},
		nesting:  nesting{controlling: c.dialect.controls, misreads: c.w.sabotage},
		chances:  chances{heeds: c.heeds}, kin: newKin(), larder: c.newLarder(),
		document: document{rethought: map[string]bool{}, verbatim: c.dialect.Traits().Verbatim, left: map[string]*act{}},
	}
}

// call finds an action of the open turn, or one that an earlier turn left running.
func (a *audit) call(turn int64, id string) *act {
	if turn == a.turn {
		return a.calls[id]
	}
	return a.left[leftID(turn, id)]
}

func (a *audit) apply(r *messages.Record) error {
	if r.Seq != a.seq+1 {
		return fmt.Errorf("it follows record %d", a.seq)
	}
	a.seq = r.Seq
	if err := a.follows(r); err != nil {
		return err
	}
	a.pays(r)
	if err := a.releases(r); err != nil {
		return err
	}
	a.remembers(r)
	if err := a.talks(r); err != nil {
		return err
	}
	a.tells(a, r)
	if a.isLeft(r) {
		return a.applyLeft(r)
	}
	inTurn := func() error {
		if r.Turn == 0 || r.Turn != a.turn || r.Run == 0 || r.Run != a.run {
			return fmt.Errorf("run %d turn %d, open are run %d turn %d", r.Run, r.Turn, a.run, a.turn)
		}
		return nil
	}
	switch b := r.Body.(type) {
	case *messages.SessionOpened:
		if r.Seq != 1 || r.Run != 0 || r.Turn != 0 {
			return errors.New("not the first record")
		}
		a.parent = b.Parent
	case *messages.Input:
		return a.accepts(r, b)
	case *messages.RunBegin:
		if err := a.begins(r, b); err != nil {
			return err
		}
		a.run, a.turns, a.lost, a.actions, a.digest, a.same = r.Run, 0, 0, 0, messages.Digest{}, 0
		a.resumed, a.loops = 0, loops{}
		a.silent = false
		a.repairs, a.asked, a.before, a.outWas = 0, 0, a.failed, a.out
		a.past, a.values, a.acts = map[string]*act{}, map[string]int64{}, nil
		a.passes = passes{first: map[string]bool{}}
		a.patterns, a.composed = patterns{}, map[string]bool{}
		a.beginRun()
	case *messages.RunEnd:
		if a.run == r.Run && a.turn != 0 || !a.waiting[r.Run] || a.over[r.Run] != 0 {
			return fmt.Errorf("run %d ends in turn %d", r.Run, a.turn)
		}
		if b.Decision == messages.Continue || (b.Decision == messages.Halt) != (b.Reason != "") {
			return fmt.Errorf("run ends with %s %s", b.Decision, b.Reason)
		}
		if a.run == r.Run && a.withdrawn[r.Run] == 1 {
			return fmt.Errorf("run %d was taken back, and its end comes first", r.Run)
		}
		if err := a.leaves(r, b); err != nil {
			return err
		}
		if err := a.answered(b); err != nil {
			return err
		}
		delete(a.waiting, r.Run)
		a.over[r.Run] = r.Seq
		if a.run == r.Run {
			a.run = 0
			clear(a.rollbacks)
		}
	case *messages.TurnBegin:
		if a.turn != 0 || r.Turn != a.lastTurn+1 || r.Run != a.run || a.run == 0 || b.Nonce == "" {
			return fmt.Errorf("turn %d of run %d begins; turn %d of run %d is open", r.Turn, r.Run, a.turn, a.run)
		}
		if a.turns++; b.Pass != a.turns {
			return fmt.Errorf("pass %d, it is turn %d of the run", b.Pass, a.turns)
		}
		if a.cancelled[r.Run] != 0 {
			return fmt.Errorf("run %d was cancelled and goes on", r.Run)
		}
		if err := a.goesOn(b); err != nil {
			return err
		}
		a.turn, a.lastTurn, a.nonce, a.begin = r.Turn, r.Turn, b.Nonce, r.Seq
		a.suspended, a.restores, a.broken, a.questions, a.turnSeq = false, 0, false, map[string]string{}, r.Seq
		a.calls, a.open, a.replied, a.chunked = map[string]*act{}, 0, false, 0
		a.controls = map[string]*control{}
		a.fed, a.fedAt = nil, nil
		if max(b.Rendering, 1) != a.rules.Rendering {
			return fmt.Errorf("rendering %d, the session's is %d", b.Rendering, a.rules.Rendering)
		}
		a.second, a.did, a.spoke = b.Rendering >= 2, told{}, false
		a.beginDocument()
	case *messages.TurnDecided:
		if err := inTurn(); err != nil {
			return err
		}
		if err := cmp.Or(a.leave(), a.leavesBlocks()); err != nil {
			return err
		}
		if !a.replied && !b.Resumed {
			return errors.New("decided without a reply")
		}
		if b.TurnIndex != r.Turn || (b.Decision == messages.Halt) != (b.Reason != "") || b.Decision == "" {
			return fmt.Errorf("decision %q %q of turn %d", b.Decision, b.Reason, b.TurnIndex)
		}
		if err := a.justified(b); err != nil {
			return err
		}
		if err := a.unwound(b); err != nil {
			return err
		}
		if err := a.passed(b); err != nil {
			return err
		}
		if err := a.decides(b); err != nil {
			return err
		}
		if err := a.mended(b); err != nil {
			return err
		}
		if err := a.asksAgain(b); err != nil {
			return err
		}
		a.carries(r, b)
		a.turn, a.after = 0, b
		return a.guarded(b)
	case *messages.ActionDeclared:
		if a.calls[b.ID] != nil {
			return fmt.Errorf("action %s declared twice", b.ID)
		}
		if err := inTurn(); err != nil {
			return err
		}
		if err := a.patterns.made(b); err != nil {
			return err
		}
		c := &act{id: b.ID, name: b.Name, args: b.Args, class: b.Class, run: r.Run, node: a.nodeOf(b)}
		if err := a.enlists(r, c, b); err != nil {
			return err
		}
		c.block, c.of, c.declaredSeq, c.stream = b.Block, b.Of, r.Seq, b.Stream
		if c.block != "" && !a.unlocked(c.block) {
			return fmt.Errorf("action %s is declared, and block %s around it is not open", c.id, c.block)
		}
		c.loose = !a.simple(c)
		if c.undoes {
			c.refs, c.written = nil, ""
		} else {
			if c.block == "" {
				if err := a.behind(c.id); err != nil {
					return err
				}
			}
			a.acts = append(a.acts, c)
		}
		a.calls[b.ID] = c
		a.open++
	case *messages.BlockBegin:
		if err := a.blockBegins(r, b); err != nil {
			return err
		}
		return inTurn()
	case *messages.BlockDecided:
		if err := a.blockDecides(r, b); err != nil {
			return err
		}
		return inTurn()
	case *messages.BlockEnded:
		if err := a.blockEnds(r, b); err != nil {
			return err
		}
		return inTurn()
	case *messages.ActionChunk:
		if err := a.grows(b); err != nil {
			return err
		}
		return inTurn()
	case *messages.RollbackBegin:
		if err := inTurn(); err != nil {
			return err
		}
		return a.closes(b)
	case *messages.ActionTemplate:
		if err := inTurn(); err != nil {
			return err
		}
		return a.patterns.defines(b)
	case *messages.ActionApproval:
		c := a.calls[b.ID]
		if c == nil || c.attempts > 0 || c.ended {
			return fmt.Errorf("approval of action %s", b.ID)
		}
		c.denied, c.approved = b.State != messages.GateApprove, b.State == messages.GateApprove
		c.parked = c.parked || b.Approval != ""
		if b.Approval != "" {
			if asks := b.State == messages.GateConfirm; asks == (a.questions[b.Approval] != "") {
				return fmt.Errorf("question %s is asked or answered twice", b.Approval)
			}
			if b.State == messages.GateConfirm {
				a.questions[b.Approval], a.shown[b.Approval] = b.ID, b.Digest
			} else if a.questions[b.Approval] != b.ID {
				return fmt.Errorf("question %s is about another action", b.Approval)
			} else {
				delete(a.questions, b.Approval)
			}
		}
		return inTurn()
	case *messages.TurnSuspended:
		if a.suspended || !a.replied && !a.unwinds() || len(b.Waiting) == 0 || b.Until == "" {
			return fmt.Errorf("suspended for %v until %q", b.Waiting, b.Until)
		}
		for id, c := range a.calls {
			if c.block != "" && c.startSeq < a.turnSeq {
				continue // it was cut off, and what stands before it in its group has its place now
			}
			if !c.ended && (c.attempts > 0 || !a.streams && !slices.Contains(b.Waiting, id)) {
				return fmt.Errorf("suspended while action %s runs", id)
			}
		}
		a.suspended = true
		return inTurn()
	case *messages.TurnRestored:
		if !a.replied && b.Cause != messages.RestoreRollback && !a.unwinds() || b.Nonce == "" || b.Nonce == a.nonce || b.Count != a.restores+1 {
			return fmt.Errorf("restored for the %dth time, nonce %q", b.Count, b.Nonce)
		}
		if b.Cause != messages.RestoreRollback && (b.Cause == messages.RestoreApproval) != a.suspended {
			return fmt.Errorf("restored by %s, suspended %v", b.Cause, a.suspended)
		}
		if b.Cause == messages.RestoreCrash {
			if a.resumed++; a.resumed > turn.MaxSettlements || a.rules != nil && a.rules.Recovery == messages.RecoverHalt {
				return fmt.Errorf("restored after %d restarts", a.resumed)
			}
		}
		if (a.broken || a.cancelled[r.Run] != 0) && b.Cause != messages.RestoreRollback && !a.unwinds() {
			return errors.New("restored, and something was to end it")
		}
		a.suspended, a.nonce, a.restores, a.turnSeq = false, b.Nonce, b.Count, r.Seq
		return inTurn()
	case *messages.ActionStarted:
		c := a.calls[b.ID]
		if c == nil || c.ended || c.denied || a.suspended {
			return fmt.Errorf("action %s started", b.ID)
		}
		if c.attempts > 0 && !a.retries(c, b) && (c.class == messages.Effectful || c.startSeq > a.turnSeq) {
			return fmt.Errorf("action %s started again", b.ID)
		}
		if c.closed() {
			return fmt.Errorf("action %s started, and its group is rolled back", b.ID)
		}
		if b.Attempt != c.attempts+1 || c.attempts > 0 && b.Key != c.key {
			return fmt.Errorf("attempt %d of action %s under key %s", b.Attempt, b.ID, b.Key)
		}
		if err := cmp.Or(a.starts(c), a.mayBegin(c, b)); err != nil {
			return err
		}
		c.anew()
		if err := a.bears(r, c, b); err != nil {
			return err
		}
		if err := c.linked(b.Children); err != nil {
			return err
		}
		c.attempts, c.startSeq, c.startTS, c.key, c.child = b.Attempt, r.Seq, r.TS, b.Key, b.Child
		if b.Attempt == 1 && !c.undoes { // what is to be undone is, whatever the run may do
			a.actions++
			if err := a.paysAgain(c); err != nil {
				return err
			}
		}
		if err := a.token(c); err != nil {
			return err
		}
		if a.rules != nil && a.rules.Limits.Actions > 0 && a.actions > a.rules.Limits.Actions {
			return fmt.Errorf("action %s is the run's %dth, the limit is %d", b.ID, a.actions, a.rules.Limits.Actions)
		}
		return inTurn()
	case *messages.ActionEnded:
		c := a.calls[b.ID]
		if c == nil || c.ended {
			return fmt.Errorf("action %s has no place for a terminal record", b.ID)
		}
		if b.State == messages.ActionUnknown && c.attempts == 0 {
			return fmt.Errorf("action %s is unknown and never began", b.ID)
		}
		if err := cmp.Or(a.mayEnd(c, b), c.isPoured(b)); err != nil {
			return err
		}
		if err := a.shelved(c, b); err != nil {
			return err
		}
		if err := c.ran(b); err != nil {
			return err
		}
		if err := a.remakes(r.Seq, c, b); err != nil {
			return err
		}
		c.ended, c.state, c.reason = true, b.State, b.Reason
		a.endsMember(r.Seq, c)
		if c.typ == messages.TypeInternal && b.State == messages.ActionOK {
			if err := a.stores(c); err != nil {
				return err
			}
		}
		if c.class != messages.Pure {
			a.loops.turn = append(a.loops.turn, fmt.Sprintf("%q %q %s %q", c.name, c.args, b.State, b.Result))
		}
		a.open--
		return inTurn()
	case *messages.ModelChunk:
		if b.Off != a.chunked {
			return fmt.Errorf("chunk at %d follows byte %d", b.Off, a.chunked)
		}
		a.chunked += int64(len(b.Bytes))
		a.chunk = r.Seq
		return inTurn()
	case *messages.ModelReply:
		if a.replied {
			return errors.New("a second reply in one turn")
		}
		if b.Length < a.chunked {
			return fmt.Errorf("a reply of %d bytes, %d are in chunks", b.Length, a.chunked)
		}
		a.replied = true
		return inTurn()
	case *messages.UnitText:
		if err := a.text(b); err != nil {
			return err
		}
		return inTurn()
	case *messages.Retract:
		if ours, err := a.takesBack(b); ours || err != nil {
			return cmp.Or(err, inTurn())
		}
		if err := a.replaces(b); err != nil {
			return err
		}
		return inTurn()
	case *messages.ParseFault:
		if err := a.fault(b); err != nil {
			return err
		}
		return inTurn()
	case *messages.Lint:
		if err := a.forged(b); err != nil {
			return err
		}
		return inTurn()
	case *messages.Control:
		if b.What == messages.ControlTimer && b.Name == turn.ClockDebounce.String() {
			return a.windowOver(r)
		}
		if b.What != messages.ControlCancel {
			a.broken = a.broken || b.What != messages.ControlModelError && b.Code != ""
			a.stopped = a.stopped || b.What != messages.ControlModelError && b.Name != turn.ClockBlock.String()
			return inTurn()
		}
		if a.cancelled[r.Run] != 0 || r.Run != a.run {
			return fmt.Errorf("cancel of run %d", r.Run)
		}
		a.cancelled[r.Run] = r.Seq
	case *messages.RunWithdrawn:
		if r.Run != a.run || a.turn != 0 || !a.rollsBack(b.By) || a.withdrawn[r.Run] == 2 {
			return fmt.Errorf("run %d is taken back for run %d", r.Run, b.By)
		}
		a.withdrawn[r.Run] = 2
		a.failed, a.out = a.before, a.outWas
	case *messages.Note:
		if r.Run != a.run || a.turn != 0 || a.withdrawn[r.Run] != 1 {
			return fmt.Errorf("a note on run %d", r.Run)
		}
	case *messages.FeedInjected:
		if err := a.injected(r.Seq, b); err != nil {
			return err
		}
		return inTurn()
	case *messages.RelicChanged:
		if err := a.changes(r, b); err != nil {
			return err
		}
		return inTurn()
	case *messages.Audit:
	default:
		return inTurn()
	}
	return nil
}

// follows checks what comes right behind a decision: its consequence.
func (a *audit) follows(r *messages.Record) error {
	d := a.after
	a.after = nil
	if d == nil {
		return nil
	}
	switch b := r.Body.(type) {
	case *messages.Note, *messages.RunWithdrawn:
		a.after = d // the run ends behind them
	case *messages.TurnBegin:
		if d.Decision != messages.Continue && !d.Resumed && !d.Repair {
			return fmt.Errorf("a turn follows %s", d.Decision)
		}
		if d.Resumed && a.resumed >= turn.MaxSettlements || d.Resumed && a.rules != nil && a.rules.Recovery == messages.RecoverHalt {
			return fmt.Errorf("the run goes on after %d restarts", a.resumed)
		}
	case *messages.RunEnd:
		if d.Decision == messages.Continue || d.Repair || r.Run != a.run {
			return fmt.Errorf("the end of run %d follows %s of run %d", r.Run, d.Decision, a.run)
		}
		if b.Decision != d.Decision || b.Reason != d.Reason {
			return fmt.Errorf("the run ends %s %s, its last turn %s %s", b.Decision, b.Reason, d.Decision, d.Reason)
		}
	default:
		return fmt.Errorf("it stands between a decision and what follows from it")
	}
	return nil
}

// guarded counts as the guards do and finds a decision they should have stopped.
func (a *audit) guarded(b *messages.TurnDecided) error {
	looping := a.loops.count()
	if b.Resumed && !a.broken {
		a.resumed++
		a.lost++
	}
	if a.rules == nil {
		return nil
	}
	if !b.Digest.IsZero() {
		if b.Digest == a.digest {
			a.same++
		} else {
			a.digest, a.same = b.Digest, 1
		}
	}
	n := a.rules.NoProgressN
	if n <= 0 {
		n = turn.NoProgressN
	}
	if b.Decision != messages.Continue {
		return nil
	}
	if err := a.affords(); err != nil {
		return err
	}
	if looping {
		return errors.New("CONTINUE in a call loop")
	}
	if a.same >= n {
		return fmt.Errorf("CONTINUE after %d turns of the same output, the limit is %d", a.same, n)
	}
	if most := a.rules.MaxTurns; most > 0 && a.turns-a.lost-a.asked >= most {
		return fmt.Errorf("CONTINUE in turn %d of the run, %d of them lost, the limit is %d", a.turns, a.lost, most)
	}
	return nil
}

// loops are the calls of a run with their results, a call once per turn.
type loops struct {
	turn []string // of the open turn
	all  []string
}

// count takes the turn's calls in and reports whether one of them closed a loop: the
// same one three times in a row or eight times in all, or two in turns thrice.
func (l *loops) count() (closed bool) {
	for i, c := range l.turn {
		if slices.Contains(l.turn[:i], c) {
			continue
		}
		l.all = append(l.all, c)
		n, seen := len(l.all), 0
		for _, o := range l.all {
			if o == c {
				seen++
			}
		}
		last := func(k int) string { return l.all[n-k] }
		closed = closed || seen >= 8 || n >= 3 && last(2) == c && last(3) == c ||
			n >= 6 && last(2) != c && last(3) == c && last(5) == c && last(4) == last(2) && last(6) == last(2)
	}
	l.turn = nil
	return closed
}

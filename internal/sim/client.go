package sim

import (
	"cmp"
	"context"
	"fmt"
	"hash"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

var bg = context.Background()

// client is the users of one session: what they asked, what they were promised,
// and what they saw.
type client struct {
	w       *world
	n       int
	key     messages.SessionKey
	sid     string
	dialect *dialect
	rules   turn.Rules
	policy  journal.Receipts

	asked     map[uint64]*asked
	last      uint64
	promised  []*asked         // accepted, in the order of the answers
	cancelled []int64          // runs whose cancel was answered well
	keyed     map[string]int64 // idempotency keys: the run they were answered with
	seen      journal.Anchor   // the last record shown
	torn      int64            // seq of a snapshot of which a part was written
	inc       messages.Incarnation

	stubborn bool   // its model likes to say again what it said
	reply    []byte // what it said
	habit    string // a statement that opens every program of it
	heeds    bool   // it is that of a debt, which it pays no more when it is told that it was paid

	hoards bool // its model likes relics
	trusts bool // its model likes agents
	tends  bool // its model likes feeds
	talks  int  // what it does with its provider

	feeds   []feed                                // of its manifest
	gave    map[string]map[messages.Digest]string // by feed: what turns got of it
	fetched int64                                 // values, to tell them apart

	parent  *messages.ParentLink // of a child session
	follows bool                 // a client follows its updates

	favours messages.Policy // of its users, "" for none

	careful bool                           // some of its actions want confirmation
	gates   map[string]messages.GateAnswer // what the gate said, by action; once approve, always

	history *audit // of what is on the disk

	minted   map[string]*stamp
	question string // the last one answered
	forged   string // a token of an earlier turn
}

// asked is one submit or cancel.
type asked struct {
	in     messages.Input
	cancel bool
	// approval is set for an answer to a question, open when it ought to count.
	approval, open bool
	run            int64
	seq            int64
	joined         bool
	by             *attempt // at an agent, if that asks

	// In a cluster: where it is asked, the submit that it makes, if it is one, and who waits for
	// the answer.
	at   *shell
	req  *request
	back func(came)
}

// stamp is a token as its minter remembers it.
type stamp struct {
	turn.Ident
	action string
	used   int64 // turn it decided
}

func (w *world) newClient(n int) *client {
	d := w.pickDialect()
	pick := func(of ...int64) int64 { return of[w.rnd.IntN(len(of))] }
	c := &client{
		w: w, n: n, key: messages.SessionKey{Tenant: "t", User: "u", ID: fmt.Sprintf("s%d", n)}, dialect: d,
		asked: map[uint64]*asked{}, keyed: map[string]int64{}, minted: map[string]*stamp{},
		policy: []journal.Receipts{journal.ReceiptsDecision, journal.ReceiptsRun, journal.ReceiptsOff}[w.rnd.IntN(3)],
	}
	c.sid = c.key.SID()
	c.follows = w.rnd.IntN(2) == 0
	c.careful, c.gates = w.rnd.IntN(2) == 0, map[string]messages.GateAnswer{}
	c.favours = []messages.Policy{"", "", "", messages.Merge, messages.Debounce, messages.Interrupt}[w.rnd.IntN(6)]
	switch c.stubborn = w.rnd.IntN(5) == 0; w.rnd.IntN(8) {
	case 0:
		c.habit = "  call tool.w.look(\"again\", 1)\n"
	case 1:
		c.habit = "  call tool.w.send(\"again\", 1)\n"
	case 2:
		c.heeds = d.rendering >= 2
		c.habit = "  call tool." + owed + "(\"bill\", 1)\n"
	}
	c.talks = []int{replays, replays, resumes, autos}[w.rnd.IntN(4)]
	c.hoards, c.trusts = w.rnd.IntN(3) == 0, w.rnd.IntN(2) == 0
	c.rules = turn.Rules{
		Dialect: d.Name(), Rendering: d.rendering, Judge: d.Dialect, Provider: "sim", Model: "author",
		NoProgressN: int(pick(0, 2, 3, 5)), MaxTurns: pick(0, 0, 3, 10), ExemptFinal: w.rnd.IntN(2) == 0, Repairs: pick(0, 1, 2, 2),
		Recovery:     []string{messages.RecoverResume, messages.RecoverResume, messages.RecoverHalt}[w.rnd.IntN(3)],
		ApprovalWait: time.Duration(pick(0, 20, 3600)) * time.Second,
		OnPanic:      []string{messages.PanicHalt, messages.PanicFail}[w.rnd.IntN(2)],
		Durability:   []turn.Durability{turn.Strict, turn.Checkpoint, turn.WholeUnit}[w.rnd.IntN(3)],
		Limits: turn.Limits{
			ProgramWall: time.Duration(pick(0, 2, 30)) * time.Second, GenerationWall: time.Duration(pick(0, 5, 300)) * time.Second,
			TurnWall: time.Duration(pick(0, 20, 900)) * time.Second, RunWall: time.Duration(pick(0, 120, 3600)) * time.Second,
			Actions: pick(0, 5, 256), Tokens: pick(0, 0, 200), CostMicroUSD: pick(0, 0, 200),
		},
	}
	c.gave = map[string]map[messages.Digest]string{}
	if c.tends = w.rnd.IntN(3) == 0; c.tends || w.rnd.IntN(3) == 0 {
		for _, f := range manifestFeeds {
			if w.rnd.IntN(3) > 0 {
				c.feeds = append(c.feeds, f)
			}
		}
	}
	c.rules.Feeds, c.rules.Environment = feedIDs(c.feeds), []string{environmental}
	c.rules.Spends = spends
	c.rules.Target, c.rules.Limits.Parallel = target, int(pick(0, 1, 2))
	if d.groups {
		c.rules.Rollback = turn.Rollback{Error: w.rnd.IntN(4) > 0, Halt: w.rnd.IntN(2) == 0, Cancel: w.rnd.IntN(2) == 0, Unknown: w.rnd.IntN(3) == 0}
	}
	c.holds(4)
	c.history = c.newAudit()
	if most := d.Traits().MaxTurns; most > 0 {
		c.rules.MaxTurns = most
	}
	if d.Name() == "plain" && d.forgive.Has(parse.HabitSilence) { // one more for a reply that said nothing
		c.rules.MaxTurns = 2
	}
	w.stats.Sessions++
	return c
}

// policies are what a submit may say; the last one is unknown.
var policies = []messages.Policy{
	"", "", messages.Enqueue, messages.Enqueue, messages.Enqueue, messages.Reject, messages.Reject, messages.Interrupt, messages.Rollback,
	messages.Merge, messages.Merge, messages.Debounce, messages.Debounce, "odd",
}

// ask has a user do something, at the door of h.
func (c *client) ask(h *host) {
	if s := h.wake(c); s != nil {
		c.asks(s, &asked{})
	}
}

// asks has a user do something at a session that is awake.
func (c *client) asks(s *shell, a *asked) {
	w, h := c.w, s.host
	c.last++
	handle := c.last
	if a.req == nil && w.happens(w.weather.cancel) {
		a.cancel = true
		run := int64(0)
		if runs := s.machine.State().Runs; runs > 0 && w.rnd.IntN(3) == 0 {
			run = 1 + w.rnd.Int64N(runs)
		}
		c.asked[handle] = a
		w.log.say("client %d cancels run %d on host %d", c.n, run, h.n)
		s.step(&turn.Cancel{Handle: handle, By: "user", Run: run})
		s.endTurn()
		return
	}
	if a.req == nil && c.approve(s, a, handle) {
		return
	}
	in := a.in
	if a.req == nil {
		in = c.input()
	}
	a.in = in
	c.asked[handle] = a
	w.log.say("client %d submits on host %d", c.n, h.n)
	if s.machine.State().Seq == 0 || w.reopens {
		s.step(&turn.Open{Name: "sim"})
	}
	if !s.dead {
		s.step(&turn.Submit{Handle: handle, Input: in})
	}
	s.endTurn()
}

// input is what a user says.
func (c *client) input() messages.Input {
	w := c.w
	policy := policies[w.rnd.IntN(len(policies))]
	if c.favours != "" && w.rnd.IntN(2) == 0 {
		policy = c.favours
	}
	in := messages.Input{
		Text: "hello " + fmt.Sprint(w.rnd.IntN(100)), User: "u",
		Policy: policy,
		Key:    []string{"", "", fmt.Sprintf("k%d", w.rnd.IntN(40))}[w.rnd.IntN(3)],
	}
	in, err := c.dialect.input(in)
	if err != nil {
		w.violated("step", "the dialect refuses a text: %v", err)
	}
	return in
}

// approve has a user answer a question that is open, or one that is not; false when
// no request is open.
func (c *client) approve(s *shell, a *asked, handle uint64) bool {
	w := c.w
	in := &turn.Approve{Handle: handle, Answer: messages.GateApprove, By: "ann"}
	open := false
	if run := s.machine.State().Open; run != nil && run.Turn != nil {
		for _, act := range run.Turn.Actions {
			if q := act.Question; q != nil && q.Answer == "" {
				in.Approval, in.Digest = q.ID, s.audit.shown[q.ID]
				open = s.host.now().UnixNano() < q.Expires
			}
		}
	}
	if in.Approval == "" {
		if c.question == "" || !w.happens(100) {
			return false
		}
		in.Approval = c.question // long over
	}
	c.question = in.Approval
	switch n := w.rnd.IntN(10); {
	case n < 3:
		in.Answer, in.Reason = messages.GateDeny, "no"
	case n < 4 && !w.calm:
		in.Digest[0] ^= 1
		open = false
	case n < 5 && !w.calm:
		in.By = ""
		open = false
	case n < 6 && !w.calm:
		in.Approval = "forged"
		open = false
	}
	a.approval, a.open = true, open
	c.asked[handle] = a
	w.log.say("client %d answers question %s on host %d", c.n, in.Approval, s.host.n)
	s.step(in)
	s.endTurn()
	return true
}

// answered takes an answer at the door.
func (c *client) answered(s *shell, e *turn.Answer) {
	a := c.asked[e.Handle]
	if a == nil {
		if e.Handle != 0 {
			c.w.violated("order", "handle %d is answered without a request, or twice", e.Handle)
		}
		return
	}
	delete(c.asked, e.Handle)
	if a.back != nil {
		a.back(settled)
	}
	if a.by != nil {
		a.by.delegation.answered(a, e)
	}
	if a.approval {
		if (e.Err == nil) != a.open {
			c.w.violated("effect", "an answer that counts: %v; it is answered with %v", a.open, e.Err)
		}
		return
	}
	if e.Err != nil {
		if messages.CodeOf(e.Err) == "" {
			c.w.violated("step", "a refusal without a code: %v", e.Err)
		}
		return
	}
	if a.cancel {
		c.cancelled = append(c.cancelled, e.Run)
		return
	}
	a.run, a.seq, a.joined = e.Run, e.Seq, e.Joined
	if !e.Joined && e.Merged != s.audit.joined[e.Seq] {
		c.w.violated("order", "input %d is answered as joining run %d: %v", e.Seq, e.Run, e.Merged)
	}
	c.promised = append(c.promised, a)
}

// saw takes a record that was shown. It must be on the disk, from whatever source it is shown.
func (c *client) saw(r *messages.Record) {
	if !c.onDisk(r.Inc, r.Seq, r.Hash) {
		c.w.violated("order", "record %d %s of session %d is shown before it is on the disk", r.Seq, r.Body.Kind(), c.n)
	}
	if r.Seq > c.seen.Seq {
		c.seen, c.inc = journal.Anchor{Seq: r.Seq, Hash: r.Hash}, r.Inc
	}
}

// onDisk reports whether the disk has that very record.
func (c *client) onDisk(inc messages.Incarnation, seq int64, hash messages.Digest) bool {
	r := c.record(inc, seq)
	return r != nil && r.Hash == hash
}

// record reads one record from the disk, nil when it is not there.
func (c *client) record(inc messages.Incarnation, seq int64) *messages.Record {
	for r, err := range c.w.disk.Read(bg, inc, seq, seq) {
		if err == nil && r.Seq == seq {
			return r
		}
	}
	return nil
}

// written reads what came to the disk as a stranger would, and holds it against what
// the outside knows.
func (w *world) written(b *journal.Batch) {
	for _, c := range w.clients {
		if c.sid != b.SID {
			continue
		}
		for _, r := range b.Records {
			if end, ok := r.Body.(*messages.ActionEnded); ok {
				if call := c.history.call(r.Turn, end.ID); call != nil {
					w.outside.recorded(w, action(c, b.Inc, r.Turn, end.ID, call.args), call.class, call.attempts > 0, end)
				}
			}
			if err := c.history.apply(r); err != nil {
				w.violated("history", "record %d %s: %v", r.Seq, r.Body.Kind(), err)
			}
			if err := w.family(c, r); err != nil {
				w.violated("family", "record %d %s of session %d: %v", r.Seq, r.Body.Kind(), c.n, err)
			}
		}
	}
}

// remembered checks after a crash that nothing shown was forgotten.
func (w *world) remembered() {
	for _, c := range w.clients {
		if c.seen.Seq > 0 && !c.onDisk(c.inc, c.seen.Seq, c.seen.Hash) {
			w.violated("forgotten", "record %d of session %d was shown and is gone", c.seen.Seq, c.n)
		}
	}
}

// judge looks at the session at rest: the journal from its first byte, and every
// promise.
func (c *client) judge(sum hash.Hash) {
	w := c.w
	head, err := w.disk.Head(bg, c.sid)
	if journal.IsNotFound(err) {
		if len(c.promised) > 0 || c.seen.Seq > 0 {
			w.violated("forgotten", "session %d is gone", c.n)
		}
		return
	}
	if err != nil {
		w.violated("chain", "%v", err)
	}
	rep := journal.Verify(w.disk.Read(bg, head.Inc, 0, 0), journal.VerifyOptions{
		SID: c.sid, Inc: head.Inc, Keys: seal{}, Receipts: c.policy, Head: journal.Anchor{Seq: head.Seq, Hash: head.Hash},
	})
	if !rep.OK() || rep.Missing > 0 {
		w.violated("chain", "verify finds %d problems, %d receipts missing: %+v", rep.Found, rep.Missing, rep.Problems)
	}
	_, recs, err := journal.Load(bg, w.disk, head.Inc)
	if err != nil {
		w.violated("chain", "%v", err)
	}
	a := c.newAudit()
	var line []byte
	ends := map[int64]int{}
	inputs := map[int64]*messages.Record{}
	for _, r := range recs {
		if err := a.apply(r); err != nil {
			w.violated("history", "record %d %s: %v", r.Seq, r.Body.Kind(), err)
		}
		line = append(journal.AppendRecord(line[:0], r), '\n')
		sum.Write(line)
		switch b := r.Body.(type) {
		case *messages.RunBegin:
			w.stats.Gathered += int64(len(b.Merged))
		case *messages.TurnBegin:
			w.stats.Merged += int64(len(b.Merged))
		case *messages.RunEnd:
			ends[r.Run]++
			if b.Output != "" {
				w.stats.Answered++
			}
			w.stats.Runs++
		case *messages.Input:
			inputs[r.Seq] = r
		case *messages.TurnDecided:
			w.stats.Turns++
			w.stats.Decisions[b.Decision]++
			if b.Reason != "" {
				w.stats.Reasons[b.Reason]++
			}
			if b.Resumed {
				w.stats.Resumed++
			}
			if b.Repair {
				w.stats.Repaired++
				if b.Reason == messages.ErrModel {
					w.stats.Carried++
				}
			}
			c.stood(r, b, a.nonce)
			// What comes twice, or a signer that is away, makes a program another one.
			if strings.HasPrefix(b.Detail, "diverged") && w.weather.repeat == 0 && w.weather.fault == 0 {
				w.violated("projection", "turn %d was restored and %s", r.Turn, b.Detail)
			}
		case *messages.Lint:
			if forgiven[b.Code] {
				w.stats.Forgiven++
			}
		case *messages.ModelRequest:
			if b.Mode == messages.ModelResume {
				if w.stats.Talked++; b.Sent < b.Messages {
					w.stats.Continued++
				}
			}
		case *messages.ModelSession:
			switch b.What {
			case messages.SessionDiverged:
				w.stats.Diverged++
			case messages.SessionFallback:
				w.stats.Fell++
			}
		case *messages.Retract:
			if c.dialect.controls {
				w.stats.TakenBack++
			} else {
				w.stats.Replaced++
			}
		case *messages.BlockEnded:
			if b.State == messages.ActionOK {
				w.stats.Blocks++
			} else {
				w.stats.Broken++
			}
		case *messages.ActionChunk:
			w.stats.Pieces++
		case *messages.RelicChanged:
			w.stats.Kept++
		case *messages.FeedInjected:
			if w.stats.Fed++; b.Error != "" || b.Stale {
				w.stats.Unfed++
			}
		case *messages.TurnRestored:
			w.stats.Restored++
		case *messages.TurnSuspended:
			w.stats.Suspended++
		case *messages.ActionEnded:
			w.stats.Actions++
			switch b.State {
			case messages.ActionUnknown:
				w.stats.Unknown++
			case messages.ActionSkipped:
				w.stats.Skipped++
			}
			w.stats.Delegated += int64(len(b.Children))
			if c := a.call(r.Turn, b.ID); c != nil && c.undoes && b.State == messages.ActionOK {
				w.stats.Undone++
			} else if c != nil && c.of != "" && b.State == messages.ActionOK {
				w.stats.Instances++
			}
			if b.Reason == messages.BranchNotTaken {
				w.stats.Untaken++
			}
			if r.Turn != a.turn {
				w.stats.Detached++
			} else if c := a.calls[b.ID]; c != nil && c.typ == messages.TypeInternal && b.State == messages.ActionOK {
				w.stats.Stored++
			}
		case *messages.ActionStarted:
			if b.Failure == turn.ReasonTakenBack {
				w.stats.Rejoined++
			} else if b.Failure != "" && b.Failure != "crash" {
				w.stats.Retried++
			}
		}
		w.stats.Records++
	}
	if err := once(inputs); err != nil {
		w.violated("lease", "session %d: %v", c.n, err)
	}
	if len(a.left) > 0 {
		w.violated("rest", "session %d is at rest and %d detached actions have no end", c.n, len(a.left))
	}
	if len(a.waiting) > 0 || a.run != 0 || a.turn != 0 {
		w.violated("rest", "session %d is at rest and %d runs have no end", c.n, len(a.waiting))
	}
	for _, p := range c.promised {
		in := inputs[p.seq]
		if in == nil || in.Run != p.run && a.moved[p.seq] != p.run || !p.joined && !sameInput(in.Body.(*messages.Input), &p.in) {
			w.violated("forgotten", "run %d of session %d was accepted as record %d and is not there", p.run, c.n, p.seq)
		}
		for _, run := range []int64{p.run, cmp.Or(a.moved[p.seq], p.run)} {
			if ends[run] != 1 {
				w.violated("rest", "run %d of session %d has %d ends", run, c.n, ends[run])
			}
		}
	}
}

func sameInput(have, want *messages.Input) bool {
	return have.Text == want.Text && have.Userdata == want.Userdata && have.Key == want.Key && have.User == want.User
}

// stood checks what a decision of the journal stands on.
func (c *client) stood(r *messages.Record, b *messages.TurnDecided, nonce string) {
	w := c.w
	if b.JTI == "" {
		if c.dialect.Name() == "aeiou" && b.Decision != messages.Halt {
			w.violated("decision", "turn %d is %s without a token", r.Turn, b.Decision)
		}
		return
	}
	t := c.minted[b.JTI]
	if t == nil || t.Turn != r.Turn || t.Nonce != nonce {
		w.violated("decision", "turn %d is decided by token %s, which is not its own", r.Turn, b.JTI)
	}
	if t.used != 0 {
		w.violated("decision", "token %s decides turns %d and %d", b.JTI, t.used, r.Turn)
	}
	t.used = r.Turn
	if b.Decision != messages.Halt && !strings.EqualFold(string(b.Decision), t.action) {
		w.violated("decision", "turn %d is %s by a token of %s", r.Turn, b.Decision, t.action)
	}
}

// seal makes receipts that cost nothing and can be told from forged ones.
type seal struct{}

// Receipt implements journal.Signer.
func (seal) Receipt(inc string, seq int64, hash [32]byte, _ time.Time) (*messages.Receipt, error) {
	return &messages.Receipt{KID: "sim", Sig: append([]byte(fmt.Sprintf("%s %d ", inc, seq)), hash[:]...)}, nil
}

// VerifyReceipt implements journal.ReceiptKeys.
func (s seal) VerifyReceipt(kid, inc string, seq int64, hash [32]byte, sig []byte, ts time.Time) error {
	want, _ := s.Receipt(inc, seq, hash, ts)
	if kid != want.KID || string(sig) != string(want.Sig) {
		return fmt.Errorf("the receipt of record %d is another's", seq)
	}
	return nil
}

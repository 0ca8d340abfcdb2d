package sim

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// shell is one activation of one session on one host: what actors are outside of
// a simulation, with the same order of doing things.
//
//	dead  ⇒  nothing of it reaches anyone any more
type shell struct {
	host   *host
	client *client
	inc    messages.Incarnation
	epoch  int64
	dead   bool

	machine *turn.Machine
	drive   driver.Driver
	sealer  *journal.Sealer
	replay  *token.ReplaySet
	folded  turn.State // of the records as they are encoded
	audit   *audit     // of the same

	base int64              // seq of the head it was loaded at
	own  []*messages.Record // made since

	// The turn that the shell has children of.
	of        turn.Ident
	flies     bool
	model     *model
	program   *program
	attempts  []*attempt
	gates     map[string]messages.GateAnswer    // by action
	slow      []turn.Input                      // answers of the gate and the verifier that take their time
	shown     map[string]string                 // by unit
	latest    map[messages.Kind]messages.UnitID // that was shown, of a kind; without blocks of any
	plots     plots                             // control blocks of the reply in flight
	flowing   map[string]string                 // by leftID: what was shown of the result
	written   map[string]*messages.Action       // by leftID: as the model wrote them
	said      map[string]string                 // by unit: the same of texts
	explicit  map[string]bool                   // units that say themselves that they are final
	responses []string                          // of these units, those of responses of the turn in flight
	calls     map[uint64]*relicCall             // of relics, that wait for the machine
	lastCall  uint64
	fetches   []*fetch             // of feeds, on their way
	ticks     map[string]time.Time // of periodic feeds: when the next one is due

	talk *talk // with the provider; nil without

	settle  *turn.Settle // of what was open when it was loaded
	settles int64        // the turn that was open then
	orphan  bool         // no action waits for its run any more

	past      []turn.Input // said before: to be said again
	published int64
	snapped   int64
}

// begin settles what a dead process left open.
func (s *shell) begin() {
	if s.machine.Unsettled() {
		if s.host.w.happens(10 * s.host.w.weather.disk) { // the reply cannot be read back
			s.settle = &turn.Settle{Run: s.settle.Run}
		}
		s.step(s.settle)
	}
	s.settle = nil
	s.disown()
	s.endTurn()
}

// step lets the machine decide and does what it says, until nothing is left that
// can be done without waiting.
func (s *shell) step(inputs ...turn.Input) {
	if s.dead || s.lost() || !s.drive.Begin(inputs...) {
		return
	}
	defer s.drive.End()
	for op := s.drive.Next(s.client.follows); op != driver.Idle; op = s.drive.Next(s.client.follows) {
		if op == driver.Send {
			s.send()
			continue
		}
		s.one()
	}
}

// one is one step of the machine.
func (s *shell) one() {
	w := s.host.w
	w.stats.Steps++
	late := s.machine.Dropped()
	noRandom := w.entropy.fails
	stepped, err := s.drive.Step(s.host.now())
	in, effects := stepped.Input, stepped.Effects
	if w.log != nil {
		w.log.say("%d.%d %s", s.host.n, s.client.n, describe(in))
	}
	if err != nil {
		if noRandom && !w.entropy.fails { // nothing was recorded; the supervisor restarts the session
			s.owe()
			s.discard()
			return
		}
		w.violated("step", "%s in %s: %v", describe(in), s.machine.Phase(), err)
	}
	w.stats.Late += s.machine.Dropped() - late
	if call, ok := in.(*turn.RelicCall); ok {
		i := slices.IndexFunc(effects, func(e turn.Effect) bool { _, ok := e.(*turn.AnswerRelic); return ok })
		if i < 0 {
			w.violated("step", "%s is not answered", describe(in))
		}
		s.answersShelf(call, effects[i].(*turn.AnswerRelic))
	}
	persisted := false
	for _, e := range effects {
		if w.log != nil {
			w.log.say("     %s", describeEffect(e))
		}
		switch e := e.(type) {
		case *turn.Persist:
			persisted = true
			s.record(e.Record)
		case *turn.AskGate:
			if c := s.audit.call(e.Turn, e.ID); c != nil {
				c.asked = true
			}
		case *turn.Answer:
			a := s.client.asked[e.Handle]
			if run := s.audit.of[e.Seq]; e.Err == nil && a != nil && !a.cancel && !a.approval && run != e.Run {
				w.violated("history", "input %d is of run %d, and is answered as of run %d", e.Seq, run, e.Run)
			}
		case *turn.Publish:
			if s.client.rules.Durability == turn.Strict && e.Update.Delta.Kind != messages.ResultText && e.After < s.audit.chunk {
				w.violated("order", "a delta waits for record %d, its bytes are in record %d", e.After, s.audit.chunk)
			}
			if why := s.audit.delta(e, s.base); why != nil {
				w.violated("order", "%v", why)
			}
		}
	}
	s.parts(effects)
	s.agree(persisted)
	for _, e := range stepped.Ready {
		s.perform(e)
	}
}

// record folds a record as the journal will give it back, and judges it.
func (s *shell) record(r *messages.Record) {
	w := s.host.w
	body, err := journal.DecodeBody(r.Body.Kind(), journal.AppendBody(nil, r.Body))
	if err != nil {
		w.violated("projection", "record %d: %v", r.Seq, err)
	}
	back := *r
	back.Body = body
	a := s.audit
	s.own = append(s.own, r)
	if end, ok := body.(*messages.ActionEnded); ok && w.forgets && a.call(r.Turn, end.ID) != nil {
		a.call(r.Turn, end.ID).ended = true
	}
	if err := cmp.Or(a.apply(&back), s.stands(&back)); err != nil {
		w.violated("history", "record %d %s: %v", r.Seq, r.Body.Kind(), err)
	}
	if b, ok := body.(*messages.ActionDeclared); ok && a.streams && b.Compensates == "" {
		by := s.written[leftID(r.Turn, written(b.ID))]
		if by == nil || by.Type != b.Type || by.Mode != b.Mode && (b.Type != messages.TypeInternal || b.Mode != messages.ModeSync) || by.Name != b.Name || by.Args != b.Args ||
			by.OutputKey != b.OutputKey || !slices.EqualFunc(by.DependsOn, b.DependsOn, func(x, y string) bool { return x == written(y) }) || cmp.Or(b.OnError, messages.OnErrorFail) != by.OnError {
			w.violated("history", "record %d declares %+v, the reply has %+v", r.Seq, b, by)
		}
	}
	if b, ok := body.(*messages.UnitText); ok && b.Complete {
		if err := s.isSaid(b); err != nil {
			w.violated("history", "record %d: %v", r.Seq, err)
		}
	}
	if _, ok := body.(*messages.RunEnd); ok && w.slips {
		back.Body = &messages.Note{}
	}
	if err := s.folded.Apply(&back); err != nil {
		w.violated("projection", "%v", err)
	}
}

// agree checks the machine against the records.
func (s *shell) agree(persisted bool) {
	w := s.host.w
	state := s.machine.State()
	if (persisted || w.stats.Steps%8 == 0) && !reflect.DeepEqual(state, &s.folded) {
		if a, b := encoded(w, state), encoded(w, &s.folded); !bytes.Equal(a, b) {
			w.violated("projection", "the machine's state is not the fold of the records\n%s\n%s", a, b)
		}
	}
	if err := cmp.Or(s.audit.holds(state.Variables), s.audit.stands(state.Relics), s.audit.keeps(&state.Feeds)); err != nil {
		w.violated("projection", "%v", err)
	}
	id, flying := s.machine.Flight()
	flying = flying && !w.doubles
	if flying != (s.machine.Phase() != turn.Idle) {
		w.violated("single-flight", "phase %s, in flight %v", s.machine.Phase(), flying)
	}
	if s.machine.Unsettled() {
		w.violated("rest", "nothing flies, and %d runs wait", len(s.audit.waiting))
	}
	if flying && (s.audit.turn != id.Turn || s.audit.nonce != id.Nonce) {
		w.violated("single-flight", "turn %d is in flight, the records have turn %d open", id.Turn, s.audit.turn)
	}
	if phase := s.machine.Phase(); phase == turn.Generating || phase == turn.Running {
		if err := cmp.Or(s.audit.idles(), s.lingers()); err != nil {
			w.violated("history", "%v", err)
		}
	}
	if !flying && s.audit.turn != 0 && !s.machine.Unsettled() {
		w.violated("single-flight", "turn %d is open and nothing flies", s.audit.turn)
	}
}

// endTurn lets go of a turn that is over.
func (s *shell) endTurn() {
	if s.dead {
		return
	}
	if s.drive.Resting() {
		s.left()
		s.land()
		s.drive.EndTurn()
		for c := range turn.NumClocks {
			if s.drive.Running(c) && !(c == turn.ClockDebounce && s.machine.State().Window != nil) {
				s.host.w.violated("step", "%s runs in an idle session", c)
			}
		}
	}
	if !s.drive.Busy() {
		s.drive.Rest()
	}
}

// sleepIdle puts idle sessions to sleep, leaving a snapshot.
func (h *host) sleepIdle() {
	for i, s := range h.shells {
		if s == nil || s.drive.Busy() {
			continue
		}
		if state := s.machine.State(); state.Seq > s.snapped && h.w.rnd.IntN(3) > 0 {
			at, b := s.sealer.Head(), encoded(h.w, state)
			if h.w.happens(2 * h.w.weather.power) { // the power fails before it is synced
				b, s.client.torn = b[:h.w.rnd.IntN(len(b))], at.Seq
			}
			err := h.w.disk.PutSnapshot(bg, s.inc, journal.Snapshot{Seq: at.Seq, Hash: at.Hash, Format: turn.StateFormat, State: b})
			// An owner that was superseded finds another record there, or none.
			if err != nil && journal.ReasonOf(err) != journal.ReasonInvalid {
				h.w.violated("step", "snapshot: %v", err)
			}
		}
		h.w.log.say("host %d: session %d sleeps", h.n, i)
		s.stop()
		h.shells[i] = nil
	}
}

// send seals and hands over what is held.
func (s *shell) send() {
	w := s.host.w
	noRandom := w.entropy.fails
	if err := s.sealer.Seal(s.drive.Unsealed(), s.host.now()); err != nil {
		if noRandom && !w.entropy.fails {
			s.owe()
			s.discard()
			return
		}
		w.violated("chain", "sealing: %v", err)
	}
	s.drive.Sealed()
	b, ok := s.drive.Batch()
	if !ok {
		return
	}
	s.host.append(journal.Batch{SID: s.client.sid, Inc: s.inc, ExpectSeq: b.Base, Epoch: s.epoch, Records: b.Records, Blobs: b.Blobs}, s)
	if w.early {
		s.acknowledge(driver.Position(s.sealer.Head()))
	}
}

// acknowledge releases what waited for the records up to at.
func (s *shell) acknowledge(at driver.Position) {
	for _, e := range s.drive.Acked(at) {
		s.perform(e)
	}
}

// acknowledged takes the journal's answer.
func (s *shell) acknowledged(at driver.Position, err error) {
	if s.dead || s.host.w.early && err == nil || s.lost() {
		return
	}
	w := s.host.w
	if err != nil {
		w.log.say("host %d: session %d: the journal refuses: %v", s.host.n, s.client.n, err)
		if code := messages.CodeOf(err); code != messages.ErrFenced && code != messages.ErrJournal {
			w.violated("step", "the journal refuses with %v", err)
		}
		s.owe()
		s.discard()
		return
	}
	w.log.say("host %d: session %d: acknowledged to %d", s.host.n, s.client.n, at.Seq)
	s.acknowledge(at)
	s.again(nil)
}

// again runs the step loop for what effects have queued, and for in.
func (s *shell) again(in turn.Input) {
	if in != nil {
		s.step(in)
	} else {
		s.step()
	}
	s.endTurn()
}

// discard ends this activation: what was not committed did not happen.
func (s *shell) discard() {
	s.stop()
	if s.host.shells[s.client.n] == s {
		s.host.shells[s.client.n] = nil
	}
}

// stop lets go of everything. What was begun outside goes on there.
func (s *shell) stop() {
	if s.dead {
		return
	}
	s.land()
	s.dead = true
	s.host.leaves(s)
	s.drive.Stop()
	for _, a := range s.attempts {
		a.stop()
	}
	if s.talk != nil {
		s.talk.close()
	}
}

// land ends the turn's children. A detached action goes on.
func (s *shell) land() {
	if !s.flies {
		return
	}
	s.flies = false
	if s.model != nil && !s.model.over {
		s.model.leaves(false)
	}
	if s.program != nil {
		s.program.halt()
	}
	var left []*attempt
	for _, a := range s.attempts {
		if (a.start.Detached || a.start.Type == messages.TypeAgent) && !a.over {
			left = append(left, a) // an agent is still to be stopped
		} else {
			a.stop()
		}
	}
	s.model, s.program, s.attempts, s.slow = nil, nil, left, nil
}

// ring feeds the clocks that ran out and sends lazy records that are due.
func (s *shell) ring() {
	now := s.host.now()
	s.tick()
	if s.talk != nil {
		s.talk.rests(now)
	}
	if open := s.machine.State().Open; !s.dead && open != nil && open.Turn != nil && open.Turn.Suspended && open.Turn.Until <= now.UnixNano() &&
		(s.host.w.calm || s.host.w.rnd.IntN(3) == 0) { // who wakes it may be late
		s.step(&turn.Expire{})
	}
	for _, in := range s.drive.Due(now) {
		s.step(in)
		if _, due := in.(*turn.Due); due && s.host.w.happens(5*s.host.w.weather.repeat) {
			s.step(in)
		}
	}
	if s.drive.Overdue(now) {
		s.send()
		s.step()
	}
	s.endTurn()
}

// stirs reports whether some child has something to say.
func (s *shell) stirs() bool { return len(s.ready()) > 0 }

// ready lists what can go on: each gives its next input, or nil.
func (s *shell) ready() (all []func() turn.Input) {
	if s.dead {
		return nil
	}
	calm := s.host.w.calm
	if m := s.model; m != nil && !m.over && (!m.silent && !m.held || m.cancelled || calm && !m.held) {
		all = append(all, m.goOn)
	}
	if p := s.program; p != nil && p.ready() {
		all = append(all, p.goOn)
	}
	for _, a := range s.attempts {
		if a.ready() {
			all = append(all, a.goOn)
		}
	}
	for i, f := range s.fetches {
		if calm || !s.host.now().Before(f.until) {
			all = append(all, func() turn.Input {
				s.fetches = slices.Delete(s.fetches, i, i+1)
				return f.in
			})
		}
	}
	if len(s.slow) > 0 {
		all = append(all, func() turn.Input {
			in := s.slow[0]
			s.slow = s.slow[1:]
			return in
		})
	}
	return all
}

// stir lets one child go on.
func (s *shell) stir() {
	w := s.host.w
	all := s.ready()
	in := all[w.rnd.IntN(len(all))]()
	if in == nil {
		return
	}
	// A model's words come once: their repetition looks like more words.
	_, words := in.(*turn.Decoded)
	_, piece := in.(*turn.ActionChunk)
	_, talk := in.(*turn.ModelTalk)
	if req, ok := in.(*turn.ModelOpened); ok {
		talk = req.Request.Mode == messages.ModelResume
	}
	if w.rnd.IntN(8) == 0 && !words && !piece && !talk {
		if len(s.past) == 8 {
			s.past = s.past[1:]
		}
		s.past = append(s.past, in)
	}
	s.again(in)
}

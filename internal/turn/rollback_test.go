package turn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/cortex"
)

// A world answers what a session with groups asks of it: the model speaks, the gate judges,
// actions end, people answer, clocks ring, and the process dies. It notes from outside what was
// begun: a compensation must not happen twice.
type world struct {
	t    testing.TB
	r    *rig
	rnd  *rand.Rand
	seed uint64

	dialect parse.Dialect
	decoder parse.Decoder
	replies []string // of the turns, the last one again and again
	left    string   // what the model has left to say
	speaks  Ident
	doing   []Input // what could happen next
	starts  map[string]int
	classes map[string]messages.Class
	keys    map[string]string // by compensation
	wild    bool              // things fail, wait and are cancelled
	cut     int64             // the process dies when the journal has so many records; 0: at random
	deaths  int
	undone  int
}

func newWorld(t testing.TB, seed uint64, rules Rules, replies ...string) *world {
	w := &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 7)), seed: seed, replies: replies, dialect: cortex.Dialect{Extensions: cortex.ExtRollback | cortex.ExtIf | cortex.ExtParallel},
		starts: map[string]int{}, classes: map[string]messages.Class{}, keys: map[string]string{},
	}
	rules.Judge, rules.Target, rules.Durability = w.dialect, targets, Checkpoint
	w.r = newRig(t, rules, seed)
	w.step(&Open{Name: "w"})
	w.step(&Submit{Handle: 1, Input: messages.Input{Text: "go", User: "u"}})
	return w
}

func (w *world) step(in Input) {
	w.t.Helper()
	_, ready, err := w.r.step(in)
	if err != nil {
		w.t.Fatalf("seed %d: %s: %v", w.seed, in.input(), err)
	}
	w.perform(ready)
}

func (w *world) ack(seq int64) { w.perform(w.r.ack(seq)) }

func (w *world) perform(effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case *OpenModel:
			w.speaks, w.decoder = e.Ident, w.dialect.NewDecoder(messages.TurnInfo{Turn: e.Turn})
			w.left = w.replies[min(int(e.Turn)-1, len(w.replies)-1)]
			w.doing = append(w.doing, &ModelOpened{Ident: e.Ident})
		case *CancelModel:
			w.left, w.speaks = "", Ident{}
		case *AskGate:
			in := &Judged{Ident: e.Ident, ID: e.ID, Answer: messages.GateApprove, By: "policy"}
			if w.wild {
				switch w.rnd.IntN(8) {
				case 0:
					in.Answer, in.Reason = messages.GateDeny, "no"
				case 1:
					in.Answer = messages.GateConfirm
				}
			}
			w.doing = append(w.doing, in)
		case *StartAction:
			if strings.HasPrefix(e.ID, UndoPrefix) {
				w.undone++
				w.starts[e.Key]++
				w.classes[e.Key] = e.Class
				if e.Class == messages.Effectful && w.starts[e.Key] > 1 {
					w.t.Fatalf("seed %d: %s happens twice", w.seed, e.ID)
				}
				if was := w.keys[e.ID]; was != "" && was != e.Key {
					w.t.Fatalf("seed %d: %s has two keys", w.seed, e.ID)
				}
				w.keys[e.ID] = e.Key
			}
			in := &ActionEnded{Ident: e.Ident, ID: e.ID, Attempt: e.Attempt, State: messages.ActionOK, Result: `{"ref":"` + e.ID + `"}`}
			if strings.HasPrefix(e.Name, "rfail") || w.wild && w.rnd.IntN(8) == 0 {
				in.State, in.Result, in.Reason = messages.ActionFailed, "", "no"
				if w.wild && w.rnd.IntN(2) == 0 {
					in.Failure = 5 // timed out
				}
			}
			if !w.wild || w.rnd.IntN(15) > 0 { // else it hangs
				w.doing = append(w.doing, in)
			}
		case *CancelAction:
			state := messages.ActionCancelled
			if w.rnd.IntN(2) == 0 {
				state = messages.ActionUnknown
			}
			w.doing = append(w.doing, &ActionEnded{Ident: e.Ident, ID: e.ID, State: state, Reason: "cancelled"})
		case *Schedule:
			w.doing = append(w.doing, &Due{Ident: e.Ident, ID: e.ID, Attempt: e.Attempt})
		}
	}
}

// speak says a part of the reply.
func (w *world) speak() {
	id := w.speaks
	if w.left == "" {
		w.speaks = Ident{}
		in := &ReplyEnd{Ident: id, Finish: messages.FinishComplete}
		w.decoder.End(in.Finish, func(ev messages.Event) { in.Events = append(in.Events, ownEvent(ev)) })
		w.step(in)
		return
	}
	n := 1 + w.rnd.IntN(len(w.left))
	in := &Decoded{Ident: id, Bytes: []byte(w.left[:n])}
	w.left = w.left[n:]
	w.decoder.Push(in.Bytes, func(ev messages.Event) { in.Events = append(in.Events, ownEvent(ev)) })
	w.step(in)
}

// answer has a person answer an open question.
func (w *world) answer() bool {
	open := w.r.m.State().Open
	if open == nil || open.Turn == nil {
		return false
	}
	for _, a := range open.Turn.Actions {
		if a.Question != nil && a.Question.Answer == "" {
			in := &Approve{Handle: 3, Approval: a.Question.ID, Answer: messages.GateApprove, By: "ann", Digest: a.AskDigest()}
			if w.rnd.IntN(3) == 0 {
				in.Answer = messages.GateDeny
			}
			w.step(in)
			return true
		}
	}
	return false
}

// die ends the process; the journal has its first seq records.
func (w *world) die(seq int64) {
	w.deaths++
	w.r.box = NewOutbox(seq)
	w.r.shown = seq
	w.r.activate()
	w.doing, w.left, w.speaks = nil, "", Ident{}
	if w.r.m.Unsettled() {
		w.step(w.r.recorded())
	}
}

// rings has time pass until a clock rings.
func (w *world) rings() bool {
	next := w.r.due(w.r.now.Add(100 * time.Hour))
	if next == nil {
		return false
	}
	w.r.now = next.At
	w.r.timers[next.Clock] = nil
	w.step(&Timer{Clock: next.Clock, Gen: next.Gen})
	return true
}

// run lets things happen until the run is over.
func (w *world) run() {
	for i := 0; w.r.m.State().Open != nil; i++ {
		if i > 3000 {
			w.t.Fatalf("seed %d: the run does not end, in %s", w.seed, w.r.m.Phase())
		}
		if w.cut > 0 && w.deaths == 0 && int64(len(w.r.log)) >= w.cut {
			w.die(w.cut)
			continue
		}
		w.ack(int64(len(w.r.log)))
		switch n := w.rnd.IntN(40); {
		case w.wild && n == 0:
			w.die(w.r.box.Acked())
		case w.wild && n == 1:
			w.step(&Cancel{Handle: 2, By: "user"})
		case w.wild && n == 2:
			w.rings()
		case w.speaks != (Ident{}) && (n < 20 || len(w.doing) == 0) && w.begins():
			w.speak()
		case len(w.doing) > 0:
			j := w.rnd.IntN(len(w.doing))
			if _, opens := w.doing[0].(*ModelOpened); opens {
				j = 0
			}
			in := w.doing[j]
			w.doing = slices.Delete(w.doing, j, j+1)
			w.step(in)
		case w.answer(), w.rings():
		default:
			w.t.Fatalf("seed %d: nothing can happen any more, in %s", w.seed, w.r.m.Phase())
		}
	}
	w.ack(int64(len(w.r.log)))
}

// begins reports whether the model has begun to speak.
func (w *world) begins() bool {
	if len(w.doing) == 0 {
		return true
	}
	_, opens := w.doing[0].(*ModelOpened)
	return !opens
}

// check reads the journal as a stranger would: the rollbacks in it are whole.
func (w *world) check(unknown bool) (rollbacks int) {
	type member struct {
		id, group, undo string
		turn, end       int64
		state           messages.ActionState
		undone          messages.ActionState
		undoing         bool
	}
	var all []*member
	find := func(turn int64, id string) *member {
		for _, m := range all {
			if m.turn == turn && m.id == id {
				return m
			}
		}
		return nil
	}
	bad := func(r *messages.Record, format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("seed %d: record %d: %s", w.seed, r.Seq, fmt.Sprintf(format, args...))
	}
	begun := map[string]string{}
	undoes := map[string]*member{} // by id, in the turn
	for _, r := range w.r.log {
		switch b := r.Body.(type) {
		case *messages.TurnBegin:
			undoes = map[string]*member{}
		case *messages.RollbackBegin:
			if begun[b.Group] != "" {
				bad(r, "%s is rolled back twice", b.Group)
			}
			begun[b.Group] = b.Cause
			rollbacks++
		case *messages.ActionDeclared:
			if b.Compensates == "" {
				if b.Group != "" {
					all = append(all, &member{id: b.ID, group: b.Group, undo: b.Rollback, turn: r.Turn})
				}
				break
			}
			of := r.Turn
			if b.CompensatesTurn > 0 {
				of = b.CompensatesTurn
			}
			m := find(of, b.Compensates)
			switch {
			case m == nil || m.undo == "":
				bad(r, "%s undoes %s, which has no compensation", b.ID, b.Compensates)
			case begun[m.group] == "":
				bad(r, "%s comes before the rollback", b.ID)
			case m.undoing:
				bad(r, "%s is undone twice", m.id)
			case m.state != messages.ActionOK && (m.state != messages.ActionUnknown || !unknown):
				bad(r, "%s is undone, and is %s", m.id, m.state)
			}
			for _, o := range all {
				switch {
				case o.group != m.group || o == m:
				case o.state == "":
					bad(r, "%s is undone before %s has ended", m.id, o.id)
				case o.undoing && o.undone == "":
					bad(r, "%s is undone beside %s", m.id, o.id)
				case !o.undoing && o.undo != "" && o.state == messages.ActionOK && o.end > m.end:
					bad(r, "%s is undone before %s, which ended later", m.id, o.id)
				}
			}
			m.undoing, undoes[b.ID] = true, m
		case *messages.ActionStarted:
			if m := find(r.Turn, b.ID); m != nil && begun[m.group] != "" {
				bad(r, "%s begins in a group that is closed", m.id)
			}
		case *messages.ActionEnded:
			if m := undoes[b.ID]; m != nil {
				m.undone = b.State
			} else if m := find(r.Turn, b.ID); m != nil {
				m.state, m.end = b.State, r.Seq
			}
		case *messages.TurnDecided:
			for _, m := range all {
				if begun[m.group] != "" && m.undo != "" && (m.state == messages.ActionOK || unknown && m.state == messages.ActionUnknown) && m.undone == "" {
					bad(r, "the turn is over, and %s is not undone", m.id)
				}
			}
		}
	}
	return rollbacks
}

const booking = `<action id="f" mode="async">{"name":"wflight","group":"trip","rollback":{"name":"wundo","parameters":{"ref":"${result.ref}"}}}</action>` +
	`<action id="h">{"name":"khotel","group":"trip","rollback":{"name":"kundo","parameters":{"ref":"${result.ref}"}}}</action>` +
	`<action id="m">{"name":"read","group":"trip","rollback":{"name":"read"}}</action>` +
	`<action id="c">{"name":"rfail","group":"trip","depends_on":["f","m"]}</action>`

// The process dies behind every record of a rollback, for each cause of one: each compensation
// of an effectful target happens at most once, each member is undone as its records say, and
// the run ends.
func TestRollbackSurvivesEveryRecord(t *testing.T) {
	asked := strings.Replace(booking, `"rfail"`, `"read"`, 1) + `<rollback group="trip"/>`
	whole := strings.Replace(booking, `"rfail"`, `"read"`, 1)
	for name, c := range map[string]struct {
		rules   Rules
		replies []string
		cause   string
	}{
		"error": {Rules{Rollback: Rollback{Error: true}}, []string{booking, `<response>sorry</response>`}, "error:c"},
		"asked": {Rules{}, []string{asked, `<response>sorry</response>`}, "asked"},
		"later": {Rules{}, []string{whole, `<rollback group="trip"/>`, `<response>sorry</response>`}, "asked"},
		"halt":  {Rules{Rollback: Rollback{Halt: true}, MaxTurns: 1}, []string{whole}, "halt"},
		"over":  {Rules{Rollback: Rollback{Halt: true}, Recovery: messages.RecoverHalt, MaxTurns: 1}, []string{whole}, "halt"},
	} {
		t.Run(name, func(t *testing.T) {
			live := newWorld(t, 1, c.rules, c.replies...)
			live.run()
			if live.check(false) != 1 || live.undone != 3 {
				t.Fatalf("%d compensations without a crash, want 3", live.undone)
			}
			first := int64(0)
			for _, r := range live.r.log {
				if b, ok := r.Body.(*messages.RollbackBegin); ok {
					if first = r.Seq; b.Cause != c.cause {
						t.Fatalf("cause %s, want %s", b.Cause, c.cause)
					}
				}
			}
			for cut := first - 6; cut < int64(len(live.r.log)); cut++ {
				w := newWorld(t, 1, c.rules, c.replies...)
				w.cut = cut
				w.run()
				w.check(false)
				began := map[string]bool{}
				for _, r := range w.r.log {
					if b, ok := r.Body.(*messages.ActionStarted); ok && strings.HasPrefix(b.ID, UndoPrefix) {
						began[b.ID] = true
					}
					if b, ok := r.Body.(*messages.ActionEnded); ok && strings.HasPrefix(b.ID, UndoPrefix) && b.State != messages.ActionOK {
						// Nothing but an effect that was cut off, of which it is not known whether it happened.
						if b.State != messages.ActionUnknown || w.classes[w.keys[b.ID]] == messages.Keyed {
							t.Errorf("the journal ends at %d: %s is %s, %s", cut, b.ID, b.State, b.Reason)
						}
					}
				}
				if cut >= first && len(began) != 3 {
					t.Errorf("the journal ends at %d: %d members are undone, want 3", cut, len(began))
				}
			}
		})
	}
}

// Random documents with groups, failures of every kind, questions, cancels, clocks and deaths.
func TestRollbackAtRandom(t *testing.T) {
	seeds := 160
	if testing.Short() {
		seeds = 60
	}
	rollbacks, undone, deaths := 0, 0, 0
	for i := 0; i < seeds; i++ {
		seed := uint64(i)
		if i%2 == 1 {
			seed = uint64(time.Now().UnixNano())
		}
		if *onlySeed != 0 {
			seed, i = *onlySeed, seeds
		}
		rnd := rand.New(rand.NewPCG(seed, 3))
		var doc strings.Builder
		var ids []string
		for n := range 1 + rnd.IntN(7) {
			id := fmt.Sprintf("a%d", n)
			body := fmt.Sprintf(`"name":%q`, []string{"write", "kwrite", "read", "write", "iwrite", "kwrite", "none", "rfail"}[rnd.IntN(8)])
			if rnd.IntN(5) > 0 {
				body += fmt.Sprintf(`,"group":"g%d"`, rnd.IntN(2))
				if rnd.IntN(4) > 0 {
					body += fmt.Sprintf(`,"rollback":{"name":%q,"parameters":{"r":"${result.ref}"}}`, []string{"wundo", "kundo", "read"}[rnd.IntN(3)])
				}
				body += []string{"", "", `,"on_error":"skip"`, `,"on_error":"rollback"`}[rnd.IntN(4)]
			}
			if len(ids) > 0 && rnd.IntN(3) == 0 {
				body += fmt.Sprintf(`,"depends_on":%q`, ids[rnd.IntN(len(ids))])
			}
			ids = append(ids, id)
			around := [][2]string{{}, {}, {}, {`<if test="true">`, `</if>`}, {`<if test="$a0.ref == 'a0'">`, `</if>`}, {`<parallel>`, `</parallel>`}}[rnd.IntN(6)]
			fmt.Fprintf(&doc, `%s<action id=%q mode=%q>{%s}</action>%s`, around[0], id, []string{"async", "async", "sync"}[rnd.IntN(3)], body, around[1])
			if rnd.IntN(5) == 0 {
				fmt.Fprintf(&doc, `<rollback group="g%d"/>`, rnd.IntN(3))
			}
		}
		rules := Rules{
			Rollback: Rollback{Error: rnd.IntN(4) > 0, Halt: rnd.IntN(2) == 0, Cancel: rnd.IntN(2) == 0, Unknown: rnd.IntN(3) == 0},
			Limits:   Limits{TurnWall: time.Minute, RunWall: time.Hour}, MaxTurns: int64(1 + rnd.IntN(4)),
		}
		w := newWorld(t, seed, rules, doc.String(), doc.String(), `<response>done</response>`)
		w.wild = true
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %+v %s", seed, rules.Rollback, doc.String())
					for _, e := range w.r.log {
						t.Log(render(&Persist{Record: e}, e.TS))
					}
				}
			}()
			w.run()
			rollbacks += w.check(rules.Rollback.Unknown)
		}()
		undone += w.undone
		deaths += w.deaths
	}
	t.Logf("%d documents, %d rollbacks, %d compensations begun, %d deaths", seeds, rollbacks, undone, deaths)
	if rollbacks < seeds/4 || undone < seeds/6 || deaths < seeds/6 {
		t.Error("the documents went nowhere")
	}
}

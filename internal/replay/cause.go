package replay

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// meanwhile is what may happen at any time beside the run in flight: a submit that
// is queued, and the cancel of a run that waits.
func (p *player) meanwhile(r *messages.Record) turn.Input {
	switch b := r.Body.(type) {
	case *messages.RelicChanged:
		if id, flying := p.machine.Flight(); !flying || id.Turn != r.Turn {
			return p.changed(r, b) // by a detached action
		}
	case *messages.ActionEnded, *messages.Audit:
		if id, flying := p.machine.Flight(); !flying || id.Turn != r.Turn {
			if in, err := p.actionEnded(r); err == nil { // of a detached action
				return in
			}
		}
	case *messages.ActionChunk:
		if id, flying := p.machine.Flight(); flying && id.Turn == r.Turn {
			return &turn.ActionChunk{Ident: id, ID: b.ID, Text: string(b.Bytes), Record: true}
		}
	case *messages.Input:
		return &turn.Submit{Input: *b}
	case *messages.SessionDescribed:
		return &turn.Describe{Title: &b.Title, Tags: append([]string{}, b.Tags...), By: b.By}
	case *messages.Control:
		if b.What == messages.ControlTimer && b.Name == turn.ClockDebounce.String() {
			return p.timer(b.Name)
		}
	case *messages.RunEnd:
		if open := p.machine.State().Open; open == nil || open.Run != r.Run {
			return &turn.Cancel{Run: r.Run, By: by(strings.TrimSuffix(b.Detail, " before it began"))}
		}
	}
	return nil
}

// by reads who cancelled out of a sentence of the machine.
func by(detail string) string {
	name, _ := strings.CutPrefix(detail, "cancelled by ")
	if name == detail {
		return ""
	}
	return name
}

// cause is the input that record r must have come from.
func (p *player) cause(r *messages.Record) (turn.Input, error) {
	id, _ := p.machine.Flight()
	switch b := r.Body.(type) {
	case *messages.SessionOpened:
		in := &turn.Open{Name: b.Name, Parent: b.Parent}
		if b.Receipts != "" {
			in.Receipts = p.agent.Receipts
		}
		return in, nil
	case *messages.SessionClosed:
		return &turn.Close{Reason: b.Reason}, nil
	case *messages.Control:
		switch b.What {
		case messages.ControlTimer:
			return p.timer(b.Name), nil
		case messages.ControlCancel:
			return &turn.Cancel{By: b.By}, nil
		case messages.ControlCrash:
			return &turn.ChildDown{Ident: id, Child: turn.Child(b.Name), Detail: b.Detail}, nil
		}
	case *messages.ActionApproval:
		switch b.State {
		case messages.GateExpired:
			return &turn.Expire{}, nil
		case messages.GateApprove, messages.GateDeny:
			return &turn.Approve{Approval: b.Approval, Answer: b.State, By: b.By, Reason: b.Reason, Digest: b.Digest}, nil
		case messages.GateConfirm: // the machine asks by itself
		}
	case *messages.RelicChanged:
		return p.changed(r, b), nil
	case *messages.Audit, *messages.ActionEnded:
		return p.actionEnded(r)
	case *messages.FeedInjected:
		fd, err := p.feed(b)
		return &turn.FeedsReady{Ident: id, Names: []string{b.ID}, Feeds: []messages.Feed{fd}}, err
	}
	return nil, p.stuck(r, "nothing in the journal brings it about")
}

// action names an action of the session.
type action struct {
	turn int64
	id   string
}

// tryAgain feeds the failure of the attempt before, and then that the next one is due.
func (p *player) tryAgain(r *messages.Record, b *messages.ActionStarted) error {
	id, _ := p.machine.Flight()
	if s := p.due[b.ID]; s != nil && s.Ident == id && s.Attempt == b.Attempt {
		delete(p.due, b.ID)
		return p.step(r.TS, &turn.Due{Ident: id, ID: b.ID, Attempt: b.Attempt})
	}
	// It failed a retry's delay ago at the latest.
	in := &turn.ActionEnded{Ident: id, ID: b.ID, State: messages.ActionFailed, Reason: b.Failure}
	if b.Children != nil {
		in.Children = p.linked(r.Turn, b.ID, b.Children)
		if p.links == nil {
			p.links = map[action]int{}
		}
		p.links[action{r.Turn, b.ID}] = len(b.Children)
	}
	if b.Used != nil {
		in.Used = b.Used.Minus(p.used[action{r.Turn, b.ID}])
		if p.used == nil {
			p.used = map[action]messages.Budget{}
		}
		p.used[action{r.Turn, b.ID}] = *b.Used
	}
	delay, known := p.machine.Pause(b.ID)
	switch {
	case b.Failure == turn.ReasonTakenBack:
		delay = 0 // the next attempt follows at once
	case !known:
		delay = plan.Policy{Delay: p.agent.Rules.RetryDelay}.Pause(1, "")
	}
	return p.step(r.TS.Add(-delay), in)
}

// linked returns those of an action's runs in child sessions that the attempts before the
// latest have not brought about.
func (p *player) linked(turn int64, id string, all []messages.ChildLink) []messages.ChildLink {
	return all[min(p.links[action{turn, id}], len(all)):]
}

func (p *player) timer(name string) turn.Input {
	for c := range turn.NumClocks {
		if c.String() == name {
			return &turn.Timer{Clock: c, Gen: p.gens[c]}
		}
	}
	return &turn.Timer{Clock: turn.NumClocks}
}

// actionEnded gathers the audits in front of an action's end.
func (p *player) actionEnded(r *messages.Record) (turn.Input, error) {
	id, _ := p.machine.Flight()
	in := &turn.ActionEnded{Ident: id}
	for i := p.at; i < len(p.src.Records); i++ {
		switch b := p.src.Records[i].Body.(type) {
		case *messages.Audit:
			in.Audits = append(in.Audits, *b)
		case *messages.ActionEnded:
			if b.Reason == "panic" {
				return p.panicked(id, b, i), nil
			}
			in.Last = true
			if begun, ok := p.begun[action{r.Turn, b.ID}]; ok {
				in.Ident = begun
			}
			// Also one that was lost when the grace was over: what came of it is the same.
			in.ID, in.State, in.Reason, in.Result, in.ErrorCode, in.MS = b.ID, b.State, b.Reason, b.Result, b.ErrorCode, b.MS
			in.Feed = b.Feed
			in.Used = messages.Budget{Actions: b.Actions, CostUSD: b.CostUSD, Tokens: b.Tokens}.Minus(p.used[action{r.Turn, b.ID}])
			in.Children = p.linked(r.Turn, b.ID, b.Children)
			return in, nil
		default:
			if again := p.retried(i); again != nil {
				in.ID, in.State, in.Reason = again.ID, messages.ActionFailed, again.Failure
				return in, nil
			}
			return nil, p.stuck(r, "an audit without the action it belongs to")
		}
	}
	return nil, p.stuck(r, "the journal ends inside an action's end")
}

// changed is the call that changed a relic. The machine judges it again, under the
// hardest limits: those of the manifest it was within.
func (p *player) changed(r *messages.Record, b *messages.RelicChanged) turn.Input {
	hardest := messages.RelicLimits{Keys: turn.MaxRelicKeys, ValueBytes: turn.MaxRelicValueBytes, Bytes: turn.MaxRelicBytes}
	if b.ID == "" {
		return &turn.ScopeCall{By: b.By, Key: b.Key, Relic: b.Relic, Args: b.Args, Limits: hardest, Head: r.Seq - 1}
	}
	id, _ := p.machine.Flight()
	if begun, ok := p.begun[action{r.Turn, b.ID}]; ok {
		id = begun
	}
	return &turn.RelicCall{Ident: id, ID: b.ID, Key: b.Key, Relic: b.Relic, Args: b.Args, Limits: hardest}
}

// panicked restores the crash of an action; its text stands in the control record
// that follows when the crash ended the turn.
func (p *player) panicked(id turn.Ident, b *messages.ActionEnded, at int) turn.Input {
	down := &turn.ChildDown{Ident: id, Child: turn.ChildAction, ID: b.ID}
	if at+1 < len(p.src.Records) {
		if c, ok := p.src.Records[at+1].Body.(*messages.Control); ok && c.What == messages.ControlCrash {
			down.Detail = c.Detail
		}
	}
	return down
}

// perform does an effect as far as a replay does it. Publishing, answering and
// starting actions are the outside's, and the journal knows what came of them.
func (p *player) perform(e turn.Effect) error {
	switch e := e.(type) {
	case *turn.SetTimer:
		p.gens[e.Clock] = e.Gen
	case *turn.FetchFeeds:
		if len(e.Names) == 0 {
			p.fetch, p.gen = e, nil
		}
	case *turn.OpenModel:
		p.asks, p.checks = nil, nil
		p.look(e.Turn)
		return p.open(e)
	case *turn.AskGate:
		if p.asks == nil {
			p.asks = map[string]*turn.AskGate{}
		}
		p.asks[e.ID] = e
	case *turn.Verify:
		p.checks = e
	case *turn.StartAction:
		if p.begun == nil {
			p.begun = map[action]turn.Ident{}
		}
		p.begun[action{e.Turn, e.ID}] = e.Ident
		if e.Detached {
			return p.failEarly(e)
		}
	case *turn.Schedule:
		if p.due == nil {
			p.due = map[string]*turn.Schedule{}
		}
		p.due[e.ID] = e
	case *turn.RunProgram:
		if e.After > 0 { // of a restored turn
			p.leaveProgram()
			p.look(e.Turn)
		}
		return p.run(e)
	case *turn.AnswerCall:
		if p.prog != nil {
			p.prog.answers[e.ID] = e
		}
	}
	return nil
}

// retried finds the next attempt of an action of the turn in flight whose failure
// before was not fed yet: audits without an end are of such a one.
func (p *player) retried(at int) *messages.ActionStarted {
	id, _ := p.machine.Flight()
	for _, r := range p.src.Records[at:] {
		if r.Epoch != p.epoch {
			return nil
		}
		b, ok := r.Body.(*messages.ActionStarted)
		if !ok || r.Turn != id.Turn || b.Failure == "" || b.Failure == "crash" {
			continue
		}
		if s := p.due[b.ID]; s == nil || s.Ident != id || s.Attempt != b.Attempt {
			return b
		}
	}
	return nil
}

// failEarly feeds the failure of a detached attempt that no other followed because its
// turn was over before: the end is recorded in front of the turn's decision, and by
// nothing else.
func (p *player) failEarly(e *turn.StartAction) error {
	now := p.src.Records[p.at-1].TS
	for i := p.at; i < len(p.src.Records); i++ {
		r := p.src.Records[i]
		switch b := r.Body.(type) {
		case *messages.Control:
			if b.What == messages.ControlCancel {
				return nil // that ends it as well
			}
		case *messages.ActionStarted:
			if r.Turn == e.Turn && b.ID == e.ID {
				return nil
			}
		case *messages.TurnDecided:
			return nil
		case *messages.ActionEnded:
			if r.Turn != e.Turn || b.ID != e.ID {
				continue
			}
			if b.State == messages.ActionOK || !p.decides(i) {
				return nil
			}
			return p.step(now, &turn.ActionEnded{
				Ident: e.Ident, ID: e.ID, State: b.State, Reason: b.Reason, Result: b.Result, ErrorCode: b.ErrorCode, MS: b.MS,
			})
		}
		if r.Epoch != p.epoch {
			return nil
		}
	}
	return nil
}

// decides reports whether the end of a detached action is of the step that decides its turn:
// nothing stands between the two but ends of the same kind. Where an action follows that
// the turn waited for, that one's end has led to the decision, and the first came by
// itself before.
func (p *player) decides(at int) bool {
	for _, r := range p.src.Records[at:] {
		if !r.TS.Equal(p.src.Records[at].TS) {
			return false
		}
		switch b := r.Body.(type) {
		case *messages.TurnDecided:
			return true
		case *messages.ActionEnded:
			if !p.detaches(r.Turn, b.ID, at) {
				return false
			}
		default:
			return false
		}
	}
	return false
}

// detaches reports whether an action that was declared before a position is detached.
func (p *player) detaches(turnIndex int64, id string, at int) bool {
	for _, r := range slices.Backward(p.src.Records[:at]) {
		if r.Turn != turnIndex {
			continue
		}
		switch b := r.Body.(type) {
		case *messages.ActionDeclared:
			if b.ID == id {
				return b.Mode == messages.ModeFireAndForget
			}
		case *messages.TurnBegin:
			return false
		}
	}
	return false
}

// answer is what the gate or the verification says, when r comes of that. The gate
// may take its time, and anything may happen meanwhile.
func (p *player) answer(r *messages.Record) turn.Input {
	id := ""
	switch b := r.Body.(type) {
	case *messages.TurnDecided, *messages.UnitText: // a unit that was held comes with the decision
		if e := p.checks; e != nil {
			p.checks = nil
			return p.verified(e)
		}
	case *messages.ActionApproval:
		id = b.ID
	case *messages.ActionStarted:
		id = b.ID
	case *messages.ActionEnded:
		id = b.ID
	}
	e := p.asks[id]
	if e == nil {
		return nil
	}
	delete(p.asks, id)
	return p.judged(r, e)
}

// judged answers as the gate did: by its rules, which are asked again, or by its
// hook, whose answer stands in the journal. An answer that no record shows is the
// default's.
func (p *player) judged(r *messages.Record, e *turn.AskGate) *turn.Judged {
	in := turn.Judged{Answer: messages.GateApprove}
	if p.agent.Gate != nil {
		in = p.agent.Gate(e)
	}
	in.Ident, in.ID = e.Ident, e.ID
	switch b := r.Body.(type) {
	case *messages.ActionApproval:
		if !ofRules(b.By) || p.agent.Gate == nil {
			in.Answer, in.By, in.Reason, in.Record = b.State, b.By, b.Reason, true
		}
		in.Basis = b.Basis
	case *messages.ActionEnded: // denied by default
		if p.agent.Gate == nil {
			in.Answer, in.Reason = messages.GateDeny, unquote(b.Result)
		}
	}
	return &in
}

// ofRules reports whether an approval is by a configured rule of the gate: whatever else
// spoke is not asked again.
func ofRules(by string) bool { return by == "deny" || by == "tool" || by == "own" || by == "default" }

func unquote(s string) string {
	v, err := neuroscript.FromJSON([]byte(s))
	if err != nil {
		return ""
	}
	text, _ := v.AsString()
	return text
}

package turn

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Apply folds one record. Records must come in order and decoded; a gap or an erased body is
// ERR_JOURNAL, and s is not changed.
func (s *State) Apply(r *messages.Record) error {
	if r.Seq != s.Seq+1 {
		return messages.Errorf(messages.ErrJournal, "record %d follows record %d", r.Seq, s.Seq)
	}
	switch r.Body.(type) {
	case nil, *messages.Undecoded:
		return messages.Errorf(messages.ErrJournal, "record %d has no decoded body", r.Seq)
	}
	s.Seq = r.Seq
	switch b := r.Body.(type) {
	case *messages.SessionOpened:
		s.Signed = signedBy(b.Receipts)
	case *messages.SessionClosed:
		s.Closed = true
	case *messages.SessionDescribed:
		s.About = b
	case *messages.RelicChanged:
		if b.ID == "" {
			s.changeRelic(nil, b, r.TS)
			s.Scoped = r.Seq
		} else {
			s.applyTurn(r)
		}
	case *messages.Input:
		s.accept(r, b)
		s.Zone = cmp.Or(b.Zone, s.Zone)
		s.Runs = max(s.Runs, r.Run)
		if b.Key != "" {
			if len(s.Keys) >= KeyMemory {
				s.Keys = slices.Delete(s.Keys, 0, 1)
			}
			s.Keys = append(s.Keys, KeyUse{Key: b.Key, Run: r.Run, Seq: r.Seq})
		}
	case *messages.RunBegin:
		run := &OpenRun{Began: r.TS.UnixNano(), OutBefore: s.OutDigest, ScrBefore: s.ScrDigest, FailedBefore: s.Failed}
		run.Run = r.Run
		if i := s.waiting(r.Run); i >= 0 {
			run.Waiting = s.Queue[i]
			s.unqueue(i)
		}
		s.Open = run
	case *messages.RunWithdrawn:
		if s.Open != nil && s.Open.Run == r.Run {
			s.OutDigest, s.ScrDigest, s.Failed = s.Open.OutBefore, s.Open.ScrBefore, s.Open.FailedBefore
			if s.Open.Cancel == nil { // passOver began and ended the run
				s.Open.Cancel = &Cancelled{Seq: r.Seq, Superseded: b.By}
			}
			s.Open.Cancel.Withdrawn = b.By
		}
	case *messages.Note:
		if s.Open != nil && s.Open.Run == r.Run && s.Open.withdrawn() {
			s.Note = joinNotes(s.Note, b.Text)
		}
	case *messages.Control:
		if b.What == messages.ControlTimer && b.Name == ClockDebounce.String() {
			s.closeWindow()
			break
		}
		if b.What == messages.ControlCancel && s.Open != nil && s.Open.Run == r.Run && s.Open.Cancel == nil {
			s.Open.Cancel = &Cancelled{Seq: r.Seq, By: b.By}
		} else if t := s.turn(r); t != nil {
			t.seen(r)
			if b.What != messages.ControlModelError && b.What != messages.ControlCancel && b.Code != "" && t.Breach == nil {
				t.Breach = &Breach{Code: b.Code, Detail: breachDetail(b)}
			}
		}
	case *messages.RunEnd:
		if s.Open != nil && s.Open.Run == r.Run {
			s.over(b.Next)
		} else if i := s.waiting(r.Run); i >= 0 {
			s.unqueue(i) // cancelled before it began
		} else if s.Window != nil && s.Window.Run == r.Run {
			s.Window = nil
		}
	default:
		if r.Turn > 0 {
			s.applyTurn(r)
		}
	}
	return nil
}

// Awaits reports whether an action of a turn has begun and not ended. The work for an action
// that is not awaited is useless.
func (s *State) Awaits(turn int64, id string) bool {
	if s.Closed {
		return false
	}
	if run := s.Open; run != nil && run.Turn != nil && run.Turn.Index == turn {
		if a := run.Turn.action(id); a != nil {
			return a.Started
		}
	}
	return slices.ContainsFunc(s.Detached, func(d Detached) bool { return d.Turn == turn && d.ID == id })
}

// spend adds what an action used of the run's budget.
func (run *OpenRun) spend(b *messages.ActionEnded) {
	run.Tokens += b.Tokens
	run.Cost += b.CostUSD
	run.Actions += b.Actions
}

func (s *State) applyTurn(r *messages.Record) {
	if b, ok := r.Body.(*messages.TurnBegin); ok {
		s.Turn = r.Turn
		if s.Open != nil {
			s.Open.Turns = b.Pass
			at := r.TS.UnixNano()
			s.Open.Turn = &OpenTurn{Index: r.Turn, Seq: r.Seq, Nonce: b.Nonce, Began: at, Last: at, Rendering: b.Rendering}
			if len(b.Merged) > 0 {
				s.Open.join(s.unanswered())
			}
		}
		return
	}
	if b, ok := r.Body.(*messages.ModelRequest); ok && !b.Matched {
		s.Requests++
	}
	t := s.turn(r)
	if t == nil {
		s.applyDetached(r)
		return
	}
	run := s.Open
	t.seen(r)
	switch b := r.Body.(type) {
	case *messages.ModelReply:
		t.Replied = true
		run.Tokens += b.Usage.Input + b.Usage.Output
		run.Cost += b.CostUSD
		t.Did.Reply = b.Blob
	case *messages.FeedInjected:
		run.Tokens, run.Cost = run.Tokens+b.Tokens, run.Cost+b.CostUSD
		if b.ID == messages.InstructionsFeed && b.Error == "" {
			run.Instructions = b.Digest
		}
	case *messages.Emit:
		t.emitted(b)
	case *messages.ActionDeclared:
		run.Actions++
		a := OpenAction{ID: b.ID, Name: b.Name, Args: b.Args, Class: b.Class, Detached: b.Mode == messages.ModeFireAndForget}
		if b.Type != messages.TypeTool {
			a.Type = b.Type
		}
		switch {
		case b.Compensates != "":
			a.Compensates, a.CompensatesTurn = b.Compensates, cmp.Or(b.CompensatesTurn, r.Turn)
			run.compensated(&a)
		case b.Group != "":
			run.enlist(r.Turn, b)
		}
		t.Actions = append(t.Actions, a)
	case *messages.ActionTemplate:
		t.Templates = append(t.Templates, b)
	case *messages.RollbackBegin:
		if g := run.group(b.Group); g != nil && g.Cause == "" {
			g.Cause = b.Cause
		}
	case *messages.BlockBegin:
		t.Blocks = append(t.Blocks, b.ID)
		if t.BlockKinds == nil {
			t.BlockKinds = map[string]string{}
		}
		t.BlockKinds[b.ID] = b.BlockKind
	case *messages.BlockEnded:
		t.Blocks = slices.DeleteFunc(t.Blocks, func(id string) bool { return id == b.ID })
		if delete(t.BlockKinds, b.ID); len(t.Blocks) == 0 {
			t.Blocks, t.BlockKinds = nil, nil
		}
	case *messages.ActionStarted:
		if a := t.action(b.ID); a != nil {
			a.Started, a.Attempt = true, b.Attempt
			a.Retries += retried(b)
			a.Reserved, a.Used, a.Children = b.Reserved, b.Used, b.Children
			if b.Args != "" {
				a.Args = b.Args
			}
		}
		run.startMember(r.Turn, b)
	case *messages.RelicChanged:
		s.changeRelic(t.action(b.ID), b, r.TS)
	case *messages.ActionApproval:
		if a := t.action(b.ID); a != nil && b.Approval != "" {
			a.asked(r, b)
		}
	case *messages.Retract:
		run.Retract = slices.DeleteFunc(run.Retract, func(u string) bool { return u == b.Unit })
		if len(run.Retract) == 0 {
			run.Retract = nil
		}
	case *messages.TurnSuspended:
		t.Suspended, t.Until = true, nanos(b.Until)
	case *messages.TurnRestored:
		away := max(0, r.TS.UnixNano()-t.Last)
		t.Away += away
		t.Last = r.TS.UnixNano()
		if t.Suspended {
			run.Away += away
		}
		if b.Cause == messages.RestoreCrash {
			run.Settlements++
		}
		if b.Cause == messages.RestoreRollback {
			t.Unwinds++
		}
		t.Nonce, t.Restores = b.Nonce, b.Count
		t.Suspended, t.Until = false, 0
	case *messages.ActionEnded:
		i := slices.IndexFunc(t.Actions, func(a OpenAction) bool { return a.ID == b.ID })
		if i < 0 {
			return
		}
		a := t.Actions[i]
		t.Actions = slices.Delete(t.Actions, i, i+1)
		s.close(a.Question)
		if a.Compensates == "" {
			t.Calls = append(t.Calls, shapeOf(a, b))
		}
		run.endMember(r, &a, b)
		t.called(&a, b)
		run.did(&a, b.State)
		run.spend(b)
		if b.Feed != nil {
			s.changeFeeds(r.Seq, b.Feed)
		}
		if a.Type == messages.TypeInternal && b.State == messages.ActionOK {
			s.setVariables(t, a.Name, a.Args)
		}
		if b.Reason == reasonPanic {
			if run.Panics == nil {
				run.Panics = map[string]int64{}
			}
			run.Panics[a.Name]++
		}
	case *messages.TurnDecided:
		s.leave(t)
		run.settleGroups()
		s.carry(r, b, t)
		run.State = nil
		if len(b.State) > 0 {
			run.State = b.State
		}
		if b.Decision == messages.Continue {
			run.Retract = append(run.Retract, b.Retract...)
		}
		if b.Keep != nil {
			s.Keep = nil
			if len(b.Keep) > 0 {
				s.Keep = b.Keep
			}
		}
		run.LastError = ""
		if b.Resumed && t.Breach == nil {
			run.Settlements++
			run.Lost++
			run.LastError = "the host restarted during the previous turn; its effects may or may not have happened"
		}
		if b.Repair {
			switch b.Reason {
			case messages.ErrOutput:
				run.Asked++
			case messages.ErrModel:
				run.Fell = true
			default:
				run.Repairs++
			}
			run.LastError = whyFailed(b)
		}
		if !b.Digest.IsZero() { // a turn that did not complete is not counted
			run.Progress.count(b.Digest)
		}
		run.Loop.count(t.Calls)
		run.define(t.Templates)
		run.Ending = nil
		if b.Decision != messages.Continue && !b.Repair && (!b.Resumed || t.Breach != nil) {
			run.Ending = &Ending{Decision: b.Decision, Reason: b.Reason, Detail: b.Detail}
		}
		run.Turn = nil
	}
}

// retried returns 1 for an attempt that follows a failed one, else 0.
func retried(b *messages.ActionStarted) int64 {
	if b.Failure != "" && b.Failure != reasonCrash && b.Failure != ReasonTakenBack {
		return 1
	}
	return 0
}

// turn returns the open turn if record r belongs to it, else nil.
func (s *State) turn(r *messages.Record) *OpenTurn {
	if s.Open == nil || s.Open.Turn == nil || r.Turn == 0 || s.Open.Turn.Index != r.Turn {
		return nil
	}
	return s.Open.Turn
}

// breachDetail returns the detail of the turn's decision for the breach in a control record.
func breachDetail(b *messages.Control) string {
	if b.What == messages.ControlTimer && b.Detail == "" {
		return b.Name
	}
	return b.Detail
}

// seen notes the time of the turn's latest record, while it is not suspended.
func (t *OpenTurn) seen(r *messages.Record) {
	if _, restored := r.Body.(*messages.TurnRestored); !restored && !t.Suspended {
		t.Last = r.TS.UnixNano()
	}
}

// Asks returns the arguments that the action's question shows: those that the call would
// begin with.
func (a *OpenAction) Asks() string {
	if a.Question != nil && a.Question.Args != "" {
		return a.Question.Args
	}
	return a.Args
}

// AskDigest returns the digest of what the action's question shows; an answer must name it.
func (a *OpenAction) AskDigest() messages.Digest {
	if a.Question == nil {
		return askDigest("", a.Asks())
	}
	return askDigest(a.Question.Basis, a.Asks())
}

// askDigest returns the digest of args, or with a basis that of the JSON array of both.
func askDigest(basis, args string) messages.Digest {
	if basis == "" {
		return sha256.Sum256([]byte(args))
	}
	return sha256.Sum256([]byte("[" + basis + "," + args + "]"))
}

// asked folds a question or its answer.
func (a *OpenAction) asked(r *messages.Record, b *messages.ActionApproval) {
	switch q := a.Question; {
	case b.State == messages.GateConfirm:
		a.Question = &Question{ID: b.Approval, Asked: r.TS.UnixNano(), Expires: nanos(b.Expires), Args: b.Args, Basis: b.Basis}
	case q != nil && q.ID == b.Approval && q.Answer == "":
		q.Answer, q.Reason = b.State, b.Reason
	}
}

// close moves a question to the closed ones.
func (s *State) close(q *Question) {
	if q == nil {
		return
	}
	if len(s.Questions) >= QuestionMemory {
		s.Questions = slices.Delete(s.Questions, 0, 1)
	}
	s.Questions = append(s.Questions, ClosedQuestion{ID: q.ID, Answer: q.Answer})
}

// nanos reads a time of a record as Unix nanoseconds; 0 for an invalid one.
func nanos(text string) int64 {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0
	}
	return at.UnixNano()
}

func (s *State) waiting(run int64) int {
	return slices.IndexFunc(s.Queue, func(w Waiting) bool { return w.Run == run })
}

func (s *State) unqueue(i int) {
	s.Queue = slices.Delete(s.Queue, i, i+1)
	if len(s.Queue) == 0 {
		s.Queue = nil // an idle session keeps no buffer
	}
}

func (s *State) key(key string) *KeyUse {
	if key == "" {
		return nil
	}
	for i := range s.Keys {
		if s.Keys[i].Key == key {
			return &s.Keys[i]
		}
	}
	return nil
}

func (t *OpenTurn) action(id string) *OpenAction {
	for i := range t.Actions {
		if t.Actions[i].ID == id {
			return &t.Actions[i]
		}
	}
	return nil
}

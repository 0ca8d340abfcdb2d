package turn

import (
	"slices"

	json "github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/messages"
)

// StateFormat numbers the encoding of State in snapshots.
const StateFormat = 1

// State is what the journal knows of a session: the fold of its records, and
// nothing that a restart would forget. A snapshot is its encoding.
type State struct {
	Seq       int64           `json:"seq"`
	Turn      int64           `json:"turn"`     // turn_index of the last turn begun
	Runs      int64           `json:"runs"`     // ordinal of the last run accepted
	Requests  int64           `json:"requests"` // model.request records
	Closed    bool            `json:"closed,omitzero"`
	OutDigest messages.Digest `json:"out,omitzero"` // OUTPUT of the last turn, as carried
	ScrDigest messages.Digest `json:"scr,omitzero"`
	// Queue holds accepted inputs whose run has not begun.
	Queue []Waiting `json:"queue,omitzero"`
	Keys  []KeyUse  `json:"keys,omitzero"`
	Open  *OpenRun  `json:"open,omitzero"`
}

// Waiting is an accepted input.
type Waiting struct {
	Run      int64  `json:"run"`
	Seq      int64  `json:"seq"`
	Text     string `json:"text,omitzero"`
	Userdata string `json:"userdata,omitzero"`
}

// KeyUse remembers which run an idempotency key started.
type KeyUse struct {
	Key string `json:"key"`
	Run int64  `json:"run"`
	Seq int64  `json:"seq"`
}

// OpenRun is a run that has begun and not ended.
type OpenRun struct {
	Waiting
	Began       int64            `json:"began"` // unix nanoseconds of run.begin
	Turns       int64            `json:"turns"`
	Actions     int64            `json:"actions,omitzero"`
	Tokens      int64            `json:"tokens,omitzero"`
	Cost        int64            `json:"cost,omitzero"`
	Settlements int64            `json:"settlements,omitzero"`
	State       []byte           `json:"state,omitzero"` // the dialect's memory
	LastError   string           `json:"last_error,omitzero"`
	Progress    Progress         `json:"progress"`
	Loop        Loop             `json:"loop"`
	Panics      map[string]int64 `json:"panics,omitzero"`
	Cancel      *Cancelled       `json:"cancel,omitzero"`
	Ending      *Ending          `json:"ending,omitzero"`
	Turn        *OpenTurn        `json:"turn,omitzero"`
}

// Cancelled remembers that a cancel of the run was accepted: a crash before the
// decision must not bring the run back.
type Cancelled struct {
	Seq int64  `json:"seq"` // of the control record
	By  string `json:"by,omitzero"`
}

// Ending is the decision of the run's last turn when no other turn follows it.
// The run's end shares its batch, so only a log that was cut between the two (a
// fork, an anchor) shows it.
type Ending struct {
	Decision messages.Decision `json:"decision"`
	Reason   messages.Code     `json:"reason,omitzero"`
	Detail   string            `json:"detail,omitzero"`
}

// OpenTurn is a turn that has begun and is not decided.
type OpenTurn struct {
	Index   int64         `json:"index"`
	Nonce   string        `json:"nonce"`
	Began   int64         `json:"began"`
	Replied bool          `json:"replied,omitzero"`
	Actions []OpenAction  `json:"actions,omitzero"`
	Calls   []ActionShape `json:"calls,omitzero"` // ended ones, for the loop guard
}

// OpenAction is an action that has no terminal record yet.
type OpenAction struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Args    string         `json:"args"`
	Class   messages.Class `json:"class"`
	Started bool           `json:"started,omitzero"`
}

// ActionShape is what the loop guard keeps of an ended action.
type ActionShape struct {
	Call   messages.Digest `json:"call"` // of name, args and result
	Counts bool            `json:"counts,omitzero"`
}

// EncodeState gives the bytes of a snapshot.
func EncodeState(s *State) ([]byte, error) { return json.Marshal(s, json.Deterministic(true)) }

// DecodeState reads a snapshot. Anything it does not know is ERR_JOURNAL: the
// snapshot is droppable, the log is not.
func DecodeState(b []byte) (State, error) {
	var s State
	if err := json.Unmarshal(b, &s, json.RejectUnknownMembers(true)); err != nil {
		return State{}, &messages.Error{Code: messages.ErrJournal, Detail: "snapshot", Cause: err}
	}
	if field := s.impossible(); field != "" {
		return State{}, &messages.Error{Code: messages.ErrJournal, Field: field, Detail: "snapshot: no fold of records gives this value"}
	}
	return s, nil
}

// impossible names a field that contradicts the invariants of a fold, or "".
func (s *State) impossible() string {
	switch {
	case s.Seq < 0:
		return "seq"
	case s.Turn < 0:
		return "turn"
	case s.Runs < 0:
		return "runs"
	case s.Requests < 0:
		return "requests"
	case len(s.Keys) > KeyMemory:
		return "keys"
	}
	for _, w := range s.Queue {
		if w.Run < 1 || w.Run > s.Runs || w.Seq < 1 || w.Seq > s.Seq {
			return "queue"
		}
	}
	run := s.Open
	if run == nil {
		return ""
	}
	switch {
	case run.Run < 1 || run.Run > s.Runs || s.waiting(run.Run) >= 0:
		return "open.run"
	case run.Turns < 0 || run.Turns > s.Turn:
		return "open.turns"
	case run.Actions < 0 || run.Tokens < 0 || run.Cost < 0 || run.Settlements < 0 || run.Progress.N < 0:
		return "open"
	case run.Turn != nil && (run.Turn.Index < 1 || run.Turn.Index != s.Turn):
		return "open.turn.index"
	}
	return ""
}

// Apply folds one record. Records must come in order, and decoded; a gap or an
// erased body is ERR_JOURNAL.
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
	case *messages.SessionClosed:
		s.Closed = true
	case *messages.Input:
		w := Waiting{Run: r.Run, Seq: r.Seq, Text: b.Text, Userdata: b.Userdata}
		s.Queue = append(s.Queue, w)
		s.Runs = max(s.Runs, r.Run)
		if b.Key != "" {
			if len(s.Keys) >= KeyMemory {
				s.Keys = slices.Delete(s.Keys, 0, 1)
			}
			s.Keys = append(s.Keys, KeyUse{Key: b.Key, Run: r.Run, Seq: r.Seq})
		}
	case *messages.RunBegin:
		run := &OpenRun{Began: r.TS.UnixNano()}
		run.Run = r.Run
		if i := s.waiting(r.Run); i >= 0 {
			run.Waiting = s.Queue[i]
			s.unqueue(i)
		}
		s.Open = run
	case *messages.Control:
		if b.What == messages.ControlCancel && s.Open != nil && s.Open.Run == r.Run && s.Open.Cancel == nil {
			s.Open.Cancel = &Cancelled{Seq: r.Seq, By: b.By}
		}
	case *messages.RunEnd:
		if s.Open != nil && s.Open.Run == r.Run {
			s.Open = nil
		} else if i := s.waiting(r.Run); i >= 0 {
			s.unqueue(i) // cancelled before it began
		}
	default:
		if r.Turn > 0 {
			s.applyTurn(r)
		}
	}
	return nil
}

func (s *State) applyTurn(r *messages.Record) {
	if b, ok := r.Body.(*messages.TurnBegin); ok {
		s.Turn = r.Turn
		if s.Open != nil {
			s.Open.Turns = b.Pass
			s.Open.Turn = &OpenTurn{Index: r.Turn, Nonce: b.Nonce, Began: r.TS.UnixNano()}
		}
		return
	}
	if b, ok := r.Body.(*messages.ModelRequest); ok && !b.Matched {
		s.Requests++
	}
	if s.Open == nil || s.Open.Turn == nil || s.Open.Turn.Index != r.Turn {
		return
	}
	run, t := s.Open, s.Open.Turn
	switch b := r.Body.(type) {
	case *messages.ModelReply:
		t.Replied = true
		run.Tokens += b.Usage.Input + b.Usage.Output
		run.Cost += b.CostUSD
	case *messages.ActionDeclared:
		run.Actions++
		t.Actions = append(t.Actions, OpenAction{ID: b.ID, Name: b.Name, Args: b.Args, Class: b.Class})
	case *messages.ActionStarted:
		if a := t.action(b.ID); a != nil {
			a.Started = true
		}
	case *messages.ActionEnded:
		i := slices.IndexFunc(t.Actions, func(a OpenAction) bool { return a.ID == b.ID })
		if i < 0 {
			return
		}
		a := t.Actions[i]
		t.Actions = slices.Delete(t.Actions, i, i+1)
		t.Calls = append(t.Calls, shapeOf(a, b))
		if b.Reason == reasonPanic {
			if run.Panics == nil {
				run.Panics = map[string]int64{}
			}
			run.Panics[a.Name]++
		}
	case *messages.TurnDecided:
		s.OutDigest, s.ScrDigest = s.carried(b)
		run.State = nil
		if len(b.State) > 0 {
			run.State = b.State
		}
		run.LastError = ""
		if b.Resumed {
			run.Settlements++
			run.LastError = "the host restarted during the previous turn; its effects may or may not have happened"
		}
		if !b.Digest.IsZero() { // a turn that did not complete is not counted
			run.Progress.count(b.Digest)
		}
		run.Loop.count(t.Calls)
		run.Ending = nil
		if b.Decision != messages.Continue && !b.Resumed {
			run.Ending = &Ending{Decision: b.Decision, Reason: b.Reason, Detail: b.Detail}
		}
		run.Turn = nil
	}
}

// carried keeps the streams of the last turn that had any say: a turn that a
// crash ended stored none.
func (s *State) carried(b *messages.TurnDecided) (out, scr messages.Digest) {
	if b.Resumed {
		return s.OutDigest, s.ScrDigest
	}
	return b.Output, b.Scratch
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

package turn

import (
	"bytes"
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
	Turn        *OpenTurn        `json:"turn,omitzero"`
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
	if err := json.UnmarshalRead(bytes.NewReader(b), &s, json.RejectUnknownMembers(true)); err != nil {
		return State{}, &messages.Error{Code: messages.ErrJournal, Detail: "snapshot", Cause: err}
	}
	return s, nil
}

// Apply folds one record. Records must come in order; a gap is ERR_JOURNAL.
func (s *State) Apply(r *messages.Record) error {
	if r.Seq != s.Seq+1 {
		return messages.Errorf(messages.ErrJournal, "record %d follows record %d", r.Seq, s.Seq)
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
	if _, ok := r.Body.(*messages.ModelRequest); ok {
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
		run.State = b.State
		run.LastError = ""
		if b.Resumed {
			run.Settlements++
			run.LastError = "the host restarted during the previous turn; its effects may or may not have happened"
		}
		if !b.Digest.IsZero() { // a turn that did not complete is not counted
			run.Progress.count(b.Digest)
		}
		run.Loop.count(t.Calls)
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

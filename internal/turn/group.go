package turn

import (
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// What the state of a run has of groups, folded from its records. What is done about them is
// in rollback.go.

// Group is a group of actions of the open run.
type Group struct {
	ID      string   `json:"id"`
	Members []Member `json:"members"`
	// Cause is why the group is rolled back; "" while it is open. Done says that the turn which
	// rolled it back is decided.
	Cause string `json:"cause,omitzero"`
	Done  bool   `json:"done,omitzero"`
}

// Member is an action of a group.
type Member struct {
	ID   string `json:"id"`
	Turn int64  `json:"turn"`
	Show string `json:"show,omitzero"`
	// Args are what the action began with, until it has ended; Key is its idempotency key.
	Args string `json:"args,omitzero"`
	Key  string `json:"key,omitzero"`
	// Undo is the compensation as the action declared it. Its parameters, as they are sent, are
	// Params, and Fault is why there are none; both are known when the action has ended.
	Undo   string `json:"undo,omitzero"`
	Params string `json:"params,omitzero"`
	Fault  string `json:"fault,omitzero"`
	// State is how the action ended, "" while it is open; End is the position of that record.
	// Fails says that nothing tolerates a failure of it, Always that it asks for a rollback
	// then; both are true of an action that has ended only if it failed.
	State  messages.ActionState `json:"state,omitzero"`
	End    int64                `json:"end,omitzero"`
	Fails  bool                 `json:"fails,omitzero"`
	Always bool                 `json:"always,omitzero"`
	// Undoing says that the compensation is declared, Undone is how it ended.
	Undoing bool                 `json:"undoing,omitzero"`
	Undone  messages.ActionState `json:"undone,omitzero"`
}

// outcome is what came of a rollback.
func (g *Group) outcome() string {
	outcome := messages.ActionOK
	for i := range g.Members {
		switch e := &g.Members[i]; {
		case e.Undone != "" && e.Undone != messages.ActionOK && e.Undone != messages.ActionUnknown:
			return string(messages.ActionFailed)
		case e.Undone == messages.ActionUnknown, e.Undone == "" && e.State == messages.ActionUnknown:
			outcome = messages.ActionUnknown
		}
	}
	return string(outcome)
}

func (run *OpenRun) group(id string) *Group {
	for i := range run.Groups {
		if run.Groups[i].ID == id {
			return &run.Groups[i]
		}
	}
	return nil
}

func (g *Group) member(turn int64, id string) *Member {
	for i := range g.Members {
		if e := &g.Members[i]; e.ID == id && e.Turn == turn {
			return e
		}
	}
	return nil
}

func (run *OpenRun) memberOf(turn int64, id string) *Member {
	for i := range run.Groups {
		if e := run.Groups[i].member(turn, id); e != nil {
			return e
		}
	}
	return nil
}

// enlist adds an action to its group. One that finds no room is no member.
func (run *OpenRun) enlist(turn int64, b *messages.ActionDeclared) {
	g := run.group(b.Group)
	switch {
	case g != nil && len(g.Members) >= MaxMembers, g == nil && len(run.Groups) >= MaxGroups:
		return
	case g == nil:
		run.Groups = append(run.Groups, Group{ID: b.Group})
		g = &run.Groups[len(run.Groups)-1]
	}
	g.Members = append(g.Members, Member{
		ID: b.ID, Turn: turn, Show: b.Show, Args: b.Args, Undo: b.Rollback, Always: b.OnError == messages.OnErrorRollback, Fails: b.OnError != messages.OnErrorSkip,
	})
}

// startMember notes what a member began with.
func (run *OpenRun) startMember(turn int64, b *messages.ActionStarted) {
	if e := run.memberOf(turn, b.ID); e != nil && e.State == "" {
		if e.Key = b.Key; b.Args != "" {
			e.Args = b.Args
		}
	}
}

// endMember notes how a member or the compensation of one ended.
func (run *OpenRun) endMember(r *messages.Record, a *OpenAction, b *messages.ActionEnded) {
	if a.Compensates != "" {
		if e := run.memberOf(a.CompensatesTurn, a.Compensates); e != nil {
			e.Undone = b.State
		}
		return
	}
	e := run.memberOf(r.Turn, b.ID)
	if e == nil {
		return
	}
	e.State, e.End = b.State, r.Seq
	failed := b.State == messages.ActionFailed && b.Reason != plan.ReasonGroupClosed
	e.Fails = e.Fails && failed
	e.Always = e.Always && (failed || b.State == messages.ActionUnknown)
	if e.Undo != "" && (b.State == messages.ActionOK || b.State == messages.ActionUnknown) {
		result := ""
		if b.State == messages.ActionOK {
			result = b.Result
			if result == "" {
				result = "null"
			}
		}
		e.Params, e.Fault = plan.Compensation(readUndo(e.Undo).params, result, e.Args)
	}
	e.Args = ""
}

// compensated notes that the compensation of a member is declared.
func (run *OpenRun) compensated(a *OpenAction) {
	if e := run.memberOf(a.CompensatesTurn, a.Compensates); e != nil {
		e.Undoing = true
	}
}

// settleGroups says that no rollback of the decided turn goes on.
func (run *OpenRun) settleGroups() {
	for i := range run.Groups {
		if run.Groups[i].Cause != "" {
			run.Groups[i].Done = true
		}
	}
}

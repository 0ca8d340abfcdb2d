package sim

import (
	"errors"
	"fmt"

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
	over          map[int64]bool
	cancelled     map[int64]bool
	replied       bool
	chunked       int64 // reply bytes in chunk records
}

// act is an action of the turn.
type act struct {
	args           string
	class          messages.Class
	started, ended bool
	startSeq       int64
	key            string
	denied         bool
}

func newAudit() *audit {
	return &audit{waiting: map[int64]bool{}, over: map[int64]bool{}, cancelled: map[int64]bool{}}
}

func (a *audit) apply(r *messages.Record) error {
	if r.Seq != a.seq+1 {
		return fmt.Errorf("it follows record %d", a.seq)
	}
	a.seq = r.Seq
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
	case *messages.Input:
		if a.waiting[r.Run] || a.over[r.Run] || r.Run != int64(len(a.waiting)+len(a.over)+1) || r.Turn != 0 {
			return fmt.Errorf("run ordinal %d", r.Run)
		}
		a.waiting[r.Run] = true
	case *messages.RunBegin:
		if a.run != 0 || !a.waiting[r.Run] || r.Turn != 0 {
			return fmt.Errorf("run %d begins, %d is open", r.Run, a.run)
		}
		for run := range a.waiting {
			if run < r.Run {
				return fmt.Errorf("run %d begins before run %d", r.Run, run)
			}
		}
		a.run = r.Run
	case *messages.RunEnd:
		if a.run == r.Run && a.turn != 0 || !a.waiting[r.Run] || a.over[r.Run] {
			return fmt.Errorf("run %d ends in turn %d", r.Run, a.turn)
		}
		if b.Decision == messages.Continue || (b.Decision == messages.Halt) != (b.Reason != "") {
			return fmt.Errorf("run ends with %s %s", b.Decision, b.Reason)
		}
		delete(a.waiting, r.Run)
		a.over[r.Run] = true
		if a.run == r.Run {
			a.run = 0
		}
	case *messages.TurnBegin:
		if a.turn != 0 || r.Turn != a.lastTurn+1 || r.Run != a.run || a.run == 0 || b.Nonce == "" {
			return fmt.Errorf("turn %d of run %d begins; turn %d of run %d is open", r.Turn, r.Run, a.turn, a.run)
		}
		if a.cancelled[r.Run] {
			return fmt.Errorf("run %d was cancelled and goes on", r.Run)
		}
		a.turn, a.lastTurn, a.nonce, a.begin = r.Turn, r.Turn, b.Nonce, r.Seq
		a.calls, a.open, a.replied, a.chunked = map[string]*act{}, 0, false, 0
	case *messages.TurnDecided:
		if err := inTurn(); err != nil {
			return err
		}
		if a.open > 0 {
			return fmt.Errorf("decided with %d open actions", a.open)
		}
		if !a.replied && !b.Resumed {
			return errors.New("decided without a reply")
		}
		if b.TurnIndex != r.Turn || (b.Decision == messages.Halt) != (b.Reason != "") || b.Decision == "" {
			return fmt.Errorf("decision %q %q of turn %d", b.Decision, b.Reason, b.TurnIndex)
		}
		a.turn = 0
	case *messages.ActionDeclared:
		if a.calls[b.ID] != nil {
			return fmt.Errorf("action %s declared twice", b.ID)
		}
		if err := inTurn(); err != nil {
			return err
		}
		a.calls[b.ID] = &act{args: b.Args, class: b.Class}
		a.open++
	case *messages.ActionApproval:
		c := a.calls[b.ID]
		if c == nil || c.started || c.ended {
			return fmt.Errorf("approval of action %s", b.ID)
		}
		c.denied = b.State != messages.GateApprove
		return inTurn()
	case *messages.ActionStarted:
		c := a.calls[b.ID]
		if c == nil || c.started || c.ended || c.denied {
			return fmt.Errorf("action %s started", b.ID)
		}
		c.started, c.startSeq, c.key = true, r.Seq, b.Key
		return inTurn()
	case *messages.ActionEnded:
		c := a.calls[b.ID]
		if c == nil || c.ended {
			return fmt.Errorf("action %s has no place for a terminal record", b.ID)
		}
		if b.State == messages.ActionUnknown && !c.started {
			return fmt.Errorf("action %s is unknown and never began", b.ID)
		}
		c.ended = true
		a.open--
		return inTurn()
	case *messages.ModelChunk:
		if b.Off != a.chunked {
			return fmt.Errorf("chunk at %d follows byte %d", b.Off, a.chunked)
		}
		a.chunked += int64(len(b.Bytes))
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
	case *messages.Control:
		if b.What != messages.ControlCancel {
			return inTurn()
		}
		if a.cancelled[r.Run] || r.Run != a.run {
			return fmt.Errorf("cancel of run %d", r.Run)
		}
		a.cancelled[r.Run] = true
	case *messages.Audit:
	default:
		return inTurn()
	}
	return nil
}

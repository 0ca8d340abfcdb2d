package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/program"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// interpreter is the actor of a turn's program. A program that breaches a limit fails its
// interpreter, as one does whose tool crashes.
//
//	accepts             in state
//	*runProgram         new: it runs
//	*turn.AnswerCall    running: the result of the call that the program waits for
//	*turn.StopProgram   running
//	*programEnded       running: the end goes to the session, or it fails with a breach
//	*crashed            running: it fails
//	*stopChild           any: it ends with its program
type interpreter struct {
	run   *runProgram
	ended bool
	left  bool
}

type runProgram struct {
	*family
	program.Program
}

// programEnded says how the program ended.
type programEnded struct {
	*turn.ProgramEnd
	breach bool
}

// Receive implements actor.Actor.
func (i *interpreter) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *runProgram:
		i.run = msg
		self := c.Self()
		msg.work(self, func(last func()) {
			end := msg.Run()
			last()
			msg.tell(self, &programEnded{end, breached(end)})
		}, func(crash *supervisor.Crash) any {
			return &crashed{crash, &turn.ChildDown{Ident: msg.Start.Ident, Child: turn.ChildInterpreter}}
		})
	case *turn.AnswerCall:
		i.run.Deliver(msg)
	case *turn.StopProgram:
		i.run.Cancel(messages.Errorf(msg.Code, "the turn is stopped"))
	case *programEnded:
		i.ended = true
		if msg.breach {
			panic(&supervisor.Breach{For: msg.ProgramEnd, Text: string(msg.Code) + ": " + msg.Reason})
		}
		i.run.box.Post(msg.ProgramEnd)
		if i.left {
			c.Stop(c.Self())
		}
	case *crashed:
		i.ended = true
		down(msg.Crash, msg.what)
	case *stopChild:
		i.stop(c, msg)
	}
}

// breached reports whether a program ended at a bound of its own, such as a meter, and not
// because its turn is stopped or its script failed.
func breached(end *turn.ProgramEnd) bool {
	return end.Code == messages.ErrQuota || end.Code == messages.ErrEnvSize
}

// stop ends an interpreter, once its program has ended. A pure tool may hold the program
// longer than its turn lasts.
func (i *interpreter) stop(c actor.Context, msg *stopChild) {
	i.left = true
	p := i.run
	switch {
	case i.ended:
		c.Stop(c.Self())
	case msg.over:
		p.host.cfg.Observer.Orphan()
		p.host.log.Warn("an interpreter overran its time and was left behind", zap.String("SID", p.sid), zap.Int64("turn_index", p.Start.Turn))
	}
}

func (s *session) runProgram(c actor.Context, e *turn.RunProgram) {
	s.turnRun.program = c.Spawn(s.host.childProps.interpreter)
	s.deferred = true
	s.tell(s.turnRun.program, &runProgram{s.family, program.New(s.turnRun.ctx, &s.host.programs, s.ref.Agent, s.ref.SID, s.box, e)})
}

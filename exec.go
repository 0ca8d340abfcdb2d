package stile

import (
	"context"
	"errors"
	"iter"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
)

// ExecResult is the decision about one envelope.
type ExecResult struct {
	SID      string        `json:"SID"`
	Decision Decision      `json:"decision"`
	Reason   messages.Code `json:"reason,omitzero"`
	Detail   string        `json:"detail,omitzero"`
	Output   string        `json:"output"`
	Scratch  string        `json:"scratchpad"`
	// Decided is the record's body; nil when the envelope was refused before
	// anything ran.
	Decided *messages.TurnDecided `json:"turn,omitzero"`
}

// Exec runs one complete envelope as a turn of its own, in memory: USERDATA is the
// input, ACTIONS the program; SCRATCHPAD and OUTPUT are checked and, as in every
// turn, not readable by the program. A faulty envelope is the decision
// HALT(ERR_ENV_… or ERR_USERDATA_SCHEMA), as docs/spec/aeiou.md §13 has it; the error is for
// a runtime that cannot run at all.
func Exec(ctx context.Context, envelope []byte, agent *Agent) (ExecResult, error) {
	env, _, err := aeiou.Parse(envelope, aeiou.Options{})
	if err != nil {
		var e *messages.Error
		if !errors.As(err, &e) {
			return ExecResult{}, err
		}
		return ExecResult{Decision: Halt, Reason: e.Code, Detail: e.Error()}, nil
	}
	rt, err := New(ctx, Config{InMemory: true})
	if err != nil {
		return ExecResult{}, err
	}
	defer func() { _ = rt.Close(ctx) }() // its error is that of ctx: a tool that ignores ctx goes on in the background
	own := Agent{Dialect: "aeiou", Name: "exec"}
	if agent != nil {
		own = *agent
	}
	if own.Dialect = "aeiou"; own.Manifest != nil && own.Manifest.Dialect != own.Dialect {
		return ExecResult{}, &messages.Error{Code: messages.ErrConfig, Field: "dialect", Detail: "an envelope is run under aeiou, not under " + own.Manifest.Dialect}
	}
	own.Model = said(env.Actions)
	s, err := rt.Open(ctx, "exec", &own)
	if err != nil {
		return ExecResult{}, err
	}
	run, err := s.Submit(ctx, string(env.Userdata))
	if err != nil {
		var e *messages.Error
		if errors.As(err, &e) && e.Code == messages.ErrUserdataSchema {
			return ExecResult{SID: s.SID(), Decision: Halt, Reason: e.Code, Detail: e.Error()}, nil
		}
		return ExecResult{}, err
	}
	for u, err := range run.Events(ctx) {
		if err != nil {
			return ExecResult{}, err
		}
		if u.Record == nil {
			continue
		}
		if d, ok := u.Record.Body.(*messages.TurnDecided); ok {
			return rt.execResult(ctx, s, d)
		}
	}
	return ExecResult{}, messages.Errorf(messages.ErrCrash, "the turn ended without a decision")
}

func (rt *Runtime) execResult(ctx context.Context, s *Session, d *messages.TurnDecided) (ExecResult, error) {
	res := ExecResult{SID: s.SID(), Decision: d.Decision, Reason: d.Reason, Detail: d.Detail, Decided: d}
	for _, part := range []struct {
		digest messages.Digest
		to     *string
	}{{d.Output, &res.Output}, {d.Scratch, &res.Scratch}} {
		if part.digest.IsZero() {
			continue
		}
		b, err := s.Blob(ctx, part.digest)
		if err != nil {
			return ExecResult{}, err
		}
		*part.to = string(b)
	}
	return res, nil
}

// said is a model that says one thing.
type said []byte

// Stream implements llm.Model.
func (m said) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: m, Finish: messages.FinishComplete}, nil)
	}
}

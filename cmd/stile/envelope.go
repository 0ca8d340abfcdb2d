package main

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
)

// execResult is the decision about one envelope.
type execResult struct {
	SID      string         `json:"SID"`
	Decision stile.Decision `json:"decision"`
	Reason   messages.Code  `json:"reason,omitzero"`
	Detail   string         `json:"detail,omitzero"`
	Output   string         `json:"output"`
	Scratch  string         `json:"scratchpad"`
	// TS is when the turn was decided, RFC 3339 in UTC; "" as Decided is nil.
	TS string `json:"ts,omitzero"`
	// Lints are those of the envelope, and of composing the next one of OUTPUT and
	// SCRATCHPAD; those of the turn are in Decided.
	Lints []execLint `json:"lints,omitzero"`
	// Decided is the record's body; nil when the envelope was refused before
	// anything ran.
	Decided *messages.TurnDecided `json:"turn,omitzero"`
}

// execLint is a remark about an envelope. Section, and the line it stands on, are those of
// the envelope that was given; a remark about the next one has none.
type execLint struct {
	Code    messages.Code `json:"code"`
	Section string        `json:"section,omitzero"`
	Line    int           `json:"line,omitzero"`
}

// runEnvelope runs one complete envelope as a turn of its own, in memory: USERDATA is the
// input, ACTIONS the program; SCRATCHPAD and OUTPUT are checked and, as in every
// turn, not readable by the program. A faulty envelope is the decision
// HALT(ERR_ENV_… or ERR_USERDATA_SCHEMA), as docs/spec/aeiou.md §13 has it; the error is for
// a runtime that cannot run at all.
func runEnvelope(ctx context.Context, envelope []byte, agent *stile.Agent) (execResult, error) {
	strict := agent != nil && agent.Manifest != nil && agent.Manifest.Envelope.StrictDuplicates
	env, found, err := aeiou.Parse(envelope, aeiou.Options{StrictDuplicates: strict})
	if err != nil {
		var e *messages.Error
		if !errors.As(err, &e) {
			return execResult{}, err
		}
		return execResult{Decision: stile.Halt, Reason: e.Code, Detail: e.Error()}, nil
	}
	var lints []execLint
	for _, l := range found {
		lints = append(lints, execLint{Code: l.Code, Section: l.Section, Line: l.Line})
	}
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		return execResult{}, err
	}
	defer func() { _ = rt.Close(ctx) }() // its error is that of ctx: a tool that ignores ctx goes on in the background
	own := stile.Agent{Name: "exec"}
	if agent != nil {
		own = *agent
	}
	m := manifest.Default("aeiou")
	if own.Manifest != nil {
		*m = *own.Manifest
	}
	own.Manifest, m.Loop.Repairs = m, new(int64) // one envelope, one turn
	if own.Dialect = "aeiou"; m.Dialect != own.Dialect {
		return execResult{}, &messages.Error{Code: messages.ErrConfig, Field: "dialect", Detail: "an envelope is run under aeiou, not under " + m.Dialect}
	}
	own.Model = fixedReply(env.Actions)
	s, err := rt.Open(ctx, "exec", &own)
	if err != nil {
		return execResult{}, err
	}
	run, err := s.Submit(ctx, string(env.Userdata))
	if err != nil {
		var e *messages.Error
		if errors.As(err, &e) && e.Code == messages.ErrUserdataSchema {
			return execResult{SID: s.SID(), Decision: stile.Halt, Reason: e.Code, Detail: e.Error(), Lints: lints}, nil
		}
		return execResult{}, err
	}
	for u, err := range run.Events(ctx) {
		if err != nil {
			return execResult{}, err
		}
		if u.Record == nil {
			continue
		}
		if d, ok := u.Record.Body.(*messages.TurnDecided); ok {
			res, err := execResultOf(ctx, s, d)
			res.TS = u.Record.TS.UTC().Format(time.RFC3339Nano)
			res.Lints = append(lints, lintsOfNext(env.Userdata, &res)...)
			return res, err
		}
	}
	return execResult{}, messages.Errorf(messages.ErrCrash, "the turn ended without a decision")
}

func execResultOf(ctx context.Context, s *stile.Session, d *messages.TurnDecided) (execResult, error) {
	res := execResult{SID: s.SID(), Decision: d.Decision, Reason: d.Reason, Detail: d.Detail, Decided: d}
	for _, part := range []struct {
		digest messages.Digest
		to     *string
	}{{d.Output, &res.Output}, {d.Scratch, &res.Scratch}} {
		if part.digest.IsZero() {
			continue
		}
		b, err := s.Blob(ctx, part.digest)
		if err != nil {
			return execResult{}, err
		}
		*part.to = string(b)
	}
	return res, nil
}

// lintsOfNext are those of the envelope that the next turn would get.
func lintsOfNext(userdata []byte, res *execResult) (all []execLint) {
	_, codes, err := aeiou.Compose(aeiou.Envelope{
		Userdata: userdata, Scratchpad: aeiou.Carry([]byte(res.Scratch)), Output: aeiou.Carry([]byte(res.Output)),
	})
	if err != nil { // the input was checked, and no stream is refused
		return nil
	}
	for _, code := range codes {
		all = append(all, execLint{Code: code})
	}
	return all
}

// fixedReply is a model with one reply.
type fixedReply []byte

// Stream implements llm.Model.
func (m fixedReply) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: m, Finish: messages.FinishComplete}, nil)
	}
}

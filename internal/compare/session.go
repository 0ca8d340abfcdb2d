// Package compare compares two sessions by their records: inputs, answers, calls, decisions
// and usage.
//
// Runs are matched by their order, without those that were cancelled before they began; turns
// by their order in the run, calls by their order in the turn. Ids, times, nonces, digests
// and thoughts are not compared: two sessions are alike if a person who talks to them, and
// the tools that they call, could not distinguish them.
package compare

import (
	"iter"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Session is the part of a session that is compared.
type Session struct {
	SID  string
	Runs []*Run
	Sums Sums // of all its runs
}

// Run is a run that has begun.
type Run struct {
	Ordinal  int64             `json:"run"`
	Input    string            `json:"input"` // all inputs of the run, a line end between them
	Turns    []*Turn           `json:"turns"`
	Decision messages.Decision `json:"decision,omitzero"` // "" while it is open
	Reason   messages.Code     `json:"reason,omitzero"`
}

// Turn is one turn.
type Turn struct {
	Index    int64             `json:"turn"`
	Model    string            `json:"model"` // provider/model that was asked last
	Reply    string            `json:"reply"` // responses, texts and emissions, as they came
	Calls    []Call            `json:"calls,omitzero"`
	Decision messages.Decision `json:"decision,omitzero"`
	Reason   messages.Code     `json:"reason,omitzero"`
	Detail   string            `json:"detail,omitzero"`
	Sums     Sums              `json:"sums"`
}

// Call is one call and how it ended.
type Call struct {
	Type   messages.ActionType  `json:"type"`
	Name   string               `json:"name"`
	Args   string               `json:"args"` // canonical JSON, references replaced
	State  messages.ActionState `json:"state,omitzero"`
	Reason string               `json:"reason,omitzero"`
	Result string               `json:"result,omitzero"`

	id string
}

// Sums are time and usage of a turn, run or session.
type Sums struct {
	Runs    int64 `json:"runs"`
	Turns   int64 `json:"turns"`
	Calls   int64 `json:"calls"`
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	CostUSD int64 `json:"cost_micro_usd"`
	// Unpriced reports whether a reply had no price, so that its cost is not in CostUSD.
	Unpriced bool `json:"unpriced,omitzero"`
}

// Plus returns the sum of both.
func (s Sums) Plus(o Sums) Sums {
	return Sums{
		Runs: s.Runs + o.Runs, Turns: s.Turns + o.Turns, Calls: s.Calls + o.Calls,
		Input: s.Input + o.Input, Output: s.Output + o.Output, CostUSD: s.CostUSD + o.CostUSD, Unpriced: s.Unpriced || o.Unpriced,
	}
}

// Read returns a session from its records. The error is ERR_JOURNAL for a record whose body was
// erased, and otherwise that of records.
func Read(records iter.Seq2[*messages.Record, error]) (*Session, error) {
	s := &Session{}
	g := gatherer{s: s, inputs: map[int64][]string{}, runs: map[int64]*Run{}, turns: map[int64]*Turn{}}
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		switch r.Body.(type) {
		case nil, *messages.Undecoded:
			return nil, messages.Errorf(messages.ErrJournal, "record %d was erased: the session cannot be compared", r.Seq)
		}
		s.SID = r.SID
		g.record(r)
	}
	for _, run := range s.Runs {
		s.Sums.Runs++
		for _, t := range run.Turns {
			t.Sums.Turns, t.Sums.Calls = 1, int64(len(t.Calls))
			s.Sums = s.Sums.Plus(t.Sums)
		}
	}
	return s, nil
}

type gatherer struct {
	s      *Session
	inputs map[int64][]string // by run, of those that have not begun too
	runs   map[int64]*Run
	turns  map[int64]*Turn
}

func (g *gatherer) record(r *messages.Record) {
	switch b := r.Body.(type) {
	case *messages.Input:
		g.inputs[r.Run] = append(g.inputs[r.Run], b.Text+b.Userdata)
		if run := g.runs[r.Run]; run != nil { // it joins a run that has begun
			run.Input = strings.Join(g.inputs[r.Run], "\n")
		}
	case *messages.RunBegin:
		run := &Run{Ordinal: r.Run, Input: strings.Join(g.inputs[r.Run], "\n")}
		g.runs[r.Run] = run
		g.s.Runs = append(g.s.Runs, run)
	case *messages.RunEnd:
		if run := g.runs[r.Run]; run != nil {
			run.Decision, run.Reason = b.Decision, b.Reason
		}
	case *messages.TurnBegin:
		t := &Turn{Index: r.Turn}
		g.turns[r.Turn] = t
		if run := g.runs[r.Run]; run != nil {
			run.Turns = append(run.Turns, t)
		}
	default:
		if t := g.turns[r.Turn]; t != nil {
			t.record(r)
		}
	}
}

// record takes what happened in the turn.
func (t *Turn) record(r *messages.Record) {
	switch b := r.Body.(type) {
	case *messages.ModelRequest:
		t.Model = b.Provider + "/" + b.Model
	case *messages.ModelReply:
		t.Sums = t.Sums.Plus(Sums{Input: b.Usage.Input, Output: b.Usage.Output, CostUSD: b.CostUSD, Unpriced: b.Unpriced})
	case *messages.UnitText:
		if b.UnitKind != messages.ThoughtUnit {
			t.say(b.Text)
		}
	case *messages.Emit:
		if !b.Candidate {
			t.say(b.Text)
		}
	case *messages.ActionDeclared:
		t.Calls = append(t.Calls, Call{id: b.ID, Type: b.Type, Name: b.Name, Args: b.Args})
	case *messages.ActionStarted:
		if c := t.call(b.ID); c != nil && b.Args != "" {
			c.Args = b.Args
		}
	case *messages.ActionEnded:
		if c := t.call(b.ID); c != nil {
			c.State, c.Reason, c.Result = b.State, b.Reason, b.Result
		}
		t.Sums.CostUSD += b.CostUSD
	case *messages.TurnDecided:
		t.Decision, t.Reason, t.Detail = b.Decision, b.Reason, b.Detail
	}
}

func (t *Turn) say(text string) {
	if t.Reply != "" && !strings.HasSuffix(t.Reply, "\n") {
		t.Reply += "\n"
	}
	t.Reply += text
}

func (t *Turn) call(id string) *Call {
	for i := range t.Calls {
		if t.Calls[i].id == id {
			return &t.Calls[i]
		}
	}
	return nil
}

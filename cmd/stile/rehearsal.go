package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/compare"
	"github.com/seed14be6753/stile/internal/rehearse"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// liveOptions say how a session is asked again.
type liveOptions struct {
	live            bool
	at              int64
	as              string
	effects, budget string
}

// Values of --effects.
const (
	effectsRefuse = "refuse"
	effectsRun    = "run"
)

// check reads the flags. Effects that run need a bound.
func (o *liveOptions) check(manifest string) (bound messages.Budget, err error) {
	switch {
	case !o.live && (o.at != 0 || o.as != "" || o.effects != effectsRefuse || o.budget != ""):
		return bound, flagError("--live", "is missing: --at, --as, --effects and --budget go with it")
	case !o.live:
		return bound, nil
	case manifest == "":
		return bound, flagError("--manifest", "is missing: --live asks the model of a manifest")
	case o.at < 0:
		return bound, flagError("--at", "is a turn_index, 1 or more")
	case o.effects != effectsRefuse && o.effects != effectsRun:
		return bound, flagError("--effects", "is "+effectsRefuse+" or "+effectsRun)
	case o.effects == effectsRun && o.budget == "":
		return bound, flagError("--budget", "is missing: --effects run does what the model asks for, and wants a bound: "+budgetHelp)
	}
	if o.budget != "" {
		bound, err = parseBudget("--budget", o.budget)
	}
	return bound, err
}

// liveJSON is what came of asking again.
type liveJSON struct {
	SID      string          `json:"sid"`
	At       int64           `json:"at,omitempty"`   // the first turn that was asked again
	Fork     string          `json:"fork,omitempty"` // SID of the session with the new turns; "" when nothing was asked
	Calls    rehearse.Counts `json:"calls"`
	Used     messages.Budget `json:"used"`
	NotAsked int64           `json:"inputs_not_asked"` // because the budget was used up
	Trial    *trialJSON      `json:"trial,omitempty"`
	Diff     *diffJSON       `json:"diff,omitempty"`
}

// rehearsal is a session that is asked again in a fork.
type rehearsal struct {
	a     *app
	rt    *stile.Runtime
	agent *stile.Agent
	stage *rehearse.Stage
	from  messages.Incarnation // of the session that is asked again
	bound messages.Budget      // of all of it; 0 is none
	used  messages.Budget
	after int64 // the last record that the fork took over: what those before used is not of the rehearsal
	json  bool
}

// replayLive tries the agent, and asks its model again from the first difference on, or from
// the turn that the flags name: in a fork, the session stays as it is.
func (a *app) replayLive(ctx context.Context, name string, agent *stile.Agent, o liveOptions, bound messages.Budget, asJSON bool) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if err := stile.Check(agent, cfg); err != nil {
		return err // before anything is made
	}
	// Looking first keeps a mistyped directory from being made.
	if err := a.withArchive(ctx, func(ar *stile.Archive) error { _, err := ar.Head(ctx, name); return err }); err != nil {
		return err
	}
	return a.withRuntime(ctx, cfg, func(rt *stile.Runtime) error {
		head, err := rt.Archive().Head(ctx, name)
		if err != nil {
			return err
		}
		out := liveJSON{SID: head.SID, At: o.at}
		if o.at == 0 {
			t, err := rt.Archive().Try(ctx, head.Inc, agent)
			if err != nil {
				return err
			}
			out.At = t.First()
			if err := a.showTrial(&t, &out, asJSON); err != nil || out.At == 0 {
				return err
			}
		}
		return a.askAgain(ctx, rt, head, agent, o, bound, out, asJSON)
	})
}

// showTrial shows what an offline replay found; for JSON it goes into what is printed at the end.
func (a *app) showTrial(t *replay.Trial, out *liveJSON, asJSON bool) error {
	j := trialJSONOf(t)
	out.Trial = &j
	switch {
	case !asJSON:
		return a.trialText(t, false)
	case out.At == 0:
		return a.writeJSON(out)
	}
	return nil
}

func (a *app) askAgain(ctx context.Context, rt *stile.Runtime, head stile.Head, agent *stile.Agent, o liveOptions, bound messages.Budget, out liveJSON, asJSON bool) error {
	was, err := historyOf(rt.Archive().Records(ctx, head.Inc), out.At)
	if err != nil {
		return err
	}
	calls, err := rehearse.Recorded(rt.Archive().Records(ctx, head.Inc), out.At)
	if err != nil {
		return err
	}
	r := &rehearsal{a: a, rt: rt, from: head.Inc, bound: bound, json: asJSON, stage: rehearse.New(calls, rehearse.Options{Effects: o.effects == effectsRun})}
	own := *agent
	own.Around, r.agent = r.stage.Around, &own
	if m := *agent.Manifest; m.Memory.Profile { // what is said again is no news of the user
		m.Memory.Cadence = rareCadence
		own.Manifest = &m
	}
	fork, first, err := r.fork(ctx, head, was, o, out.At)
	if err != nil {
		return err
	}
	out.Fork, r.after = fork.SID, fork.Seq
	if !asJSON {
		if _, err := fmt.Fprintf(a.out, "fork     %s, asked again from turn %d on; %s stays as it is\n", fork.SID, out.At, head.SID); err != nil {
			return err
		}
	}
	if out.NotAsked, err = r.play(ctx, fork.SID, first, was.later); err != nil {
		return err
	}
	out.Calls, out.Used = r.stage.Counts(), r.used
	left, err := compare.Read(rt.Archive().Records(ctx, head.Inc))
	if err != nil {
		return err
	}
	right, err := compare.Read(rt.Archive().Records(ctx, fork.Inc))
	if err != nil {
		return err
	}
	differ := false
	if asJSON {
		d := diffJSONOf(left, right, false)
		out.Diff, differ = &d, !d.Same
		err = a.writeJSON(out)
	} else {
		if err := a.liveText(&out); err != nil {
			return err
		}
		differ, err = a.showDiff(left, right, diffOptions{})
	}
	if err == nil && differ {
		err = exitDifference
	}
	return err
}

// rareCadence is the most that memory.profile_cadence may be.
const rareCadence = 100

// liveText says what became of the calls.
func (a *app) liveText(out *liveJSON) error {
	p := a.printer("")
	c := &out.Calls
	text := fmt.Sprintf("%d with their recorded result, %d done, %d refused", c.Reused, c.Ran, c.Refused)
	for i, f := range c.Refusals {
		if text += ", "; i == 0 {
			text = strings.TrimSuffix(text, ", ") + ": "
		}
		text += fmt.Sprintf("%s (%s) %d", f.Name, f.Class, f.N)
	}
	p.line("", "calls", text)
	if c.Unused > 0 {
		p.line(dim, "", fmt.Sprintf("%s not asked for", count(c.Unused, "recorded result")))
	}
	p.line("", "used", budgetText(out.Used))
	if out.NotAsked > 0 {
		p.line(red, "budget", fmt.Sprintf("is used up: %s not asked", count(out.NotAsked, "input")))
	}
	return p.err
}

// history is what a rehearsal must know of a session.
type history struct {
	run    int64 // of the turn from which on it is asked again
	begins bool  // the turn is the first of its run
	later  []messages.Input
}

// historyOf finds the run of a turn, and the inputs of the runs that began after it.
func historyOf(records iter.Seq2[*stile.Record, error], at int64) (h history, err error) {
	inputs := map[int64]*messages.Input{} // by the position of their records
	found, behind := false, false
	latest := int64(0) // run of the latest turn
	for r, err := range records {
		if err != nil {
			return h, err
		}
		switch b := r.Body.(type) {
		case *messages.Input:
			inputs[r.Seq] = b
		case *messages.RunBegin:
			if !found {
				break
			}
			behind = true
			in := inputs[b.Input]
			if in == nil {
				return h, messages.Errorf(messages.ErrJournal, "run %d has no input", r.Run)
			}
			own := *in
			for _, seq := range b.Merged {
				if more := inputs[seq]; more != nil && more.Text != "" {
					own.Text += "\n" + more.Text
				}
			}
			h.later = append(h.later, own)
		case *messages.TurnBegin:
			if r.Turn == at && !behind {
				h.run, h.begins, found = r.Run, latest != r.Run, true
			}
			latest = r.Run
		}
	}
	if !found {
		return h, &messages.Error{Code: messages.ErrNotFound, Field: "--at", Detail: "the session has no turn " + strconv.FormatInt(at, 10)}
	}
	return h, nil
}

// maxNames bounds the names that are tried for a fork.
const maxNames = 1000

// fork makes the session in which the model is asked, and gives the run that is asked first.
func (r *rehearsal) fork(ctx context.Context, head stile.Head, was history, o liveOptions, at int64) (fork *stile.Head, run int64, err error) {
	as := o.as
	for n := 1; as == "" && n <= maxNames; n++ {
		name := head.SID + "-live-" + strconv.Itoa(n)
		if _, err := r.rt.Archive().Head(ctx, name); journal.IsNotFound(err) {
			as = name
		} else if err != nil {
			return nil, 0, err
		}
	}
	if as == "" {
		return nil, 0, flagError("--as", "is needed: every name up to "+head.SID+"-live-"+strconv.Itoa(maxNames)+" is taken")
	}
	if !was.begins {
		fork, err = r.rt.Fork(ctx, head.SID, at-1, as)
		return fork, was.run, err
	}
	if fork, err = r.rt.ForkInput(ctx, head.SID, at, as, "", r.within); err != nil {
		return nil, 0, err
	}
	for rec, err := range r.rt.Archive().Records(ctx, fork.Inc) {
		if err != nil {
			return nil, 0, err
		}
		run = rec.Run // of its input, which is the last record
	}
	return fork, run, nil
}

// within gives an input what is left of the budget, within the input's own.
func (r *rehearsal) within(in *messages.Input) {
	left := messages.Budget{}
	if in.Budget != nil {
		left = *in.Budget
	}
	tighten := func(own *int64, bound, used int64) {
		if rest := max(bound-used, 1); bound > 0 && (*own == 0 || rest < *own) {
			*own = rest
		}
	}
	tighten(&left.Tokens, r.bound.Tokens, r.used.Tokens)
	tighten(&left.CostUSD, r.bound.CostUSD, r.used.CostUSD)
	if left != (messages.Budget{}) {
		in.Budget = &left
	}
}

// dataOf reads the bytes of an input's parts.
func (r *rehearsal) dataOf(ctx context.Context, in *messages.Input) (data [][]byte, err error) {
	for i := range in.Parts {
		one, err := r.rt.Archive().Blob(ctx, r.from, in.Parts[i].Digest)
		if err != nil {
			return nil, err
		}
		data = append(data, one)
	}
	return data, nil
}

// play runs the first run and then one for each of the later inputs; it gives how many of
// them the budget left no room for.
func (r *rehearsal) play(ctx context.Context, sid string, first int64, later []messages.Input) (left int64, err error) {
	s, err := r.rt.Open(ctx, sid, r.agent)
	if err != nil {
		return 0, err
	}
	if err := r.watch(ctx, s, s.Run(first)); err != nil {
		return 0, err
	}
	for i := range later {
		if over(r.bound, r.used) {
			return int64(len(later) - i), nil
		}
		data, err := r.dataOf(ctx, &later[i])
		if err != nil {
			return 0, err
		}
		run, err := s.Submit(ctx, "", func(in *messages.Input) {
			*in = later[i]
			in.Data = data
			in.Key, in.Policy = "", messages.Enqueue
			r.within(in)
		})
		if err != nil {
			return 0, err
		}
		if err := r.watch(ctx, s, run); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// overBudget is who cancels a run whose budget is used up.
const overBudget = "the budget"

// watch shows a run to its end. Calls that wait for a person are answered by the stage: one
// that does nothing may go on, any other is denied, as a rehearsal asks no person.
func (r *rehearsal) watch(ctx context.Context, s *stile.Session, run *stile.Run) error {
	show, done := func(stile.Update) error { return nil }, func() error { return nil }
	if !r.json {
		show, done = r.a.watcher(false)
	}
	events, last, free := run.Events, int64(0), false
	for {
		d, err := followFrom(ctx, run, events, func(u stile.Update) error {
			if err := show(u); err != nil || u.Record == nil {
				return err
			}
			if last = u.Record.Seq; last <= r.after {
				return nil
			}
			switch b := u.Record.Body.(type) {
			case *messages.ModelReply:
				r.used = r.used.Plus(messages.Budget{Tokens: b.Usage.Input + b.Usage.Output, CostUSD: b.CostUSD})
				if free = b.Unpriced && r.bound.CostUSD > 0 && r.bound.Tokens == 0; free {
					return run.Cancel(ctx, overBudget)
				}
			case *messages.ActionEnded:
				r.used = r.used.Plus(messages.Budget{Tokens: b.Tokens, CostUSD: b.CostUSD})
			case *messages.TurnSuspended:
				return exitSuspended
			case *messages.TurnDecided:
				if b.Decision == messages.Continue && over(r.bound, r.used) {
					return run.Cancel(ctx, overBudget)
				}
			}
			return nil
		})
		if errors.Is(err, exitSuspended) {
			if err = r.answer(ctx, s); err == nil {
				from := stile.Position{Seq: last}
				events = func(ctx context.Context) iter.Seq2[stile.Update, error] { return run.Resume(ctx, from) }
				continue
			}
		}
		if ended := done(); err == nil {
			err = ended
		}
		if err == nil && free {
			err = flagError("--budget", "has money alone, and the model has no price: give tokens as well, "+budgetHelp)
		}
		if err == nil && ctx.Err() != nil && d.Reason == messages.ErrCancelled {
			err = exitInterrupted
		}
		return err
	}
}

// answer answers the calls that wait for a person. Its answers are in the audit log of a host of
// the directory, as those of a person are.
func (r *rehearsal) answer(ctx context.Context, s *stile.Session) error {
	list, err := s.Approvals(ctx)
	if err != nil {
		return err
	}
	types := map[string]messages.ActionType{}
	for rec, err := range s.Records(ctx) {
		if err != nil {
			return err
		}
		if b, ok := rec.Body.(*messages.ActionDeclared); ok && slices.ContainsFunc(list, func(q stile.Approval) bool { return q.Turn == rec.Turn && q.Action == b.ID }) {
			types[b.ID] = b.Type
		}
	}
	key, err := messages.ParseSID(s.SID())
	if err != nil {
		return err
	}
	const by = "rehearsal"
	for _, q := range list {
		answer, do := messages.GateApprove, func() error { return s.Approve(ctx, q, by) }
		if r.stage.Reaches(types[q.Action], q.Tool, q.Args, q.Class) {
			answer, do = messages.GateDeny, func() error {
				return s.Deny(ctx, q, by, "no person is asked in a rehearsal, and this call has no recorded result: go on without it")
			}
		}
		line := about("answer-approval", key)
		line.Run, line.Approval, line.Detail = strconv.FormatInt(q.Run, 10), q.ID, string(answer)+" by "+by
		if err := r.a.onRecord(&line, do); err != nil {
			return err
		}
	}
	return nil
}

// Package probe asks the model of an agent a handful of questions and says how it got on:
// mistakes in the dialect, habits that were forgiven, results that it made up, tokens and
// time. The questions are made of the agent's own tools, whose results are canned: no
// tool, relic, workflow or agent runs.
package probe

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Finding is how the model got on with one question.
type Finding struct {
	Question string `json:"question"`
	// OK reports that the question was answered: the run is DONE, with the calls and the
	// words that it takes.
	OK       bool   `json:"ok"`
	Why      string `json:"why,omitempty"` // when it is not
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	Turns    int64  `json:"turns"`
	// Calls are the names of the calls that ended well, in order.
	Calls []string `json:"calls"`
	// Errors are what the dialect complained of, and calls that were refused or failed for
	// another cause than the canned one.
	Errors []string `json:"errors"`
	// Habits count the lints of the turns by their code.
	Habits map[string]int `json:"habits"`
	// MadeUp reports an answer that says nothing of the results it was asked about.
	MadeUp       bool   `json:"made_up"`
	Answer       string `json:"answer"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	Estimated    bool   `json:"estimated,omitempty"` // the provider did not count the tokens
	MS           int64  `json:"ms"`
}

// Probe is what there is to find out.
type Probe struct {
	Agent  *stile.Agent
	Config stile.Config
	// Word gives a word that no model can guess, another one each time.
	Word func() string
	// Timeout bounds a question, all its messages together.
	Timeout time.Duration
}

// Run asks all questions, one after the other, and tells of each. Errors are those of the
// agent, of the runtime and of tell; what a model does wrong is a finding.
func (p *Probe) Run(ctx context.Context, tell func(Finding) error) (err error) {
	specs, err := p.specs()
	if err != nil {
		return err
	}
	cfg := p.Config
	cfg.InMemory = true
	rt, err := stile.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
		defer cancel()
		err = errors.Join(err, rt.Close(end))
	}()
	for i, q := range Questions(p.Agent.Manifest.Dialect, specs, p.Word) {
		f, err := p.ask(ctx, rt, "probe-"+strconv.Itoa(i), &q)
		if err != nil {
			return err
		}
		if err := tell(f); err != nil {
			return err
		}
	}
	return err
}

// closeWait is how long the runtime may take to close.
const closeWait = 10 * time.Second

// specs are what the agent may call, as a check of it sees them.
func (p *Probe) specs() (specs []messages.ToolSpec, err error) {
	own := p.canned(func(t messages.ToolSpec) (string, error) {
		specs = append(specs, t)
		return "null", nil
	})
	return specs, stile.Check(own, p.Config)
}

// canned is the agent with its calls answered, and without what would learn from the
// questions or ask a person.
func (p *Probe) canned(answer func(messages.ToolSpec) (string, error)) *stile.Agent {
	own, m := *p.Agent, *p.Agent.Manifest
	m.Memory.Profile = false
	if m.Approval.Default == messages.GateConfirm {
		m.Approval.Default = messages.GateApprove
	}
	tools := map[string]messages.GateAnswer{}
	for name, a := range m.Approval.Tools {
		if a == messages.GateConfirm {
			a = messages.GateApprove
		}
		tools[name] = a
	}
	m.Approval.Tools = tools
	own.Manifest, own.Canned = &m, answer
	return &own
}

func (p *Probe) ask(ctx context.Context, rt *stile.Runtime, sid string, q *Question) (Finding, error) {
	f := Finding{Question: q.Name, Calls: []string{}, Errors: []string{}, Habits: map[string]int{}}
	agent := p.canned(func(t messages.ToolSpec) (string, error) {
		if r, ok := q.Results[t.Name]; ok {
			return r, nil
		}
		failure := q.Failure
		if failure == "" {
			failure = "this tool is not to be called now"
		}
		return "", errors.New(failure)
	})
	s, err := rt.Open(ctx, sid, agent)
	if err != nil {
		return f, err
	}
	asked := time.Now()
	within, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	for _, text := range q.Texts {
		run, err := s.Submit(ctx, text)
		if err != nil {
			return f, err
		}
		seen := watcher{q: q, f: &f, units: map[string]int{}}
		for u, err := range run.Events(within) {
			if err == nil && u.Record != nil {
				seen.record(u.Record)
			}
			if err != nil {
				break // told below, by the decision
			}
		}
		end, err := run.Decision(within)
		switch {
		case ctx.Err() != nil:
			return f, ctx.Err()
		case within.Err() != nil:
			f.Why = "no answer within " + p.Timeout.String()
			_ = run.Cancel(ctx, "probe") // the run may have ended meanwhile
			f.MS = time.Since(asked).Milliseconds()
			return f, nil
		case err != nil:
			return f, err
		}
		f.Decision, f.Reason, f.Turns = string(end.Decision), string(end.Reason), f.Turns+end.Turns
		f.Answer = strings.TrimSpace(strings.Join(seen.texts, "\n"))
		f.judge(q, end.Detail)
	}
	f.MS = time.Since(asked).Milliseconds()
	return f, nil
}

// judge records whether the question was answered.
func (f *Finding) judge(q *Question, detail string) {
	missing := slices.DeleteFunc(slices.Clone(q.Words), func(w string) bool {
		return strings.Contains(strings.ToLower(f.Answer), strings.ToLower(w))
	})
	f.MadeUp, f.Why = false, ""
	switch {
	case f.Decision != string(messages.Done):
		f.Why = "the run ended " + f.Decision + " " + f.Reason
		if detail != "" {
			f.Why += ": " + detail
		}
	case f.Answer == "":
		f.Why = "the user got no answer"
	case slices.ContainsFunc(q.Calls, func(name string) bool { return !slices.Contains(f.Calls, name) }):
		f.Why = "called " + strings.Join(f.Calls, ", ") + ", and was asked for " + strings.Join(q.Calls, ", ")
		if len(f.Calls) == 0 {
			f.Why = "called nothing, and was asked for " + strings.Join(q.Calls, ", ")
		}
		f.MadeUp = len(missing) > 0
	case len(missing) > 0:
		f.Why, f.MadeUp = "the answer has nothing of the result: "+strings.Join(missing, ", "), len(q.Results) > 0 || q.Failure != ""
	}
	f.OK = f.Why == ""
}

// watcher gathers what the records of one run say.
type watcher struct {
	q     *Question
	f     *Finding
	texts []string
	units map[string]int    // index into said
	names map[string]string // of the turn's actions, by id
}

func (w *watcher) record(r *messages.Record) {
	f := w.f
	switch b := r.Body.(type) {
	case *messages.TurnBegin:
		w.names = map[string]string{}
	case *messages.UnitText:
		if b.UnitKind == messages.ResponseUnit || b.Final {
			w.units[b.Unit] = len(w.texts)
			w.texts = append(w.texts, b.Text)
		}
	case *messages.Emit:
		if b.Held {
			break
		}
		var lines []string
		for line := range strings.SplitSeq(b.Text, "\n") {
			if !b.Candidate || !strings.HasPrefix(line, tokenMark) {
				lines = append(lines, line)
			}
		}
		w.texts = append(w.texts, strings.Join(lines, "\n"))
	case *messages.Retract:
		if i, ok := w.units[b.Unit]; ok {
			w.texts[i] = w.texts[i][:min(max(int(b.Off), 0), len(w.texts[i]))]
		}
	case *messages.ParseFault:
		f.Errors = append(f.Errors, explained(string(b.Code), b.Reason, b.Detail))
	case *messages.ActionDeclared:
		w.names[b.ID] = b.Name
	case *messages.ActionEnded:
		switch name := w.names[b.ID]; {
		case b.State == messages.ActionOK:
			f.Calls = append(f.Calls, name)
		case w.q.Failure == "" || !strings.Contains(b.Result+b.Reason, w.q.Failure):
			f.Errors = append(f.Errors, explained(name, string(b.State), b.Reason))
		}
	case *messages.ModelReply:
		f.InputTokens, f.OutputTokens = f.InputTokens+b.Usage.Input, f.OutputTokens+b.Usage.Output
		f.Estimated = f.Estimated || b.Usage.Estimated
	case *messages.TurnDecided:
		for _, l := range b.Lints {
			f.Habits[string(l)]++
		}
		if b.Decision == messages.Halt {
			f.Errors = append(f.Errors, explained(string(b.Reason), "", b.Detail))
		}
	}
}

// tokenMark begins a line that carries control and is not for the user.
const tokenMark = "<<<NSMAG:V3:"

// explained joins the parts that say something.
func explained(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

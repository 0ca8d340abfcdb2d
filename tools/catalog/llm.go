package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Prompt is a target that asks a model with a template (docs/spec/streaming.md §7.1).
type Prompt struct {
	Name     string
	Summary  string
	Template string // $name and ${name.path} stand for parameters
	System   string // no template
	Model    string // unless the action names one
	Allow    []string
	Timeout  time.Duration
	// Ask asks a model one question.
	Ask func(ctx context.Context, q Question) (Answer, error)
}

// Question is what a Prompt asks a model.
type Question struct {
	Session string
	Turn    int64
	Model   string
	System  string
	Text    string
	// MaxReplyBytes bounds the answer; a longer one is cut off and fails.
	MaxReplyBytes int64
	// Emit takes the next piece of the answer, in order; the answer is the pieces joined. Its
	// error ends the question. It does nothing unless the answer is shown as it grows.
	Emit func(ctx context.Context, text string) error
}

// Answer is the reply to a Question. Tokens and cost count even if Ask returned an error.
type Answer struct {
	Text         string
	Tokens       int64
	CostMicroUSD int64
}

// modelParam is the parameter that names a model.
const modelParam = "model"

// LLM returns the target of a prompt. Its parameters are the names in the template, all
// required, and "model" if more than one is allowed.
func LLM(p Prompt) *Executor {
	var params Parameters
	for _, name := range plan.Names(p.Template) {
		params = append(params, Parameter{Name: name, Required: true})
	}
	if len(p.Allow) > 0 {
		params = append(params, oneOf(modelParam, p.Allow))
	}
	return &Executor{
		Type: messages.TypeLLM, Name: p.Name, Summary: p.Summary, Params: params,
		Spends: &messages.Budget{},
		Class:  messages.ReadOnly, Timeout: p.Timeout, // it changes nothing, and may be asked again
		Run: func(ctx context.Context, c *tools.Call, args string) (string, error) {
			return p.run(ctx, c, params, args)
		},
	}
}

func (p *Prompt) run(ctx context.Context, c *tools.Call, params Parameters, args string) (string, error) {
	given, err := params.Bind(args)
	if err != nil {
		return "", err
	}
	q := Question{Session: c.SID, Turn: c.Turn, Model: p.Model, System: p.System, MaxReplyBytes: maxAnswerBytes, Emit: c.Emit}
	if v, ok := given[modelParam]; ok && len(p.Allow) > 0 {
		model, _ := jsontext.AppendUnquote(nil, v)
		q.Model = string(model)
		delete(given, modelParam)
	}
	if len(p.Allow) > 0 && !slices.Contains(p.Allow, q.Model) {
		return "", neuroscript.Errorf(neuroscript.CodeDenied, "the model %s is not allowed here", q.Model)
	}
	if q.Text, err = fill(p.Template, given); err != nil {
		return "", err
	}
	if most := c.Budget.Tokens; most > 0 {
		asks := tokensOf(len(q.System) + len(q.Text))
		if asks >= most {
			return "", tools.Refuse(reasonQuota, fmt.Sprintf("tokens: the question has about %d, and %d are left", asks, most))
		}
		q.MaxReplyBytes = min(q.MaxReplyBytes, (most-asks)*bytesPerToken)
	}
	a, err := p.Ask(ctx, q)
	if q.MaxReplyBytes < maxAnswerBytes && messages.CodeOf(err) == messages.ErrQuota {
		a.Tokens = max(a.Tokens, c.Budget.Tokens)
		err = tools.Refuse(reasonQuota, fmt.Sprintf("tokens: the answer is longer than the %d bytes that the budget has left", q.MaxReplyBytes))
	}
	if c.Spend != nil {
		c.Spend(messages.Budget{Tokens: a.Tokens, CostUSD: a.CostMicroUSD})
	}
	if err != nil {
		return "", err
	}
	out, err := jsontext.AppendQuote(nil, a.Text)
	return string(out), err
}

// reasonQuota is the reason of an action for which the budget has too little left.
const reasonQuota = "quota"

// bytesPerToken estimates tokens where the model reports none: the bytes of a text divided
// by four, rounded up.
const bytesPerToken = 4

func tokensOf(bytes int) int64 { return (int64(bytes) + bytesPerToken - 1) / bytesPerToken }

// fill puts parameters into a template.
func fill(template string, params map[string]jsontext.Value) (string, error) {
	quoted, err := jsontext.AppendQuote(nil, template)
	if err != nil {
		return "", err
	}
	p := plan.New(plan.Options{Environment: given(params), ParameterBytes: maxPromptBytes})
	filled, err := p.Resolve(string(quoted))
	if err != nil {
		var e *messages.Error
		if errors.As(err, &e) && e.Reason == plan.ReasonTooLarge {
			return "", neuroscript.Errorf(neuroscript.CodeArgument, "the parameters make a prompt of more than %d bytes", maxPromptBytes)
		}
		return "", neuroscript.Errorf(neuroscript.CodeArgument, "the template cannot be filled: %s", err)
	}
	if filled[0] != '"' { // the template is one reference, to a value that is no text
		return filled, nil
	}
	out, err := jsontext.AppendUnquote(nil, filled)
	return string(out), err
}

// maxAnswerBytes bounds the reply to a prompt: it becomes the result of an action.
const maxAnswerBytes = 1 << 20

// maxPromptBytes bounds a filled template.
const maxPromptBytes = 1 << 20

// given is the environment of a template or workflow: its parameters. An optional one that
// was left out is null.
type given map[string]jsontext.Value

// Lookup implements plan.Environment.
func (g given) Lookup(name string) (string, plan.Status) {
	v, ok := g[name]
	if !ok {
		return "", plan.Absent
	}
	return string(v), plan.Present
}

package compiler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/calls"
	"github.com/seed14be6753/stile/internal/retry"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
)

// prompt makes the target of an llm of the manifest.
func (e *Env) prompt(a *Definition, m *manifest.Manifest, i int) (*catalog.Executor, error) {
	d, at := &m.Define.LLMs[i], fmt.Sprintf("define.llms[%d]", i)
	system, err := e.system(m, i)
	if err != nil {
		return nil, err
	}
	p := catalog.Prompt{
		Name: d.Name, Summary: d.Summary, Template: d.Template, System: system, Allow: d.AllowModels, Timeout: d.Timeout,
	}
	// Settings of the provider are those the agent has for it.
	provider := d.Provider
	if provider == "" {
		provider = m.Model.Provider
	}
	own := manifest.Fallback{Provider: provider, Script: d.Script}
	if i := slices.IndexFunc(m.Models(), func(f manifest.Fallback) bool { return f.Provider == provider }); i >= 0 && d.Script == "" {
		own = m.Models()[i]
	}
	if d.Options.JSON() != "" {
		own.Options = d.Options
	}
	options := own.Options.JSON()
	priced := own.Model
	switch {
	case d.Model != "":
		p.Model = d.Model
	case len(d.AllowModels) > 0:
		p.Model = d.AllowModels[0]
	default:
		p.Model = own.Model
	}
	ports := map[string]llm.Model{}
	for _, name := range append([]string{p.Model}, d.AllowModels...) {
		if ports[name] != nil || e.replays() {
			continue
		}
		if a.Model != nil && d.Provider == "" {
			ports[name] = a.Model
			continue
		}
		f := own
		if f.Model = name; name != priced {
			f.Price = manifest.Price{} // that of another model
		}
		port, err := e.provider(a, &f, at)
		if err != nil {
			return nil, err
		}
		ports[name] = port
	}
	p.Ask = func(ctx context.Context, q catalog.Question) (catalog.Answer, error) {
		req := llm.Request{
			Session: q.Session, Turn: q.Turn, Provider: provider, Model: q.Model, Options: options, MaxReplyBytes: q.MaxReplyBytes,
		}
		if q.System != "" {
			req.Messages = append(req.Messages, messages.Message{Role: messages.RoleSystem, Text: q.System})
		}
		req.Messages = append(req.Messages, messages.Message{Role: messages.RoleUser, Text: q.Text})
		return e.ask(ctx, ports[q.Model], req, q.Emit)
	}
	return catalog.LLM(p), nil
}

// ask puts one question, again when the failure says that it may help and no byte came. So
// nothing that emit has is taken back.
func (e *Env) ask(ctx context.Context, port llm.Model, req llm.Request, emit func(context.Context, string) error) (sum catalog.Answer, err error) {
	var policy retry.Policy
	for n := 1; ; n++ {
		var b strings.Builder
		usage, cost, err := e.answer(ctx, port, req, &b, emit)
		sum.Tokens += usage.Input + usage.Output
		sum.CostMicroUSD += cost
		if err == nil {
			sum.Text = b.String()
			return sum, nil
		}
		step := policy.Next(retry.Attempt{N: n, Delivered: int64(b.Len())}, llm.FailureOf(err))
		if step.Do != retry.Retry || ctx.Err() != nil {
			return sum, err
		}
		wait := time.NewTimer(step.Wait)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return sum, context.Cause(ctx)
		}
	}
}

// answer reads one reply to its end.
func (e *Env) answer(ctx context.Context, port llm.Model, req llm.Request, b *strings.Builder, emit func(context.Context, string) error) (usage messages.Usage, cost int64, err error) {
	stream := port.Stream(ctx, req)
	if e.ModelCalled != nil {
		stream = calls.Watch(ctx, e.Now, req.Provider, req.Model, stream, e.ModelCalled)
	}
	for chunk, err := range stream {
		if err != nil {
			return usage, cost, err
		}
		if chunk.Usage != (messages.Usage{}) {
			usage, cost = chunk.Usage, chunk.CostMicroUSD
		}
		b.Write(chunk.Text)
		if err := emit(ctx, string(chunk.Text)); err != nil {
			return usage, cost, err
		}
		switch chunk.Finish {
		case "":
		case messages.FinishStop, messages.FinishComplete:
			return usage, cost, nil
		case messages.FinishCancelled:
			return usage, cost, cmp.Or(context.Cause(ctx), context.Canceled)
		default:
			return usage, cost, llm.Fail(llm.Failure{Code: "finish_" + string(chunk.Finish)}, "the reply is not whole")
		}
	}
	return usage, cost, llm.Fail(llm.Failure{Code: "protocol"}, "the stream ended without a finish")
}

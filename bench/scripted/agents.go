// Package scripted is the host's own and no part of the public API: it may change in any release.
//
// It makes the agents of a workload: their models, tools and feeds take the times
// that the workload says, and do nothing else.
//
// What holds: what an agent draws for a submit depends on the workload's seed and on the number
// that the input begins with, so a repeated load meets the same times whatever the order in which
// its submits arrive. An input without a number draws as number 0.
package scripted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/workload"
	"github.com/seed14be6753/stile/messages"
)

const (
	workTool = "bench.work"
	feedTool = "bench.feed"
)

// Agents are the agents of a workload. Each call of an effectful tool first writes a line to
// witness, unless that is nil: the numbers of its submit and of the call. The writer must be safe
// for concurrent use.
func Agents(w *workload.Workload, witness io.Writer) (all []*stile.Agent, err error) {
	for _, a := range w.Agents {
		agent, err := agentOf(w, a, witness)
		if err != nil {
			return nil, err
		}
		all = append(all, agent)
	}
	return all, nil
}

func agentOf(w *workload.Workload, a workload.Agent, witness io.Writer) (*stile.Agent, error) {
	var doc strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&doc, format+"\n", args...) }
	line("name: %s", a.Name)
	line("dialect: %s", dialect(a))
	agent := &stile.Agent{Model: &model{w: w, a: a}}
	var tools []string
	add := func(name string, t stile.Tool, err error) error {
		agent.Tools, tools = append(agent.Tools, t), append(tools, name)
		return err
	}
	var wrong []error
	line("quotas: {tokens: %d, parallel: %d}", int64(1)<<50, max(a.Calls, 1))
	if dialect(a) == "cogency" {
		line("memory: {history_window: 12}")
	}
	if a.Calls > 0 {
		t, err := stile.DefineTool(workTool, "takes time", stile.Class(a.Class), func(ctx context.Context, in workArgs) (string, error) {
			if witness != nil && a.Class == string(messages.Effectful) { // others may be done again
				if _, err := fmt.Fprintf(witness, "%d %d\n", in.Submit, in.Call); err != nil {
					return "", err
				}
			}
			return "done", load.Pause(ctx, a.Tool.Draw(w.Rand("tool", in.Submit*workload.MaxCalls+in.Call)))
		})
		wrong = append(wrong, add(workTool, t, err))
		if a.Approval {
			line("approval: {tools: {%s: confirm}}", workTool)
		}
	}
	if a.Feeds > 0 {
		t, err := stile.DefineTool(feedTool, "takes time", messages.ReadOnly, func(ctx context.Context, in feedArgs) (string, error) {
			return fmt.Sprintf("value %d", in.Feed), load.Pause(ctx, a.Feed.Draw(w.Rand("feed", in.Feed)))
		})
		wrong = append(wrong, add(feedTool, t, err))
		line("context_feeds:")
		for i := range a.Feeds {
			line("  - {id: bench%d, type: on_demand, source: {type: tool, name: %s, params: {feed: %d}}}", i, feedTool, i)
		}
	}
	if len(tools) > 0 {
		line("import: {tools: [%s]}", strings.Join(tools, ", "))
	}
	m, err := stile.ParseManifest(a.Name, []byte(doc.String()))
	agent.Manifest = m
	return agent, errors.Join(append(wrong, err)...)
}

// dialect is the one that has what an agent does.
func dialect(a workload.Agent) string {
	if a.Calls > 0 || a.Feeds > 0 {
		return "cogency"
	}
	return "plain"
}

type workArgs struct {
	Submit int `json:"submit"`
	Call   int `json:"call"`
}

type feedArgs struct {
	Feed int `json:"feed"`
}

// model speaks as the workload says.
type model struct {
	w *workload.Workload
	a workload.Agent
}

// Stream implements stile.Model.
func (m *model) Stream(ctx context.Context, req stile.ModelRequest) iter.Seq2[stile.ModelChunk, error] {
	n, answers := last(req.Messages)
	first := m.a.Calls > 0 && !answers
	return func(yield func(stile.ModelChunk, error) bool) {
		purpose := "answer"
		if first {
			purpose = "calls"
		}
		r := m.w.Rand(purpose, n)
		say := func(wait time.Duration, text string) bool {
			if load.Pause(ctx, wait) != nil {
				yield(stile.ModelChunk{Finish: messages.FinishCancelled}, nil)
				return false
			}
			return yield(stile.ModelChunk{Text: []byte(text)}, nil)
		}
		if first {
			if !say(m.a.First.Draw(r), m.calls(n)) {
				return
			}
			yield(stile.ModelChunk{Finish: messages.FinishComplete, Usage: messages.Usage{Input: 1, Output: int64(m.a.Calls)}}, nil)
			return
		}
		for i := range m.a.Tokens {
			wait := m.a.Gap
			if i == 0 {
				wait = m.a.First
			}
			if !say(wait.Draw(r), workload.Token(i, m.a.TokenBytes)) {
				return
			}
		}
		if dialect(m.a) == "cogency" { // it has an end of its own
			if !yield(stile.ModelChunk{Text: []byte("<end>")}, nil) {
				return
			}
		}
		yield(stile.ModelChunk{Finish: messages.FinishComplete, Usage: messages.Usage{Input: 1, Output: int64(m.a.Tokens)}}, nil)
	}
}

// calls is the reply that asks for the calls of a submit.
func (m *model) calls(n int) string {
	var b strings.Builder
	b.WriteString("<execute>[")
	for i := range m.a.Calls {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":%q,"args":{"submit":%d,"call":%d}}`, workTool, n, i)
	}
	b.WriteString("]</execute>")
	return b.String()
}

// last is the number of the submit that a prompt ends with, and whether results came behind it.
func last(all []stile.Message) (n int, answers bool) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Role == stile.RoleAssistant || all[i].Role == stile.RoleSystem {
			continue
		}
		if strings.Contains(all[i].Text, "<results>") {
			answers = true
			continue
		}
		if n, ok := workload.Number(all[i].Text); ok {
			return n, answers
		}
	}
	return 0, answers
}

// Command eino runs workloads on cloudwego/eino, in its two documented forms: the ReAct agent, with
// histories kept by the program, and the runner of its ADK with a checkpoint store in memory.
package main

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/peers/adapter"
	"github.com/seed14be6753/stile/bench/process"
	"github.com/seed14be6753/stile/bench/workload"
)

func main() {
	adapter.Main([]string{"react", "runner"}, open)
}

type peer struct {
	name   string
	agents map[string]*agent
	mu     sync.Mutex
	kept   map[string][]*schema.Message // histories
}

type agent struct {
	react  *react.Agent
	runner *adk.Runner
}

type workArgs struct {
	Submit int `json:"submit" jsonschema:"required"`
	Call   int `json:"call" jsonschema:"required"`
}

func open(w *workload.Workload, variant string) (load.Target, error) {
	ctx := context.Background()
	p := &peer{name: "eino " + variant, agents: map[string]*agent{}, kept: map[string][]*schema.Message{}}
	for _, a := range w.Agents {
		work, err := utils.InferTool("work", "takes time", func(ctx context.Context, in workArgs) (string, error) {
			return "done", load.Pause(ctx, a.Tool.Draw(w.Rand("tool", in.Submit*workload.MaxCalls+in.Call)))
		})
		if err != nil {
			return nil, err
		}
		tools := compose.ToolsNodeConfig{Tools: []tool.BaseTool{work}}
		m := &scriptedModel{w: w, a: a}
		made := &agent{}
		if variant == "runner" {
			chat, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{Name: a.Name, Description: "bench", Instruction: "You are a test.", Model: m, ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: tools}})
			if err != nil {
				return nil, err
			}
			made.runner = adk.NewRunner(ctx, adk.RunnerConfig{Agent: chat, EnableStreaming: true, CheckPointStore: &checkpoints{m: map[string][]byte{}}})
		} else if made.react, err = react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: m, ToolsConfig: tools}); err != nil {
			return nil, err
		}
		p.agents[a.Name] = made
	}
	return p, nil
}

func (p *peer) Name() string { return p.name }

func (*peer) Usage(context.Context) measure.Usage { return process.Own() }

func (p *peer) history(session string, more ...*schema.Message) []*schema.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept[session] = append(p.kept[session], more...)
	return append([]*schema.Message(nil), p.kept[session]...)
}

func (p *peer) Do(ctx context.Context, r *load.Request, w load.Watcher) (string, error) {
	history := p.history(r.Session, schema.UserMessage(r.Input))
	w.Accepted()
	a := p.agents[r.Job.Agent]
	if a.runner != nil {
		return p.run(ctx, a, r, w, history)
	}
	opt, future := react.WithMessageFuture()
	out, err := a.react.Stream(ctx, history, opt)
	if err != nil {
		return "", err
	}
	if _, err := texts(out, w); err != nil {
		return "", err
	}
	for all := future.GetMessageStreams(); ; {
		s, ok, err := all.Next()
		if err != nil {
			return "", err
		}
		if !ok {
			return "DONE", nil
		}
		m, err := schema.ConcatMessageStream(s)
		if err != nil {
			return "", err
		}
		p.history(r.Session, m)
	}
}

func (p *peer) run(ctx context.Context, a *agent, r *load.Request, w load.Watcher, history []*schema.Message) (string, error) {
	for all := a.runner.Run(ctx, history, adk.WithCheckPointID(r.Session)); ; {
		ev, ok := all.Next()
		if !ok {
			return "DONE", nil
		}
		if ev.Err != nil {
			return "", ev.Err
		}
		if ev.Output == nil || ev.Output.MessageOutput == nil {
			continue
		}
		out := ev.Output.MessageOutput
		m := out.Message
		if out.IsStreaming {
			var err error
			if m, err = texts(out.MessageStream, w); err != nil {
				return "", err
			}
		}
		p.history(r.Session, m)
	}
}

// texts tells of the texts of a stream, and gives them as one message.
func texts(s *schema.StreamReader[*schema.Message], w load.Watcher) (*schema.Message, error) {
	defer s.Close()
	var all []*schema.Message
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if m.Role == schema.Assistant && m.Content != "" {
			w.Texts(1, len(m.Content))
		}
		all = append(all, m)
	}
	return schema.ConcatMessages(all)
}

// scriptedModel speaks as the workload says.
type scriptedModel struct {
	w *workload.Workload
	a workload.Agent
}

func (m *scriptedModel) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	return m, nil
}

func (m *scriptedModel) Generate(ctx context.Context, in []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	s, err := m.Stream(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return schema.ConcatMessageStream(s)
}

func (m *scriptedModel) Stream(ctx context.Context, in []*schema.Message, _ ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	n := 0
	for i := len(in) - 1; i >= 0; i-- {
		if in[i].Role == schema.User {
			n, _ = workload.Number(in[i].Content)
			break
		}
	}
	r, w := schema.Pipe[*schema.Message](1)
	go func() {
		defer w.Close()
		if m.a.Calls > 0 && in[len(in)-1].Role != schema.Tool {
			draws := m.w.Rand("calls", n)
			if load.Pause(ctx, m.a.First.Draw(draws)) != nil {
				return
			}
			var calls []schema.ToolCall
			for i := range m.a.Calls {
				index := i
				calls = append(calls, schema.ToolCall{Index: &index, ID: "c" + strconv.Itoa(n) + "-" + strconv.Itoa(i), Type: "function", Function: schema.FunctionCall{Name: "work", Arguments: `{"submit":` + strconv.Itoa(n) + `,"call":` + strconv.Itoa(i) + `}`}})
			}
			w.Send(schema.AssistantMessage("", calls), nil)
			return
		}
		draws := m.w.Rand("answer", n)
		for i := range m.a.Tokens {
			wait := m.a.Gap
			if i == 0 {
				wait = m.a.First
			}
			if load.Pause(ctx, wait.Draw(draws)) != nil || w.Send(schema.AssistantMessage(workload.Token(i, m.a.TokenBytes), nil), nil) {
				return
			}
		}
	}()
	return r, nil
}

type checkpoints struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (c *checkpoints) Get(_ context.Context, id string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.m[id]
	return b, ok, nil
}

func (c *checkpoints) Set(_ context.Context, id string, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[strings.Clone(id)] = b
	return nil
}

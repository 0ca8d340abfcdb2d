package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/process"
	"github.com/seed14be6753/stile/messages"
)

// OpenAI is a server that speaks OpenAI's chat completions. Each submit is one message; the
// header X-Stile-Session has its session. Agents are models, by the name of the job's agent or by Model.
type OpenAI struct {
	base, token, model string
	pid                int
	client             *http.Client
}

// NewOpenAI returns the server at a base address such as http://localhost:8000/v1. model replaces
// the names of agents, unless it is "". pid is the server's process, if it runs on this machine, to
// see what it takes; 0 is none.
func NewOpenAI(base, token, model string, pid int) (*OpenAI, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "openai", Detail: "want a base address such as http://localhost:8000/v1"}
	}
	return &OpenAI{base: strings.TrimRight(base, "/"), token: token, model: model, pid: pid, client: client()}, nil
}

// Name implements load.Target.
func (o *OpenAI) Name() string { return o.base + " (chat completions)" }

// Usage implements load.Target: what the kernel says of the server's process.
func (o *OpenAI) Usage(context.Context) measure.Usage {
	if o.pid == 0 {
		return measure.Unknown()
	}
	return process.Of(o.pid)
}

// Do implements load.Target. The decision of a submit is DONE for the finish reason stop, else
// FINISH/ and the reason.
func (o *OpenAI) Do(ctx context.Context, r *load.Request, w load.Watcher) (string, error) {
	d, err := o.do(ctx, r, w)
	return d, failureOf(err)
}

type completion struct {
	Choices []struct {
		Delta   struct{ Content string } `json:"delta"`
		Message struct{ Content string } `json:"message"`
		Finish  string                   `json:"finish_reason"`
	} `json:"choices"`
	Error *struct {
		Type string `json:"type"`
	} `json:"error"`
}

func (o *OpenAI) do(ctx context.Context, r *load.Request, w load.Watcher) (string, error) {
	model := o.model
	if model == "" {
		model = r.Job.Agent
	}
	streams := r.Job.Reader != workloadWait
	body, err := json.Marshal(map[string]any{
		"model": model, "stream": streams, "messages": []map[string]string{{"role": "user", "content": r.Input}},
	})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	// The protocol has no name for a conversation; stile's own is for other servers to ignore.
	req.Header.Set("X-Stile-Session", r.Session)
	if o.token != "" {
		req.Header.Set("Authorization", "Bearer "+o.token)
	}
	res, err := o.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return "", answered(res)
	}
	w.Accepted()
	if !streams {
		c, err := read[completion](res)
		if err != nil {
			return "", err
		}
		if len(c.Choices) == 0 {
			return "", &load.Failure{Kind: "answer without a choice"}
		}
		w.Texts(1, len(c.Choices[0].Message.Content))
		return finished(c.Choices[0].Finish), nil
	}
	in := newEvents(res.Body, 8<<10)
	decision := ""
	for {
		ev, err := in.next()
		switch {
		case errors.Is(err, io.EOF) && decision != "":
			return decision, nil
		case err != nil:
			return "", err
		case string(ev.data) == "[DONE]":
			if decision == "" {
				return "", &load.Failure{Kind: "stream without a finish reason"}
			}
			drain(res)
			return decision, nil
		}
		var c completion
		if json.Unmarshal(ev.data, &c) != nil {
			return "", &load.Failure{Kind: "event is no JSON"}
		}
		if c.Error != nil {
			return "", &load.Failure{Kind: "stream error " + c.Error.Type}
		}
		for _, choice := range c.Choices {
			if n := len(choice.Delta.Content); n > 0 {
				w.Texts(1, n)
			}
			if choice.Finish != "" {
				decision = finished(choice.Finish)
			}
		}
	}
}

func finished(reason string) string {
	if reason == "stop" {
		return "DONE"
	}
	return "FINISH/" + reason
}

package llmtest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Reply is the reply that a model under test must give.
type Reply struct {
	Pieces  []string
	Usage   messages.Usage
	Finish  messages.Finish // complete or length
	Failure int             // HTTP status of an error instead; 0 for none
	Hang    bool            // after the pieces the model sends nothing more
}

// Port checks the contract of package llm. model returns a model that answers every request
// with r.
func Port(t *testing.T, model func(t *testing.T, r Reply) llm.Model) {
	ask := llm.Request{Session: "local:local:s", Model: "m", Messages: []messages.Message{{Role: messages.RoleUser, Text: "hello"}}}
	whole := Reply{Pieces: []string{"Hel", "lo ", "wörld"}, Finish: messages.FinishComplete, Usage: messages.Usage{Input: 7, Output: 3}}

	t.Run("a reply", func(t *testing.T) {
		for _, finish := range []messages.Finish{messages.FinishComplete, messages.FinishLength} {
			r := whole
			r.Finish = finish
			got := Read(t.Context(), model(t, r), ask)
			if got.Err != nil || got.Text != "Hello wörld" || got.Finish != finish {
				t.Errorf("%+v", got)
			}
			if got.Usage != r.Usage {
				t.Errorf("usage %+v, want %+v", got.Usage, r.Usage)
			}
		}
	})
	t.Run("an empty reply", func(t *testing.T) {
		if got := Read(t.Context(), model(t, Reply{Finish: messages.FinishComplete}), ask); got.Err != nil || got.Text != "" || got.Finish != messages.FinishComplete {
			t.Errorf("%+v", got)
		}
	})
	t.Run("text is handed over", func(t *testing.T) {
		var kept [][]byte
		for c, err := range model(t, whole).Stream(t.Context(), ask) {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, c.Text)
		}
		if all := string(slices.Concat(kept...)); all != "Hello wörld" {
			t.Errorf("kept until the end: %q", all)
		}
	})
	t.Run("a failure", func(t *testing.T) {
		got := Read(t.Context(), model(t, Reply{Failure: 503}), ask)
		var f *llm.Failure
		if messages.CodeOf(got.Err) != messages.ErrModel || !errors.As(got.Err, &f) || f.Status != 503 || !f.Retryable || got.Finish != "" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("bounded", func(t *testing.T) {
		bounded := ask
		bounded.MaxReplyBytes = 4
		got := Read(t.Context(), model(t, whole), bounded)
		if messages.CodeOf(got.Err) != messages.ErrQuota || got.Text != "Hell" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("left", func(t *testing.T) {
		r := whole
		r.Hang = true
		for _, err := range model(t, r).Stream(t.Context(), ask) {
			if err != nil {
				t.Error(err)
			}
			break
		}
	})
	t.Run("cancelled before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := Read(ctx, model(t, whole), ask); got.Err != nil || got.Finish != messages.FinishCancelled || got.Text != "" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("cancelled in the middle", func(t *testing.T) {
		r := whole
		r.Hang = true
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := Outcome{}
		for c, err := range model(t, r).Stream(ctx, ask) {
			got.Take(c, err)
			if got.Text == "Hello wörld" {
				cancel()
			}
		}
		if got.Err != nil || got.Finish != messages.FinishCancelled || got.Text != "Hello wörld" {
			t.Errorf("%+v", got)
		}
	})
}

// Outcome is a stream read to its end.
type Outcome struct {
	Text     string
	Pieces   int // with text
	Finish   messages.Finish
	Usage    messages.Usage
	Cost     int64
	Unpriced bool
	Err      error
	Broken   string // how the stream broke the rules of the port
}

// Take adds a chunk or an error of a stream.
func (o *Outcome) Take(c llm.Chunk, err error) {
	if o.Finish != "" || o.Err != nil {
		o.Broken = "something follows the end"
	}
	o.Err = err
	o.Text += string(c.Text)
	if len(c.Text) > 0 {
		o.Pieces++
	}
	o.Finish = c.Finish
	if c.Usage != (messages.Usage{}) {
		o.Usage, o.Cost, o.Unpriced = c.Usage, c.CostMicroUSD, c.Unpriced
	}
}

// Read reads a stream to its end. Outcome.Err describes how a stream broke the contract of the
// port, if it did.
func Read(ctx context.Context, m llm.Model, req llm.Request) Outcome {
	var o Outcome
	for c, err := range m.Stream(ctx, req) {
		o.Take(c, err)
	}
	if o.Err == nil && o.Finish == "" {
		o.Broken = "the stream ended without an end"
	}
	if o.Broken != "" {
		o.Err = errors.Join(o.Err, errors.New("llmtest: "+o.Broken))
	}
	return o
}

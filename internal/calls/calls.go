// Package calls measures questions to models: how each ended, how long it took, and how long its
// first text. It is beside the journal, which keeps no times of attempts that failed.
package calls

import (
	"context"
	"iter"
	"time"

	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Watch passes a stream on, and reports the call at its end. A reader that stops before the
// finish has cancelled it.
func Watch(ctx context.Context, now func() time.Time, provider, model string, stream iter.Seq2[llm.Chunk, error], report func(telemetry.ModelCall)) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		c := telemetry.ModelCall{Provider: provider, Model: model, Outcome: telemetry.CallCancelled}
		begin := now()
		defer func() {
			c.Took = now().Sub(begin)
			report(c)
		}()
		for chunk, err := range stream {
			if err != nil || chunk.Finish != "" {
				c.Outcome = Outcome(ctx, chunk.Finish, err)
			}
			if c.First == 0 && len(chunk.Text) > 0 {
				c.First = max(now().Sub(begin), 1)
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// Outcome is how a call ended, by its finish or its error.
func Outcome(ctx context.Context, finish messages.Finish, err error) string {
	switch {
	case err == nil && finish == messages.FinishCancelled, err != nil && ctx.Err() != nil:
		return telemetry.CallCancelled
	case err == nil && finish == messages.FinishError:
		return telemetry.CallOther
	case err == nil:
		return telemetry.CallOK
	}
	if f := llm.FailureOf(err); f.Kind != "" {
		return string(f.Kind)
	}
	return telemetry.CallOther
}

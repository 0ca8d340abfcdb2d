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
			switch {
			case err != nil:
				c.Outcome = outcome(ctx, err)
			case chunk.Finish == messages.FinishCancelled:
			case chunk.Finish == messages.FinishError:
				c.Outcome = telemetry.CallOther
			case chunk.Finish != "":
				c.Outcome = telemetry.CallOK
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

func outcome(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return telemetry.CallCancelled
	}
	if f := llm.FailureOf(err); f.Kind != "" {
		return string(f.Kind)
	}
	return telemetry.CallOther
}

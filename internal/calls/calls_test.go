package calls

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type step struct {
	wait  time.Duration
	chunk llm.Chunk
	err   error
}

func stream(steps ...step) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for _, s := range steps {
			time.Sleep(s.wait)
			if !yield(s.chunk, s.err) {
				return
			}
		}
	}
}

func TestWatch(t *testing.T) {
	text := llm.Chunk{Text: []byte("a")}
	end := func(f messages.Finish) llm.Chunk { return llm.Chunk{Finish: f} }
	failure := llm.Fail(llm.Failure{Kind: llm.KindRateLimit, Status: 429}, "later")
	for name, c := range map[string]struct {
		steps  []step
		read   int // chunks that the reader takes; 0 is all
		cancel bool
		want   telemetry.ModelCall
	}{
		"a reply":             {steps: []step{{time.Second, llm.Chunk{}, nil}, {time.Second, text, nil}, {time.Second, text, nil}, {time.Second, end(messages.FinishComplete), nil}}, want: telemetry.ModelCall{Outcome: telemetry.CallOK, Took: 4 * time.Second, First: 2 * time.Second}},
		"an end with text":    {steps: []step{{time.Second, llm.Chunk{Text: []byte("a"), Finish: messages.FinishStop}, nil}}, want: telemetry.ModelCall{Outcome: telemetry.CallOK, Took: time.Second, First: time.Second}},
		"the bound of length": {steps: []step{{0, end(messages.FinishLength), nil}}, want: telemetry.ModelCall{Outcome: telemetry.CallOK}},
		"text at once":        {steps: []step{{0, text, nil}, {0, end(messages.FinishStop), nil}}, want: telemetry.ModelCall{Outcome: telemetry.CallOK, First: 1}},
		"a rate limit":        {steps: []step{{time.Second, llm.Chunk{}, failure}}, want: telemetry.ModelCall{Outcome: string(llm.KindRateLimit), Took: time.Second}},
		"an unknown failure":  {steps: []step{{0, text, nil}, {time.Second, llm.Chunk{}, errors.New("x")}}, want: telemetry.ModelCall{Outcome: telemetry.CallOther, Took: time.Second, First: 1}},
		"cut by its reader":   {steps: []step{{time.Second, text, nil}, {time.Hour, end(messages.FinishStop), nil}}, read: 1, want: telemetry.ModelCall{Outcome: telemetry.CallCancelled, Took: time.Second, First: time.Second}},
		"without a finish":    {steps: []step{{time.Second, text, nil}}, want: telemetry.ModelCall{Outcome: telemetry.CallCancelled, Took: time.Second, First: time.Second}},
		"cancelled":           {steps: []step{{time.Second, llm.Chunk{}, failure}}, cancel: true, want: telemetry.ModelCall{Outcome: telemetry.CallCancelled, Took: time.Second}},
		"by its model":        {steps: []step{{0, end(messages.FinishCancelled), nil}}, want: telemetry.ModelCall{Outcome: telemetry.CallCancelled}},
		"an error as finish":  {steps: []step{{0, end(messages.FinishError), nil}}, want: telemetry.ModelCall{Outcome: telemetry.CallOther}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel {
					cancel()
				}
				var got []telemetry.ModelCall
				n := 0
				for range Watch(ctx, time.Now, "p", "m", stream(c.steps...), func(c telemetry.ModelCall) { got = append(got, c) }) {
					if n++; n == c.read {
						break
					}
				}
				c.want.Provider, c.want.Model = "p", "m"
				if len(got) != 1 || got[0] != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
			})
		})
	}
}

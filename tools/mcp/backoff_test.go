package mcp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// A server that cannot be reached is tried less and less often, for all callers; one that
// answered is tried at once again.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{})
		defer p.Close()
		s := server(t, p, Config{Name: "far", URL: "http://unused.invalid"})
		begin := time.Now()
		var mu sync.Mutex
		var tries []time.Duration
		var up atomic.Bool
		s.open = func([]string) (sdk.Transport, func(time.Duration) ending, error) {
			mu.Lock()
			tries = append(tries, time.Since(begin))
			mu.Unlock()
			if !up.Load() {
				return nil, nil, errors.New("down")
			}
			there, here := sdk.NewInMemoryTransports()
			session, err := testServer().Connect(context.Background(), there, nil)
			if err != nil {
				return nil, nil, err
			}
			return here, func(time.Duration) ending { _ = session.Close(); return ending{how: "it ended"} }, nil
		}
		for range 12 {
			_, err := s.Call(ctx, "echo", messages.ReadOnly, `{"text":""}`)
			wantScript(t, err, neuroscript.CodeToolFailed, "down")
		}
		for i := 1; i < len(tries); i++ {
			want := min(firstBackOff<<(i-1), longestBackOff)
			if got := tries[i] - tries[i-1]; got != want {
				t.Errorf("try %d comes %s after the one before, want %s", i, got, want)
			}
		}
		// Who waits for less than the back-off leaves, and no try is lost or added.
		own, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Call(own, "echo", messages.ReadOnly, `{}`); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		up.Store(true)
		if got := call(t, s, "echo", `{"text":"back"}`); got != `"back"` {
			t.Errorf("got %s", got)
		}
		n := len(tries)
		at := time.Now()
		s.mu.Lock()
		c := s.live
		s.mu.Unlock()
		s.drop(c)
		if got := call(t, s, "echo", `{"text":"again"}`); got != `"again"` || len(tries) != n+1 {
			t.Errorf("got %s after %d tries", got, len(tries)-n)
		}
		if waited := time.Since(at); waited != firstBackOff {
			t.Errorf("the first loss after an answer costs %s, want %s", waited, firstBackOff)
		}
	})
}

// Command floor is what no runtime can be cheaper than: the workload's texts and tools, a map of
// histories, and nothing else. It keeps nothing on disk, orders nothing and bounds nothing.
package main

import (
	"context"
	"sync"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/peers/adapter"
	"github.com/seed14be6753/stile/bench/process"
	"github.com/seed14be6753/stile/bench/workload"
)

func main() {
	adapter.Main([]string{"map"}, func(w *workload.Workload, _ string) (load.Target, error) {
		return &floor{w: w, sessions: map[string][]string{}}, nil
	})
}

type floor struct {
	w        *workload.Workload
	mu       sync.Mutex
	sessions map[string][]string
}

func (*floor) Name() string { return "a map of histories" }

func (*floor) Usage(context.Context) measure.Usage { return process.Own() }

func (f *floor) keep(session, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[session] = append(f.sessions[session], text)
}

func (f *floor) Do(ctx context.Context, r *load.Request, w load.Watcher) (string, error) {
	f.keep(r.Session, r.Input)
	w.Accepted()
	var calls sync.WaitGroup
	for i := range r.Agent.Calls {
		calls.Go(func() {
			_ = load.Pause(ctx, r.Agent.Tool.Draw(f.w.Rand("tool", r.N*workload.MaxCalls+i)))
			f.keep(r.Session, "done")
		})
	}
	calls.Wait()
	draws := f.w.Rand("answer", r.N)
	text := ""
	for i := range r.Agent.Tokens {
		wait := r.Agent.Gap
		if i == 0 {
			wait = r.Agent.First
		}
		if err := load.Pause(ctx, wait.Draw(draws)); err != nil {
			return "", err
		}
		t := workload.Token(i, r.Agent.TokenBytes)
		w.Texts(1, len(t))
		text += t
	}
	f.keep(r.Session, text)
	return "DONE", nil
}

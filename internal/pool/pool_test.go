package pool

import (
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Functions run beside each other however many block, and none is left behind.
func TestRun(t *testing.T) {
	var p Pool
	const n = 3 * maxIdleWorkers
	var begun, ended sync.WaitGroup
	begun.Add(n)
	ended.Add(n)
	hold := make(chan struct{})
	for range n {
		p.Run(func(*Worker) {
			begun.Done()
			<-hold
			ended.Done()
		})
	}
	begun.Wait()
	close(hold)
	ended.Wait()
	if p.Handed() != n {
		t.Errorf("%d functions were handed over, want %d", p.Handed(), n)
	}
	p.Close()
	done := make(chan struct{})
	p.Run(func(*Worker) { close(done) }) // a closed pool still runs
	<-done
	p.Wait()
}

// A deferred function waits for the worker that deferred it, and runs on its goroutine.
func TestDefer(t *testing.T) {
	var p Pool
	var returned atomic.Bool
	ran := make(chan *Worker)
	var own *Worker
	p.Run(func(w *Worker) {
		own = w
		p.Defer(func(w *Worker) { ran <- w })
		returned.Store(true)
	})
	if by := <-ran; !returned.Load() || by != own {
		t.Errorf("the worker had returned: %v; another worker: %v", returned.Load(), by != own)
	}
	p.Close()
	p.Wait()
}

// A worker that goes on has another one take what it deferred.
func TestRunDeferred(t *testing.T) {
	var p Pool
	ran, done := make(chan *Worker), make(chan bool)
	p.Run(func(w *Worker) {
		p.Defer(func(w *Worker) { ran <- w })
		p.RunDeferred()
		done <- <-ran != w
	})
	if !<-done {
		t.Error("the deferred function ran on the worker that went on")
	}
	p.Close()
	p.Wait()
}

// What is run while a worker returns waits for that worker, in front of what is deferred.
func TestReturning(t *testing.T) {
	var p Pool
	got := make(chan string, 2)
	var own, next *Worker
	p.Run(func(w *Worker) {
		own = w
		p.Defer(func(*Worker) { got <- "deferred" })
		w.Returning()
		p.Run(func(w *Worker) {
			next = w
			got <- "handed over"
		})
	})
	if first, second := <-got, <-got; first != "handed over" || second != "deferred" {
		t.Errorf("%s, then %s", first, second)
	}
	p.Close()
	p.Wait()
	if next != own {
		t.Error("another worker took what was handed over")
	}
}

// Package recovery is the host's own and no part of the public API: it may change in any release.
//
// It kills a host in the middle of its work, starts it again, and looks at what became of every
// run that the host had accepted (docs/bench.md).
//
// What holds:
//   - A run counts as lost if the host does not know it any more, or does not end it in time.
//   - Effects are counted outside the host: each call of a tool appends a line to a file before it
//     does anything else. A line that is there twice is an effect that was done twice.
//   - Every wait has an end.
package recovery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/target"
	"github.com/seed14be6753/stile/bench/workload"
)

// Server is a host that can be started and killed.
type Server interface {
	// Start starts the host on the journal of the one before, and returns its address when it
	// takes connections.
	Start(ctx context.Context) (base string, err error)
	// Kill ends the host at once, and returns when it is gone.
	Kill() error
	// Witness returns what the host's tools have written so far.
	Witness() (io.ReadCloser, error)
}

// Options are how often and when the host is killed. The zero value takes the defaults.
type Options struct {
	Kills   int           // 0 is 5
	Runs    int           // submitted before each kill; 0 is 64
	After   time.Duration // the longest time from the first submit to the kill; 0 is 500 ms. The time is drawn
	Timeout time.Duration // in which a run must have ended after a kill; 0 is a minute
	Watch   func(kill int, k Kill)
}

// Kill is what came of one kill.
type Kill struct {
	Accepted int `json:"accepted"`  // runs that the host had taken
	InFlight int `json:"in_flight"` // of them not ended at the kill
	Lost     int `json:"lost"`
	// Ready is from the kill to the first answer that the host takes work; First and All to the
	// end of the first and of the last run that was in flight. In milliseconds.
	Ready float64 `json:"ready_ms"`
	First float64 `json:"first_ms"`
	All   float64 `json:"all_ms"`
}

// Report is what came of all kills.
type Report struct {
	Kills     []Kill           `json:"kills"`
	Decisions map[string]int64 `json:"decisions"`
	Effects   int              `json:"effects"` // calls of tools, by the witness
	Doubled   int              `json:"doubled"` // calls that were done twice
	Partial   bool             `json:"partial,omitempty"`
}

// Lost counts the runs that were lost.
func (r *Report) Lost() (n int) {
	for _, k := range r.Kills {
		n += k.Lost
	}
	return n
}

// Run kills the host so often. The host is gone when it returns. The report has what was found
// until an error or until ctx was done.
func Run(ctx context.Context, w *workload.Workload, srv Server, o Options) (rep Report, err error) {
	if o.Kills == 0 {
		o.Kills = 5
	}
	if o.Runs == 0 {
		o.Runs = 64
	}
	if o.After == 0 {
		o.After = 500 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	rep.Decisions = map[string]int64{}
	r := &trial{w: w, srv: srv, o: o, rep: &rep}
	defer func() { err = errors.Join(err, srv.Kill(), r.count()) }()
	for n := range o.Kills {
		k, err := r.kill(ctx, n)
		if ctx.Err() != nil {
			rep.Partial = true
			return rep, nil
		}
		if err != nil {
			return rep, err
		}
		rep.Kills = append(rep.Kills, k)
		if o.Watch != nil {
			o.Watch(n, k)
		}
	}
	return rep, nil
}

type trial struct {
	w   *workload.Workload
	srv Server
	o   Options
	rep *Report
	n   int // submits so far
}

// accepted is a run that the host has taken.
type accepted struct {
	session string
	run     int64
}

func (r *trial) kill(ctx context.Context, n int) (k Kill, err error) {
	base, err := r.srv.Start(ctx)
	if err != nil {
		return k, err
	}
	host, err := target.NewHost(base, "")
	if err != nil {
		return k, err
	}
	taken := r.submit(ctx, host, time.Duration(r.w.Rand("kill", n).Float64()*float64(r.o.After)))
	k.Accepted = len(taken)
	killed := time.Now()
	if err := r.srv.Kill(); err != nil {
		return k, err
	}
	host.Close()

	if base, err = r.srv.Start(ctx); err != nil {
		return k, err
	}
	if host, err = target.NewHost(base, ""); err != nil {
		return k, err
	}
	defer host.Close()
	for !host.Ready(ctx) {
		if time.Since(killed) > r.o.Timeout || ctx.Err() != nil {
			return k, fmt.Errorf("the host was not ready %s after the kill", r.o.Timeout)
		}
		time.Sleep(5 * time.Millisecond)
	}
	k.Ready = millis(time.Since(killed))
	ends := r.settle(ctx, host, taken)
	for _, e := range ends {
		switch {
		case e.lost:
			k.Lost++
		case e.at.After(killed):
			k.InFlight++
			took := millis(e.at.Sub(killed))
			if k.First == 0 || took < k.First {
				k.First = took
			}
			k.All = max(k.All, took)
		}
		if !e.lost {
			r.rep.Decisions[e.decision]++
		}
	}
	return k, r.srv.Kill()
}

// submit submits the runs of one kill all at once, and returns those that were accepted until it
// is time for the kill.
func (r *trial) submit(ctx context.Context, host *target.Host, after time.Duration) []accepted {
	var mu sync.Mutex // guards taken
	var taken []accepted
	var all sync.WaitGroup
	first := make(chan struct{})
	var once sync.Once
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	for range r.o.Runs {
		n := r.n
		r.n++
		job := r.w.Jobs[n%len(r.w.Jobs)]
		session := fmt.Sprintf("recovery-%d", n)
		all.Go(func() {
			run, err := host.Submit(ctx, &load.Request{N: n, Job: job, Session: session, Input: workload.Input(n, job)})
			if err != nil {
				return // it was not accepted: nothing was promised
			}
			once.Do(func() { close(first) })
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, accepted{session, run})
		})
	}
	select {
	case <-first:
	case <-ctx.Done():
	}
	t := time.NewTimer(after)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	cancel()
	all.Wait() // what is cut off here was not accepted
	return taken
}

// end is what became of a run.
type end struct {
	decision string
	at       time.Time
	lost     bool
}

// settle waits for the end of each run.
func (r *trial) settle(ctx context.Context, host *target.Host, taken []accepted) []end {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	ends := make([]end, len(taken))
	var all sync.WaitGroup
	for i, a := range taken {
		all.Go(func() {
			decision, at, err := host.Settled(ctx, a.session, a.run)
			ends[i] = end{decision, at, err != nil}
		})
	}
	all.Wait()
	return ends
}

// count counts the effects that the witness has seen.
func (r *trial) count() error {
	in, err := r.srv.Witness()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	seen := map[string]bool{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		r.rep.Effects++
		if seen[line] {
			r.rep.Doubled++
		}
		seen[line] = true
	}
	return lines.Err()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

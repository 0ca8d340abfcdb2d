// Package load is the host's own and no part of the public API: it may change in any release.
//
// It runs a workload against a target: it sends each submit when it is due, whatever
// the target does with those before it, and records what comes of all (docs/bench-format.md).
//
// What holds:
//   - Arrivals are fixed before the first one (open loop). A target that stalls meets the
//     submits that were due meanwhile, and their times count from when they were due.
//   - Nothing waits for ever: each submit has Options.Timeout, and a load that is stopped ends
//     within Options.Grace.
//   - At most Options.InFlight submits are in flight. One that is due beyond that is counted as
//     dropped.
//
// It knows no protocol: a Target does.
package load

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/workload"
)

// Request is one submit.
type Request struct {
	N       int // number of the submit, from 0
	Job     workload.Job
	Agent   workload.Agent
	Session string // id of the session
	Input   string
	Cut     []float64     // of a reader that reconnects: where to cut, as parts of the answer's Agent.Tokens
	Approve time.Duration // after which a call that waits for approval is approved
}

// Watcher is told what a client of the target sees of a submit. Its methods are called by one
// goroutine at a time.
type Watcher interface {
	// Accepted says that the target has taken the submit.
	Accepted()
	// Texts says that so many texts of the answer came together, of so many bytes.
	Texts(n, bytes int)
	// Resumed says that a stream was cut so often and read to its end, and whether the parts make
	// the answer, byte for byte.
	Resumed(cuts int, same bool)
}

// Target is a runtime under load: the one interface that an adapter for another runtime has.
// Its methods are called by many goroutines at once.
type Target interface {
	// Name says what is measured, for reports.
	Name() string
	// Do sends a submit and follows it to its end. It returns the decision, as DONE or
	// HALT/ERR_CODE, or an error: a *Refusal if the target did not take the submit, a *Failure
	// that names its kind, or any other. It returns soon after ctx is done.
	Do(ctx context.Context, r *Request, w Watcher) (decision string, err error)
	// Usage returns what the target has taken so far; measure.Unknown if it does not tell.
	Usage(ctx context.Context) measure.Usage
}

// Refusal is a submit that the target did not take.
type Refusal struct{ Why string } // such as 429 RATE

func (e *Refusal) Error() string { return "refused: " + e.Why }

// Failure is a submit without an answer, or with an invalid one.
type Failure struct {
	Kind string // few different words, such as "connection refused"
	Err  error
}

func (e *Failure) Error() string {
	if e.Err == nil {
		return e.Kind
	}
	return e.Kind + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Failure) Unwrap() error { return e.Err }

// Options are how a load is run. The zero value takes the defaults.
type Options struct {
	Timeout  time.Duration // of one submit; 0 is DefaultTimeout
	InFlight int           // 0 is DefaultInFlight
	Grace    time.Duration // of a load that is stopped, for what is in flight; 0 is DefaultGrace
	// Prefix begins the ids of sessions, so that loads do not meet each other's.
	Prefix string
}

// The defaults of Options.
const (
	DefaultTimeout  = time.Minute
	DefaultInFlight = 20_000
	DefaultGrace    = 2 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.InFlight == 0 {
		o.InFlight = DefaultInFlight
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	return o
}

// Run runs one round: all arrivals, until the last has ended. When ctx is done no further submit
// is sent, and what is in flight is left after Options.Grace; the round has what was recorded.
func Run(ctx context.Context, w *workload.Workload, arrivals []workload.Arrival, t Target, rec *measure.Recorder, o Options) measure.Round {
	o = o.withDefaults()
	l := &running{
		w: w, target: t, rec: rec, o: o, agents: map[string]workload.Agent{},
		slots: make(chan struct{}, o.InFlight),
	}
	for _, a := range w.Agents {
		l.agents[a.Name] = a
	}
	before := t.Usage(ctx)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	l.work = work
	l.begun = time.Now()
	looks := l.look(work)

	l.send(ctx, arrivals)
	ended := make(chan struct{})
	go func() { l.inFlight.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		grace := time.NewTimer(o.Grace)
		select {
		case <-ended:
		case <-grace.C:
		}
		grace.Stop()
		stop()
		<-ended
	}
	took := time.Since(l.begun)
	after := t.Usage(context.WithoutCancel(ctx))
	stop()
	series := looks()
	u := after.Since(before)
	u.PeakRSS = u.RSS
	for _, look := range series {
		u.PeakRSS = max(u.PeakRSS, look.RSS)
	}
	round := rec.Round(took, u)
	for i := range round.Series {
		look := after // of the seconds behind the last look
		if i < len(series) {
			look = series[i]
		}
		s := &round.Series[i]
		s.RSS, s.Goroutines, s.Descriptors = max(look.RSS, 0), max(look.Goroutines, 0), max(look.Descriptors, 0)
		s.Disk, s.Live = max(look.Disk, 0), max(look.Live, 0)
	}
	return round
}

// running is a load under way.
type running struct {
	w        *workload.Workload
	agents   map[string]workload.Agent
	target   Target
	rec      *measure.Recorder
	o        Options
	begun    time.Time
	work     context.Context
	slots    chan struct{}
	inFlight sync.WaitGroup
}

// send sends each arrival when it is due.
func (l *running) send(ctx context.Context, arrivals []workload.Arrival) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, a := range arrivals {
		if wait := a.At - time.Since(l.begun); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			l.rec.Unsent(measure.Outcome{Fate: measure.Left, Why: "not sent"}, len(arrivals)-i)
			return
		}
		select {
		case l.slots <- struct{}{}:
		default:
			l.rec.Unsent(measure.Outcome{Fate: measure.Dropped, Why: "too many in flight"}, 1)
			continue
		}
		l.inFlight.Add(1)
		go l.one(i, a)
	}
}

// one is one submit, from when it is sent to its end.
func (l *running) one(n int, a workload.Arrival) {
	defer func() { <-l.slots; l.inFlight.Done() }()
	job := l.w.Jobs[a.Job]
	r := &Request{N: n, Job: job, Agent: l.agents[job.Agent], Input: workload.Input(n, job), Cut: a.Cut}
	session := n
	if l.w.Sessions > 0 {
		session = n % l.w.Sessions
	}
	r.Session = l.o.Prefix + job.Agent + "-" + strconv.Itoa(session)
	if r.Agent.Approval {
		r.Approve = r.Agent.Approve.Draw(l.w.Rand("approve", n))
	}
	ctx, cancel := context.WithTimeout(l.work, l.o.Timeout)
	defer cancel()
	s := &sight{l: l, due: l.begun.Add(a.At)}
	now := time.Now()
	l.rec.Sent(now.Sub(l.begun), now.Sub(s.due))
	decision, err := l.target.Do(ctx, r, s)
	now = time.Now()
	o := measure.Outcome{Fate: measure.Ended, Why: decision}
	var refusal *Refusal
	var failure *Failure
	switch {
	case err == nil:
	case l.work.Err() != nil:
		o = measure.Outcome{Fate: measure.Left, Why: "in flight"}
	case errors.As(err, &refusal):
		o = measure.Outcome{Fate: measure.Refused, Why: refusal.Why}
	case ctx.Err() != nil:
		o = measure.Outcome{Fate: measure.TimedOut, Why: "no end in " + l.o.Timeout.String()}
	case errors.As(err, &failure):
		o = measure.Outcome{Fate: measure.Failed, Why: failure.Kind}
	default:
		o = measure.Outcome{Fate: measure.Failed, Why: "error"}
	}
	l.rec.Done(now.Sub(l.begun), now.Sub(s.due), job.Name, o)
}

// sight tells the recorder what a client saw.
type sight struct {
	l    *running
	due  time.Time
	last time.Time // of the text before
}

func (s *sight) Accepted() {
	now := time.Now()
	s.l.rec.Accepted(now.Sub(s.l.begun), now.Sub(s.due))
}

func (s *sight) Texts(n, bytes int) {
	now := time.Now()
	first := s.last.IsZero()
	from := s.last
	if first {
		from = s.due
	}
	s.last = now
	s.l.rec.Texts(n, bytes, first, now.Sub(from))
}

func (s *sight) Resumed(cuts int, same bool) { s.l.rec.Resumed(cuts, same) }

// look looks at what the target takes once a second. The function that it returns gives what it
// saw in each second, once work is done.
func (l *running) look(work context.Context) func() []measure.Usage {
	done := make(chan struct{})
	var series []measure.Usage
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				series = append(series, l.target.Usage(work))
			case <-work.Done():
				return
			}
		}
	}()
	return func() []measure.Usage { <-done; return series }
}

// Pause waits so long, or until ctx is done.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

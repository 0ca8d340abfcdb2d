package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/intake"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// The defaults of Boot.
const (
	BootConcurrency = 16
	BootPerSecond   = 50
	BootPage        = 256
)

// bootTries is how often the listing is asked for one page before the scan gives up.
const bootTries = 3

// Boot says how a host that starts takes up what dead processes left open
// (docs/spec/design.md §7): runs that are open and inputs that wait. The zero value takes up nothing.
type Boot struct {
	On bool
	// Concurrency bounds the sessions that are being loaded and settled at once, and
	// PerSecond how many begin in a second: every one may go on with a turn, and
	// asks a model then. 0 means the defaults.
	Concurrency int
	PerSecond   int
	// Page is how many heads are held at once; 0 means the default.
	Page int
}

// BootReport counts what a scan did so far.
type BootReport struct {
	Found   int64 // sessions with something open
	Settled int64 // they run again, or have ended
	NoAgent int64 // this host does not know their agent: they wait to be opened
	Failed  int64 // they could not be loaded; the log says why
}

// scan is the boot scan of a host.
type scan struct {
	found, settled, noAgent, failed atomic.Int64

	done chan struct{}
	err  error // after done
}

// Boot waits for the end of the boot scan and returns what it did. The error is the
// store's when the listing could not be read, or ctx's.
func (h *Host) Boot(ctx context.Context) (BootReport, error) {
	var err error
	select {
	case <-h.scan.done:
		err = h.scan.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	s := &h.scan
	return BootReport{Found: s.found.Load(), Settled: s.settled.Load(), NoAgent: s.noAgent.Load(), Failed: s.failed.Load()}, err
}

// boot scans the store once, page by page.
func (h *Host) boot() {
	defer close(h.scan.done)
	b := h.cfg.Boot
	if !b.On {
		return
	}
	ctx, cancel := h.untilClosing()
	defer cancel()
	slots := make(chan struct{}, b.Concurrency)
	var work sync.WaitGroup
	defer work.Wait()
	pace := pacer{every: time.Second / time.Duration(b.PerSecond), now: h.cfg.Now}
	q := journal.Query{Pending: true, Limit: b.Page}
	for {
		page, err := h.pending(ctx, q)
		if err != nil {
			if ctx.Err() == nil {
				h.log.Error("the sessions to be settled cannot be listed", zap.Error(err))
			}
			h.scan.err = err
			return
		}
		for i := range page {
			head := &page[i]
			h.scan.found.Add(1)
			agent, err := h.cfg.Agent(ctx, head)
			switch {
			case err != nil:
				h.scan.failed.Add(1)
				h.log.Error("the agent of a session to be settled cannot be found", zap.String("SID", head.SID), zap.Error(err))
				continue
			case agent == nil:
				h.scan.noAgent.Add(1)
				h.log.Warn("a session waits to be opened: its agent is not known here", zap.String("SID", head.SID))
				continue
			}
			if !pace.wait(ctx) {
				return
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			work.Add(1)
			go func() {
				defer work.Done()
				defer func() { <-slots }()
				h.take(ctx, head.SID, agent)
			}()
		}
		if len(page) < q.Page() {
			return
		}
		last := &page[len(page)-1]
		q.AfterSID, q.AfterInc = last.SID, last.Inc
	}
}

// untilClosing is a context that ends when the host begins to stop.
func (h *Host) untilClosing() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(h.ctx)
	go func() {
		select {
		case <-h.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// take wakes a session, which settles what it finds.
func (h *Host) take(ctx context.Context, sid string, agent *Agent) {
	room := h.intake.Begin()
	defer room.End()
	if !room.Take(ctx, intake.Recovered) {
		return
	}
	key, err := messages.ParseSID(sid)
	if err == nil {
		_, err = h.ask(ctx, &request{key: key, agent: agent, op: opOpen})
	}
	switch {
	case err == nil:
		h.scan.settled.Add(1)
	case ctx.Err() == nil:
		h.scan.failed.Add(1)
		h.log.Error("a session cannot be settled", zap.String("SID", sid), zap.Error(err))
	}
}

// pending reads one page, and tries again when the store is busy.
func (h *Host) pending(ctx context.Context, q journal.Query) (page []journal.Head, err error) {
	for try := range bootTries {
		if try > 0 && !sleepFor(ctx, time.Second) {
			break
		}
		if page, err = h.cfg.Store.Sessions(ctx, q); err == nil {
			return page, nil
		}
	}
	return nil, err
}

// pacer lets one through every so often; what was not used is not saved up.
type pacer struct {
	every time.Duration
	now   func() time.Time
	next  time.Time
}

// wait reports whether the next may go; ctx may end before.
func (p *pacer) wait(ctx context.Context) bool {
	now := p.now()
	if d := p.next.Sub(now); d > 0 {
		if !sleepFor(ctx, d) {
			return false
		}
		now = p.next
	}
	p.next = now.Add(p.every)
	return ctx.Err() == nil
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

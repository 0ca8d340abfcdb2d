package wake

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/intake"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// tries is how often the listing is asked for one page before the scan gives up.
const tries = 3

// scan is what the boot scan did.
type scan struct {
	found, settled, noAgent, failed atomic.Int64

	done chan struct{}
	err  error // after done
}

// Report waits for the end of the boot scan and returns what it did. The error is the
// store's when the listing could not be read, or ctx's.
func (w *Waker) Report(ctx context.Context) (Report, error) {
	var err error
	select {
	case <-w.scan.done:
		err = w.scan.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	s := &w.scan
	return Report{Found: s.found.Load(), Settled: s.settled.Load(), NoAgent: s.noAgent.Load(), Failed: s.failed.Load()}, err
}

// boot scans the store once, page by page.
func (w *Waker) boot() {
	defer close(w.scan.done)
	b := w.Boot
	if !b.On {
		return
	}
	ctx := w.ctx
	slots := make(chan struct{}, b.Concurrency)
	var work sync.WaitGroup
	defer work.Wait()
	pace := pacer{every: time.Second / time.Duration(b.PerSecond), now: w.Now}
	q := journal.Query{Pending: true, Limit: b.Page}
	for {
		page, err := w.pending(ctx, q)
		if err != nil {
			if ctx.Err() == nil {
				w.Log.Error("the sessions to be settled cannot be listed", zap.Error(err))
			}
			w.scan.err = err
			return
		}
		for i := range page {
			head := &page[i]
			w.scan.found.Add(1)
			agent, err := w.Agent(ctx, head)
			switch {
			case err != nil:
				w.scan.failed.Add(1)
				w.Log.Error("the agent of a session to be settled cannot be found", zap.String("SID", head.SID), zap.Error(err))
				continue
			case agent == nil:
				w.scan.noAgent.Add(1)
				w.Log.Warn("a session waits to be opened: its agent is not known here", zap.String("SID", head.SID))
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
				w.take(ctx, head.SID, agent)
			}()
		}
		if len(page) < q.Page() {
			return
		}
		last := &page[len(page)-1]
		q.AfterSID, q.AfterInc = last.SID, last.Inc
	}
}

// take wakes a session, which settles what it finds.
func (w *Waker) take(ctx context.Context, sid string, agent *compiled.Agent) {
	room := w.Intake.Begin()
	defer room.End()
	if !room.Take(ctx, intake.Recovered) {
		return
	}
	key, err := messages.ParseSID(sid)
	if err == nil {
		err = w.Open(ctx, key, agent)
	}
	switch {
	case err == nil:
		w.scan.settled.Add(1)
	case elsewhere(err): // it runs at another host
	case ctx.Err() == nil:
		w.scan.failed.Add(1)
		w.Log.Error("a session cannot be settled", zap.String("SID", sid), zap.Error(err))
	}
}

// elsewhere reports whether a session is another host's.
func elsewhere(err error) bool {
	_, ok := lease.Owner(err)
	return ok
}

// pending reads one page, and tries again when the store is busy.
func (w *Waker) pending(ctx context.Context, q journal.Query) (page []journal.Head, err error) {
	for try := range tries {
		if try > 0 && !sleepFor(ctx, time.Second) {
			break
		}
		if page, err = w.Store.Sessions(ctx, q); err == nil {
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

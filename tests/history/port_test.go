package history

import (
	"sync"

	"github.com/seed14be6753/stile/journal"
)

// port is the store as one process sees it. When the process dies, each batch in flight is
// lost, or committed without an acknowledgement; nothing reaches the store afterwards.
type port struct {
	journal.Store
	immediate bool
	pause     func() // in which a crash may come
	lies      bool   // acknowledges a commit before it has happened

	mu   sync.Mutex
	dead bool
	owed []journal.Batch // acknowledged, not committed
}

func errDead() error { return journal.Fail(journal.ReasonIO, nil, "the process is dead") }

// Immediate implements journal.Store.
func (p *port) Immediate() bool { return p.immediate }

// Commit implements journal.Store.
func (p *port) Commit(batches []journal.Batch) []error {
	p.pause()
	errs, dead := p.commit(batches)
	p.pause()
	if dead || p.isDead() {
		errs = make([]error, len(batches))
		for i := range errs {
			errs[i] = errDead()
		}
	}
	return errs
}

func (p *port) commit(batches []journal.Batch) (errs []error, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return nil, true
	}
	if !p.lies {
		return p.Store.Commit(batches), false
	}
	if len(p.owed) > 0 {
		p.Store.Commit(p.owed)
	}
	p.owed = append([]journal.Batch(nil), batches...)
	return make([]error, len(batches)), false
}

// crash is the death of the process.
func (p *port) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (p *port) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

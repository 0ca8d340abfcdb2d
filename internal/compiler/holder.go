package compiler

import (
	"errors"
	"io"
	"sync"

	"github.com/seed14be6753/stile/messages"
)

// Holder closes what agents hold open.
type Holder struct {
	mu      sync.Mutex
	over    bool
	closers []io.Closer
}

// Keep closes c with the holder, or at once when that has closed.
func (h *Holder) Keep(c io.Closer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return errors.Join(messages.Errorf(messages.ErrCancelled, "the runtime has closed"), c.Close())
	}
	h.closers = append(h.closers, c)
	return nil
}

// Close closes everything, also when something fails to close.
func (h *Holder) Close() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.closers {
		err = errors.Join(err, c.Close())
	}
	h.closers, h.over = nil, true
	return err
}

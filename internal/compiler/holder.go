package compiler

import (
	"errors"
	"io"
	"sync"

	"github.com/seed14be6753/stile/messages"
)

// Holder closes the resources of agents. It is safe for concurrent use.
type Holder struct {
	mu      sync.Mutex
	over    bool
	closers []io.Closer
}

// Keep closes c when the holder closes, or at once if it has closed.
func (h *Holder) Keep(c io.Closer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return errors.Join(messages.Errorf(messages.ErrCancelled, "the runtime has closed"), c.Close())
	}
	h.closers = append(h.closers, c)
	return nil
}

// Close closes all resources, even if one fails, and joins the errors.
func (h *Holder) Close() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.closers {
		err = errors.Join(err, c.Close())
	}
	h.closers, h.over = nil, true
	return err
}

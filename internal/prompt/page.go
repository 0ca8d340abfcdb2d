package prompt

import (
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed14be6753/stile/messages"
)

// pages are those of a session's latest prompt. Prompts of one session may be digested side
// by side: that of a turn that was cancelled, and the next.
type pages struct{ latest atomic.Pointer[[]page] }

func (p *pages) load() []page {
	if p != nil {
		if of := p.latest.Load(); of != nil {
			return *of
		}
	}
	return nil
}

func (p *pages) store(of []page) {
	if p != nil {
		p.latest.Store(&of)
	}
}

// page is the digest of messages of a prompt, with what it was made of where the view has
// all of it: nothing that only one prompt had is held for the next.
type page struct {
	sum [sha256.Size]byte
	of  []sent
}

// sent is what of a message counts.
type sent struct {
	role         messages.Role
	text, native string
	parts        []messages.Part
}

func (p *page) hold(of []messages.Message) {
	p.of = make([]sent, len(of))
	for i := range of {
		p.of[i] = sent{of[i].Role, of[i].Text, of[i].Native, of[i].Parts}
	}
}

// is reports whether the page is of these messages. A text is known by where it lies: comparing
// its bytes would cost what the page is to spare.
func (p *page) is(of []messages.Message) bool {
	if len(p.of) == 0 || len(p.of) != len(of) {
		return false
	}
	for i := range of {
		a, b := &p.of[i], &of[i]
		if a.role != b.Role || !same(a.text, b.Text) || !same(a.native, b.Native) || !slices.Equal(a.parts, b.Parts) {
			return false
		}
	}
	return true
}

func same(a, b string) bool {
	return len(a) == len(b) && unsafe.StringData(a) == unsafe.StringData(b)
}

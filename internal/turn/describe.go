package turn

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// Describe changes the title and tags of the session, at any time while it is not closed.
// Title, if not nil, replaces the title, and Tags, if not nil, all tags; then Remove is
// removed from the tags and Add added. The Answer is ERR_INVALID for a title or tag that is
// not allowed. A Describe that changes nothing makes no record.
type Describe struct {
	Handle            uint64
	Title             *string
	Tags, Add, Remove []string
	By                string
}

func (*Describe) input() string { return "Describe" }

// describe records the whole description, so that a reader needs only the last record.
func (m *Machine) describe(in *Describe) {
	s := &m.state
	if s.Seq == 0 || s.Closed {
		m.do(&Answer{Handle: in.Handle, Err: messages.Errorf(messages.ErrDenied, "there is no session to describe")})
		return
	}
	next := s.About.Changed(in.Title, in.Tags, in.Add, in.Remove)
	if err := next.Validate(); err != nil {
		m.do(&Answer{Handle: in.Handle, Err: err})
		return
	}
	before := s.About
	if before == nil {
		before = &messages.SessionDescribed{}
	}
	if next.Title == before.Title && slices.Equal(next.Tags, before.Tags) {
		m.do(&Answer{After: s.Seq, Handle: in.Handle, Seq: s.Seq})
		return
	}
	next.By = clean(in.By)
	r := m.append(0, 0, next, 0)
	m.do(&Answer{After: r.Seq, Handle: in.Handle, Seq: r.Seq})
}

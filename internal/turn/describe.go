package turn

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// Describe changes the title and tags of the session, at any time while it is not closed.
// Title, when it is not nil, takes the place of the one it has, and Tags, when they are not
// nil, that of all its tags; then Remove goes and Add comes. Answer refuses what a session
// cannot be described with, as ERR_INVALID; what changes nothing has no record.
type Describe struct {
	Handle            uint64
	Title             *string
	Tags, Add, Remove []string
	By                string
}

func (*Describe) input() string { return "Describe" }

// describe writes the whole description: a reader needs the last record alone.
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

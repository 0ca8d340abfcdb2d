package turn

import "github.com/seed14be6753/stile/messages"

// Close ends the session for good; it is the last input. The Answer is ERR_BUSY while a run,
// a waiting input or a detached action is left: cancel those first. It is ERR_DENIED for a
// session that does not exist or is closed.
type Close struct {
	Handle uint64
	Reason string
}

func (*Close) input() string { return "Close" }

// closed writes session.closed. The SID is free for another session after it.
func (m *Machine) closed(in *Close) {
	s := &m.state
	switch {
	case s.Seq == 0, s.Closed:
		m.do(&Answer{Handle: in.Handle, Err: messages.Errorf(messages.ErrDenied, "there is no session to close")})
	case s.Open != nil, len(s.Queue) > 0, s.Window != nil, len(s.Detached) > 0:
		m.do(&Answer{Handle: in.Handle, Err: messages.Errorf(messages.ErrBusy, "something of the session is in flight")})
	default:
		r := m.persist(&messages.SessionClosed{Reason: clean(in.Reason)}, 0)
		m.do(&Answer{After: r.Seq, Handle: in.Handle, Seq: r.Seq})
	}
}

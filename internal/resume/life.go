package resume

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// State is where a conversation is (docs/spec/cogency.md §8).
type State uint8

// The states.
const (
	Idle       State = iota // there is no connection
	Settling                // a prompt waits until the end of the last reply is known
	Connecting              // a prompt waits for a connection
	Asking                  // a prompt was sent, and nothing of the reply has come
	Streaming               // the reply comes
	Paused                  // nothing is in flight
	Closed                  // for good
)

var states = [...]string{"IDLE", "SETTLING", "CONNECTING", "ASKING", "STREAMING", "PAUSED", "CLOSED"}

// String returns the name.
func (s State) String() string { return states[s] }

// Reasons of messages.ModelSession, beside the reasons of failures (messages.Error.Reason).
const (
	ReasonReply     = "REPLY"     // the prompt has another reply than the model has written
	ReasonHistory   = "HISTORY"   // the prompt begins with something else
	ReasonLost      = "LOST"      // the provider does not have the conversation any more
	ReasonModel     = "MODEL"     // another model is asked
	ReasonSetup     = "SETUP"     // the connection was made for other tools, options or system text
	ReasonHandle    = "HANDLE"    // another connection has the conversation of the one before
	ReasonAge       = "AGE"       // the connection is near its provider's limit
	ReasonLimit     = "LIMIT"     // the provider says that it is there
	ReasonIdle      = "IDLE"      // nothing was asked for a while
	ReasonEvicted   = "EVICTED"   // other sessions of the host needed its place
	ReasonSuspended = "SUSPENDED" // the session waits for approval
	ReasonNetwork   = "NETWORK"   // the connection broke
	ReasonFeeds     = "FEEDS"     // the provider does not take feeds back that ended the prompt before
	ReasonFailed    = "FAILED"    // the reply before failed
	ReasonEnded     = "ENDED"     // the session sleeps, or is over; no record says so
)

// Input is something that has happened.
type Input interface{ input() string }

// Ask brings the prompt of a request.
type Ask struct {
	Run   int64
	Model string // who is asked; another one than before gets a connection of its own
	// Marks is the prompt (prompt.Digester.Marks) without what passes.
	Marks []messages.Digest
	// Passing reports whether messages follow that hold for this request alone. The
	// conversation is not to have them afterwards.
	Passing bool
	// Tells reports whether message Life.Asked of the prompt is how it tells the last reply.
	Tells bool
	// Auto allows to go on without a conversation.
	Auto bool
	// Unfit reports that the connection was not made for such requests.
	Unfit bool
	// Ends is when the provider ends the connection, by what it says now; zero is unknown.
	Ends time.Time
	Now  time.Time
}

// Connected reports that there is a connection.
type Connected struct {
	Expires time.Time // from then on it is not used for another request; zero is never
	Fixed   bool      // its conversation only grows
	Same    bool      // it has the conversation of the one before
}

// Began reports that something of the reply has come.
type Began struct{}

// Ended reports that the reply was read to its end.
type Ended struct{}

// Left reports that the reply is not read any more; the model may go on with it.
type Left struct{}

// Settled answers Settle: whether the conversation has the last reply, and nothing else that
// the model wrote.
type Settled struct{ Kept bool }

// Failed reports that connecting, sending or reading has failed.
type Failed struct {
	Why Failure
	// Gone reports whether the connection has ended.
	Gone bool
	// Reason is that of the error.
	Reason string
	// Elsewhere reports whether the same prompt may go through without a conversation.
	Elsewhere bool
}

// Failure is why a request failed, as far as it matters here.
type Failure uint8

// The failures.
const (
	Other   Failure = iota
	Lost            // the provider does not have the conversation
	Limit           // the provider wants another connection
	Stays           // the provider does not take back what passes
	Network         // the connection broke
)

// Gone reports that a connection without a request was given up.
type Gone struct{ Reason string }

// Close ends the conversation for good.
type Close struct{}

func (Ask) input() string       { return "Ask" }
func (Connected) input() string { return "Connected" }
func (Began) input() string     { return "Began" }
func (Ended) input() string     { return "Ended" }
func (Left) input() string      { return "Left" }
func (Settled) input() string   { return "Settled" }
func (Failed) input() string    { return "Failed" }
func (Gone) input() string      { return "Gone" }
func (Close) input() string     { return "Close" }

// Effect is what is to be done next.
type Effect interface{ effect() string }

// Settle asks whether the conversation has the last reply. It is answered by Settled, or Gone.
type Settle struct{}

// Connect asks for a connection. It is answered by Connected or Failed. Same reports whether
// the request can go on with the conversation that the last connection had.
type Connect struct{ Same bool }

// Send asks for a reply to the prompt without its first Sent messages. Passing reports whether
// what passes is taken back; else the conversation has nothing to go on from afterwards.
type Send struct {
	Session int64
	Sent    int
	Passing bool
}

// Note records what became of the conversation.
type Note struct{ Session messages.ModelSession }

// Shut closes the connection. What and Reason are as in messages.ModelSession.
type Shut struct{ What, Reason string }

// Alone asks for a reply to the whole prompt without a conversation.
type Alone struct{}

// Fail ends the request with the error that was reported.
type Fail struct{}

func (Settle) effect() string  { return "settle" }
func (Connect) effect() string { return "connect" }
func (Send) effect() string    { return "send" }
func (Note) effect() string    { return "note" }
func (Shut) effect() string    { return "shut" }
func (Alone) effect() string   { return "alone" }
func (Fail) effect() string    { return "fail" }

// Life is the life of a conversation, over all its connections. The zero value has none.
type Life struct {
	state   State
	session int64 // number of the latest connection
	model   string
	expires time.Time
	fixed   bool // the conversation only grows

	asked  point // what the last request was about
	before point // what the conversation had before that
	// reply reports whether it has the last reply as well.
	reply bool
	// past is what the conversation of a fixed connection had when that was given up, if it
	// had its last reply.
	past point
	// ended is how the connection before ended, until that is recorded.
	ended messages.ModelSession

	ask   Ask   // in flight
	made  bool  // the connection was made for it
	again bool  // it was sent again
	alone int64 // run that goes on without a conversation
	// earlier reports whether the request went on from an earlier point, latest whether the
	// provider is known to keep none.
	earlier, latest bool
	// taken reports whether the last request had something that passes and was taken back,
	// stuck whether it stayed. stays reports that the provider takes nothing back.
	taken, stuck, stays bool
}

// point is a place in a conversation: its first n messages.
type point struct {
	n    int
	mark messages.Digest
}

// is reports whether a prompt begins with the messages of the point.
func (p point) is(marks []messages.Digest) bool { return p.n < len(marks) && marks[p.n] == p.mark }

// grown reports whether a prompt begins with the messages of the point, goes on with a reply to
// them, and with more.
func (p point) grown(marks []messages.Digest) bool {
	return p.n > 0 && p.is(marks) && p.n+1 < len(marks)-1
}

// State returns where the conversation is.
func (l *Life) State() State { return l.state }

// Asked returns how many messages the last request was about: in the next prompt the reply
// stands behind them.
func (l *Life) Asked() int { return max(l.asked.n, l.past.n) }

// Step takes an input and returns what is to be done, in order. An input that means nothing in
// the current state is passed over.
func (l *Life) Step(in Input) []Effect {
	if l.state == Closed {
		return nil
	}
	switch in := in.(type) {
	case Ask:
		return l.prompt(in)
	case Settled:
		if l.state == Settling {
			l.reply = l.reply && in.Kept
			return l.choose()
		}
	case Connected:
		if l.state == Connecting {
			return l.connected(in)
		}
	case Began:
		if l.state == Asking {
			l.state = Streaming
		}
	case Ended:
		if l.state == Asking || l.state == Streaming {
			l.state, l.reply = Paused, true
		}
	case Left:
		switch {
		case l.state == Asking && l.taken: // it may have been left in front of what passes
			l.state = Paused
			l.forget()
		case l.state == Asking || l.state == Streaming:
			l.state, l.reply = Paused, true // Settle tells what it has
		case l.state == Settling:
			l.state = Paused
		case l.state == Connecting:
			l.state, l.past = Idle, point{}
		}
	case Failed:
		return l.failed(in)
	case Gone:
		switch l.state {
		case Settling:
			return l.anew(messages.SessionGone, in.Reason)
		case Paused:
			return []Effect{l.drop(messages.SessionGone, in.Reason)}
		}
	case Close:
		was := l.state
		if l.state = Closed; was != Idle {
			return []Effect{Shut{messages.SessionGone, ReasonEnded}}
		}
	}
	return nil
}

// prompt begins a request.
func (l *Life) prompt(in Ask) []Effect {
	if l.state != Idle && l.state != Paused {
		return nil
	}
	l.ask, l.made, l.again = in, false, false
	if in.Auto && l.alone == in.Run && in.Run > 0 {
		return []Effect{Alone{}}
	}
	switch {
	case l.state == Idle:
		if l.model != in.Model {
			l.model, l.past = in.Model, point{}
		}
		return l.connect()
	case l.model != in.Model:
		l.model, l.reply = in.Model, false
		return l.anew(messages.SessionGone, ReasonModel)
	case !l.expires.IsZero() && !in.Now.Before(l.expires):
		return l.anew(messages.SessionExpired, ReasonAge)
	case !in.Ends.IsZero() && !in.Now.Before(in.Ends):
		return l.anew(messages.SessionExpired, ReasonLimit)
	case in.Unfit:
		return l.anew(messages.SessionGone, ReasonSetup)
	}
	l.state = Settling
	return []Effect{Settle{}}
}

// anew gives the connection up for another one.
func (l *Life) anew(what, reason string) []Effect {
	return append([]Effect{l.drop(what, reason)}, l.connect()...)
}

// drop forgets what the connection had, and gives it up.
func (l *Life) drop(what, reason string) Shut {
	if l.past = (point{}); l.fixed && l.reply && (l.state == Paused || l.state == Settling) {
		l.past = l.asked
	}
	l.state = Idle
	l.forget()
	l.ended = messages.ModelSession{What: what, Reason: reason, Session: l.session}
	return Shut{what, reason}
}

// forget notes that nothing is known of what the conversation has.
func (l *Life) forget() {
	l.asked, l.before, l.reply, l.taken, l.stuck = point{}, point{}, false, false, false
}

// connect asks for a connection, and records how the one before ended.
func (l *Life) connect() []Effect {
	l.state = Connecting
	how := Connect{Same: l.lasts()}
	if l.ended.What == "" {
		return []Effect{how}
	}
	note := Note{l.ended}
	l.ended = messages.ModelSession{}
	return []Effect{note, how}
}

// lasts reports whether the request goes on from what the last connection had.
func (l *Life) lasts() bool { return l.ask.Tells && l.past.grown(l.ask.Marks) }

func (l *Life) connected(in Connected) []Effect {
	l.session++
	l.made = true
	l.expires, l.fixed = in.Expires, in.Fixed
	had, same := l.past.n, in.Same && l.lasts()
	if l.past = (point{}); same {
		return []Effect{l.note(messages.SessionConnected, ReasonHandle), l.send(had + 1)}
	}
	return []Effect{l.note(messages.SessionConnected, ""), l.send(0)}
}

func (l *Life) note(what, reason string) Note {
	return Note{messages.ModelSession{What: what, Reason: reason, Session: l.session}}
}

// send asks for a reply. The conversation has the first sent messages of the prompt.
func (l *Life) send(sent int) Effect {
	marks := l.ask.Marks
	l.forget()
	last := len(marks) - 1
	switch here := (point{last, marks[last]}); {
	case !l.ask.Passing:
		l.asked = here
		if sent > 0 {
			l.before = point{sent, marks[sent]}
		}
	case l.stays || l.latest:
		l.stuck = true
	default: // what passes is asked behind a place that the conversation keeps
		l.asked, l.before, l.taken = here, here, true
	}
	l.state = Asking
	return Send{Session: l.session, Sent: sent, Passing: l.taken}
}

// choose sends what the conversation does not have.
func (l *Life) choose() []Effect {
	marks := l.ask.Marks
	l.earlier = false
	grown := l.asked.grown(marks)
	switch {
	case grown && l.reply && l.ask.Tells:
		return []Effect{l.send(l.asked.n + 1)}
	case l.fixed:
		reason := ReasonHistory
		if grown {
			reason = ReasonReply
		}
		l.reply = false
		return l.anew(messages.SessionGone, reason)
	case l.stuck:
		return []Effect{l.note(messages.SessionSeeded, ReasonFeeds), l.send(0)}
	case !l.latest && l.taken && l.before.is(marks) && l.before.n < len(marks)-1:
		l.earlier = true
		return []Effect{l.send(l.before.n)}
	case !l.latest && l.before.n > 0 && l.before.is(marks) && l.before.n < len(marks)-1:
		reason := ReasonHistory
		if grown {
			reason = ReasonReply
		}
		l.earlier = true
		return []Effect{l.note(messages.SessionDiverged, reason), l.send(l.before.n)}
	case grown:
		return []Effect{l.note(messages.SessionSeeded, ReasonReply), l.send(0)}
	case l.asked.n == 0:
		return []Effect{l.note(messages.SessionSeeded, ReasonFailed), l.send(0)}
	}
	return []Effect{l.note(messages.SessionSeeded, ReasonHistory), l.send(0)}
}

// failed decides what follows a failure: the same request once more, a run without a
// conversation, or the failure itself.
func (l *Life) failed(in Failed) []Effect {
	was := l.state
	if was != Connecting && was != Asking && was != Streaming {
		return nil
	}
	if was == Asking && !l.again {
		if out := l.retry(in); out != nil {
			l.again = true
			return out
		}
	}
	shut := was != Connecting
	switch {
	case was != Streaming && l.ask.Auto && in.Elsewhere:
		gone := l.leave(in.Reason)
		out := []Effect{l.note(messages.SessionFallback, in.Reason), Alone{}}
		if shut {
			out = append([]Effect{gone}, out...)
		}
		return out
	case was == Connecting:
		l.state, l.past = Idle, point{}
		return []Effect{Fail{}}
	case was == Streaming && l.ask.Auto && in.Elsewhere: // the reply has failed, and the run may go on
		return []Effect{l.leave(in.Reason), l.note(messages.SessionFallback, in.Reason), Fail{}}
	case in.Gone:
		return []Effect{l.drop(messages.SessionGone, in.Reason), Fail{}}
	}
	// The provider has forgotten what the request was built upon.
	l.state = Paused
	l.forget()
	return []Effect{Fail{}}
}

// leave has the run go on without a conversation. The record of that says how the connection
// ended.
func (l *Life) leave(reason string) Shut {
	l.alone = l.ask.Run
	gone := l.drop(messages.SessionGone, reason)
	l.ended = messages.ModelSession{}
	return gone
}

// retry makes the request again on a footing that the provider accepts; nil if there is none.
func (l *Life) retry(in Failed) []Effect {
	switch {
	case in.Why == Limit:
		return l.anew(messages.SessionExpired, ReasonLimit)
	case in.Why == Stays:
		if l.stays = true; in.Gone {
			return l.anew(messages.SessionGone, ReasonFeeds)
		}
		return []Effect{l.note(messages.SessionSeeded, ReasonFeeds), l.send(0)}
	case in.Gone && !l.made:
		return l.anew(messages.SessionGone, ReasonNetwork)
	case in.Why == Lost && !in.Gone && l.before.n > 0:
		l.latest = l.latest || l.earlier
		return []Effect{l.note(messages.SessionSeeded, ReasonLost), l.send(0)}
	}
	return nil
}

package llm

import (
	"context"
	"iter"
	"time"
)

// SessionModel is a Model whose provider can keep a conversation, so that a request sends only
// what is new (docs/spec/model-sessions.md). Implementations are safe for concurrent use. One with
// a method TakesBack() bool that returns true has sessions that take Request.Passing back; other
// sessions get 0 for it.
type SessionModel interface {
	Model
	// Connect opens a conversation for the sessions' requests. req is the first of them: it
	// says who is asked, and is not sent. Errors are those of a stream. When ctx ends, Connect
	// returns soon after.
	Connect(ctx context.Context, req Request) (Session, error)
}

// Session is a conversation that a provider keeps. It may be lost at any moment: the caller can
// always send everything again. Continue and Settle are called by one goroutine at a time, Close
// by any.
type Session interface {
	// Continue is Stream of a request whose first sent messages the conversation has: 0, or
	// what it had before the last request or after its reply, in which case the last of them
	// is the reply. With Passing, what it had before the last request is all that stood in front
	// of the messages that pass, and nothing has these afterwards. When the receiver leaves the range, or ctx ends, the model may go on with
	// the reply: see Settle.
	//
	// A failure with the code CodeLost means that the provider does not have the
	// conversation, with CodeLimit that it wants another connection, with CodePassing that it
	// takes nothing back. Ended reports whether
	// the session has ended with a failure.
	Continue(ctx context.Context, req Request, sent int) iter.Seq2[Chunk, error]
	// Settle waits until the provider has ended the last reply, and reports whether the
	// conversation has it as Continue has yielded it. If not, the conversation has what it
	// had before that request. An error means that the session has ended.
	Settle(ctx context.Context) (kept bool, err error)
	// Ended reports whether the session has ended: nothing can be sent any more.
	Ended() bool
	// Expires is when the provider ends the session; zero is never. It may come nearer.
	Expires() time.Time
	// Close ends the session within 5 s. It may be called more than once.
	Close() error
}

// Codes of failures of sessions: Failure.Code.
const (
	CodeLost  = "previous_response_not_found"
	CodeLimit = "websocket_connection_limit_reached"
	// CodePassing is of ours: Request.Passing would stay in the conversation.
	CodePassing = "passing_stays"
)

package actors

import (
	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/internal/directory"
	"github.com/seed14be6753/stile/internal/feedvalues"
	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// request is a message from outside to a session. It is answered exactly once,
// also when the session cannot take it; reply has room for the answer.
type request struct {
	key   messages.SessionKey
	agent *Agent
	op    operation
	input messages.Input // submit
	// parent is for whom a submit opens a session that does not exist.
	parent  *messages.ParentLink
	by      string        // cancel, close
	run     int64         // cancel
	word    *turn.Approve // approve
	about   *turn.Describe
	scoped  *turn.ScopeCall
	feed    string // ingest
	value   string // ingest
	reply   chan Reply
	handoff mailbox.Handoff
	hops    int // times it was sent on because a session stopped before it came
	transit directory.InTransit
}

// operation is what a request wants.
type operation uint8

const (
	opOpen operation = iota
	opSubmit
	opCancel
	opFlush
	opApprove
	opApprovals
	opExpire
	opFeeds
	opIngest
	opClose
	opDescribe
	opScope
)

// Reply answers a request.
type Reply struct {
	Inc    messages.Incarnation
	Run    int64
	Seq    int64
	Joined bool
	Merged bool // the input joins Run at its next turn
	// End waits for the end of the run a submit started; nil when the run was
	// there before. It was registered before the run could end.
	End *hub.Waiter
	// Approvals answers opApprovals.
	Approvals []turn.Approval
	Feeds     []feedvalues.State // answers opFeeds, with values
	values    *feedvalues.Values
	result    string // of opScope
	Err       error
}

func (r *request) answer(rep Reply) {
	select {
	case r.reply <- rep:
	default: // answered already: the first answer counts
	}
}

func (r *request) refuse(code messages.Code, why string) {
	r.answer(Reply{Err: messages.Errorf(code, "%s", why)})
}

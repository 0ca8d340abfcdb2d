package actors

import (
	"time"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
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
	parent *messages.ParentLink
	by     string        // cancel, close
	run    int64         // cancel
	word   *turn.Approve // approve
	about  *turn.Describe
	feed   string // ingest
	value  string // ingest
	reply  chan Reply
	loan   mailbox.Loan
	hops   int      // times it was sent on because a session stopped before it came
	next   *request // in sessionRef.sent
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
	Approvals []Approval
	Feeds     []FeedState // answers opFeeds, with feeds
	feeds     *feedAsk
	Err       error
}

// Approval is a call of a suspended turn that waits for a person's answer.
type Approval struct {
	ID        string // 128 random bits in base64url
	Run, Turn int64
	Action    string // id of the action in its turn
	Tool      string
	Args      string // canonical JSON
	// Basis is what else the call rests on: canonical JSON with the tool's name and, where
	// it has them, digests of the folder it works in and of what its server says of it; ""
	// in journals of before.
	Basis   string
	Digest  messages.Digest // of Basis and Args: of what would run
	Class   messages.Class
	Asked   time.Time
	Expires time.Time
}

// ApprovalsOf lists the open questions of a state.
func ApprovalsOf(s *turn.State) []Approval {
	if s.Open == nil || s.Open.Turn == nil {
		return nil
	}
	var all []Approval
	for i := range s.Open.Turn.Actions {
		a := &s.Open.Turn.Actions[i]
		if q := a.Question; q != nil && q.Answer == "" {
			all = append(all, Approval{
				ID: q.ID, Run: s.Open.Run, Turn: s.Open.Turn.Index, Action: a.ID, Tool: a.Name, Args: a.Asks(),
				Basis: q.Basis, Digest: a.AskDigest(), Class: a.Class,
				Asked: time.Unix(0, q.Asked).UTC(), Expires: time.Unix(0, q.Expires).UTC(),
			})
		}
	}
	return all
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

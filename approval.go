package stile

import (
	"context"
	"strings"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Approval is a call that waits for somebody's word: the manifest, or the gate's
// hook, wants it confirmed. Its turn is suspended meanwhile. It belongs to one
// session, turn, action and arguments, and expires after 24 hours.
type Approval = actors.Approval

// Reasons in Error.Reason why an answer does not count: ApprovalUnknown of an
// ERR_NOT_FOUND, the others of an ERR_APPROVAL.
const (
	ApprovalUnknown   = turn.ReasonUnknown   // the session has no such question: it is another's, or long over
	ApprovalLate      = turn.ReasonLate      // it has expired
	ApprovalAnswered  = turn.ReasonAnswered  // somebody was quicker, or the action was cancelled
	ApprovalChanged   = turn.ReasonChanged   // the answer was given for other arguments, or for a tool or folder that is another by now
	ApprovalPrincipal = turn.ReasonPrincipal // the principal is missing or not allowed
)

// Approvals lists the calls of the session that wait for approval, in the order they
// were asked. The records action.approval in state confirm announce them, so a
// subscriber of Events need not ask. A session that sleeps is not woken.
func (s *Session) Approvals(ctx context.Context) ([]Approval, error) {
	if !s.rt.host.Awake(s.sid) {
		ar := s.rt.Archive()
		head, err := ar.Head(ctx, s.sid)
		if err != nil {
			return nil, closedError(err)
		}
		list, err := ar.Approvals(ctx, head)
		return list, closedError(err)
	}
	list, err := s.rt.host.Approvals(ctx, s.key, s.agent.Actor)
	return list, closedError(err)
}

// Approve lets a call happen, on behalf of by. Of a it needs the ID, and the
// Digest of what by has seen: a call that was not shown to anybody is not approved. What
// was approved is what runs: a tool whose server describes it otherwise by now, or that
// works in another folder, is CHANGED. It returns when the answer is durable; the turn goes on by itself. An
// answer that is refused does not wake a session that sleeps.
//
// Errors: ERR_APPROVAL with one of the reasons above, ERR_JOURNAL.
func (s *Session) Approve(ctx context.Context, a Approval, by string) error {
	return s.answer(ctx, a, turn.Approve{Answer: messages.GateApprove, By: by})
}

// Deny lets a call fail, on behalf of by. The program sees the reason as a script
// error of code 1003, and the turn goes on. It is as Approve otherwise.
func (s *Session) Deny(ctx context.Context, a Approval, by, reason string) error {
	return s.answer(ctx, a, turn.Approve{Answer: messages.GateDeny, By: by, Reason: reason})
}

// word takes a bare yes or no for the answer to the one call that waits, and gives its run.
func (s *Session) word(ctx context.Context, in *messages.Input) (*Run, error) {
	said := strings.ToLower(strings.Trim(in.Text, " \t\r\n.!"))
	if said != "yes" && said != "no" {
		return nil, nil
	}
	list, err := s.Approvals(ctx)
	if err != nil || len(list) != 1 {
		return nil, err
	}
	if said == "yes" {
		err = s.Approve(ctx, list[0], in.User)
	} else {
		err = s.Deny(ctx, list[0], in.User, "the user said no")
	}
	if err != nil {
		return nil, err
	}
	return s.run(list[0].Run), nil
}

func (s *Session) answer(ctx context.Context, a Approval, word turn.Approve) error {
	if err := s.mayAnswer(ctx, a, word.By); err != nil {
		return closedError(err)
	}
	word.Approval, word.Digest = a.ID, a.Digest
	return closedError(s.rt.host.Approve(ctx, s.key, s.agent.Actor, word))
}

// mayAnswer refuses what can be refused before anything is woken.
func (s *Session) mayAnswer(ctx context.Context, a Approval, by string) error {
	if !s.rt.host.Awake(s.sid) {
		ar := s.rt.Archive()
		head, err := ar.Head(ctx, s.sid)
		if err != nil {
			return err
		}
		if err := ar.CheckAnswer(ctx, head, a, by); err != nil {
			return err
		}
	}
	may := s.agent.MayApprove
	if may == nil {
		return nil
	}
	list, err := s.Approvals(ctx)
	if err != nil {
		return err
	}
	for _, asked := range list {
		if asked.ID == a.ID && !may(by, asked) {
			return &Error{Code: messages.ErrApproval, Reason: ApprovalPrincipal, Detail: "the answer is not theirs to give"}
		}
	}
	return nil
}

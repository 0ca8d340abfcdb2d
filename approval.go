package stile

import (
	"context"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Approval is a call that waits for approval, because the manifest or the gate's
// hook asks for confirmation. Its turn is suspended meanwhile. An approval belongs to one
// session, turn, action and arguments, and expires after 24 hours.
type Approval = turn.Approval

// Reasons in Error.Reason why an answer does not count: ApprovalUnknown of an
// ERR_NOT_FOUND, the others of an ERR_APPROVAL.
const (
	ApprovalUnknown   = turn.ReasonUnknown   // the session has no such call: the id is of another session, or of an ended run
	ApprovalLate      = turn.ReasonLate      // it has expired
	ApprovalAnswered  = turn.ReasonAnswered  // another answer came first, or the action was cancelled
	ApprovalChanged   = turn.ReasonChanged   // the arguments, the tool or its folder have changed since the digest was taken
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

// Approve allows a call on behalf of the principal by. Of a it needs the ID and the
// Digest; the digest must match the arguments shown to the approver. Only the approved
// call runs: if the server describes the tool differently by now, or the tool works in
// another folder, Approve fails with ApprovalChanged. Approve returns when the answer is
// durable; the turn then continues by itself. A refused answer wakes no sleeping session.
//
// Errors: ERR_APPROVAL with one of the reasons above, ERR_JOURNAL.
func (s *Session) Approve(ctx context.Context, a Approval, by string) error {
	return s.answer(ctx, a, turn.Approve{Answer: messages.GateApprove, By: by})
}

// Deny makes a call fail on behalf of the principal by. The program sees the reason as a
// script error of code 1003, and the turn continues. Otherwise Deny behaves as Approve.
func (s *Session) Deny(ctx context.Context, a Approval, by, reason string) error {
	return s.answer(ctx, a, turn.Approve{Answer: messages.GateDeny, By: by, Reason: reason})
}

// answerByText takes a bare yes or no as the answer to the one waiting call, and returns
// the run of that call; nil when the text is neither, or no call or several wait.
func (s *Session) answerByText(ctx context.Context, in *messages.Input) (*Run, error) {
	text := strings.ToLower(strings.Trim(in.Text, " \t\r\n.!"))
	if text != "yes" && text != "no" {
		return nil, nil
	}
	list, err := s.Approvals(ctx)
	if err != nil || len(list) != 1 {
		return nil, err
	}
	if text == "yes" {
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
	if err := s.rt.cfg.readOnly(); err != nil {
		return err
	}
	if err := s.mayAnswer(ctx, a, word.By); err != nil {
		return closedError(err)
	}
	word.Approval, word.Digest = a.ID, a.Digest
	return closedError(s.rt.host.Approve(ctx, s.key, s.agent.Actor, word))
}

// mayAnswer refuses an answer that cannot count, before it wakes the session.
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
			return &Error{Code: messages.ErrApproval, Reason: ApprovalPrincipal, Detail: "principal " + clip.Quoted(by) + " may not answer this call"}
		}
	}
	return nil
}

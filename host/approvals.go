package host

import (
	"context"
	"net/http"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// approvalView is a call that waits for a person's answer.
type approvalView struct {
	ID      string `json:"id"`
	Action  string `json:"action"`
	Name    string `json:"name" doc:"of the tool"`
	Args    string `json:"args" doc:"the call's arguments, canonical JSON"`
	Basis   string `json:"basis,omitempty" doc:"what else the call rests on, canonical JSON: the tool, a digest of its folder, of what its server says of it"`
	Digest  string `json:"digest" doc:"of what would run: an answer names the one it was given for"`
	Expires string `json:"expires,omitempty" format:"date-time"`
}

type approvalList struct {
	Approvals []approvalView `json:"approvals"`
}

// word is the answer to an approval.
type word struct {
	Allow  bool   `json:"allow"`
	Digest string `json:"digest" pattern:"^[0-9a-f]{64}$" doc:"of what was seen"`
	Reason string `json:"reason,omitempty" maxLength:"1024" doc:"of a refusal: the model is told"`
}

func (s *Server) approvalRoutes() {
	s.inboxRoute()
	route(s, get("list-approvals", "/v1/sessions/{id}/approvals", "The calls that wait for approval", "approvals"),
		func(ctx context.Context, in *sessionIn) (*answered[approvalList], error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			list, err := ses.Approvals(ctx)
			if err != nil {
				return nil, err
			}
			var out answered[approvalList]
			out.Body.Approvals = []approvalView{}
			for _, a := range list {
				out.Body.Approvals = append(out.Body.Approvals, viewOfApproval(a))
			}
			return &out, nil
		})
	type answerIn struct {
		ID       string `path:"id" maxLength:"128"`
		Approval string `path:"approval" maxLength:"64"`
		Body     word
	}
	route(s, asks(access.Approve, post("answer-approval", "/v1/sessions/{id}/approvals/{approval}", "Allow or deny a call", http.StatusNoContent, "approvals")),
		func(ctx context.Context, in *answerIn) (*struct{}, error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			var digest messages.Digest
			if err := digest.UnmarshalText([]byte(in.Body.Digest)); err != nil {
				return nil, &messages.Error{Code: messages.ErrInvalid, Field: "body.digest", Detail: "want 64 lower-case hex digits"}
			}
			a, by := stile.Approval{ID: in.Approval, Digest: digest}, s.principal(ctx).user
			if in.Body.Allow {
				return nil, ses.Approve(ctx, a, by)
			}
			return nil, ses.Deny(ctx, a, by, in.Body.Reason)
		})
}

func viewOfApproval(a stile.Approval) approvalView {
	v := approvalView{ID: a.ID, Action: a.Action, Name: a.Tool, Args: a.Args, Basis: a.Basis, Digest: a.Digest.String()}
	if !a.Expires.IsZero() {
		v.Expires = a.Expires.UTC().Format(time.RFC3339Nano)
	}
	return v
}

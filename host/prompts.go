package host

import (
	"context"
	"strconv"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/promptview"
	"github.com/seed14be6753/stile/messages"
)

type promptList struct {
	Requests []promptview.PromptView `json:"requests"`
}

// promptRoutes show what models saw. Making a prompt again takes processor time in proportion
// to the session, so that few are made at once.
func (s *Server) promptRoutes() {
	type promptIn struct {
		ID    string `path:"id" maxLength:"128"`
		Turn  string `path:"turn" maxLength:"20" doc:"number of the turn, or last: the last one that asked a model"`
		Reply bool   `query:"reply" doc:"the raw replies too"`
	}
	places := make(chan struct{}, maxPrompts)
	route(s, get("get-prompt", "/v1/sessions/{id}/turns/{turn}/prompt", "What the model saw in a turn, and what it replied", "runs"),
		func(ctx context.Context, in *promptIn) (*answered[promptList], error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			turn, err := s.turnOf(ctx, ses, in.Turn)
			if err != nil {
				return nil, err
			}
			all, err := s.rt.Archive().Prompts(ctx, ses.Incarnation(), s.offer.Load().agents[ses.AgentName()], turn)
			if err != nil {
				return nil, err
			}
			var out answered[promptList]
			for i := range all {
				out.Body.Requests = append(out.Body.Requests, promptview.Of(&all[i], in.Reply))
			}
			return &out, nil
		})
}

// maxPrompts is how many prompts are made again at once.
const maxPrompts = 2

// turnOf reads the number of a turn.
func (s *Server) turnOf(ctx context.Context, ses *stile.Session, text string) (turn int64, err error) {
	if text != "last" {
		if turn, err = strconv.ParseInt(text, 10, 64); err != nil || turn < 1 {
			return 0, &messages.Error{Code: messages.ErrInvalid, Field: "turn", Detail: "want a number from 1 on, or last"}
		}
		return turn, nil
	}
	for r, err := range ses.Query(ctx, stile.RecordQuery{Kinds: []stile.Kind{messages.KindModelRequest}, Latest: 1}) {
		if err != nil {
			return 0, err
		}
		turn = r.Turn
	}
	if turn == 0 {
		return 0, messages.Errorf(messages.ErrNotFound, "the session has asked no model")
	}
	return turn, nil
}

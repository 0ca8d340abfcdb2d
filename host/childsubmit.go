package host

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/messages"
)

// The child session of a feed may run at another host than the session whose feed it is. A fetch has its
// host begin a run. As for a cancel, no client asks for that.

// wantsSubmit is what a host wants that has a run begun in the child session of a feed: the body is a
// childInput, the answer a messages.ChildLink.
const wantsSubmit = "submit"

// childInput is an input of the child session of a feed.
type childInput struct {
	SID    string              `json:"sid"`
	Parent messages.ParentLink `json:"parent"`
	Input  messages.Input      `json:"input"`
}

// submitPath is that of such a request. No client's request has it.
const submitPath = "/child-runs"

// submitToChild begins a run in a child session for another host.
func (c *cluster) submitToChild(w http.ResponseWriter, r *http.Request, body []byte) {
	var in childInput
	if json.Unmarshal(body, &in) != nil {
		write(w, refusalOf(messages.ErrInvalid, "body", "want the input of a child session"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
	defer cancel()
	run, err := c.s.rt.SubmitToChild(ctx, in.SID, in.Parent, in.Input)
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(run) // an asker that is gone asks again, and joins the run
	case problemOf(err).goesElsewhere():
		forward.Refuse(w, 0)
	default:
		write(w, problemOf(err))
	}
}

// submitToChildAt has another host begin a run in a child session.
func (c *cluster) submitToChildAt(ctx context.Context, to stile.Peer, sid string, parent messages.ParentLink, in messages.Input) (run messages.ChildLink, err error) {
	err = c.reachChild(ctx, to, wantsSubmit, submitPath, sid, childInput{sid, parent, in}, &run)
	return run, err
}

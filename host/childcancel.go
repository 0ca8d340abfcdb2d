package host

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/messages"
)

// A session and the child sessions of its actions may run at different hosts. When an action ends, the
// host of its session has the other one cancel the child's run. No client asks for that, so the request
// has no token: the door does it for a host, and for a session that has a parent alone.

// wantsCancel is what a host wants that has the run of a child session cancelled: the body is a
// messages.ChildLink.
const wantsCancel = "cancel"

// cancelPath is that of such a request. No client's request has it.
const cancelPath = "/child-runs/cancel"

// cancelChild cancels the run of a child session for another host.
func (c *cluster) cancelChild(w http.ResponseWriter, r *http.Request, body []byte) {
	var run messages.ChildLink
	if json.Unmarshal(body, &run) != nil {
		write(w, refusalOf(messages.ErrInvalid, "body", "want the run of a child session"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
	defer cancel()
	switch err := c.s.rt.CancelChild(ctx, run); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case problemOf(err).goesElsewhere():
		forward.Refuse(w, 0)
	default:
		write(w, problemOf(err))
	}
}

// cancelChildAt has another host cancel the run of a child session.
func (c *cluster) cancelChildAt(ctx context.Context, to stile.Peer, run messages.ChildLink) error {
	return c.reachChild(ctx, to, wantsCancel, cancelPath, run.SID, run, nil)
}

// reachChild has the host that runs a child session do what it is asked, and reads its answer; nil is none.
func (c *cluster) reachChild(ctx context.Context, to stile.Peer, wants, path, sid string, asked, answer any) error {
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	ctx, done := c.client.Begin(ctx, to)
	defer done()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to.Address+path, http.NoBody)
	if err != nil {
		return err
	}
	silent := func(err error) error {
		return &messages.Error{Code: messages.ErrBusy, Reason: stile.ReasonElsewhere, Detail: "the host that runs " + sid + " does not answer", Cause: err}
	}
	resp, err := c.client.Send(c.client.Request(ctx, r, body, to, wants))
	if err != nil {
		return silent(err)
	}
	defer resp.Body.Close()
	if _, moved := forward.HasMoved(resp); moved {
		return &messages.Error{Code: messages.ErrBusy, Reason: stile.ReasonElsewhere, Detail: "the host that ran " + sid + " does not run it any more"}
	}
	switch {
	case resp.StatusCode == http.StatusNoContent && answer == nil:
		return nil
	case resp.StatusCode == http.StatusOK && answer != nil:
		if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, maxBody)).Decode(answer); err != nil {
			return silent(err)
		}
		return nil
	}
	p := &problem{}
	if json.NewDecoder(http.MaxBytesReader(nil, resp.Body, maxBody)).Decode(p) != nil || p.Code == "" {
		p = make500()
	}
	return &messages.Error{Code: messages.Code(p.Code), Reason: p.Reason, Detail: "the host that runs " + sid + " refuses to " + wants + ": " + p.Detail}
}

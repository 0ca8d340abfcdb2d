package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/messages"
)

// The door for hosts is a listener of its own. A request there must prove that a host of the cluster
// sent it, before any of its body is read. It has its client's token, and then goes the way of every
// request; it is not forwarded again. The cancel of a child session's run has no client and no token.

// listen serves the hosts' door until the function that comes back is called.
func (c *cluster) listen() (stop func(context.Context)) {
	srv := &http.Server{
		Handler: c.door(), ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: keepAlive, MaxHeaderBytes: maxHeader,
		ErrorLog: zap.NewStdLog(c.s.log.Named("cluster")),
	}
	looks, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = srv.Serve(c.s.cfg.ClusterListener) })
	work.Go(func() { c.client.Watch(looks) })
	return func(ctx context.Context) {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		cancel()
		work.Wait()
		c.client.Transport().CloseIdleConnections()
	}
}

// claimKey has the forward.Claim of a request from another host.
type claimKey struct{}

func forwarded(ctx context.Context) bool { return ctx.Value(claimKey{}) != nil }

// forwardedFor is what another host wants by a request.
func forwardedFor(ctx context.Context) string {
	claim, _ := ctx.Value(claimKey{}).(forward.Claim)
	return claim.For
}

// door answers other hosts. What it lets in has a caller's token, and goes the way of every
// request.
func (c *cluster) door() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forged := func(err error) {
			c.s.rt.Metrics().Cluster(eventForged)
			c.s.log.Warn("a request at the door for hosts is refused", zap.String("peer", r.RemoteAddr), zap.Error(err))
			w.Header().Set("Connection", "close") // nothing more is read of it
			write(w, refusal(http.StatusForbidden, messages.ErrDenied, forward.Proof, err.Error()))
		}
		claim, err := c.proofs.Verify(r, c.s.rt.ClusterTime())
		if err != nil {
			forged(err)
			return
		}
		if claim.For == forward.Alive {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if !isSocket(r) { // its answer comes at once
			t := forward.NewTaken(w)
			defer t.End()
			w = t
		}
		_, pattern := c.s.mux.Handler(r)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyOf(pattern)))
		switch {
		case errors.Is(err, forward.ErrForged):
			forged(err)
			return
		case err != nil:
			w.Header().Set("Connection", "close") // what is left of it is not read
			write(w, tooLarge(pattern))
			return
		}
		if claim.To != c.self() {
			forward.Refuse(w, 0)
			return
		}
		switch claim.For {
		case wantsCancel:
			c.cancelChild(w, r, body)
			return
		case wantsSubmit:
			c.submitToChild(w, r, body)
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		r.RemoteAddr = claim.Peer
		c.s.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), claimKey{}, claim)))
	})
}

// misdirected is what a handler reports of a request that another host has to answer.
type misdirected struct {
	moved  bool   // the session is not here; nothing was done
	sid    string // that session, where it is known
	cut    bool   // the stream of events ended before its end
	erased int    // sessions of the user, before it came to that one
}

type misdirectedKey struct{}

func misdirectedOf(ctx context.Context) *misdirected {
	d, _ := ctx.Value(misdirectedKey{}).(*misdirected)
	return d
}

// goesElsewhere reports whether another host may answer what this one refuses.
func (p *problem) goesElsewhere() bool {
	return p.Reason == stile.ReasonElsewhere || p.Reason == stile.ReasonNoLease || p.Reason == reasonStopping
}

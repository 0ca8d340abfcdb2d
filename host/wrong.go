package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/host/internal/conns"
	"github.com/seed14be6753/stile/messages"
)

// Tokens that are refused. They are counted by reason, told in the log once in a while,
// with the address that they came from, and slowed: an address that shows more than it may
// waits for its answers, and beyond that is refused and loses its connection.
//
// A token is looked at before anything is slowed, so a good one never is: behind a proxy,
// where all callers are one address, a caller who guesses slows those alone whose tokens
// are wrong as well. Secrets have 256 bits, so it is not their being guessed that is
// bounded, but what guessing costs the host.

// DefaultWrongTokens is how many wrong tokens an address may show in ten seconds.
const DefaultWrongTokens = 50

// turnedAway counts, tells and slows the refusal of a caller, and gives the refusal to
// answer with.
func (s *Server) turnedAway(h http.Header, r *http.Request, err error) error {
	var e *messages.Error
	if !errors.As(err, &e) || e.Code != messages.ErrDenied {
		return err
	}
	why, slow := map[string]string{
		access.ReasonUnauthenticated: "unknown", access.ReasonExpired: "expired", access.ReasonRevoked: "revoked", access.ReasonScope: "scope", access.ReasonUnavailable: "unavailable",
	}[e.Reason], false
	switch {
	case why == "unknown" && bearer(r) == "":
		why = "missing" // as health checks and people with a browser have it
	case why == "unknown", why == "expired", why == "revoked":
		slow = true
	case why == "":
		why = "other"
	}
	s.rt.Metrics().TokenRefused(why)
	if why == "missing" || why == "unavailable" {
		return err
	}
	from := conns.OriginOf(r.RemoteAddr)
	pause, ok, tell := s.wrong.Show(from, slow, time.Now())
	if tell > 0 {
		s.log.Warn("tokens are refused", zap.Stringer("peer", from), zap.String("reason", why), zap.Int("since_told", tell))
	}
	if !ok {
		h.Set("Connection", "close")
		return tooMuch(http.StatusTooManyRequests, messages.ErrBusy, reasonRate, "this address shows more wrong tokens than it may", conns.WrongPause)
	}
	if pause > 0 {
		defer s.wrong.Done()
		s.wait(r.Context(), pause)
	}
	return err
}

// wait lets time pass, unless ctx ends or the host stops.
func (s *Server) wait(ctx context.Context, d time.Duration) {
	over := make(chan struct{})
	alarm := s.ring(d, func() { close(over) })
	defer alarm.Stop()
	select {
	case <-over:
	case <-ctx.Done():
	case <-s.leaving.Done():
	}
}

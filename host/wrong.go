package host

import (
	"container/list"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

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

// DefaultWrongTokens is how many wrong tokens an address may show in wrongSpan.
const DefaultWrongTokens = 50

const (
	wrongSpan    = 10 * time.Second
	wrongPause   = 5 * time.Second // the longest that an answer waits
	maxPaused    = 256             // answers that wait at once
	wrongPeers   = 4096            // addresses that are remembered; the one seen last stays longest
	tellWrong    = time.Minute     // between two lines of an address
	wrongLines   = 10              // lines at once, of all addresses
	wrongLineGap = 6 * time.Second // and one more each
)

// wrongTokens remembers who showed them. Its methods are safe for concurrent use.
type wrongTokens struct {
	most int // of an address, in wrongSpan

	mu     sync.Mutex
	peers  map[netip.Prefix]*list.Element // of *wrongPeer
	seen   *list.List                     // the same, the one seen last in front
	paused int
	lines  *rate.Limiter
	hidden int // refusals of addresses that were forgotten before they were told of
}

type wrongPeer struct {
	from   netip.Prefix
	may    *rate.Limiter
	told   time.Time
	untold int
}

func newWrongTokens(most int) *wrongTokens {
	return &wrongTokens{most: most, peers: map[netip.Prefix]*list.Element{}, seen: list.New(), lines: rate.NewLimiter(rate.Every(wrongLineGap), wrongLines)}
}

// show notes a wrong token. The answer waits for pause; not ok is one that is refused at
// once. tell is how many refusals a line of the log is to speak of, 0 for no line.
func (w *wrongTokens) show(from netip.Prefix, slow bool, now time.Time) (pause time.Duration, ok bool, tell int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.peers[from]
	if at == nil {
		at = w.seen.PushFront(&wrongPeer{from: from, may: rate.NewLimiter(rate.Limit(float64(w.most)/wrongSpan.Seconds()), w.most)})
		w.peers[from] = at
		if w.seen.Len() > wrongPeers {
			last := w.seen.Remove(w.seen.Back()).(*wrongPeer)
			w.hidden += last.untold
			delete(w.peers, last.from)
		}
	}
	w.seen.MoveToFront(at)
	p := at.Value.(*wrongPeer)
	p.untold++
	if (p.told.IsZero() || now.Sub(p.told) >= tellWrong) && w.lines.AllowN(now, 1) {
		tell, p.told, p.untold, w.hidden = p.untold+w.hidden, now, 0, 0
	}
	if !slow {
		return 0, true, tell
	}
	turn := p.may.ReserveN(now, 1)
	pause = turn.DelayFrom(now)
	if pause > wrongPause || pause > 0 && w.paused >= maxPaused {
		turn.CancelAt(now)
		return 0, false, tell
	}
	if pause > 0 {
		w.paused++
	}
	return pause, true, tell
}

func (w *wrongTokens) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused--
}

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
	pause, ok, tell := s.wrong.show(from, slow, time.Now())
	if tell > 0 {
		s.log.Warn("tokens are refused", zap.Stringer("peer", from), zap.String("reason", why), zap.Int("since_told", tell))
	}
	if !ok {
		h.Set("Connection", "close")
		return tooMuch(http.StatusTooManyRequests, messages.ErrBusy, reasonRate, "this address shows more wrong tokens than it may", wrongPause)
	}
	if pause > 0 {
		defer s.wrong.done()
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

package host

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// unrouted is the route of what is no operation of this host.
const unrouted = "none"

// methods are those that have a label of their own; a client may send any word.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// answered counts a request that is over. A stream takes as long as its session, so its time is
// not among those of requests. A connection that was taken over, as for a WebSocket, has no status.
func (s *Server) answered(r *http.Request, pattern *string, out *timed, begin time.Time) {
	method := r.Method
	if !slices.Contains(methods, method) {
		method = "other"
	}
	route := s.names[*pattern]
	if route == "" {
		if _, route, _ = strings.Cut(*pattern, " "); route == "" {
			route = unrouted
		}
	}
	status := cmp.Or(out.status, http.StatusOK)
	m := s.rt.Metrics()
	switch streamed := strings.HasPrefix(out.Header().Get("Content-Type"), "text/event-stream"); {
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && out.status == 0:
		m.Request(method, route, http.StatusSwitchingProtocols, -1)
	case streamed:
		m.Request(method, route, status, -1)
	default:
		m.Request(method, route, status, time.Since(begin))
	}
}

// refused counts a refusal, and notes it in the request's trail.
func (s *Server) refused(ctx context.Context, p *problem) {
	trailOf(ctx).refusing(p)
	s.rt.Metrics().Refused(p.Code, p.Reason)
}

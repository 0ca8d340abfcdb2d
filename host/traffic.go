package host

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// unrouted is the route of what is no operation of this host.
const unrouted = "none"

// methods are those that have a label of their own; a client may send any word.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// answered counts a request that is over. A stream takes as long as its session, so its time is
// not among those of requests. A connection that was taken over, as for a WebSocket, has no status.
func (s *Server) answered(r *http.Request, pattern *string, out *timed) {
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
	s.tell(r, method, route, status, out)
	m := s.rt.Metrics()
	switch streamed := strings.HasPrefix(out.Header().Get("Content-Type"), "text/event-stream"); {
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && out.status == 0:
		m.Request(method, route, http.StatusSwitchingProtocols, -1)
	case streamed:
		m.Request(method, route, status, -1)
	default:
		m.Request(method, route, status, time.Since(out.begun))
	}
}

// Of the lines of one kind in a second the first are logged, and then one in so many.
const (
	accessFirst = 20
	accessThen  = 100
)

// accessLog is the log of requests: a sample of them.
func accessLog(log *zap.Logger) *zap.Logger {
	return log.Named("access").WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, accessFirst, accessThen)
	}))
}

// probes are the operations that machines ask every few seconds: their lines would hide the others.
var probes = []string{"healthz", "readyz", "metrics"}

// tell logs a request that is over. Its path is not told: it holds ids that clients choose.
func (s *Server) tell(r *http.Request, method, route string, status int, out *timed) {
	if slices.Contains(probes, route) && status < http.StatusBadRequest {
		return
	}
	if e := s.access.Check(zapcore.InfoLevel, "request"); e != nil {
		e.Write(zap.String("method", method), zap.String("route", route), zap.Int("status", status), zap.Duration("took", time.Since(out.begun)),
			zap.String("request", out.Header().Get("X-Request-Id")), zap.String("peer", r.RemoteAddr))
	}
}

// refused counts a refusal, and notes it in the request's trail.
func (s *Server) refused(ctx context.Context, p *problem) {
	if d := misdirectedOf(ctx); d != nil && (p.goesElsewhere() || p.fullFor(forwardedFor(ctx))) {
		d.moved, d.sid = true, p.elsewhere
		return
	}
	trailOf(ctx).refusing(p)
	s.rt.Metrics().Refused(p.Code, p.Reason)
}

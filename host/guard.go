package host

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/conns"
	"github.com/seed14be6753/stile/messages"
)

// guard stands in front of every route: it checks where a request says it is going and
// where it comes from, bounds its body, and keeps a panic to itself.
//
// A page of any site can have a browser ask this machine. A foreign name that resolves
// to loopback shows itself in Host; a foreign page in Origin or Sec-Fetch-Site.
func (s *Server) guard(next *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, pattern := newTimed(w, r), ""
		w = out
		defer s.answered(r, &pattern, out)
		h := w.Header()
		s.mark(h, r)
		if p := s.misdirects(h, r); p != nil {
			s.refuse(w, r, p)
			return
		}
		if _, pattern = next.Handler(r); r.ContentLength > bodyOf(pattern) {
			h.Set("Connection", "close") // what is left of it is not read
			s.refuse(w, r, tooLarge(pattern))
			return
		}
		if s.preflight(w, r) {
			return
		}
		defer func() { s.recovered(recover(), w, pattern) }()
		note := newTrail(r)
		h.Set("X-Request-Id", note.id)
		r = r.WithContext(context.WithValue(r.Context(), trailKey{}, note))
		known, err := s.enter(r, pattern)
		if p, ok := knownAs(known); err == nil && ok {
			err = s.allows(h, r, p, pattern)
		}
		w, end := s.watch(w, known, pattern)
		defer end()
		if err != nil {
			s.refuse(w, r, s.challenged(r, pattern, s.turnedAway(h, r, err)))
			return
		}
		known.Body = http.MaxBytesReader(w, r.Body, bodyOf(pattern))
		held, release := s.hold(known)
		defer release()
		if s.cluster != nil {
			s.cluster.serve(w, held, pattern, next)
			return
		}
		next.ServeHTTP(w, held)
	})
}

// mark sets the headers of every answer.
func (s *Server) mark(h http.Header, r *http.Request) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	stricter(h, r)
	if s.draining.Load() && !forwarded(r.Context()) {
		h.Set("Connection", "close") // or its client uses it for a request while this host closes it
	}
}

// misdirects returns the refusal of a request whose end is not certain, or whose host, origin or path
// this host does not serve; nil for others. What another host forwards was checked there.
func (s *Server) misdirects(h http.Header, r *http.Request) *problem {
	switch {
	case !conns.Framed(h, r):
		return refusalOf(messages.ErrInvalid, "Content-Length", "the length of the request is not certain: it is chunked as well, or the head has a line that goes on")
	case !forwarded(r.Context()) && !s.mine(r.Host):
		return refusal(http.StatusMisdirectedRequest, messages.ErrDenied, "Host", "this host does not serve that name")
	case !forwarded(r.Context()) && !s.friendly(r):
		return refusal(http.StatusForbidden, messages.ErrDenied, "Origin", "pages of other origins may not use this host, unless --origin names them: that of its own page too, behind a proxy that speaks TLS")
	case !wholePath(r.URL.EscapedPath()):
		return refusalOf(messages.ErrNotFound, "path", "a segment of the path is empty, or . or .., which mean folders")
	}
	return nil
}

// allows returns why a caller who is known may not make the request now: too many came before it, the host
// only reads, or its audit log takes no line.
func (s *Server) allows(h http.Header, r *http.Request, p principal, pattern string) error {
	if !conns.Shown(r.Context(), p.tenant) {
		h.Set("Connection", "close")
	}
	if err := s.pace(r.Context(), p); err != nil {
		return err
	}
	if s.rt.ReadOnly() && changes(r) {
		return &messages.Error{Code: messages.ErrDenied, Reason: stile.ReasonReadOnly, Detail: "this host only shows its journal: nothing in it runs or is changed"}
	}
	if audited(r, pattern) {
		return s.recordable()
	}
	return nil
}

// recovered answers a request whose handler panicked; why is nil of one that did not. A handler that aborts
// its answer goes on with that.
func (s *Server) recovered(why any, w http.ResponseWriter, pattern string) {
	if why == nil {
		return
	}
	if err, ok := why.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(why)
	}
	s.log.Error("a handler panicked", zap.String("route", pattern), zap.String("request", w.Header().Get("X-Request-Id")), zap.Any("panic", why), zap.Stack("stack"))
	write(w, make500())
}

// bodyOf is how many bytes the body of a request to a route may have. That of a message has pictures
// and files in it; what is no part of these has a bound of its own (besideParts, and the schema of a
// submit).
func bodyOf(pattern string) int64 {
	switch pattern {
	case submitPattern, chatPattern, responsesPattern, toolPattern:
		return maxPartsBody
	}
	return maxBody
}

// tooLarge refuses a body that is longer than those of a route may be.
func tooLarge(pattern string) *problem {
	return refusal(http.StatusRequestEntityTooLarge, messages.ErrInvalid, "body", "a body has at most "+strconv.FormatInt(bodyOf(pattern)>>20, 10)+" MiB")
}

// wholePath reports whether no segment of a path is one that clients, proxies and the mux resolve
// or leave out: what follows would reach another route. One that is escaped is an id, and refused as
// one.
func wholePath(path string) bool {
	ended := path + "/"
	return !strings.Contains(path, "//") && !strings.Contains(ended, "/./") && !strings.Contains(ended, "/../")
}

// mine reports whether a Host header names this host: an address or name of loopback, or
// one of Config.Hosts. Where callers authenticate, any address will do: no foreign name
// can resolve to one, and a browser sends no token by itself.
func (s *Server) mine(host string) bool {
	name := nameOf(host)
	if name == "localhost" || s.offer.Load().hosts[name] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.IsLoopback() || s.cfg.Access != nil)
}

// friendly reports whether a request comes from no page at all, from a page of this
// host, or from one of Config.Origins. A header that is there twice is none that a
// browser sends.
func (s *Server) friendly(r *http.Request) bool {
	origins, sites := r.Header["Origin"], r.Header["Sec-Fetch-Site"]
	switch {
	case len(origins) > 1 || len(sites) > 1:
		return false
	case len(origins) == 1:
		origin := strings.ToLower(origins[0])
		return s.offer.Load().origins[origin] || origin == ownOrigin(r)
	case len(sites) == 1:
		return sites[0] == "same-origin" || sites[0] == "none"
	}
	return true
}

// ownOrigin is that of this host's pages, as a browser writes it: the port that the scheme
// has anyway is left out.
func ownOrigin(r *http.Request) string {
	scheme, usual := "http://", ":80"
	if r.TLS != nil {
		scheme, usual = "https://", ":443"
	}
	return scheme + strings.TrimSuffix(strings.ToLower(r.Host), usual)
}

// stricter has browsers ask for this host over TLS alone from now on. What is true of a
// name of loopback would be of all that listens there, so they are not told then.
func stricter(h http.Header, r *http.Request) {
	if name := nameOf(r.Host); r.TLS != nil && name != "localhost" {
		if ip, err := netip.ParseAddr(name); err != nil || !ip.IsLoopback() {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
	}
}

// nameOf is the name or address of a Host header.
func nameOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// Loopback reports whether an address to listen on can be reached from this machine alone.
func Loopback(addr string) bool {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// write sends a problem where no route was reached.
func write(w http.ResponseWriter, p *problem) {
	b, err := json.Marshal(p)
	if err != nil {
		b = nil // it holds strings and numbers: this does not happen
	}
	for k, v := range p.GetHeaders() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_, _ = w.Write(b)
}

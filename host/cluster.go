package host

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/messages"
)

// A host of a cluster answers any request. This file decides which requests concern a session that
// another host may run, or all hosts. The rest is in the order of a request's way:
//
//   - spread.go decides where sessions begin.
//   - proxy.go passes a request to the host that answers it, and tries again when the session moves.
//   - door.go serves the requests of other hosts, which come over a listener of their own: the hosts' door.
//   - resume.go continues a stream whose host went away. splice.go does so for clients of OpenAI, whose
//     protocols have no positions: it joins the answers of two hosts to one.
//   - socketway.go puts a WebSocket in front of such a stream.
//   - toolcalls.go finds the host of a call for a tool, and everywhere.go asks all hosts.
//   - shares.go and kept.go divide a tenant's limits among the hosts.
//
// Package forward has the proofs, the connections and the client's answer.

// eventForged is what metrics count of requests at the hosts' door that proved nothing.
const eventForged = "forged"

// cluster is what this host needs to serve requests together with others.
type cluster struct {
	s      *Server
	home   string // of this host's sessions of the Model Context Protocol
	proofs forward.Verifier
	client *forward.Client
	spread *spread // nil where sessions begin here
	owners forward.Guesses
}

func (s *Server) newCluster() (*cluster, error) {
	if !s.rt.Clustered() {
		return nil, nil
	}
	if slices.ContainsFunc(append([][]byte{s.cfg.ClusterSecret}, s.cfg.OldClusterSecrets...), func(b []byte) bool { return len(b) < forward.MinSecret }) {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "cluster.secret_file", Detail: "want a secret of at least " + strconv.Itoa(forward.MinSecret) + " bytes, the same for all hosts"}
	}
	if s.cfg.ClusterListener == nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "cluster.address", Detail: "the host does not listen for other hosts"}
	}
	home := ""
	for _, p := range s.rt.Peers() {
		if p.Self {
			home = homeOf(p.Address)
		}
	}
	c := &cluster{s: s, home: home, proofs: forward.Verifier{Secret: s.cfg.ClusterSecret, Old: s.cfg.OldClusterSecrets}}
	c.client = &forward.Client{
		Secret: s.cfg.ClusterSecret, Self: c.self, Peers: s.rt.Peers, Now: s.rt.ClusterTime, Leaving: s.leaving, IdleFor: keepAlive / 2,
		Count: func(e forward.Event) { s.rt.Metrics().Cluster(string(e)) },
	}
	if s.cfg.ClusterSpread {
		c.spread = newSpread(s.rt.Shares().Lease())
	}
	return c, nil
}

// others are the hosts that take sessions, but this one.
func (c *cluster) others() []stile.Peer {
	return slices.DeleteFunc(c.s.rt.Peers(), func(p stile.Peer) bool { return p.Self || p.Draining || p.Left <= 0 })
}

func (c *cluster) self() string {
	for _, p := range c.s.rt.Peers() {
		if p.Self {
			return p.ID
		}
	}
	return ""
}

// following reports whether a request waits for what happens in a session.
func following(r *http.Request, pattern string) bool {
	switch pattern {
	case "GET /v1/sessions/{id}/events", "GET /v1/sessions/{id}/runs/{run}/events":
		return true
	case "GET /v1/sessions/{id}/runs/{run}":
		return r.URL.Query().Has("wait")
	}
	return false
}

const (
	submitPattern = "POST /v1/sessions/{id}/runs"
	beginPattern  = "POST /v1/sessions"
)

// serve answers a request, here or at the host that runs its session.
func (c *cluster) serve(w http.ResponseWriter, r *http.Request, pattern string, next http.Handler) {
	p, known := knownAs(r)
	switch {
	case !known:
	case strings.HasSuffix(pattern, " "+toolsPath):
		c.tools(w, r, pattern, next)
		return
	case pattern == erasePattern && !forwarded(r.Context()):
		c.everywhere(w, r, next)
		return
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	id := ""
	if _, path, _ := strings.Cut(pattern, " "); strings.HasPrefix(path, "/v1/sessions/{id}") {
		id = inPath(r, pattern, "{id}")
	}
	if !known || reads && (id == "" || strings.HasPrefix(pattern, "GET /v1/sessions/{id}/records") || strings.HasPrefix(pattern, "GET /v1/sessions/{id}/export") || strings.HasPrefix(pattern, "GET /v1/sessions/{id}/parts")) {
		next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil { // the handler meets it as well, and says so
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		next.ServeHTTP(w, r)
		return
	}
	if (pattern == submitPattern || isAnswer(pattern)) && r.Header.Get(keyHeader) == "" {
		r.Header.Set(keyHeader, "host-"+uuid.NewString()) // it may have to be asked again
	}
	sid := ""
	if id != "" {
		sid = p.sid(id)
	}
	t := &proxy{c: c, w: forward.NewResponse(w), r: r, body: body, next: next, pattern: pattern, sid: sid, asks: !reads || following(r, pattern)}
	if isAnswer(pattern) && !forwarded(r.Context()) {
		t.splice = newSplice(pattern, body)
		t.w.Edit(t.splice.edit)
	}
	if isSocket(r) && strings.HasSuffix(pattern, "/events") && !forwarded(r.Context()) {
		if lacks(r) != "" {
			next.ServeHTTP(w, r) // it says what
			return
		}
		c.socket(w, r, t)
		return
	}
	t.serve()
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

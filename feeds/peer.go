package feeds

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// A Peer is what a remote source names: a feed of a session of another host
// (docs/spec/extensions.md §10).
type Peer struct {
	Origin string // of the other host, such as https://host:8471
	// Session is tenant:user:id, or Agent/id with a session of the token's own user that runs
	// that agent.
	Session string
	Feed    string
	Secret  string // name of the environment variable with the token
	Push    bool   // the peer is asked for changes
}

// SID splits Session: of tenant:user:id the user and the id, of agent/id the agent and the id.
func (p *Peer) SID() (agent, user, id string) {
	if agent, id, ok := strings.Cut(p.Session, "/"); ok {
		return agent, "", id
	}
	_, rest, _ := strings.Cut(p.Session, ":")
	user, id, _ = strings.Cut(rest, ":")
	return "", user, id
}

var (
	peerSession = regexp.MustCompile(`^([A-Za-z0-9._-]{1,128}/[A-Za-z0-9._-]{1,128}|[A-Za-z0-9._-]+:[A-Za-z0-9._-]+:[A-Za-z0-9._-]+)$`)
	peerSecret  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// Peer reads the parameters of a remote source; ok is false for other sources.
func (s *Source) Peer() (p Peer, ok bool) {
	if s.Kind != Remote {
		return p, false
	}
	p, found := readPeer(s.Params)
	return p, len(found) == 0
}

func readPeer(params string) (p Peer, found []*messages.Error) {
	o, bad := readObject(params, MaxParamsBytes)
	if bad != nil {
		return p, []*messages.Error{bad}
	}
	need := func(key string) string {
		v, ok := o.text(key)
		if !ok && len(o.found) == 0 {
			o.add(key, ReasonMissing, "a remote source has one")
		}
		return v
	}
	address := need("url")
	p.Session, p.Feed, p.Secret = need("session"), need("feed"), need("secret")
	if v, ok := o.take("push"); ok {
		if p.Push = v.Kind() == 't'; !p.Push && v.Kind() != 'f' {
			o.add("push", ReasonWrongType, "want true or false, not %s", kindName(v.Kind()))
		}
	}
	found = o.end()
	if len(found) > 0 {
		return p, found
	}
	var ok bool
	if p.Origin, ok = OriginOf(address); !ok {
		o.add("url", ReasonBadValue, "%q is no address such as https://host:8471, without path, query and user", shortened(address))
	}
	if !peerSession.MatchString(p.Session) || len(p.Session) > 2*messages.MaxSIDBytes {
		o.add("session", ReasonBadValue, "%q is neither tenant:user:id nor agent/id", shortened(p.Session))
	}
	if !ValidID(p.Feed) {
		o.add("feed", ReasonBadValue, "%q is not %s", shortened(p.Feed), idPattern)
	}
	if !peerSecret.MatchString(p.Secret) {
		o.add("secret", ReasonBadValue, "want the name of an environment variable, never the token itself")
	}
	return p, o.end()
}

// OriginOf returns scheme, host and port of an address that has nothing else; ok is false for
// other texts.
func OriginOf(address string) (origin string, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" || u.Opaque != "" {
		return "", false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host + ":" + port, true
}

// remote checks a remote source. Its parameters are the operator's words: no reference is
// resolved in them.
func (n *normalizer) remote(src *Source) {
	if src.Name != "" {
		n.add("source.name", ReasonBadValue, "a remote source has none")
	}
	if src.Action != "" {
		n.add("source.action", ReasonBadValue, "only an internal source has one")
	}
	_, found := readPeer(src.Params)
	for _, e := range found {
		n.add("source"+e.Field, e.Reason, "%s", e.Detail)
	}
}

// PeerParams are the parameters of a remote source, as JSON.
func PeerParams(address, session, feed, secret string, push bool) string {
	var b builder
	b.some("feed", feed)
	if push {
		b.raw("push", "true")
	}
	b.some("secret", secret)
	b.some("session", session)
	b.some("url", address)
	return string(b.object())
}

// forwards reports whether the value of the feed at i comes from another host, by itself or by
// a feed that it refers to: such a value is not given to a third host.
func (s *Set) forwards(i int, seen map[int]bool) bool {
	if seen[i] {
		return false
	}
	seen[i] = true
	e := &s.entries[i]
	if e.Source.Kind == Remote || e.Source.Forwards {
		return true
	}
	for _, name := range e.needs {
		if j := s.at(name); j >= 0 && s.forwards(j, seen) {
			return true
		}
	}
	return false
}

// Forwards reports whether the value of a feed comes from another host, by itself or by a feed
// that it refers to.
func (s Set) Forwards(id string) bool {
	i := s.at(id)
	return i >= 0 && s.forwards(i, map[int]bool{})
}

// Shown is the source as an operator reads it: its kind, and what is called.
func (s *Source) Shown() string {
	if p, ok := s.Peer(); ok {
		return "remote " + p.Origin + " " + p.Session + " " + p.Feed
	}
	return strings.TrimRight(string(s.Kind)+" "+s.Name+s.Action, " ")
}

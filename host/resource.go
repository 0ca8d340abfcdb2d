package host

import (
	"errors"
	"net/http"
	"strings"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// What a client with OAuth is told of this host (RFC 9728): which issuer to ask for a token, and
// what the token must be good for. Clients of the Model Context Protocol look for it.

// The metadata of a resource is at its path behind that of metadata: the host itself, and the
// door of the Model Context Protocol.
const (
	resourcePath = "/.well-known/oauth-protected-resource"
	toolResource = "/mcp"
)

// resourceView is the metadata of a protected resource.
type resourceView struct {
	Resource string         `json:"resource" doc:"the address that the token is for"`
	Issuers  []string       `json:"authorization_servers"`
	Scopes   []access.Scope `json:"scopes_supported"`
	Methods  []string       `json:"bearer_methods_supported"`
	Name     string         `json:"resource_name"`
}

func (s *Server) resourceRoutes(mux *http.ServeMux) {
	s.require(public, "GET /.well-known/oauth-protected-resource", "GET /.well-known/oauth-protected-resource/mcp")
	mux.HandleFunc("GET /.well-known/oauth-protected-resource", s.resource("", access.Scopes()))
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", s.resource(toolResource, []access.Scope{access.Submit, access.Approve}))
}

// resource answers with the metadata of what is at a path. A host without an issuer has none: its
// tokens are made by people.
func (s *Server) resource(path string, scopes []access.Scope) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		issuers := access.Issuers(s.cfg.Access)
		if len(issuers) == 0 {
			s.refuse(w, r, refusalOf(messages.ErrNotFound, "path", "this host believes no issuer of tokens: its operator makes them"))
			return
		}
		writeJSON(w, http.StatusOK, resourceView{Resource: s.base(r) + path, Issuers: issuers, Scopes: scopes, Methods: []string{"header"}, Name: "stile"})
	}
}

// base is the host's address as a client sees it. Behind a proxy that speaks TLS the host's own
// pages have an https origin, which is one of Config.Origins.
func (s *Server) base(r *http.Request) string {
	name := strings.ToLower(r.Host)
	if r.TLS != nil || s.offer.Load().origins["https://"+name] {
		return "https://" + name
	}
	return "http://" + name
}

// challenged has a refusal for a token say what token would do, and where to get one.
func (s *Server) challenged(r *http.Request, pattern string, err error) error {
	var e *messages.Error
	if !errors.As(err, &e) || e.Code != messages.ErrDenied {
		return err
	}
	p := problemOf(err)
	if p.challenge == "" {
		return err
	}
	if e.Reason == access.ReasonUnauthenticated && bearer(r) != "" {
		p.challenge += `, error="invalid_token"`
	}
	p.challenge += `, scope="` + string(s.needs(pattern)) + `"`
	if len(access.Issuers(s.cfg.Access)) > 0 {
		path := ""
		if r.URL.Path == toolResource {
			path = toolResource
		}
		p.challenge += `, resource_metadata="` + s.base(r) + resourcePath + path + `"`
	}
	return p
}

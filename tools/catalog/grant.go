package catalog

import (
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// AccessRead lets a session read another one's OUTPUT.
const AccessRead = "read"

// Grant opens one session, or all sessions of a user, to the sessions that run
// under it.
type Grant struct {
	// Session is a SID, or "tenant:user:*". Tenant and user have no wildcard: no grant
	// opens a whole tenant, and only a grant that names a foreign tenant opens it.
	Session string `json:"session" yaml:"session"`
	Access  string `json:"access" yaml:"access"` // read
}

// Grants are the grants of a manifest (docs/spec/design.md §11). Without any a session may
// access itself alone. They must not be changed while in use and are safe for concurrent
// use.
type Grants []Grant

// Validate returns ERR_CONFIG for the first malformed grant, with Field "grants[i].session"
// or "grants[i].access".
func (g Grants) Validate() error {
	for i, grant := range g {
		field := "grants[" + strconv.Itoa(i) + "]."
		if grant.Access != AccessRead {
			return invalid(field+"access", "there is no access "+strconv.Quote(grant.Access)+"; known: read")
		}
		if _, _, err := grant.pattern(); err != nil {
			return &messages.Error{
				Code: messages.ErrConfig, Field: field + "session",
				Detail: "want tenant:user:id or tenant:user:*", Cause: err,
			}
		}
	}
	return nil
}

// pattern splits a grant; all means that the id is a star.
func (g Grant) pattern() (key messages.SessionKey, all bool, err error) {
	s, all := strings.CutSuffix(g.Session, ":*")
	if all {
		s += ":any" // judged by the same rules; the id is not compared
	}
	key, err = messages.ParseSID(s)
	return key, all, err
}

// Allows reports whether session from may access session to, and why or why not. A malformed
// grant allows nothing.
func (g Grants) Allows(from, to messages.SessionKey, access string) (ok bool, why string) {
	if from == to {
		return true, "own session"
	}
	for _, grant := range g {
		key, all, err := grant.pattern()
		if err != nil || grant.Access != access || key.Tenant != to.Tenant || key.User != to.User {
			continue
		}
		if all || key.ID == to.ID {
			return true, "granted to " + grant.Session
		}
	}
	return false, "no grant"
}

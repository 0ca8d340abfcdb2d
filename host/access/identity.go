package access

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Scope is a right. Routes ask for one.
type Scope string

// The scopes. Admin has read, submit and approve in it.
const (
	Read    Scope = "read"    // agents, sessions, their events and exports
	Submit  Scope = "submit"  // begin and fork sessions, submit, cancel
	Approve Scope = "approve" // answer for calls that wait
	Admin   Scope = "admin"   // delete sessions; make and revoke tokens of the tenant
	Users   Scope = "users"   // act for any user of the tenant
	Metrics Scope = "metrics" // the host's numbers, of all tenants
	Feeds   Scope = "feeds"   // values of feeds, for other hosts
	// Operator changes what all tenants share: settings and keys of the host. No JWT has it, since
	// a tenant's issuer may say what it likes.
	Operator Scope = "operator"
)

// Scopes lists all of them, in the order of the documentation.
func Scopes() []Scope { return []Scope{Read, Submit, Approve, Admin, Users, Metrics, Feeds, Operator} }

// ParseScopes checks names of scopes, and gives them once each in their order. No name,
// or one that is no scope, is ERR_INVALID.
func ParseScopes(names []string) ([]Scope, error) {
	var out []Scope
	for _, n := range names {
		if !slices.Contains(Scopes(), Scope(n)) {
			return nil, &messages.Error{Code: messages.ErrInvalid, Field: "scopes", Detail: "there is no scope " + quoted(n) + "; there are " + joined(Scopes())}
		}
	}
	for _, s := range Scopes() {
		if slices.Contains(names, string(s)) {
			out = append(out, s)
		}
	}
	if out == nil {
		return nil, &messages.Error{Code: messages.ErrInvalid, Field: "scopes", Detail: "a token needs a scope, of " + joined(Scopes())}
	}
	return out, nil
}

func joined(all []Scope) string {
	var names []string
	for _, s := range all {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// quoted is a name from outside, bounded and in quotes.
func quoted(s string) string {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == 0x7f {
			return '?'
		}
		return r
	}, s) + `"`
}

// Identity is who speaks. Tenant and User are parts of a SID.
type Identity struct {
	Tenant, User string
	// Token names the secret, for the audit log: the id of a token of ours, the jti or
	// subject of a JWT. It is no secret.
	Token   string
	Scopes  []Scope
	Expires time.Time // zero: never
}

// Local is the caller where callers need not authenticate: the one user, with all rights.
func Local() Identity {
	return Identity{Tenant: "local", User: "local", Token: "local", Scopes: Scopes()}
}

// May reports whether the identity has a right.
func (i *Identity) May(s Scope) bool {
	if slices.Contains(i.Scopes, s) {
		return true
	}
	return (s == Read || s == Submit || s == Approve) && slices.Contains(i.Scopes, Admin)
}

// Authenticator takes a bearer token to an identity. Errors are ERR_DENIED with a reason,
// or ctx's. It is safe for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, bearer string) (Identity, error)
}

// ReasonNotFound is the reason of ERR_NOT_FOUND for a token that does not exist.
const ReasonNotFound = "NOT_FOUND"

// Reasons of ERR_DENIED.
const (
	ReasonUnauthenticated = "UNAUTHENTICATED" // no token, or one that is not known
	ReasonExpired         = "EXPIRED"
	ReasonRevoked         = "REVOKED"
	ReasonScope           = "SCOPE"       // the token is good, and lacks a right
	ReasonUnavailable     = "UNAVAILABLE" // the source of tokens or keys does not answer
)

// Denied is the refusal of a caller.
func Denied(reason, detail string) *messages.Error {
	return &messages.Error{Code: messages.ErrDenied, Reason: reason, Field: "Authorization", Detail: detail}
}

// unknown says the same of every token that is not one.
func unknown() error { return Denied(ReasonUnauthenticated, "the token is not known here") }

// MaxBearerBytes bounds what is looked at at all.
const MaxBearerBytes = 8 << 10

// hashedPart begins the parts that Part makes of foreign names.
const hashedPart = "h-"

// maxPart leaves room for a session's id in a SID of 128 bytes.
const maxPart = 40

// Part makes a part of a SID of an issuer's name for a tenant or user: the name itself where
// that can be, else a hash of it. No two names give one part.
func Part(name string) string {
	fits := name != "" && len(name) <= maxPart && !strings.HasPrefix(name, hashedPart)
	if fits && (messages.SessionKey{Tenant: name, User: name, ID: "x"}).Validate() == nil {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hashedPart + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// hashed reports whether a part is one that Part made of another name.
func hashed(part string) bool {
	sum, ours := strings.CutPrefix(part, hashedPart)
	_, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(sum))
	return ours && err == nil && len(part) == len(hashedPart)+32 && part == strings.ToLower(part)
}

// kept reports whether a name is a part as it stands: an operator shall see what is kept.
func kept(name string) bool { return hashed(name) || name != "" && Part(name) == name }

// wantPart says which names are kept.
const wantPart = "is 1 to 40 letters, digits, dots, underscores and hyphens, and does not begin with h-"

// Kept finds the file of tokens that an authenticator goes by, itself or as one of
// First's; nil when there is none.
func Kept(a Authenticator) *Tokens {
	if all, ok := a.(first); ok {
		for _, a := range all {
			if k := Kept(a); k != nil {
				return k
			}
		}
		return nil
	}
	if k, ok := a.(interface{ kept() *Tokens }); ok {
		return k.kept()
	}
	return nil
}

// kept is also a method of what embeds Tokens.
func (t *Tokens) kept() *Tokens { return t }

// First asks several authenticators in turn: the first that knows the token, or that
// refuses it for another reason than not knowing it, has the word.
func First(all ...Authenticator) Authenticator { return first(all) }

type first []Authenticator

// Authenticate implements Authenticator.
func (f first) Authenticate(ctx context.Context, bearer string) (Identity, error) {
	for _, a := range f {
		id, err := a.Authenticate(ctx, bearer)
		if err == nil || reasonOf(err) != ReasonUnauthenticated {
			return id, err
		}
	}
	return Identity{}, unknown()
}

// Issuers lists the URLs of the issuers whose JWTs an authenticator believes, itself or as one of
// First's. Its clients ask them for tokens.
func Issuers(a Authenticator) (all []string) {
	switch a := a.(type) {
	case first:
		for _, one := range a {
			all = append(all, Issuers(one)...)
		}
	case *issuer:
		all = append(all, a.cfg.URL)
	}
	return all
}

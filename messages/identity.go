package messages

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// MaxSIDBytes bounds tenant:user:id together (docs/spec/design.md §1).
const MaxSIDBytes = 128

// SessionKey names a session. Tenant and user come from authentication, never
// from a request body. The parts match [A-Za-z0-9._-]+.
type SessionKey struct {
	Tenant string
	User   string
	ID     string
}

// SID is the AEIOU session identifier tenant:user:id.
func (k SessionKey) SID() string { return k.Tenant + ":" + k.User + ":" + k.ID }

// String is the SID.
func (k SessionKey) String() string { return k.SID() }

// Validate reports the first part that breaks the rules, as ERR_INVALID with the
// part's name as Field.
func (k SessionKey) Validate() error {
	for _, p := range []struct{ name, v string }{{"tenant", k.Tenant}, {"user", k.User}, {"id", k.ID}} {
		if p.v == "" {
			return &Error{Code: ErrInvalid, Field: p.name, Detail: "must not be empty"}
		}
		for i := 0; i < len(p.v); i++ {
			if !sidPart(p.v[i]) {
				return &Error{
					Code: ErrInvalid, Field: p.name, Offset: int64(i), HasOffset: true,
					Detail: "only letters, digits, '.', '_' and '-' are allowed",
				}
			}
		}
	}
	if n := len(k.SID()); n > MaxSIDBytes {
		return &Error{Code: ErrInvalid, Field: "id", Detail: "tenant:user:id has " + strconv.Itoa(n) + " bytes; the limit is 128"}
	}
	return nil
}

// Child names the session in which an action of this one runs an agent: under the same
// tenant and user, and the same for every repetition of an attempt. key is the action's
// idempotency key, retry counts the attempts that failed before. The id begins with the
// parent's and the agent's name where they fit; ok is false when tenant and user leave
// no room at all.
func (k SessionKey) Child(agent, key string, retry int64) (child SessionKey, ok bool) {
	sum := sha256.Sum256([]byte(key + "\n" + strconv.FormatInt(retry, 10)))
	tail := "." + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
	child = SessionKey{Tenant: k.Tenant, User: k.User}
	for _, head := range []string{k.ID + "." + agent, agent, "sub"} {
		if child.ID = head + tail; child.Validate() == nil {
			return child, true
		}
	}
	return SessionKey{}, false
}

// ProfileID is the id of the session in which the profile of a user is kept. It is the
// host's own.
const ProfileID = "stile.profile"

// ProfileKeeper is who submits there: no user, whose names hold no colon.
const ProfileKeeper = "stile:profile"

// Profile names the session in which the profile of this session's user is kept. ok is
// false when tenant and user leave no room for it.
func (k SessionKey) Profile() (key SessionKey, ok bool) {
	key = SessionKey{Tenant: k.Tenant, User: k.User, ID: ProfileID}
	return key, key.Validate() == nil
}

// RelicsID is the id of the sessions in which key-value relics of users and of tenants are kept.
// They are the host's own.
const RelicsID = "stile.relics"

// relicsTenant stands for the user in the session of a tenant's relics.
const relicsTenant = "stile.tenant"

// Relics names the session in which the relics of this session's user are kept, or those of its
// tenant. ok is false when tenant and user leave no room for it.
func (k SessionKey) Relics(scope string) (key SessionKey, ok bool) {
	key = SessionKey{Tenant: k.Tenant, User: k.User, ID: RelicsID}
	if scope == ScopeTenant {
		key.User = relicsTenant
	}
	return key, key.Validate() == nil
}

func sidPart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// ParseSID splits tenant:user:id. A bare id gets the embedded defaults, tenant
// and user "local" (docs/spec/design.md §11).
func ParseSID(s string) (SessionKey, error) {
	k := SessionKey{Tenant: "local", User: "local", ID: s}
	if strings.Contains(s, ":") {
		parts := strings.Split(s, ":")
		if len(parts) != 3 {
			return SessionKey{}, &Error{Code: ErrInvalid, Field: "sid", Detail: "want tenant:user:id or a bare id"}
		}
		k = SessionKey{Tenant: parts[0], User: parts[1], ID: parts[2]}
	}
	return k, k.Validate()
}

// Incarnation is the UUIDv7 made when a session is created. Two sessions of the
// same name, one after the other, differ in it.
type Incarnation = uuid.UUID

// UnitID names one growing text of a reply: the turn and the ordinal in it.
type UnitID struct {
	Turn int64
	N    int
}

// String is "T.n".
func (u UnitID) String() string {
	return strconv.FormatInt(u.Turn, 10) + "." + strconv.Itoa(u.N)
}

// Digest is a SHA-256.
type Digest [32]byte

// IsZero reports whether the digest is absent.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is lower-case hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText is the hex form; the zero digest is empty.
func (d Digest) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return []byte{}, nil
	}
	return hex.AppendEncode(nil, d[:]), nil
}

// UnmarshalText takes 64 lower-case hex digits, or nothing for the zero digest.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = Digest{}
		return nil
	}
	if len(b) != 64 {
		return Errorf(ErrJournal, "a digest has 64 hex digits, not %d", len(b))
	}
	for i, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Errorf(ErrJournal, "byte %d of a digest is no lower-case hex digit", i)
		}
	}
	_, err := hex.Decode(d[:], b)
	return err
}

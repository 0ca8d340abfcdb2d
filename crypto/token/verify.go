package token

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// MaxLineBytes is the longest token line (docs/spec/aeiou.md §3.2).
const MaxLineBytes = 1024

const (
	prefix = "<<<NSMAG:V3:"
	suffix = ">>>"
)

// Details of ERR_TOKEN_VERIFY, in the order they are tried (docs/spec/aeiou.md §10).
const (
	UnknownKID   = "UNKNOWN_KID"   // no such key, or one that has been forgotten
	KeyRetired   = "KEY_RETIRED"   // issued after the key retired, or too long ago now
	KeyUse       = "KEY_USE"       // an abort-only key under another action
	NotCanonical = "NOT_CANONICAL" // the payload is not its own canonical form
	BadTag       = "BAD_TAG"       // wrong signature or MAC, or of another length
)

// Details of ERR_TOKEN_SCOPE, in the order they are tried.
const (
	ScopeSID   = "SID"
	ScopeTurn  = "TURN"
	ScopeNonce = "NONCE"
)

// Details of ERR_TOKEN_TTL, in the order they are tried.
const (
	Expired = "EXPIRED"
	Future  = "FUTURE"
)

// ReplayedJTI is the detail of ERR_TOKEN_REPLAY.
const ReplayedJTI = "JTI"

// Defaults of docs/spec/aeiou.md §18.
const (
	DefaultSkew   = 60 * time.Second
	DefaultTTL    = 120 * time.Second
	DefaultMaxTTL = 240 * time.Second
	DefaultGrace  = 60 * time.Second
)

// strict is unpadded base64url with trailing bits that must be zero. It still
// skips CR and LF, which is why the alphabet is checked before.
var strict = base64.RawURLEncoding.Strict()

// Scope is the turn a token must belong to.
type Scope struct {
	SID       string // session id, UTF-8
	TurnIndex int64  // 1…2^53−1
	Nonce     string // the turn's nonce, 22 characters of base64url
}

// Key is one verification key. The interface is unnamed so that a key ring fits
// it without importing this room.
type Key = interface {
	// AbortOnly reports whether the key may back no action but abort.
	AbortOnly() bool
	// RetiredAt gives the Unix second in which the key retired; ok is false for a
	// key that has not.
	RetiredAt() (unix int64, ok bool)
	// VerifyTag reports whether tag is this key's tag over message by the algorithm
	// of the key's record, its exact length included.
	VerifyTag(message, tag []byte) bool
}

// KeySource finds the keys that tokens may name. A source is one immutable view:
// a verification that has begun does not see a rotation.
type KeySource interface {
	TokenKey(kid string) (key Key, ok bool)
}

// Policy holds the clocks of verification. A zero field means its default; a
// negative one means zero.
type Policy struct {
	Skew   time.Duration // how far ahead issued_at may lie: token.skew, 60 s
	MaxTTL time.Duration // token.max_ttl, 240 s: a retired key verifies this long …
	Grace  time.Duration // … and key.grace, 60 s, longer
}

// Check is the verdict on one line.
//
// Failure is empty for a valid token; Reason is the detail behind Failure.
// What a token claims is repeated only as far as it is proved: Action and JTI
// are set once the tag has verified, so for a valid token and for failures of
// SCOPE, TTL and REPLAY; KID is set once it has been found among the host's own
// keys, so also for the VERIFY details behind UNKNOWN_KID.
type Check struct {
	Action  string // continue, done or abort
	KID     string
	JTI     string // 1–64 bytes of any UTF-8: quote it before it goes into a log
	Failure messages.Code
	Reason  string
}

// Valid reports whether the line is a token that may decide the turn.
func (c Check) Valid() bool { return c.Failure == "" }

// FailureReason returns CODE/DETAIL, the form of verification_failure_reason
// (docs/spec/aeiou.md §10, §17); "" for a valid token.
func (c Check) FailureReason() string {
	if c.Failure == "" {
		return ""
	}
	return string(c.Failure) + "/" + c.Reason
}

// Candidate reports whether a physical line of OUTPUT, without its LF, is to be
// handed to [Verify]: its first 12 bytes are the prefix of a token. Nothing is
// trimmed, so a quoted or indented token is plain text (docs/spec/aeiou.md §10).
func Candidate(line []byte) bool {
	return len(line) >= len(prefix) && string(line[:len(prefix)]) == prefix
}

// Verify judges one line, given without its LF, against the turn it was emitted
// in, and claims its jti in replay when everything else has passed. The stages
// and their details are tried in the order of docs/spec/aeiou.md §10; the first that fails
// is the verdict. A line that is no candidate is BAD_SHAPE, however long.
//
// now is read by the caller once per verification; its whole Unix seconds count.
// A nil replay leaves stage 5 out, for a caller that knows the line cannot come
// twice. Verify may run on any goroutine that owns replay; line is not kept.
func Verify(line []byte, scope Scope, keys KeySource, replay *ReplaySet, policy Policy, now time.Time) Check {
	payload, tag, f, canonical, reason := parse(line)
	if reason != "" {
		return Check{Failure: messages.ErrTokenParse, Reason: reason}
	}
	unix := now.Unix()

	kid := string(f.kid)
	key, ok := keys.TokenKey(kid)
	if !ok {
		return Check{Failure: messages.ErrTokenVerify, Reason: UnknownKID}
	}
	c := Check{KID: kid}
	action := string(f.action)
	switch retired, is := key.RetiredAt(); {
	case is && (f.issuedAt > retired || unix > retired+policy.retention()):
		return c.fail(messages.ErrTokenVerify, KeyRetired)
	case key.AbortOnly() && action != ActionAbort:
		return c.fail(messages.ErrTokenVerify, KeyUse)
	case !canonical:
		return c.fail(messages.ErrTokenVerify, NotCanonical)
	case !key.VerifyTag(payload, tag):
		return c.fail(messages.ErrTokenVerify, BadTag)
	}
	c.Action, c.JTI = action, string(f.jti)

	switch {
	case string(f.sessionID) != scope.SID:
		return c.fail(messages.ErrTokenScope, ScopeSID)
	case f.turnIndex != scope.TurnIndex:
		return c.fail(messages.ErrTokenScope, ScopeTurn)
	case subtle.ConstantTimeCompare(f.nonce, []byte(scope.Nonce)) != 1:
		return c.fail(messages.ErrTokenScope, ScopeNonce)
	}

	// All terms are within ±2^53 or a Duration's seconds: no sum overflows.
	switch {
	case f.hasTTL && unix > f.issuedAt+f.ttl:
		return c.fail(messages.ErrTokenTTL, Expired)
	case f.issuedAt > unix+seconds(policy.Skew, DefaultSkew):
		return c.fail(messages.ErrTokenTTL, Future)
	}

	if replay != nil && !replay.Claim(c.JTI, now) {
		return c.fail(messages.ErrTokenReplay, ReplayedJTI)
	}
	return c
}

func (c Check) fail(code messages.Code, reason string) Check {
	c.Failure, c.Reason = code, reason
	return c
}

// retention returns how many seconds a key verifies behind its retirement.
func (p Policy) retention() int64 {
	return seconds(p.MaxTTL, DefaultMaxTTL) + seconds(p.Grace, DefaultGrace)
}

// seconds returns d, or def for a zero d, in whole seconds, rounded up; a negative d
// is none.
func seconds(d, def time.Duration) int64 {
	if d == 0 {
		d = def
	}
	if d < 0 {
		return 0
	}
	s := int64(d / time.Second)
	if d%time.Second != 0 {
		s++
	}
	return s
}

// parse is stage 1: it takes a line apart and reads its payload. reason is the
// first detail that fails, or "". canonical reports whether the payload equals its
// own canonical form, which only stage 2 may hold against it.
func parse(line []byte) (payload, tag []byte, f fields, canonical bool, reason string) {
	if !Candidate(line) {
		return nil, nil, f, false, BadShape
	}
	if len(line) > MaxLineBytes {
		return nil, nil, f, false, Oversize
	}
	kind, first, second, ok := split(line)
	if !ok {
		return nil, nil, f, false, BadShape
	}
	n := strict.DecodedLen(len(first))
	buf := make([]byte, n+strict.DecodedLen(len(second)))
	payload, tag = buf[:n:n], buf[n:]
	if _, err := strict.Decode(payload, first); err != nil {
		return nil, nil, f, false, BadBase64
	}
	if _, err := strict.Decode(tag, second); err != nil {
		return nil, nil, f, false, BadBase64
	}

	s, err := checkObject(payload, MaxDepth)
	if err != nil {
		return nil, nil, f, false, BadJSON
	}
	if s.badNumber >= 0 {
		return nil, nil, f, false, BadField
	}
	f = readFields(payload)
	switch {
	case f.bad:
		reason = BadField
	case f.v != version:
		reason = BadVersion
	case !bytes.Equal(f.kind, kind):
		reason = KindMismatch
	case string(kind) != Kind:
		reason = UnknownKind
	case !knownAction(string(f.action)):
		reason = UnknownAction
	}
	return payload, tag, f, s.canonical, reason
}

// split takes a candidate apart by the grammar of docs/spec/aeiou.md §7.1, alphabets
// included.
func split(line []byte) (kind, payload, tag []byte, ok bool) {
	rest := line[len(prefix):]
	i := 0
	for i < len(rest) && (rest[i] == '_' || 'A' <= rest[i] && rest[i] <= 'Z' || '0' <= rest[i] && rest[i] <= '9') {
		i++
	}
	if i == 0 || i == len(rest) || rest[i] != ':' {
		return nil, nil, nil, false
	}
	kind, rest = rest[:i], rest[i+1:]
	i = alphabet(rest)
	if i == 0 || i == len(rest) || rest[i] != '.' {
		return nil, nil, nil, false
	}
	payload, rest = rest[:i], rest[i+1:]
	i = alphabet(rest)
	if i == 0 || string(rest[i:]) != suffix {
		return nil, nil, nil, false
	}
	return kind, payload, rest[:i], true
}

// alphabet counts the base64url characters that b begins with.
func alphabet(b []byte) int {
	for i, c := range b {
		if !base64url[c] {
			return i
		}
	}
	return len(b)
}

// base64url is its alphabet as a table: its characters come in no order, and a branch for
// each kind of them would be guessed wrong every other time.
var base64url = func() (in [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		in[c] = true
	}
	return in
}()

package token

import (
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/messages"
)

// ScriptArgumentCode is the script error code of an argument fault (docs/spec/aeiou.md §6).
const ScriptArgumentCode = 4

const (
	// maxProgramDepth is the nesting a program's payload may have, itself
	// counting 1 (docs/spec/aeiou.md §6).
	maxProgramDepth = 32
	// maxProgramBytes bounds the text that is canonicalised for a token. What fits
	// in a token is at most 687 bytes in canonical form, six times that with every
	// byte escaped.
	maxProgramBytes = 16 << 10
)

// Tag sizes in bytes (docs/spec/aeiou.md §9).
const (
	hs256TagBytes = 32
	eddsaTagBytes = 64
)

// fallbackProgram is what a fallback token says, whatever the program asked for
// (docs/spec/aeiou.md §6.1).
const fallbackProgram = `{"action":"abort","request":{"reason":"fallback_signer_activated"}}`

// Signer makes tags with one private key. The interface is unnamed so that a key
// ring's signers fit it without importing this room; nil means no signer.
//
// A Signer may also have TagBytes() int, the length of its tags: a token that is
// too long is then refused before it is signed.
type Signer = interface {
	// KID names the key: 1–64 bytes of [A-Za-z0-9._:-].
	KID() string
	// Sign gives the tag over canonical. The signer does not keep canonical.
	Sign(canonical []byte) (tag []byte, err error)
}

// SignerSource gives the signers in force at a time. Both may be nil.
type SignerSource interface {
	TokenSigner(now time.Time) Signer
	// TokenFallback gives the abort-only signer, whose key is already in memory.
	TokenFallback(now time.Time) Signer
}

// Minter makes tokens (docs/spec/aeiou.md §6.1). It keeps no state; it is as safe for
// concurrent use as Signers and Rand are.
type Minter struct {
	Signers SignerSource
	Rand    io.Reader     // 16 bytes are read per token, for its jti
	TTL     time.Duration // of a token whose program names none; 0 is DefaultTTL
	MaxTTL  time.Duration // greatest ttl a program may ask for; 0 is DefaultMaxTTL
}

// Minted is a token ready to be emitted.
type Minted struct {
	Line string // without LF
	JTI  string
	KID  string
	// Fallback reports whether the fallback signer made it; it asks for abort then:
	// the host counts it in fallback_mint_total and logs PrimaryErr at warn.
	Fallback   bool
	PrimaryErr error
}

// ArgumentError is a fault in what the program asked for: an ordinary, catchable
// script error of code [ScriptArgumentCode]. No signer has been touched.
type ArgumentError struct {
	Argument  string // kind, payload, payload.action, opts.ttl …
	Detail    string // for the program's author
	Offset    int    // into the payload's text, when HasOffset
	HasOffset bool
}

// Error returns "argument: detail".
func (e *ArgumentError) Error() string {
	if e.HasOffset {
		return fmt.Sprintf("magic: %s at byte %d: %s", e.Argument, e.Offset, e.Detail)
	}
	return "magic: " + e.Argument + ": " + e.Detail
}

// Mint makes the token a program asks for by tool.aeiou.magic(kind, payload,
// opts): kind must be LOOP, payload the JSON text of its map, ttl the seconds from
// opts or nil for the default. Numbers in payload are integers in plain notation:
// a caller renders an integral 2.0 as 2. scope and now are the host's.
//
// An *[ArgumentError] is the program's fault. When the primary signer is missing
// or fails, the token is the fallback's and asks for abort. When that fails too,
// or there is no jti, the error is a *messages.Error with
// ERR_MAGIC_TOOL_INTERNAL, and the turn is to be flagged magic_failed.
func (m *Minter) Mint(kind string, payload []byte, ttl *int64, scope Scope, now time.Time) (Minted, error) {
	if kind != Kind {
		return Minted{}, &ArgumentError{Argument: "kind", Detail: `only "LOOP" is defined`}
	}
	program, err := checkProgram(payload)
	if err != nil {
		return Minted{}, err
	}
	life, err := m.life(ttl)
	if err != nil {
		return Minted{}, err
	}
	if !utf8.ValidString(scope.SID) || !utf8.ValidString(scope.Nonce) ||
		scope.TurnIndex < 1 || scope.TurnIndex > maxSafeInteger {
		return Minted{}, internalError(errors.New("the scope is not one of a turn"))
	}
	id, err := uuid.NewRandomFromReader(m.Rand)
	if err != nil {
		return Minted{}, internalError(fmt.Errorf("no randomness for the jti: %w", err))
	}
	d := draft{jti: id.String(), scope: scope, issuedAt: now.Unix(), ttl: life}

	primary := m.Signers.TokenSigner(now)
	line, primaryErr := d.sign(primary, program)
	if primaryErr == nil {
		return Minted{Line: line, JTI: d.jti, KID: primary.KID()}, nil
	}
	if fault := (*ArgumentError)(nil); errors.As(primaryErr, &fault) {
		return Minted{}, fault
	}
	fallback := m.Signers.TokenFallback(now)
	line, err = d.sign(fallback, []byte(fallbackProgram))
	if err != nil {
		// Texts only: an *ArgumentError must not be found in here, it would turn
		// the host's failure into the program's.
		return Minted{}, internalError(fmt.Errorf("primary signer: %v; fallback signer: %v", primaryErr, err))
	}
	return Minted{Line: line, JTI: d.jti, KID: fallback.KID(), Fallback: true, PrimaryErr: primaryErr}, nil
}

// life returns the ttl of a token in seconds.
func (m *Minter) life(ttl *int64) (int64, error) {
	longest := seconds(m.MaxTTL, DefaultMaxTTL)
	if ttl == nil {
		return min(seconds(m.TTL, DefaultTTL), longest), nil
	}
	if *ttl < 1 || *ttl > longest {
		return 0, &ArgumentError{Argument: "opts.ttl", Detail: fmt.Sprintf("must be 1…%d seconds", longest)}
	}
	return *ttl, nil
}

// checkProgram returns the canonical form of a program's payload or says what is
// wrong with it.
func checkProgram(payload []byte) ([]byte, error) {
	if len(payload) > maxProgramBytes {
		return nil, tooLong()
	}
	program, _, err := canonicalObject(payload, maxProgramDepth)
	if err != nil {
		fault := &ArgumentError{Argument: "payload", Detail: err.Error()}
		if e := (*messages.Error)(nil); errors.As(err, &e) {
			fault.Detail, fault.Offset, fault.HasOffset = e.Detail, int(e.Offset), e.HasOffset
		}
		return nil, fault
	}
	var action []byte
	var fault *ArgumentError
	control := false
	members(program, func(name, value []byte) {
		switch string(unquote(name)) {
		case "action":
			if action = value; value[0] == '"' {
				action = unquote(value[1 : len(value)-1])
			}
		case "control":
			control = true
		case "request", "telemetry":
			if value[0] != '{' && fault == nil {
				fault = &ArgumentError{Argument: "payload." + string(unquote(name)), Detail: "must be a map"}
			}
		}
	})
	switch {
	case action == nil && control: // an early draft's name (docs/spec/aeiou.md §20 row 27)
		return nil, &ArgumentError{Argument: "payload.action", Detail: `is missing; the member is called "action", not "control"`}
	case action == nil:
		return nil, &ArgumentError{Argument: "payload.action", Detail: "is missing"}
	case !knownAction(string(action)):
		return nil, &ArgumentError{Argument: "payload.action", Detail: `must be "continue", "done" or "abort"`}
	case fault != nil:
		return nil, fault
	}
	return program, nil
}

// draft is a token but for its key and program.
type draft struct {
	jti      string
	scope    Scope
	issuedAt int64
	ttl      int64
}

// payload returns the canonical payload: the members stand in canonical order, and
// every value is appended in canonical form.
func (d *draft) payload(kid string, program []byte) []byte {
	b := make([]byte, 0, 224+len(d.scope.SID)+len(kid)+len(program))
	b = append(b, `{"issued_at":`...)
	b = appendInt(b, d.issuedAt)
	b = append(b, `,"jti":`...)
	b = jsonstring.Append(b, d.jti)
	b = append(b, `,"kid":`...)
	b = jsonstring.Append(b, kid)
	b = append(b, `,"kind":"LOOP","payload":`...)
	b = append(b, program...)
	b = append(b, `,"session_id":`...)
	b = jsonstring.Append(b, d.scope.SID)
	b = append(b, `,"ttl":`...)
	b = appendInt(b, d.ttl)
	b = append(b, `,"turn_index":`...)
	b = appendInt(b, d.scope.TurnIndex)
	b = append(b, `,"turn_nonce":`...)
	b = jsonstring.Append(b, d.scope.Nonce)
	return append(b, `,"v":3}`...)
}

// sign makes the line. Its error is an *ArgumentError when the token would be too
// long, else the signer's failure.
func (d *draft) sign(signer Signer, program []byte) (string, error) {
	if signer == nil {
		// What is too long for every signer is the program's fault all the same.
		if lineBytes(len(d.payload("k", program)), hs256TagBytes) > MaxLineBytes {
			return "", tooLong()
		}
		return "", errors.New("there is none")
	}
	kid := signer.KID()
	if !validKID([]byte(kid)) {
		return "", errors.New("its key id is outside the rule of a kid")
	}
	payload := d.payload(kid, program)
	tagBytes := hs256TagBytes
	if sized, ok := signer.(interface{ TagBytes() int }); ok {
		tagBytes = sized.TagBytes()
	}
	if lineBytes(len(payload), tagBytes) > MaxLineBytes {
		return "", tooLong()
	}
	tag, err := signer.Sign(payload)
	switch {
	case err != nil:
		return "", err
	case len(tag) != hs256TagBytes && len(tag) != eddsaTagBytes:
		return "", fmt.Errorf("it gave a tag of %d bytes", len(tag))
	case lineBytes(len(payload), len(tag)) > MaxLineBytes:
		return "", tooLong()
	}
	line := make([]byte, 0, lineBytes(len(payload), len(tag)))
	line = append(line, prefix+Kind+":"...)
	line = strict.AppendEncode(line, payload)
	line = append(line, '.')
	line = strict.AppendEncode(line, tag)
	line = append(line, suffix...)
	return string(line), nil
}

// lineBytes returns the length of a line from the bytes of its payload and tag.
func lineBytes(payload, tag int) int {
	return len(prefix+Kind+":") + strict.EncodedLen(payload) + 1 + strict.EncodedLen(tag) + len(suffix)
}

func tooLong() *ArgumentError {
	return &ArgumentError{Argument: "payload", Detail: fmt.Sprintf("the token would be longer than %d bytes", MaxLineBytes)}
}

func internalError(cause error) error {
	return &messages.Error{Code: messages.ErrMagicToolInternal, Detail: "no control token can be minted", Cause: cause}
}

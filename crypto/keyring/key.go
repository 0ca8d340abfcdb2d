package keyring

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	curve "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"

	"github.com/seed14be6753/stile/messages"
)

// Purpose says what a key signs.
type Purpose string

// The purposes. They never share a key: a receipt is no token.
const (
	Token   Purpose = "token"
	Receipt Purpose = "receipt"
)

// Alg is a signature algorithm.
type Alg string

// The algorithms (docs/spec/aeiou.md §9).
const (
	EdDSA Alg = "EdDSA" // Ed25519
	HS256 Alg = "HS256" // HMAC-SHA-256, for tokens of a single process
)

// Limits of a record.
const (
	MaxKIDBytes       = 64        // docs/spec/aeiou.md §7.2
	MinHS256Bytes     = 32        // docs/spec/aeiou.md §9
	MaxHS256Bytes     = 128       // two blocks of SHA-256; longer ones gain nothing
	maxUnix           = 1<<53 - 1 // JSON carries no larger integer exactly
	ed25519SeedLength = ed25519.SeedSize
)

// Attributes are the public, settable part of a key's record. Times are Unix
// seconds.
type Attributes struct {
	KID       string // 1–64 bytes of [A-Za-z0-9._:-], unique in a set
	Purpose   Purpose
	AbortOnly bool   // the warm fallback: backs no action but abort; tokens only
	NotBefore int64  // signs from here on; does not keep it from verifying tokens
	RetiredAt *int64 // nil: not retired
}

// signer makes tags with one private key; nil means no signer. The interface is unnamed
// so that it is the same type as token.Signer.
type signer = interface {
	KID() string
	Sign(message []byte) (tag []byte, err error)
}

// ErrErased is what a signer gives once its private key has been erased.
var ErrErased = errors.New("keyring: the private key has been erased")

// Key is one record: attributes, algorithm, and material. It is immutable but for
// the erasure of its private half, and safe from any goroutine. Its text and JSON
// forms show the attributes and never the material.
type Key struct {
	attrs   Attributes
	alg     Alg
	public  ed25519.PublicKey // EdDSA; nil for HS256
	checker *checker          // EdDSA; nil where public is no point
	private *material         // nil: there is none here
	outside func() signer     // signs in place of private, for a key held elsewhere
}

// material is the private half, shared by all copies of a key's record so that it
// can be erased in all of them at once.
//
// The bytes stand behind a function, not a pointer: where fmt meets an unexported
// field it follows a pointer for some verbs and calls no method, but of a function
// it knows the address alone.
type material struct{ open func() *vault }

// vault holds the bytes of a material.
type vault struct {
	mu    sync.RWMutex
	bytes []byte // Ed25519: seed ‖ public, 64 bytes. HS256: the secret. nil once erased
}

func newMaterial(bytes []byte) *material {
	v := &vault{bytes: bytes}
	return &material{open: func() *vault { return v }}
}

// NewEdDSA returns a key from its 32-byte Ed25519 seed.
func NewEdDSA(a Attributes, seed []byte) (*Key, error) {
	if len(seed) != ed25519SeedLength {
		return nil, badKey(a.KID, "seed", fmt.Sprintf("must be %d bytes", ed25519SeedLength))
	}
	private := ed25519.NewKeyFromSeed(seed)
	k := &Key{
		attrs: a.clone(), alg: EdDSA,
		public:  append(ed25519.PublicKey(nil), private[ed25519SeedLength:]...),
		private: newMaterial(private),
	}
	k.checker = newChecker(k.public)
	return checked(k)
}

// NewHS256 returns a key from its secret of 32…128 bytes.
func NewHS256(a Attributes, secret []byte) (*Key, error) {
	if len(secret) < MinHS256Bytes || len(secret) > MaxHS256Bytes {
		return nil, badKey(a.KID, "secret", fmt.Sprintf("must be %d…%d bytes", MinHS256Bytes, MaxHS256Bytes))
	}
	k := &Key{attrs: a.clone(), alg: HS256, private: newMaterial(append([]byte(nil), secret...))}
	return checked(k)
}

// NewPublic returns an Ed25519 key without its private half, which can verify only. One of
// the points of small order is ERR_CONFIG: no private key belongs to them, and signatures
// that verify under them are made without one.
func NewPublic(a Attributes, public []byte) (*Key, error) {
	if len(public) != ed25519.PublicKeySize {
		return nil, badKey(a.KID, "public", fmt.Sprintf("must be %d bytes", ed25519.PublicKeySize))
	}
	k := &Key{attrs: a.clone(), alg: EdDSA, public: append(ed25519.PublicKey(nil), public...)}
	if k.checker = newChecker(k.public); k.checker != nil && k.checker.small {
		return nil, badKey(a.KID, "public", "is a point of small order, under which signatures can be made without a private key")
	}
	return checked(k)
}

// NewExternal returns an Ed25519 key whose private half is held elsewhere, such as
// in a hardware module: by signs for it. A signer's failure is treated like
// any signer's: tokens fall back to the abort-only key, receipts stay away. The
// key file keeps only the public half of such a key.
func NewExternal(a Attributes, public []byte, by interface {
	KID() string
	Sign(message []byte) (tag []byte, err error)
},
) (*Key, error) {
	k, err := NewPublic(a, public)
	if err != nil {
		return nil, err
	}
	if by == nil || by.KID() != a.KID {
		return nil, badKey(a.KID, "signer", "must be there and carry the key's id")
	}
	k.outside = func() signer { return by }
	return k, nil
}

// Generate makes a key with fresh material from random, valid from now on. An
// empty kid becomes "tok-" or "rcp-", the day, and 24 random bits:
// tok-20260102-9f3a2c.
func Generate(kid string, purpose Purpose, alg Alg, random io.Reader, now time.Time) (*Key, error) {
	prefix := "tok"
	if purpose == Receipt {
		prefix = "rcp"
	}
	return generate(Attributes{KID: kid, Purpose: purpose, NotBefore: now.Unix()}, prefix, alg, random, now)
}

// GenerateFallback makes the abort-only key for tokens. An empty kid becomes
// fbk-20260102-9f3a2c.
func GenerateFallback(kid string, alg Alg, random io.Reader, now time.Time) (*Key, error) {
	return generate(Attributes{KID: kid, Purpose: Token, AbortOnly: true, NotBefore: now.Unix()}, "fbk", alg, random, now)
}

func generate(a Attributes, prefix string, alg Alg, random io.Reader, now time.Time) (*Key, error) {
	if alg != EdDSA && alg != HS256 {
		return nil, badKey(a.KID, "alg", "must be EdDSA or HS256")
	}
	var fresh [ed25519SeedLength + 3]byte
	defer clear(fresh[:])
	if _, err := io.ReadFull(random, fresh[:]); err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Reason: "RANDOM", Detail: "no randomness for a key", Cause: err}
	}
	if a.KID == "" {
		a.KID = prefix + now.UTC().Format("-20060102-") + hex.EncodeToString(fresh[ed25519SeedLength:])
	}
	if alg == HS256 {
		return NewHS256(a, fresh[:ed25519SeedLength])
	}
	return NewEdDSA(a, fresh[:ed25519SeedLength])
}

// checked returns k if its record is within the rules.
func checked(k *Key) (*Key, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	return k, nil
}

// check holds a record to its rules.
func (k *Key) check() error {
	a := &k.attrs
	switch {
	case !validKID(a.KID):
		return badKey(a.KID, "kid", "must be 1–64 bytes of [A-Za-z0-9._:-]")
	case a.Purpose != Token && a.Purpose != Receipt:
		return badKey(a.KID, "purpose", `must be "token" or "receipt"`)
	case a.AbortOnly && a.Purpose != Token:
		return badKey(a.KID, "abort_only", "is for tokens only")
	case k.alg == HS256 && a.Purpose != Token:
		return badKey(a.KID, "alg", "receipts are signed with EdDSA, so that others can verify them")
	case a.NotBefore < 0 || a.NotBefore > maxUnix:
		return badKey(a.KID, "not_before", "must be Unix seconds")
	case a.RetiredAt != nil && (*a.RetiredAt < a.NotBefore || *a.RetiredAt > maxUnix):
		return badKey(a.KID, "retired_at", "must be Unix seconds not before not_before")
	}
	return nil
}

func (a Attributes) clone() Attributes {
	if a.RetiredAt != nil {
		at := *a.RetiredAt
		a.RetiredAt = &at
	}
	return a
}

// KID returns the key's id.
func (k *Key) KID() string { return k.attrs.KID }

// Alg returns the key's algorithm.
func (k *Key) Alg() Alg { return k.alg }

// Purpose returns what the key signs.
func (k *Key) Purpose() Purpose { return k.attrs.Purpose }

// AbortOnly reports whether the key backs no action but abort.
func (k *Key) AbortOnly() bool { return k.attrs.AbortOnly }

// NotBefore returns the Unix second from which the key signs.
func (k *Key) NotBefore() int64 { return k.attrs.NotBefore }

// RetiredAt returns the Unix second in which the key retired or is to retire; ok is
// false for neither.
func (k *Key) RetiredAt() (unix int64, ok bool) {
	if k.attrs.RetiredAt == nil {
		return 0, false
	}
	return *k.attrs.RetiredAt, true
}

// Public returns a copy of the public key, nil for HS256.
func (k *Key) Public() ed25519.PublicKey { return append(ed25519.PublicKey(nil), k.public...) }

// CanSign reports whether there is something to sign with, whatever the time.
func (k *Key) CanSign() bool {
	if k.outside != nil {
		return true
	}
	if k.private == nil {
		return false
	}
	v := k.private.open()
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.bytes != nil
}

// VerifyTag reports whether tag is this key's tag over message. Its length must be
// exactly that of the algorithm: 64 bytes for EdDSA, 32 for HS256. An erased
// HS256 key verifies nothing.
func (k *Key) VerifyTag(message, tag []byte) bool {
	if k.alg == EdDSA {
		return k.checker != nil && k.checker.good(message, tag)
	}
	if k.private == nil {
		return false
	}
	want, err := k.private.mac(message)
	return err == nil && subtle.ConstantTimeCompare(want, tag) == 1
}

// signs reports whether the key is in force for signing in the Unix second at.
func (k *Key) signs(at int64) bool {
	retired, is := k.RetiredAt()
	return k.attrs.NotBefore <= at && (!is || at < retired) && k.CanSign()
}

// signer returns the signer of the key.
func (k *Key) signer() signer {
	if k.outside != nil {
		return k.outside()
	}
	return heldSigner{k}
}

// heldSigner signs with material held in memory.
type heldSigner struct{ key *Key }

// KID returns the key's id.
func (s heldSigner) KID() string { return s.key.attrs.KID }

// TagBytes returns the length of the tags.
func (s heldSigner) TagBytes() int {
	if s.key.alg == HS256 {
		return sha256.Size
	}
	return ed25519.SignatureSize
}

// Sign returns the tag over message, or ErrErased.
func (s heldSigner) Sign(message []byte) ([]byte, error) {
	if s.key.alg == HS256 {
		return s.key.private.mac(message)
	}
	return s.key.private.sign(message)
}

// Format writes the key's id for every verb.
func (s heldSigner) Format(f fmt.State, _ rune) { fmt.Fprint(f, "signer("+s.key.attrs.KID+")") }

func (m *material) sign(message []byte) ([]byte, error) {
	v := m.open()
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.bytes == nil {
		return nil, ErrErased
	}
	return curve.Sign(v.bytes, message), nil
}

func (m *material) mac(message []byte) ([]byte, error) {
	v := m.open()
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.bytes == nil {
		return nil, ErrErased
	}
	h := hmac.New(sha256.New, v.bytes)
	h.Write(message)
	return h.Sum(nil), nil
}

// copy returns a copy of what a key file stores: the seed or the secret. nil once
// erased.
func (m *material) copy(alg Alg) []byte {
	v := m.open()
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.bytes == nil {
		return nil
	}
	if alg == EdDSA {
		return append([]byte(nil), v.bytes[:ed25519SeedLength]...)
	}
	return append([]byte(nil), v.bytes...)
}

// erase overwrites the material for everyone who holds the key, a turn in flight
// included. It cannot reach copies that the runtime or the standard library made
// and that wait for the garbage collector.
func (m *material) erase() {
	v := m.open()
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.bytes)
	v.bytes = nil
}

// without returns the record without its private half.
func (k *Key) without() *Key {
	c := *k
	c.private, c.outside = nil, nil
	return &c
}

// retired returns the record with a retirement in the Unix second at.
func (k *Key) retired(at int64) *Key {
	c := *k
	c.attrs.RetiredAt = &at
	return &c
}

// shown is what a key shows of itself.
type shown struct {
	KID       string  `json:"kid"`
	Alg       Alg     `json:"alg"`
	Purpose   Purpose `json:"purpose"`
	AbortOnly bool    `json:"abort_only,omitempty"`
	NotBefore int64   `json:"not_before"`
	RetiredAt *int64  `json:"retired_at,omitempty"`
	CanSign   bool    `json:"can_sign"`
}

// MarshalJSON shows the attributes and whether the key can sign.
func (k *Key) MarshalJSON() ([]byte, error) {
	a := k.attrs
	return json.Marshal(shown{a.KID, k.alg, a.Purpose, a.AbortOnly, a.NotBefore, a.RetiredAt, k.CanSign()})
}

// String shows the attributes.
func (k *Key) String() string {
	b, err := k.MarshalJSON()
	if err != nil {
		return "key(" + k.attrs.KID + ")"
	}
	return "key" + string(b)
}

// Format writes String for every verb.
func (k *Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.String()) }

// validKID checks the rule of docs/spec/aeiou.md §7.2.
func validKID(kid string) bool {
	if len(kid) < 1 || len(kid) > MaxKIDBytes {
		return false
	}
	for i := 0; i < len(kid); i++ {
		switch c := kid[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// badKey names the field of a record that is wrong.
func badKey(kid, field, what string) error {
	if !validKID(kid) {
		kid = "?"
	}
	return &messages.Error{Code: messages.ErrConfig, Reason: "KEY", Field: "keys." + kid + "." + field, Detail: what}
}

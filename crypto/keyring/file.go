package keyring

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/seed14be6753/stile/messages"
)

// The key file is one JSON document, written on one line:
//
//	{"format":"stile-keys/1","keys":[…],"sum":"…"}      open
//	{"format":"stile-keys/1","sealed":{…}}              sealed with a passphrase
//
// sum is the SHA-256, in hexadecimal, of the open document with an empty sum. A
// sealed document carries the open one in box: XChaCha20-Poly1305 under a key that
// scrypt derives from the passphrase, with all other members as associated data.
// So every changed bit of either form is found before a key is believed.
//
// scrypt rather than Argon2id: both are memory-hard enough for a passphrase, and
// the Argon2id at hand starts goroutines, which this room does not.

// fileFormat names the document and its version.
const fileFormat = "stile-keys/1"

// MaxFileBytes bounds a key file: MaxKeys records of 400 bytes, sealed.
const MaxFileBytes = 4 << 20

// Details of ERR_CONFIG about key files.
const (
	FileSyntax  = "KEYFILE_SYNTAX"     // not the document above: its place is named
	FileFormat  = "KEYFILE_FORMAT"     // another format or version
	FileDamaged = "KEYFILE_DAMAGED"    // the sum does not fit
	FileCost    = "KEYFILE_COST"       // the passphrase's cost is outside the bounds
	FileSealed  = "KEYFILE_SEALED"     // sealed, and no passphrase was given
	FileOpen    = "KEYFILE_OPEN"       // a passphrase was given, and the file is not sealed
	FilePass    = "KEYFILE_PASSPHRASE" // wrong passphrase, or the sealed bytes are damaged: the two look alike
)

// keyDocument is the file. The order of the fields is the order in the file.
type keyDocument struct {
	Format string      `json:"format"`
	Keys   []keyRecord `json:"keys,omitzero"`
	Sum    string      `json:"sum,omitzero"`
	Sealed *sealedBox  `json:"sealed,omitzero"`
}

// keyRecord is one key. Public and Private are unpadded base64url; Private is the
// 32-byte seed of EdDSA or the secret of HS256.
type keyRecord struct {
	KID       string  `json:"kid"`
	Alg       Alg     `json:"alg"`
	Purpose   Purpose `json:"purpose"`
	AbortOnly bool    `json:"abort_only,omitzero"`
	NotBefore *int64  `json:"not_before"`
	RetiredAt *int64  `json:"retired_at,omitzero"`
	Public    string  `json:"public,omitzero"`
	Private   string  `json:"private,omitzero"`
}

// sealedBox is an open document under a passphrase.
type sealedBox struct {
	KDF    string `json:"kdf"`
	LogN   int    `json:"log_n"`
	P      int    `json:"p"`
	Salt   string `json:"salt"`
	Cipher string `json:"cipher"`
	Nonce  string `json:"nonce"`
	Box    string `json:"box"`
}

const (
	boxKDF    = "scrypt"
	boxCipher = "XChaCha20-Poly1305"
)

// Marshal returns the key file of a ring, as a new [Sealer] does.
func Marshal(r *Ring, passphrase []byte, random io.Reader) ([]byte, error) {
	return NewSealer(passphrase).Marshal(r, random)
}

// openDocument returns the open form of a set.
func openDocument(s *Set) ([]byte, error) {
	d := keyDocument{Format: fileFormat, Keys: make([]keyRecord, len(s.keys))}
	for i, k := range s.keys {
		a := k.attrs.clone()
		d.Keys[i] = keyRecord{
			KID: a.KID, Alg: k.alg, Purpose: a.Purpose, AbortOnly: a.AbortOnly,
			NotBefore: &a.NotBefore, RetiredAt: a.RetiredAt, Public: encode(k.public),
		}
		if k.private != nil {
			private := k.private.copy(k.alg)
			d.Keys[i].Private = encode(private)
			clear(private)
		}
	}
	sum, err := d.sum()
	if err != nil {
		return nil, err
	}
	d.Sum = sum
	return json.Marshal(d)
}

// sum returns the checksum of an open document.
func (d keyDocument) sum() (string, error) {
	d.Sum = ""
	b, err := json.Marshal(d)
	if err != nil {
		return "", fileError(FileSyntax, "the records cannot be encoded")
	}
	defer clear(b)
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:]), nil
}

// Parse reads a key file, as a new [Sealer] does.
func Parse(b []byte, passphrase []byte) (*Ring, error) {
	return NewSealer(passphrase).Parse(b)
}

// decodeDocument reads a document strictly: UTF-8, no repeated or unknown
// members, nothing behind it.
func decodeDocument(b []byte) (keyDocument, error) {
	var d keyDocument
	if len(b) > MaxFileBytes {
		return d, fileError(FileSyntax, fmt.Sprintf("larger than %d bytes", MaxFileBytes))
	}
	if err := json.Unmarshal(b, &d, json.RejectUnknownMembers(true)); err != nil {
		return d, placed(FileSyntax, err)
	}
	if d.Format != fileFormat {
		return d, &messages.Error{Code: messages.ErrConfig, Reason: FileFormat, Field: "format", Detail: "must be " + fileFormat}
	}
	return d, nil
}

// ring makes the ring of an open document.
func (d keyDocument) ring() (*Ring, error) {
	if d.Keys == nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Reason: FileSyntax, Field: "keys", Detail: "is missing"}
	}
	sum, err := d.sum()
	if err != nil {
		return nil, err
	}
	if d.Sum != sum {
		return nil, &messages.Error{Code: messages.ErrConfig, Reason: FileDamaged, Field: "sum", Detail: "the file has been changed or damaged"}
	}
	keys := make([]*Key, len(d.Keys))
	for i := range d.Keys {
		if keys[i], err = d.Keys[i].key(); err != nil {
			return nil, err
		}
	}
	return New(keys...)
}

// key makes the key of a record.
func (r *keyRecord) key() (*Key, error) {
	if r.NotBefore == nil {
		return nil, badKey(r.KID, "not_before", "is missing")
	}
	a := Attributes{KID: r.KID, Purpose: r.Purpose, AbortOnly: r.AbortOnly, NotBefore: *r.NotBefore, RetiredAt: r.RetiredAt}
	public, ok := decode(r.Public)
	if !ok {
		return nil, badKey(r.KID, "public", "is not unpadded base64url")
	}
	private, ok := decode(r.Private)
	defer clear(private)
	if !ok {
		return nil, badKey(r.KID, "private", "is not unpadded base64url")
	}
	switch {
	case r.Alg == HS256 && r.Public == "":
		return NewHS256(a, private)
	case r.Alg == HS256:
		return nil, badKey(r.KID, "public", "an HS256 key has none")
	case r.Alg != EdDSA:
		return nil, badKey(r.KID, "alg", "must be EdDSA or HS256")
	case r.Private == "":
		return NewPublic(a, public)
	}
	k, err := NewEdDSA(a, private)
	if err != nil {
		return nil, err
	}
	if !k.public.Equal(ed25519.PublicKey(public)) {
		return nil, badKey(r.KID, "public", "does not belong to the private half")
	}
	return k, nil
}

// associated returns what is sealed along: everything but the box.
func (b *sealedBox) associated() []byte {
	return fmt.Appendf(nil, "%s\n%s\n%d\n%d\n%s\n%s\n%s", fileFormat, b.KDF, b.LogN, b.P, b.Salt, b.Cipher, b.Nonce)
}

// unseal checks the box's own members before it spends anything on them.
func (b *sealedBox) unseal(s *Sealer) ([]byte, error) {
	salt, saltOK := decode(b.Salt)
	nonce, nonceOK := decode(b.Nonce)
	box, boxOK := decode(b.Box)
	bad := func(reason, field, what string) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: reason, Field: "sealed." + field, Detail: what}
	}
	switch {
	case b.KDF != boxKDF:
		return nil, bad(FileFormat, "kdf", "must be "+boxKDF)
	case b.Cipher != boxCipher:
		return nil, bad(FileFormat, "cipher", "must be "+boxCipher)
	case b.LogN < 1 || b.LogN > maxLogN:
		return nil, bad(FileCost, "log_n", fmt.Sprintf("must be 1…%d", maxLogN))
	case b.P < 1 || b.P > maxPar:
		return nil, bad(FileCost, "p", fmt.Sprintf("must be 1…%d", maxPar))
	case !saltOK || len(salt) != saltBytes:
		return nil, bad(FileSyntax, "salt", fmt.Sprintf("must be %d bytes of unpadded base64url", saltBytes))
	case !nonceOK || len(nonce) != chacha20poly1305.NonceSizeX:
		return nil, bad(FileSyntax, "nonce", fmt.Sprintf("must be %d bytes of unpadded base64url", chacha20poly1305.NonceSizeX))
	case !boxOK || len(box) < chacha20poly1305.Overhead:
		return nil, bad(FileSyntax, "box", "must be unpadded base64url")
	}
	d, err := s.derive(cost{logN: b.LogN, par: b.P}, [saltBytes]byte(salt))
	if err != nil {
		return nil, err
	}
	open, err := d.cipher.Open(nil, nonce, box, b.associated())
	if err != nil {
		return nil, fileError(FilePass, "the passphrase is wrong, or the file is damaged")
	}
	s.keep(d)
	return open, nil
}

var base64url = base64.RawURLEncoding.Strict()

func encode(b []byte) string { return base64url.EncodeToString(b) }

// decode takes the one spelling of b and no other: the decoder alone would skip
// line breaks.
func decode(s string) (b []byte, ok bool) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	b, err := base64url.DecodeString(s)
	return b, err == nil
}

func fileError(reason, what string) error {
	return &messages.Error{Code: messages.ErrConfig, Reason: reason, Detail: what}
}

// placed turns a decoder's error into ours: its place, and none of its text, which
// may quote what it could not read.
func placed(reason string, err error) error {
	out := &messages.Error{Code: messages.ErrConfig, Reason: reason, Detail: "is not valid JSON"}
	var (
		syntactic *jsontext.SyntacticError
		semantic  *json.SemanticError
		pointer   jsontext.Pointer
	)
	switch {
	case errors.As(err, &semantic):
		out.Detail = "has the wrong type"
		if errors.Is(err, json.ErrUnknownName) {
			out.Detail = "is not a known member"
		}
		out.Offset, out.HasOffset, pointer = semantic.ByteOffset, true, semantic.JSONPointer
	case errors.As(err, &syntactic):
		if errors.Is(err, jsontext.ErrDuplicateName) {
			out.Detail = "is repeated"
		}
		out.Offset, out.HasOffset, pointer = syntactic.ByteOffset, true, syntactic.JSONPointer
	}
	out.Field = field(pointer)
	return out
}

// field writes a JSON pointer as a key path, cut to a length for people.
func field(p jsontext.Pointer) string {
	var b bytes.Buffer
	for token := range p.Tokens() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if len(token) > MaxKIDBytes {
			token = token[:MaxKIDBytes] + "…"
		}
		b.WriteString(strings.ToValidUTF8(token, "?"))
	}
	return b.String()
}

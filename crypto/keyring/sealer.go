package keyring

import (
	"crypto/cipher"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/crypto/scrypt"

	"github.com/seed14be6753/stile/messages"
)

// Cost of the passphrase: scrypt with N = 2^16, r = 8, p = 2 takes 64 MiB and a
// few hundred milliseconds. A file may name other costs, up to 256 MiB and twice
// that work for each of at most 4 passes, so that a hostile one cannot take the
// host's memory.
const (
	defaultLogN = 16
	maxLogN     = 18
	blockSize   = 8 // r
	defaultPar  = 2 // p
	maxPar      = 4
	saltBytes   = 16
)

// Sealer reads and writes key files under one passphrase. It keeps the key that it derived last, so
// that a file which is read, changed and written again costs one derivation. It is safe for
// concurrent use.
type Sealer struct {
	passphrase []byte
	cost       cost // of what it writes

	mu   sync.Mutex
	last *derived
}

// cost is what deriving a key takes.
type cost struct{ logN, par int }

// derived is a key of the passphrase, as the cipher that has it. A salt may seal many files: their
// nonces, of 24 random bytes, differ.
type derived struct {
	cost   cost
	salt   [saltBytes]byte
	cipher cipher.AEAD
}

// NewSealer returns a Sealer for a passphrase of at least one byte. A nil one is for files that are
// not sealed.
func NewSealer(passphrase []byte) *Sealer {
	return &Sealer{passphrase: passphrase, cost: cost{logN: defaultLogN, par: defaultPar}}
}

// Marshal returns the key file of a ring. With a passphrase it is sealed, and random gives 24 bytes
// of nonce, and before them 16 of salt if no file was read or written yet; with a nil passphrase it
// is open and random is not read. An empty passphrase that is not nil is refused: it is a mistake
// somewhere. The file holds every private half that is in memory, and only the public half of a key
// that is held elsewhere.
func (s *Sealer) Marshal(r *Ring, random io.Reader) ([]byte, error) {
	open, err := openDocument(r.Set())
	if err != nil || s.passphrase == nil {
		return open, err
	}
	defer clear(open)
	if len(s.passphrase) == 0 {
		return nil, fileError(FilePass, "the passphrase is empty")
	}
	d, err := s.writes(random)
	if err != nil {
		return nil, err
	}
	var nonce [chacha20poly1305.NonceSizeX]byte
	if err := draw(random, nonce[:]); err != nil {
		return nil, err
	}
	b := &sealedBox{
		KDF: boxKDF, LogN: d.cost.logN, P: d.cost.par, Salt: encode(d.salt[:]),
		Cipher: boxCipher, Nonce: encode(nonce[:]),
	}
	b.Box = encode(d.cipher.Seal(nil, nonce[:], open, b.associated()))
	return json.Marshal(keyDocument{Format: fileFormat, Sealed: b})
}

// Parse reads a key file. The passphrase must be there exactly when the file is sealed: an open file
// in the place of a sealed one is refused. Every error is ERR_CONFIG with one of the KEYFILE_ details
// or KEY, and names the member and, where there is one, the byte offset; none quotes the file.
// Deriving the key takes at most 256 MiB.
func (s *Sealer) Parse(b []byte) (*Ring, error) {
	d, err := decodeDocument(b)
	if err != nil {
		return nil, err
	}
	switch {
	case d.Sealed == nil && s.passphrase != nil:
		return nil, fileError(FileOpen, "a passphrase was given, and the file is not sealed")
	case d.Sealed == nil:
		return d.ring()
	case d.Keys != nil || d.Sum != "":
		return nil, fileError(FileSyntax, "a sealed file holds nothing else")
	case len(s.passphrase) == 0:
		return nil, fileError(FileSealed, "the file is sealed, and no passphrase was given")
	}
	open, err := d.Sealed.unseal(s)
	if err != nil {
		return nil, err
	}
	defer clear(open)
	inner, err := decodeDocument(open)
	if err != nil {
		return nil, err
	}
	if inner.Sealed != nil {
		return nil, fileError(FileSyntax, "a sealed file inside a sealed file")
	}
	return inner.ring()
}

// writes returns the key for the next file: the last one, unless another cost is wanted.
func (s *Sealer) writes(random io.Reader) (*derived, error) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last != nil && last.cost == s.cost {
		return last, nil
	}
	var salt [saltBytes]byte
	if err := draw(random, salt[:]); err != nil {
		return nil, err
	}
	d, err := s.derive(s.cost, salt)
	if err != nil {
		return nil, err
	}
	s.keep(d)
	return d, nil
}

// derive returns the passphrase's key for a salt.
func (s *Sealer) derive(c cost, salt [saltBytes]byte) (*derived, error) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last != nil && last.cost == c && last.salt == salt {
		return last, nil
	}
	key, err := scrypt.Key(s.passphrase, salt[:], 1<<c.logN, blockSize, c.par, chacha20poly1305.KeySize)
	if err != nil {
		return nil, fileError(FileCost, "the passphrase's cost is not one scrypt takes")
	}
	defer clear(key)
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, fileError(FileCost, "the derived key does not fit")
	}
	return &derived{cost: c, salt: salt, cipher: aead}, nil
}

// keep notes a key that has sealed or opened a file.
func (s *Sealer) keep(d *derived) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = d
}

func draw(random io.Reader, b []byte) error {
	if _, err := io.ReadFull(random, b); err != nil {
		return &messages.Error{Code: messages.ErrConfig, Reason: "RANDOM", Detail: "no randomness to seal the key file", Cause: err}
	}
	return nil
}

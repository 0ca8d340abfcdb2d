package stile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// KeyFile is the key file's name inside the data directory.
const KeyFile = "keys.json"

// openKeys takes the given ring, reads the key file, or makes one.
func (rt *Runtime) openKeys(ctx context.Context) (err error) {
	switch {
	case rt.cfg.Keys != nil:
		rt.keys = rt.cfg.Keys
	case rt.cfg.InMemory:
		rt.keys, err = GenerateKeys(rt.cfg)
	default:
		rt.keys, err = rt.keyFile()
	}
	if err != nil {
		return err
	}
	return PublishReceiptKeys(ctx, rt.store, rt.keys)
}

// keyFile reads the key file of the data directory, or makes one. Of two hosts that
// start at once in a new directory one makes it and both read it.
func (rt *Runtime) keyFile() (*keyring.Ring, error) {
	path := filepath.Join(rt.cfg.Dir, KeyFile)
	ring, err := ReadKeys(path, rt.cfg.Passphrase)
	if !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	if err := makeDir(rt.cfg.Dir); err != nil {
		return nil, err
	}
	if ring, err = GenerateKeys(rt.cfg); err != nil {
		return nil, err
	}
	b, err := keyring.Marshal(ring, rt.cfg.Passphrase, rt.cfg.Rand)
	if err != nil {
		return nil, err
	}
	if err := writeFile(path, b, os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return ReadKeys(path, rt.cfg.Passphrase)
}

// GenerateKeys makes a ring with a token key, a fallback signer and a receipt key.
func GenerateKeys(cfg Config) (*keyring.Ring, error) {
	cfg = cfg.withClock()
	now := cfg.Now()
	tok, err := keyring.Generate("", keyring.Token, keyring.EdDSA, cfg.Rand, now)
	if err != nil {
		return nil, err
	}
	fallback, err := keyring.GenerateFallback("", keyring.EdDSA, cfg.Rand, now)
	if err != nil {
		return nil, err
	}
	receipt, err := keyring.Generate("", keyring.Receipt, keyring.EdDSA, cfg.Rand, now)
	if err != nil {
		return nil, err
	}
	return keyring.New(tok, fallback, receipt)
}

// ReadKeys reads a key file. A missing one is fs.ErrNotExist; a wrong passphrase
// or a damaged file is ERR_CONFIG naming the place.
func ReadKeys(path string, passphrase []byte) (*keyring.Ring, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, &messages.Error{Code: messages.ErrConfig, File: filepath.Base(path), Detail: "cannot read the key file", Cause: err}
	}
	ring, err := keyring.Parse(b, passphrase)
	if err != nil {
		var e *messages.Error
		if errors.As(err, &e) && e.File == "" {
			placed := *e
			placed.File = filepath.Base(path)
			return nil, &placed
		}
		return nil, err
	}
	return ring, nil
}

// WriteKeys writes a key file with mode 0600, sealed when cfg has a passphrase.
// The old file is replaced in one step: a crash leaves one or the other.
func WriteKeys(path string, ring *keyring.Ring, cfg Config) error {
	cfg = cfg.withClock()
	b, err := keyring.Marshal(ring, cfg.Passphrase, cfg.Rand)
	if err != nil {
		return err
	}
	return writeFile(path, b, os.Rename)
}

// writeFile writes b durably beside path and puts it there: os.Rename replaces what
// is there, os.Link refuses to.
func writeFile(path string, b []byte, put func(from, to string) error) (err error) {
	defer func() {
		if err != nil {
			err = &messages.Error{Code: messages.ErrConfig, File: filepath.Base(path), Detail: "cannot write the file", Cause: err}
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone when it was renamed
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err = put(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// PublishReceiptKeys leaves the public receipt keys beside the records, together
// with those that are there already, so that a journal verifies from its file
// alone and after any rotation.
func PublishReceiptKeys(ctx context.Context, store journal.Store, ring *keyring.Ring) error {
	own, err := ring.JWKS()
	if err != nil {
		return err
	}
	set, err := keyring.ParseJWKS(own)
	if err != nil {
		return err
	}
	keys := receiptKeys(set)
	old, err := store.Meta(ctx, journal.MetaReceiptKeys)
	if err != nil && !journal.IsNotFound(err) {
		return err
	}
	if len(old) > 0 {
		before, err := keyring.ParseJWKS(old)
		if err != nil {
			return &messages.Error{Code: messages.ErrJournal, Detail: "the journal's public receipt keys cannot be read", Cause: err}
		}
		for _, k := range before.Keys() {
			if _, known := set.Key(k.KID()); !known {
				keys = append(keys, k)
			}
		}
	}
	merged, err := keyring.NewSet(keys...)
	if err != nil {
		return err
	}
	doc, err := merged.JWKS()
	if err != nil {
		return err
	}
	if string(doc) == string(old) {
		return nil
	}
	return store.PutMeta(ctx, journal.MetaReceiptKeys, doc)
}

func receiptKeys(s *keyring.Set) []*keyring.Key {
	var out []*keyring.Key
	for _, k := range s.Keys() {
		if k.Purpose() == keyring.Receipt {
			out = append(out, k)
		}
	}
	return out
}

// Keys is the ring in use. Rotating it is an atomic swap: turns in flight keep
// working.
func (rt *Runtime) Keys() *keyring.Ring { return rt.keys }

// RotateKeys makes a new token key, fallback signer and receipt key, retires the
// old ones with their grace, forgets what is due, and writes the key file if the
// runtime has one. retention is how long a retired token key verifies: that of
// Agent.Retention.
func (rt *Runtime) RotateKeys(ctx context.Context, retention time.Duration) error {
	rt.rotating.Lock()
	defer rt.rotating.Unlock()
	fresh, err := GenerateKeys(rt.cfg)
	if err != nil {
		return err
	}
	now := rt.cfg.Now()
	for _, k := range fresh.Set().Keys() {
		if err := rt.keys.Add(k, now); err != nil {
			return err
		}
	}
	rt.keys.Erase(now, retention)
	if err := PublishReceiptKeys(ctx, rt.store, rt.keys); err != nil {
		return err
	}
	if rt.cfg.Keys != nil || rt.cfg.InMemory {
		return nil
	}
	return WriteKeys(filepath.Join(rt.cfg.Dir, KeyFile), rt.keys, rt.cfg)
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "dir", Detail: "cannot make the data directory", Cause: err}
	}
	return nil
}

func parseInc(s string) (messages.Incarnation, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return id, &messages.Error{Code: messages.ErrJournal, Detail: "an incarnation is a UUID", Cause: err}
	}
	return id, nil
}

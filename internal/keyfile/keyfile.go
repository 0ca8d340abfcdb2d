// Package keyfile stores a host's keys: the key file of its data directory, and the public
// receipt keys in its journal.
package keyfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Name is the key file's name inside the data directory.
const Name = "keys.json"

// Open reads the key file of a data directory, or creates a missing one, sealed if there is a
// passphrase. Of two hosts that start at once in a new directory one creates it and both read
// it. If signed, the journal of the directory, has public keys, the file existed before: a
// missing one is ERR_CONFIG and not replaced.
func Open(ctx context.Context, signed journal.Store, dir string, sealer *keyring.Sealer, rand io.Reader, now time.Time) (*keyring.Ring, error) {
	path := filepath.Join(dir, Name)
	ring, err := Read(path, sealer)
	if !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	if signed != nil {
		keys, err := Published(ctx, signed)
		if err != nil {
			return nil, err
		}
		if len(keys.Keys()) > 0 {
			return nil, &messages.Error{
				Code: messages.ErrConfig, File: Name,
				Detail: "the key file is gone, and the journal beside it was signed with its keys: put it back, or make new keys with `stile keys generate`",
			}
		}
	}
	if err := files.MakeDir(dir); err != nil {
		return nil, err
	}
	if ring, err = Generate(rand, now); err != nil {
		return nil, err
	}
	b, err := sealer.Marshal(ring, rand)
	if err != nil {
		return nil, err
	}
	if err := files.Create(path, b); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Read(path, sealer)
}

// Generate returns a ring with a new token key, fallback signer and receipt key.
func Generate(rand io.Reader, now time.Time) (*keyring.Ring, error) {
	keys, err := fresh(keyring.EdDSA, rand, now, now)
	if err != nil {
		return nil, err
	}
	return keyring.New(keys...)
}

// fresh returns a new token key, fallback signer and receipt key, which sign from the given
// times on.
func fresh(alg keyring.Alg, rand io.Reader, tokens, receipts time.Time) ([]*keyring.Key, error) {
	tok, err := keyring.Generate("", keyring.Token, alg, rand, tokens)
	if err != nil {
		return nil, err
	}
	fallback, err := keyring.GenerateFallback("", alg, rand, tokens)
	if err != nil {
		return nil, err
	}
	receipt, err := keyring.Generate("", keyring.Receipt, keyring.EdDSA, rand, receipts)
	return []*keyring.Key{tok, fallback, receipt}, err
}

// Read reads a key file. The error is fs.ErrNotExist for a missing file, and ERR_CONFIG with
// the place for a wrong passphrase or a damaged file.
func Read(path string, sealer *keyring.Sealer) (*keyring.Ring, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, &messages.Error{Code: messages.ErrConfig, File: filepath.Base(path), Detail: "cannot read the key file", Cause: err}
	}
	ring, err := sealer.Parse(b)
	return ring, messages.InFile(err, filepath.Base(path))
}

// Write writes a key file with mode 0600, sealed when there is a passphrase. The old file
// is replaced in one step: a crash leaves one or the other.
func Write(path string, ring *keyring.Ring, sealer *keyring.Sealer, rand io.Reader) error {
	b, err := sealer.Marshal(ring, rand)
	if err != nil {
		return err
	}
	return files.Replace(path, b)
}

// Publish stores the public receipt keys in the journal, together with those that it has, so
// that a journal verifies from its file alone and after any rotation.
func Publish(ctx context.Context, store journal.Store, ring *keyring.Ring) error {
	own, err := ring.JWKS()
	if err != nil {
		return err
	}
	set, err := keyring.ParseJWKS(own)
	if err != nil {
		return err
	}
	return publishKeys(ctx, store, receiptKeys(set))
}

// publishKeys is Publish for a list of receipt keys.
func publishKeys(ctx context.Context, store journal.Store, keys []*keyring.Key) error {
	set, err := keyring.NewSet(keys...)
	if err != nil {
		return err
	}
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

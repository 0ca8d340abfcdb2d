package stile

import (
	"context"
	"path/filepath"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/keyfile"
)

// KeyFile is the key file's name inside the data directory.
const KeyFile = keyfile.Name

// openKeys takes the given ring, reads the key file, or makes one.
func (rt *Runtime) openKeys() (*keyring.Ring, error) {
	switch {
	case rt.cfg.Keys != nil:
		return rt.cfg.Keys, nil
	case rt.cfg.InMemory:
		return keyfile.Generate(rt.cfg.Rand, rt.cfg.Now())
	}
	return keyfile.Open(rt.cfg.Dir, rt.cfg.Passphrase, rt.cfg.Rand, rt.cfg.Now())
}

// GenerateKeys makes a ring with a token key, a fallback signer and a receipt key. Of cfg,
// Rand and Now are used.
func GenerateKeys(cfg Config) (*keyring.Ring, error) {
	cfg = cfg.withDefaults()
	return keyfile.Generate(cfg.Rand, cfg.Now())
}

// ReadKeys reads a key file. A missing one is fs.ErrNotExist; a wrong passphrase
// or a damaged file is ERR_CONFIG naming the place.
func ReadKeys(path string, passphrase []byte) (*keyring.Ring, error) {
	return keyfile.Read(path, passphrase)
}

// WriteKeys writes a key file with mode 0600, sealed when cfg has a passphrase.
// The old file is replaced in one step: a crash leaves one or the other.
func WriteKeys(path string, ring *keyring.Ring, cfg Config) error {
	cfg = cfg.withDefaults()
	return keyfile.Write(path, ring, cfg.Passphrase, cfg.Rand)
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
	fresh, err := keyfile.Generate(rt.cfg.Rand, rt.cfg.Now())
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
	if err := keyfile.Publish(ctx, rt.store, rt.keys); err != nil {
		return err
	}
	if rt.cfg.Keys != nil || rt.cfg.InMemory {
		return nil
	}
	return keyfile.Write(filepath.Join(rt.cfg.Dir, KeyFile), rt.keys, rt.cfg.Passphrase, rt.cfg.Rand)
}

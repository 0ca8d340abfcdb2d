package stile

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/keyfile"
	"github.com/seed14be6753/stile/journal"
)

// KeyFile is the key file's name inside the data directory.
const KeyFile = keyfile.Name

// openKeys takes the given ring, reads the key file, or makes one.
func (rt *Runtime) openKeys(ctx context.Context) (*keyring.Ring, error) {
	switch {
	case rt.cfg.Keys != nil:
		return rt.cfg.Keys, nil
	case rt.cfg.InMemory:
		return keyfile.Generate(rt.cfg.Rand, rt.cfg.Now())
	}
	var signed journal.Store // whose keys were in this directory; hosts that share one have their own
	if rt.cfg.Store == nil {
		signed = rt.store
	}
	rt.keyFile = filepath.Join(rt.cfg.Dir, KeyFile)
	rt.keysSeen, _ = os.Stat(rt.keyFile) // none before the first start
	return keyfile.Open(ctx, signed, rt.cfg.Dir, rt.cfg.Passphrase, rt.cfg.Rand, rt.cfg.Now())
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

// RotateKeys makes a new token key, fallback signer and receipt key, and retires the old
// ones with their grace. With a key file the new keys sign from ten seconds on, so that every
// process that shares the file has them by then, and the private half of the old receipt key
// is erased after that. retention is how long a retired token key verifies: that of
// Agent.Retention.
func (rt *Runtime) RotateKeys(ctx context.Context, retention time.Duration) error {
	rt.keeper.Retain(retention)
	return rt.keeper.Rotate(ctx)
}

// keepKeys has the keys taken up, published and erased from here on.
func (rt *Runtime) keepKeys(ctx context.Context) (err error) {
	rt.keeper, err = keyfile.NewKeeper(ctx, keyfile.KeeperConfig{
		Ring: rt.keys, Path: rt.keyFile, Seen: rt.keysSeen, Passphrase: rt.cfg.Passphrase, Store: rt.store, Rand: rt.cfg.Rand, Now: rt.cfg.Now, Log: rt.log.Named("keys"),
	})
	if err == nil {
		rt.keeper.Retain((&Agent{Dialect: "aeiou"}).Retention())
		for _, a := range rt.cfg.Agents {
			if a != nil { // it is refused further on
				rt.keeper.Retain(a.Retention())
			}
		}
		rt.keeper.EraseDue(ctx)
	}
	return err
}

// signer is what tokens and receipts are signed with.
func (rt *Runtime) signer() keyfile.Signer {
	return keyfile.Signer{Ring: rt.keys, Fresh: rt.keeper.Fresh}
}

// receiptKeys are those that this host believes: its own, and on a shared journal also those
// that the other hosts left there.
func (rt *Runtime) receiptKeys(ctx context.Context) (journal.ReceiptKeys, error) {
	set := rt.keys.Set()
	if rt.cfg.Store != nil {
		var err error
		if set, err = keyfile.Published(ctx, rt.store); err != nil {
			return nil, err
		}
	}
	return keyfile.Verifier{Set: set}, nil
}

package stile

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/keyfile"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// KeyFile is the key file's name inside the data directory.
const KeyFile = keyfile.Name

// openKeys returns Config.Keys, or reads the key file, or makes one.
func (rt *Runtime) openKeys(ctx context.Context) (*keyring.Ring, error) {
	switch {
	case rt.cfg.Keys != nil:
		return rt.cfg.Keys, nil
	case rt.cfg.InMemory, rt.cfg.ReadOnly: // without a key file, keys that sign nothing
		return keyfile.Generate(rt.cfg.Rand, rt.cfg.Now())
	}
	var signed journal.Store // whose keys were in this directory; hosts that share one have their own
	if rt.cfg.Store == nil {
		signed = rt.store
	}
	rt.keyFile, rt.sealer = filepath.Join(rt.cfg.Dir, KeyFile), keyring.NewSealer(rt.cfg.Passphrase)
	rt.keysSeen, _ = os.Stat(rt.keyFile) // none before the first start
	return keyfile.Open(ctx, signed, rt.cfg.Dir, rt.sealer, rt.cfg.Rand, rt.cfg.Now())
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
	return keyfile.Read(path, keyring.NewSealer(passphrase))
}

// WriteKeys writes a key file with mode 0600, sealed when cfg has a passphrase.
// The old file is replaced in one step: a crash leaves one or the other.
func WriteKeys(path string, ring *keyring.Ring, cfg Config) error {
	cfg = cfg.withDefaults()
	return keyfile.Write(path, ring, keyring.NewSealer(cfg.Passphrase), cfg.Rand)
}

// PublicKeys returns the public keys of this host and, in a cluster, those of the other hosts.
func (rt *Runtime) PublicKeys() (*keyring.Set, error) { return rt.keeper.Public() }

// Keys returns the ring in use. Rotation swaps its keys atomically; turns in flight are not
// disturbed.
func (rt *Runtime) Keys() *keyring.Ring { return rt.keys }

// RotateKeys makes a new token key, fallback signer and receipt key, and retires the old ones
// with their grace. With a key file the new keys begin to sign after ten seconds, so that
// every process that shares the file has read them; then the private half of the old receipt
// key is erased. retention is the time for which a retired token key still verifies, see
// Agent.Retention.
func (rt *Runtime) RotateKeys(ctx context.Context, retention time.Duration) error {
	if err := rt.cfg.readOnly(); err != nil {
		return err
	}
	rt.keeper.Retain(retention)
	return rt.keeper.Rotate(ctx)
}

// TrustKeys adds a set of public receipt keys to the trusted ones, such as those of another
// host or of a lost key file. It returns the ids of the keys that were new. An id that
// belongs to another key is ERR_CONFIG.
func (rt *Runtime) TrustKeys(ctx context.Context, set *keyring.Set) (kids []string, err error) {
	if err := rt.cfg.readOnly(); err != nil {
		return nil, err
	}
	return rt.keeper.Trust(ctx, set)
}

// ExtendKey trusts the signatures of a retired receipt key up to until. Hosts of early
// versions continued to sign with the old key after another process had rotated it.
func (rt *Runtime) ExtendKey(ctx context.Context, kid string, until time.Time) error {
	if err := rt.cfg.readOnly(); err != nil {
		return err
	}
	return rt.keeper.Extend(ctx, kid, until)
}

// keepKeys starts the keeper, which reloads a changed key file, publishes public keys and
// erases retired ones.
func (rt *Runtime) keepKeys(ctx context.Context, store journal.Store) error {
	sharing, err := rt.sharing(store)
	if err != nil {
		return err
	}
	rt.keeper, err = keyfile.NewKeeper(ctx, keyfile.KeeperConfig{
		Ring: rt.keys, Path: rt.keyFile, Seen: rt.keysSeen, Sealer: rt.sealer, Store: rt.store, ReadOnly: rt.cfg.ReadOnly, Rand: rt.cfg.Rand, Now: rt.cfg.Now, Log: rt.log.Named("keys"), Sharing: sharing,
	})
	if err == nil {
		rt.keeper.Retain((&Agent{Dialect: "aeiou"}).Retention())
		for _, a := range rt.cfg.Agents {
			if a != nil { // it is refused further on
				rt.keeper.Retain(a.Retention())
			}
		}
		if !rt.cfg.ReadOnly {
			rt.keeper.EraseDue(ctx)
		}
	}
	return err
}

// signer signs tokens and receipts with the keys of the ring.
func (rt *Runtime) signer() keyfile.Signer {
	return keyfile.Signer{Ring: rt.keys, Fresh: rt.keeper.Fresh, Tokens: rt.keeper.TokenKeys()}
}

// The values of Config.Unproved.
const (
	UnprovedRefuse = "refuse" // default
	UnprovedStrict = "strict"
	UnprovedGoOn   = "go_on"
)

// proofs are the keys and policy by which a session's history is checked before the session
// continues. They are empty for a ring without a receipt key.
func (rt *Runtime) proofs() load.Proofs {
	if rt.keys.Set().ReceiptSigner(rt.cfg.Now()) == nil {
		return load.Proofs{}
	}
	b := &keyfile.Believed{Ring: rt.keys, Keeper: rt.keeper}
	if rt.cfg.Store != nil {
		b.Shared = rt.store
	}
	return load.Proofs{Keys: b, Signer: rt.signer(), Strict: rt.cfg.Unproved == UnprovedStrict, GoOn: rt.cfg.Unproved == UnprovedGoOn}
}

// proves checks the receipts of the first cut records of a session before it is forked, and
// returns the policy under which the session was signed.
func (rt *Runtime) proves(recs []*messages.Record, cut int) (journal.Receipts, error) {
	p := rt.proofs()
	if p.Keys == nil {
		return cmp.Or(proof.Stated(recs), proof.SignedAs(recs)), nil
	}
	signed, err := proof.Prefix(recs, cut, p.Keys, p.Strict)
	if err != nil && p.GoOn {
		rt.log.Warn("a session is forked although its receipts do not prove its history", zap.Error(err))
		err = nil
	}
	return signed, err
}

package keyfile

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Times of a rotation. Several processes may share a key file: a host, and the command that
// rotates its keys. A rotation therefore announces the next keys: they sign from Lead on, and
// those before until then. No host signs unless it has looked at the file at most freshFor
// ago, so each of them has the new keys when their time comes, and nothing is ever signed by
// a key that had retired.
const (
	Lead     = 10 * time.Second
	freshFor = 2 * time.Second
	// aloneLead is Lead for a ring without a file: a record that got its time before the
	// rotation may be signed after it.
	aloneLead = time.Second
	// slack is how long a private half outlives its last use by the clock: a record may
	// wait between getting its time and being signed.
	slack = 10 * time.Second
	// every is how often a host looks at the file, and for what is due to be erased.
	every = 5 * time.Second
)

// KeeperConfig configures a Keeper.
type KeeperConfig struct {
	Ring *keyring.Ring
	// Path is the key file that the ring was read from; "" is none.
	Path string
	// Seen is the file's information from before it was read; nil reads it once more.
	Seen     os.FileInfo
	Sealer   *keyring.Sealer // of the file; nil is for one that is not sealed
	Store    journal.Store   // has the public keys beside the records
	ReadOnly bool            // nothing is written there
	Rand     io.Reader
	Now      func() time.Time
	Log      *zap.Logger
	// Sharing shares the public keys with other hosts; nil for a host that has its journal alone.
	Sharing *Sharing
}

// Keeper manages the key ring of a running host: it reloads the key file after changes of other
// processes, rotates keys, and erases private halves when their time is over. It is safe for
// concurrent use.
type Keeper struct {
	cfg       KeeperConfig
	retention atomic.Int64 // how long a retired token key verifies, in nanoseconds

	checked atomic.Int64 // when ring and file were last known to be equal; Unix nanoseconds
	mu      sync.Mutex   // guards the fields below, and changes of the file from here
	seen    os.FileInfo  // of the file that the ring was read from
	failed  bool         // the file could not be reloaded; the next tick tries again
	told    string       // the logged failure

	peers   *peers // nil without Sharing
	unwatch func()

	once    sync.Once // Close
	closing chan struct{}
	done    chan struct{}
}

// NewKeeper publishes the public keys and manages the ring until Close.
func NewKeeper(ctx context.Context, cfg KeeperConfig) (*Keeper, error) {
	if cfg.Sealer == nil {
		cfg.Sealer = keyring.NewSealer(nil)
	}
	k := &Keeper{cfg: cfg, seen: cfg.Seen, unwatch: func() {}, closing: make(chan struct{}), done: make(chan struct{})}
	if cfg.Sharing != nil && !cfg.ReadOnly {
		k.peers = newPeers(*cfg.Sharing, cfg.Ring, cfg.Store, cfg.Now, cfg.Log)
	}
	if err := k.look(ctx); err != nil {
		return nil, err
	}
	if k.peers != nil {
		if err := k.peers.Secrets.Reseal(ctx, k.peers.Board, board.Keys); err != nil {
			return nil, err
		}
	}
	if !cfg.ReadOnly {
		if err := k.publish(ctx); err != nil {
			return nil, err
		}
	}
	if k.peers != nil {
		k.unwatch = cfg.Sharing.Board.Watch(board.Keys, k.heard)
	}
	go k.run()
	return k, nil
}

// Close ends the keeper's background work.
func (k *Keeper) Close() error {
	k.once.Do(func() {
		k.unwatch()
		close(k.closing)
	})
	<-k.done
	return nil
}

// publish shows the public keys to those who verify.
func (k *Keeper) publish(ctx context.Context) error {
	if k.peers == nil {
		return Publish(ctx, k.cfg.Store, k.cfg.Ring)
	}
	_, err := k.peers.publish(ctx) // of a copied key the board tells, too
	return err
}

// heard takes note of what other hosts did to their keys.
func (k *Keeper) heard(ctx context.Context, _ time.Time, version int64, lost bool) {
	copied, err := k.peers.look(ctx, version, lost)
	if err == nil && copied {
		k.cfg.Log.Warn("another host has the key file of this one, and has rotated its keys: this host rotates its own, which they are from now on")
		err = k.Rotate(ctx)
	}
	if err != nil && ctx.Err() == nil {
		k.cfg.Log.Error("the public keys of the hosts cannot be shared; the next attempt is made soon", zap.Error(err))
	}
}

// TokenKeys verifies control tokens: with the keys of this host, and those that others have shared.
// Without other hosts it is nil: Signer takes the ring's.
func (k *Keeper) TokenKeys() token.KeySource {
	if k.peers == nil {
		return nil // the ring's as they are then: a rotation replaces them
	}
	return k.peers
}

// Public are the public keys of this host, and those that others have shared.
func (k *Keeper) Public() (*keyring.Set, error) {
	own := k.cfg.Ring.Set()
	if k.peers == nil {
		return own, nil
	}
	all := own.Keys()
	for kid, key := range *k.peers.known.Load() {
		if _, is := own.Key(kid); !is {
			all = append(all, key)
		}
	}
	slices.SortStableFunc(all[len(own.Keys()):], func(a, b *keyring.Key) int {
		return cmp.Or(cmp.Compare(b.NotBefore(), a.NotBefore()), cmp.Compare(a.KID(), b.KID()))
	})
	return keyring.NewSet(all[:min(len(all), keyring.MaxKeys)]...) // the latest
}

// Retain makes retired token keys verify for at least retention.
func (k *Keeper) Retain(retention time.Duration) {
	for {
		has := k.retention.Load()
		if int64(retention) <= has || k.retention.CompareAndSwap(has, int64(retention)) {
			return
		}
	}
}

func (k *Keeper) run() {
	defer close(k.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-k.closing:
			return
		case <-tick.C:
		}
		k.mu.Lock()
		k.failed = false // once more, whatever it was
		k.mu.Unlock()
		_ = k.look(ctx) // logged there
		if !k.cfg.ReadOnly {
			k.EraseDue(ctx)
		}
	}
}

// Fresh makes sure that the ring is at most a moment older than the key file.
func (k *Keeper) Fresh() {
	if k.cfg.Path == "" {
		return
	}
	if age := k.cfg.Now().UnixNano() - k.checked.Load(); age < 0 || age > int64(freshFor) {
		_ = k.look(context.Background()) // logged there; the ring stays what it is
	}
}

// look reloads the key file if it has changed.
func (k *Keeper) look(ctx context.Context) error {
	if k.cfg.Path == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.takeUp(ctx)
}

func (k *Keeper) takeUp(ctx context.Context) error {
	now := k.cfg.Now()
	is, err := os.Stat(k.cfg.Path)
	switch {
	case err == nil && k.seen != nil && same(is, k.seen):
		k.checked.Store(now.UnixNano())
		return nil
	case k.failed:
		return nil
	}
	var next *keyring.Ring
	if err == nil {
		next, err = Read(k.cfg.Path, k.cfg.Sealer)
	} else {
		err = files.Cause(err)
	}
	if err == nil {
		err = k.cfg.Ring.Follow(next)
	}
	if err == nil && k.seen != nil {
		err = k.publish(ctx)
	}
	if err != nil {
		if text := err.Error(); text != k.told {
			k.told = text
			k.cfg.Log.Error("the key file is not taken up: the keys stay what they were", zap.Error(err))
		}
		k.failed = true
		return err
	}
	if k.seen != nil {
		k.cfg.Log.Info("the key file changed: its keys are taken up", zap.Stringer("keys", k.cfg.Ring))
	}
	k.seen, k.failed, k.told = is, false, ""
	k.checked.Store(now.UnixNano())
	return nil
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Rotate makes a new token key, fallback signer and receipt key, with the algorithm of the last
// token key. With a key file they sign after Lead.
func (k *Keeper) Rotate(ctx context.Context) error {
	var begins time.Time
	err := k.change(ctx, func(ring *keyring.Ring) error {
		now := k.cfg.Now()
		tokens, receipts := now, now.Add(aloneLead)
		if k.cfg.Path != "" {
			begins = now.Add(Lead)
			tokens, receipts = begins, begins
		}
		keys, err := fresh(tokenAlg(ring), k.cfg.Rand, tokens, receipts)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := ring.Add(key, now); err != nil {
				return err
			}
		}
		ring.Erase(now.Add(-slack), k.keeps())
		return nil
	})
	if err == nil && k.cfg.Path != "" && k.cfg.Now().Add(freshFor).Unix() >= begins.Unix() {
		return &messages.Error{
			Code: messages.ErrConfig, Reason: "SLOW", File: filepath.Base(k.cfg.Path),
			Detail: "the keys are rotated, but writing them took so long that a host beside this command may have signed with a key that had retired: stile verify tells",
		}
	}
	return err
}

// Trust adds the public receipt keys of a set to the ring, so that their signatures count from
// now on, and returns the ids of new ones. The error is ERR_CONFIG if one has the id of another
// key.
func (k *Keeper) Trust(ctx context.Context, set *keyring.Set) (kids []string, err error) {
	err = k.change(ctx, func(ring *keyring.Ring) error {
		kids = nil
		for _, key := range receiptKeys(set) {
			if has, is := ring.Set().Key(key.KID()); is && has.Public().Equal(key.Public()) {
				continue
			}
			if err := ring.Add(key, k.cfg.Now()); err != nil {
				return err
			}
			kids = append(kids, key.KID())
		}
		return nil
	})
	return kids, err
}

// Extend accepts signatures of a retired receipt key up to until.
func (k *Keeper) Extend(ctx context.Context, kid string, until time.Time) error {
	return k.change(ctx, func(ring *keyring.Ring) error { return ring.Extend(kid, until) })
}

// keeps is how long a token key stays behind slack.
func (k *Keeper) keeps() time.Duration { return max(0, time.Duration(k.retention.Load())-slack) }

// tokenAlg is the algorithm of the token key that was added last.
func tokenAlg(ring *keyring.Ring) keyring.Alg {
	alg := keyring.EdDSA
	for _, key := range ring.Set().Keys() {
		if key.Purpose() == keyring.Token && !key.AbortOnly() {
			alg = key.Alg()
		}
	}
	return alg
}

// EraseDue erases the private halves whose time is over, in the file first. A failure is logged
// and tried again.
func (k *Keeper) EraseDue(ctx context.Context) {
	if !k.due() {
		return
	}
	err := k.change(ctx, func(ring *keyring.Ring) error {
		if kids := ring.Erase(k.cfg.Now().Add(-slack), k.keeps()); len(kids) > 0 {
			k.cfg.Log.Info("retired private keys are erased", zap.Strings("keys", kids))
		}
		return nil
	})
	if err != nil {
		k.cfg.Log.Error("retired private keys cannot be erased", zap.Error(err))
	}
}

// due reports whether Erase would do something.
func (k *Keeper) due() bool {
	at := k.cfg.Now().Add(-slack).Unix()
	keep := int64((k.keeps() + time.Second - 1) / time.Second)
	for _, key := range k.cfg.Ring.Set().Keys() {
		retired, is := key.RetiredAt()
		if is && (key.Purpose() == keyring.Token && at > retired+keep || key.Purpose() == keyring.Receipt && at >= retired && key.CanSign()) {
			return true
		}
	}
	return false
}

// change changes the keys in the file, where there is one, and then in the ring.
func (k *Keeper) change(ctx context.Context, f func(*keyring.Ring) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cfg.Path == "" {
		if err := f(k.cfg.Ring); err != nil {
			return err
		}
		return k.publish(ctx)
	}
	unlock, err := files.Lock(k.cfg.Path + ".lock")
	if err != nil {
		return &messages.Error{Code: messages.ErrConfig, File: filepath.Base(k.cfg.Path), Detail: "the key file cannot be locked", Cause: files.Cause(err)}
	}
	defer unlock()
	k.failed = false
	err = k.takeUp(ctx) // the file is not written before it is known to be of these keys
	if errors.Is(err, fs.ErrNotExist) {
		err = &messages.Error{Code: messages.ErrConfig, File: filepath.Base(k.cfg.Path), Detail: "the key file is gone: put it back; the keys stay what they were", Cause: err}
	}
	if err != nil {
		return err
	}
	ring, err := Read(k.cfg.Path, k.cfg.Sealer)
	if err != nil {
		return err
	}
	if err := f(ring); err != nil {
		return err
	}
	if err := Write(k.cfg.Path, ring, k.cfg.Sealer, k.cfg.Rand); err != nil {
		return err
	}
	if err := k.cfg.Ring.Follow(ring); err != nil {
		return err
	}
	if k.seen, err = os.Stat(k.cfg.Path); err != nil {
		k.seen = nil
	}
	return k.publish(ctx)
}

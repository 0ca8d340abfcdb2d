package keyfile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Hosts that share a journal have keys of their own, and tell each other the public halves in
// notes. A host believes a note that has the seal of a host, and the first key under an id: what
// it has seen it keeps, whatever becomes of the note.
//
// Keys of HS256 have no public half and stay with their host. They sign control tokens alone,
// which a turn makes and checks within one run of its program: when a turn goes on at another
// host, its program runs there anew, and has tokens of that host's key.

const (
	// lookEvery is the least time between two looks for a key that is not known: records that
	// name keys that there are not must not cost a statement each.
	lookEvery = time.Second
	// tokenKeyRest is how long the public half of a token key stays after its retirement, which is
	// longer than any token is good.
	tokenKeyRest = 24 * time.Hour
)

// Sharing is what a host needs to share its public keys with others.
type Sharing struct {
	Board   board.Port
	Secrets board.Secrets
	Host    string // says whose keys they are, in logs and to readers of the notes
}

// peers are the public keys of all hosts, this one's included.
type peers struct {
	Sharing
	ring  *keyring.Ring
	store journal.Store
	now   func() time.Time
	log   *zap.Logger

	known atomic.Pointer[map[string]*keyring.Key] // never changed

	mu      sync.Mutex // held to read and write notes; guards what follows
	noted   map[string]*keyring.Key
	version int64           // of noted
	behind  bool            // the last attempt to publish failed
	looked  time.Time       // for a key that was not known
	told    map[string]bool // notes that were refused
}

// keyNote is the body of a note.
type keyNote struct {
	Host string         `json:"host"`
	JWKS jsontext.Value `json:"jwks"` // of one key
}

func newPeers(cfg Sharing, ring *keyring.Ring, store journal.Store, now func() time.Time, log *zap.Logger) *peers {
	p := &peers{Sharing: cfg, ring: ring, store: store, now: now, log: log, told: map[string]bool{}}
	p.known.Store(&map[string]*keyring.Key{})
	return p
}

// key returns the key of an id, if it is known.
func (p *peers) key(kid string) (*keyring.Key, bool) {
	k, ok := (*p.known.Load())[kid]
	return k, ok
}

// find returns the key of an id, and looks for one that is not known.
func (p *peers) find(kid string) (*keyring.Key, bool, error) {
	if k, ok := p.key(kid); ok {
		return k, true, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.key(kid)
	if now := p.now(); !ok && now.Sub(p.looked).Abs() >= lookEvery {
		p.looked = now
		ctx, cancel := context.WithTimeout(context.Background(), publishedWait)
		defer cancel()
		if err := p.read(ctx); err != nil {
			return nil, false, err
		}
		k, ok = p.key(kid)
	}
	return k, ok, nil
}

// TokenKey implements token.KeySource: keys of this host, then of others. It asks no database,
// whatever ids models make up.
func (p *peers) TokenKey(kid string) (token.Key, bool) {
	if k, ok := p.ring.TokenKey(kid); ok {
		return k, true
	}
	if k, ok := p.key(kid); ok && k.Purpose() == keyring.Token {
		return k, true
	}
	return nil, false
}

// read takes note of what has changed. p.mu is held.
func (p *peers) read(ctx context.Context) error {
	notes, version, whole, err := p.Board.Read(ctx, board.Keys, p.version)
	if err != nil {
		return err
	}
	known := maps.Clone(*p.known.Load())
	if whole {
		p.noted = make(map[string]*keyring.Key, len(notes))
	}
	for i := range notes {
		k, err := p.believe(known, &notes[i])
		if err != nil {
			p.tell(notes[i].ID, err)
			delete(p.noted, notes[i].ID)
			continue
		}
		known[k.KID()], p.noted[k.KID()] = k, k
	}
	if whole {
		for kid, k := range known {
			if p.noted[kid] == nil && k.Purpose() == keyring.Receipt && p.own(kid) == nil {
				p.tell(kid, errors.New("its note is gone from the database: it is believed for as long as this host runs"))
			}
		}
	}
	p.version = version
	p.known.Store(&known)
	return nil
}

// tell logs once what is wrong with a note.
func (p *peers) tell(kid string, err error) {
	if text := kid + ": " + err.Error(); !p.told[text] && len(p.told) < 1000 {
		p.told[text] = true
		p.log.Error("a public key of another host is not as it should be", zap.String("key", kid), zap.Error(err))
	}
}

// believe returns the key of a note.
func (p *peers) believe(known map[string]*keyring.Key, n *board.Note) (*keyring.Key, error) {
	k, err := p.keyOf(n)
	if err != nil {
		return nil, err
	}
	for _, before := range []*keyring.Key{known[n.ID], p.own(n.ID)} {
		if before != nil && !alike(before, k) {
			return nil, errors.New("the database has another key under this id: it is refused, and the one that was known stays")
		}
	}
	return k, nil
}

// own is this host's key of an id, or nil.
func (p *peers) own(kid string) *keyring.Key {
	k, _ := p.ring.Set().Key(kid)
	return k
}

// keyOf reads a note.
func (p *peers) keyOf(n *board.Note) (*keyring.Key, error) {
	if !p.Secrets.Genuine(board.Keys, n) {
		return nil, errors.New("the note is not of a host that has the secret of this cluster: it is refused")
	}
	var body keyNote
	if err := json.Unmarshal(n.Body, &body); err != nil {
		return nil, errors.New("the note cannot be read")
	}
	set, err := keyring.ParseJWKS(body.JWKS)
	if err != nil {
		return nil, err
	}
	k, ok := set.Key(n.ID)
	if !ok {
		return nil, errors.New("the note has another key than that of its id")
	}
	return k, nil
}

// alike reports whether two keys are one, in perhaps another state.
func alike(a, b *keyring.Key) bool {
	return a.KID() == b.KID() && a.Purpose() == b.Purpose() && a.AbortOnly() == b.AbortOnly() && a.Public().Equal(b.Public())
}

// publish puts up what the notes lack of this host's public keys, and reads those of the others.
// Where there is no note yet the keys that lie beside the records are taken over: those of hosts
// of earlier versions. copied reports that a key with which this host signs was retired by
// another host, which has it, too.
func (p *peers) publish(ctx context.Context) (copied bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.publishes(ctx)
}

func (p *peers) publishes(ctx context.Context) (copied bool, err error) {
	p.behind = true
	if err := p.read(ctx); err != nil {
		return false, err
	}
	if err := p.putUp(ctx); err != nil {
		return false, err
	}
	// Beside the records for verification offline. Of hosts that write at once the last one wins:
	// it has been told of the keys of the others, or will be, and comes back.
	var all []*keyring.Key
	for _, k := range *p.known.Load() {
		if k.Purpose() == keyring.Receipt {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *keyring.Key) int {
		return cmp.Or(cmp.Compare(a.NotBefore(), b.NotBefore()), cmp.Compare(a.KID(), b.KID()))
	})
	if err := publishKeys(ctx, p.store, all); err != nil {
		return false, err
	}
	p.behind = false
	at := p.now().Unix()
	for _, k := range p.ring.Set().Keys() {
		if _, retired := k.RetiredAt(); retired || !k.CanSign() || k.NotBefore() > at {
			continue
		}
		if noted := p.noted[k.KID()]; noted != nil {
			_, theirs := noted.RetiredAt()
			copied = copied || theirs
		}
	}
	return copied, nil
}

// look takes note of a version of the notes. It returns what publish does.
func (p *peers) look(ctx context.Context, version int64, lost bool) (copied bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost {
		p.version = 0 // all of them, again
	}
	if version == p.version && !lost && !p.behind {
		return false, nil
	}
	return p.publishes(ctx)
}

// putUp puts up what the notes lack.
func (p *peers) putUp(ctx context.Context) error {
	own := p.mine()
	lacks := func(k *keyring.Key) bool {
		noted := p.noted[k.KID()]
		return noted == nil || later(noted, k) != noted
	}
	if p.version > 0 && !slices.ContainsFunc(own, lacks) {
		return nil
	}
	earlier, err := Published(ctx, p.store)
	if err != nil {
		return err
	}
	err = p.Board.Change(ctx, board.Keys, func(all []board.Note) (put []board.Note, drop []string, err error) {
		ours := own
		if len(all) == 0 {
			for _, k := range earlier.Keys() {
				if p.own(k.KID()) == nil {
					ours = append(ours, k)
				}
			}
		}
		there := map[string]*board.Note{}
		for i := range all {
			there[all[i].ID] = &all[i]
			if k, err := p.keyOf(&all[i]); err == nil && p.spent(k) {
				drop = append(drop, k.KID())
			}
		}
		for _, k := range ours {
			if n := there[k.KID()]; n != nil {
				switch noted, err := p.keyOf(n); {
				case err != nil:
					p.tell(k.KID(), err) // it is written anew
				case !alike(noted, k):
					return nil, nil, &messages.Error{Code: messages.ErrConfig, Reason: "KEY", Field: k.KID(), Detail: "another host has published another key under this id"}
				default:
					if k = later(noted, k); k == noted {
						continue
					}
				}
			}
			n, err := p.noteOf(k)
			if err != nil {
				return nil, nil, err
			}
			put = append(put, n)
		}
		return put, drop, nil
	})
	if err != nil {
		return err
	}
	return p.read(ctx)
}

// spent reports whether a token key retired so long ago that no token of it is good.
func (p *peers) spent(k *keyring.Key) bool {
	at, retired := k.RetiredAt()
	return k.Purpose() == keyring.Token && retired && p.now().Sub(time.Unix(at, 0)) > tokenKeyRest
}

// mine are those keys of this host that have a public half for others.
func (p *peers) mine() (all []*keyring.Key) {
	for _, k := range p.ring.Set().Keys() {
		if k.Alg() == keyring.EdDSA && !p.spent(k) {
			all = append(all, k)
		}
	}
	return all
}

// later returns that of two states of a key which believes it for longer, once it has retired:
// noted when there is nothing to change.
func later(noted, own *keyring.Key) *keyring.Key {
	at, retired := own.RetiredAt()
	if theirs, is := noted.RetiredAt(); !retired || is && theirs >= at {
		return noted
	}
	return own
}

func (p *peers) noteOf(k *keyring.Key) (board.Note, error) {
	set, err := keyring.NewSet(k)
	if err != nil {
		return board.Note{}, err
	}
	doc, err := set.JWKS()
	if err != nil {
		return board.Note{}, err
	}
	body, err := json.Marshal(keyNote{Host: p.Host, JWKS: doc})
	if err != nil {
		return board.Note{}, &messages.Error{Code: messages.ErrConfig, Field: "cluster.address", Detail: "is not a text", Cause: err}
	}
	return p.Secrets.Sealed(board.Keys, k.KID(), body), nil
}

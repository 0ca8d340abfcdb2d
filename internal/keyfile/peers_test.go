package keyfile_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/board/boardtest"
	"github.com/seed14be6753/stile/internal/keyfile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
)

var (
	hostsSecret = board.Secret("what all hosts of this test know alone")
	epoch       = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// shared is what the hosts of a test have in common.
type shared struct {
	t     *testing.T
	board boardtest.Memory
	store journal.Store
	now   time.Time
}

// peer is a host with keys of its own.
type peer struct {
	*keyfile.Keeper
	ring     *keyring.Ring
	dir      string
	logs     *observer.ObservedLogs
	believed *keyfile.Believed
	signer   keyfile.Signer
}

func share(t *testing.T) *shared {
	w := &shared{t: t, store: memory.New(), now: epoch}
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

// host starts a host in a folder: with the keys that are there, else with new ones.
func (w *shared) host(dir string) *peer {
	w.t.Helper()
	p, err := w.start(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

func (w *shared) start(dir string) (p *peer, err error) {
	p = &peer{dir: dir}
	if p.ring, err = keyfile.Open(w.t.Context(), nil, dir, keyring.NewSealer(nil), rand.Reader, w.now); err != nil {
		return nil, err
	}
	core, logs := observer.New(zap.WarnLevel)
	p.logs = logs
	p.Keeper, err = keyfile.NewKeeper(w.t.Context(), keyfile.KeeperConfig{
		Ring: p.ring, Path: filepath.Join(dir, keyfile.Name), Store: w.store, Rand: rand.Reader, Now: func() time.Time { return w.now }, Log: zap.New(core),
		Sharing: &keyfile.Sharing{Board: &w.board, Secrets: board.Secrets{hostsSecret}, Host: dir},
	})
	if err != nil {
		return nil, err
	}
	p.believed = &keyfile.Believed{Ring: p.ring, Keeper: p.Keeper}
	p.signer = keyfile.Signer{Ring: p.ring, Fresh: p.Fresh, Tokens: p.TokenKeys()}
	return p, nil
}

// signs has a host sign a statement, which the others check.
func (w *shared) signs(by *peer, at ...*peer) error {
	w.t.Helper()
	digest := [32]byte{1}
	kid, sig, err := by.signer.SignStatement("snapshot", digest, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range at {
		if err := p.believed.VerifyStatement("snapshot", digest, w.now, kid, sig); err != nil {
			return err
		}
		if err := p.believed.VerifyStatement("snapshot", [32]byte{2}, w.now, kid, sig); err == nil {
			w.t.Error("a signature of something else passes")
		}
	}
	return nil
}

// mints has a host sign a control token, which another one knows.
func (w *shared) mints(by, at *peer) bool {
	w.t.Helper()
	s := by.signer.TokenSigner(w.now)
	tag, err := s.Sign([]byte("m"))
	if err != nil {
		w.t.Fatal(err)
	}
	key, ok := at.signer.TokenKeys(w.now).TokenKey(s.KID())
	return ok && key.VerifyTag([]byte("m"), tag)
}

func privateHalves(t *testing.T, dir string) (all []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, keyfile.Name))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Keys []struct{ Private string } }
	if err := json.Unmarshal(b, &doc); err != nil || len(doc.Keys) == 0 {
		t.Fatalf("%v in %s", err, b)
	}
	for _, k := range doc.Keys {
		if k.Private != "" {
			all = append(all, k.Private)
		}
	}
	return all
}

// Hosts with keys of their own believe each other: those that were there, those that come later,
// those that are gone, and after a rotation. No private half leaves its folder.
func TestHostsBelieveEachOther(t *testing.T) {
	w := share(t)
	a, b := w.host(t.TempDir()), w.host(t.TempDir())
	if w.signs(a, a, b) != nil || w.signs(b, b) != nil || !w.mints(a, b) {
		t.Error("the keys of the host that came first are not believed")
	}
	if err := w.signs(b, a); err != nil { // a looks for them
		t.Error(err)
	}
	w.board.Tell(false)
	if !w.mints(b, a) {
		t.Error("the token keys of the host that came later are not known")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c := w.host(t.TempDir())
	if err := w.signs(a, b, c); err != nil {
		t.Errorf("the keys of a host that is gone: %v", err)
	}

	old := b.signer.TokenSigner(w.now).KID()
	if err := b.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.board.Tell(false)
	w.now = w.now.Add(keyfile.Lead)
	if kid := b.signer.TokenSigner(w.now).KID(); kid == old {
		t.Fatal("the keys are not rotated")
	}
	reads := w.board.Reads()
	if err := w.signs(b, c); err != nil || !w.mints(b, c) {
		t.Errorf("after a rotation: %v", err)
	}
	if n := w.board.Reads(); n != reads {
		t.Errorf("%d reads for keys that were told", n-reads)
	}

	doc, err := w.store.Meta(t.Context(), journal.MetaReceiptKeys)
	if err != nil {
		t.Fatal(err)
	}
	set, err := keyring.ParseJWKS(doc)
	if err != nil || len(set.Keys()) != 4 { // for verification offline
		t.Errorf("beside the records lie %v: %v", set, err)
	}
	notes, _, _, err := w.board.Read(t.Context(), board.Keys, 0)
	if err != nil || len(notes) != 12 {
		t.Errorf("%d notes, %v", len(notes), err)
	}
	for _, p := range []*peer{a, b, c} {
		for _, secret := range privateHalves(t, p.dir) {
			for _, n := range notes {
				if strings.Contains(string(n.Body), secret) {
					t.Errorf("note %s has a private half", n.ID)
				}
			}
		}
		if n := p.logs.Len(); n != 0 {
			t.Errorf("%d complaints: %v", n, p.logs.All())
		}
	}
	all, err := c.Public()
	if err != nil || len(all.Keys()) != 12 {
		t.Errorf("%v, %v", all, err)
	}
}

// An id of a key that there is not costs one look a second, however often it is met.
func TestUnknownKeysAreLookedForRarely(t *testing.T) {
	w := share(t)
	a := w.host(t.TempDir())
	reads := w.board.Reads()
	for range 50 {
		if a.believed.VerifyReceipt("nobody", "not asked", 1, [32]byte{}, nil, w.now) == nil {
			t.Fatal("a receipt of an unknown key passes")
		}
		if _, known := a.signer.TokenKeys(w.now).TokenKey("nobody"); known {
			t.Fatal("a token key that there is not")
		}
	}
	if n := w.board.Reads() - reads; n > 1 {
		t.Errorf("%d reads", n)
	}
	w.now = w.now.Add(time.Second)
	digest := [32]byte{}
	for range 50 {
		_ = a.believed.VerifyStatement("snapshot", digest, w.now, "nobody", nil)
	}
	if n := w.board.Reads() - reads; n != 2 {
		t.Errorf("%d reads within two seconds, want one a second", n)
	}
}

// What a program writes into the database that does not have the secret is refused and told; and
// a note under a known id changes no key, whichever host sealed it.
func TestForgedKeysAreRefused(t *testing.T) {
	for name, forge := range map[string]func(w *shared, kid string, note func(board.Secret, string) board.Note) board.Note{
		"a new key": func(_ *shared, _ string, note func(board.Secret, string) board.Note) board.Note {
			return note(board.Secret("not of the hosts"), "forged")
		},
		"a known key": func(_ *shared, kid string, note func(board.Secret, string) board.Note) board.Note {
			return note(board.Secret("not of the hosts"), kid)
		},
		"a sealed change": func(_ *shared, kid string, note func(board.Secret, string) board.Note) board.Note {
			return note(hostsSecret, kid)
		},
		"not a note": func(_ *shared, kid string, _ func(board.Secret, string) board.Note) board.Note {
			return hostsSecret.Sealed(board.Keys, kid, []byte("{"))
		},
		"another id": func(_ *shared, kid string, note func(board.Secret, string) board.Note) board.Note {
			n := note(hostsSecret, "other")
			return hostsSecret.Sealed(board.Keys, kid, n.Body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := share(t)
			a, b := w.host(t.TempDir()), w.host(t.TempDir())
			w.board.Tell(false)
			kid, sig, err := a.signer.SignStatement("snapshot", [32]byte{1}, w.now)
			if err != nil {
				t.Fatal(err)
			}
			var forged *keyring.Key
			n := forge(w, kid, func(secret board.Secret, id string) board.Note {
				if forged, err = keyring.Generate(id, keyring.Receipt, keyring.EdDSA, rand.Reader, epoch); err != nil {
					t.Fatal(err)
				}
				set, err := keyring.NewSet(forged)
				if err != nil {
					t.Fatal(err)
				}
				doc, err := set.JWKS()
				if err != nil {
					t.Fatal(err)
				}
				return secret.Sealed(board.Keys, id, []byte(`{"host":"x","jwks":`+string(doc)+`}`))
			})
			err = w.board.Change(t.Context(), board.Keys, func([]board.Note) ([]board.Note, []string, error) { return []board.Note{n}, nil, nil })
			if err != nil {
				t.Fatal(err)
			}
			w.board.Tell(false)
			if forged != nil {
				ring, err := keyring.New(forged)
				if err != nil {
					t.Fatal(err)
				}
				kid, sig, err := keyfile.Signer{Ring: ring}.SignStatement("snapshot", [32]byte{1}, w.now)
				if err != nil {
					t.Fatal(err)
				}
				if b.believed.VerifyStatement("snapshot", [32]byte{1}, w.now, kid, sig) == nil {
					t.Error("a signature of the forged key passes")
				}
			}
			if err := b.believed.VerifyStatement("snapshot", [32]byte{1}, w.now, kid, sig); err != nil {
				t.Errorf("the key that was known is not believed any more: %v", err)
			}
			if a.logs.Len()+b.logs.Len() == 0 { // a may have put its own note back before b has seen the other one
				t.Error("it is not told")
			}
		})
	}
}

// A database that has lost the last changes gets back the notes of the hosts that live, and a
// host keeps the keys of others that it has seen.
func TestLostNotesComeBack(t *testing.T) {
	w := share(t)
	a, b := w.host(t.TempDir()), w.host(t.TempDir())
	c := w.host(t.TempDir())
	w.board.Tell(false)
	for _, p := range []*peer{a, c} {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, before, _, err := w.board.Read(t.Context(), board.Keys, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.board.Lose(board.Keys, 1)
	for range before - 1 { // versions are as high as before
		err := w.board.Change(t.Context(), board.Keys, func([]board.Note) ([]board.Note, []string, error) {
			return []board.Note{hostsSecret.Sealed(board.Keys, "other", nil)}, nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.board.Tell(true)
	if err := errors.Join(w.signs(a, b), w.signs(c, b)); err != nil {
		t.Errorf("keys that were seen: %v", err)
	}
	if b.logs.FilterField(zap.String("key", c.ring.Set().Keys()[2].KID())).Len() != 1 {
		t.Errorf("the loss is not told: %v", b.logs.All())
	}
	d := w.host(t.TempDir())
	if err := w.signs(b, d); err != nil {
		t.Errorf("the keys of a host that lives: %v", err)
	}
}

// A database that does not answer delays what is told, and loses nothing of it.
func TestKeysAreToldLater(t *testing.T) {
	w := share(t)
	a, b := w.host(t.TempDir()), w.host(t.TempDir())
	w.board.Tell(false)
	down := errors.New("the database is away")
	w.board.Down = func() error { return down }
	if err := a.Rotate(t.Context()); !errors.Is(err, down) {
		t.Errorf("a rotation without the database: %v", err)
	}
	w.board.Tell(false)
	w.board.Down = nil
	w.board.Tell(false) // a puts up what it owes, b has nothing new
	w.board.Tell(false)
	w.now = w.now.Add(keyfile.Lead)
	if err := w.signs(a, b); err != nil || !w.mints(a, b) {
		t.Errorf("after the database came back: %v", err)
	}
}

// Hosts of a cluster that had one key file copied go on, and have keys of their own from the
// first rotation on.
func TestCopiedKeys(t *testing.T) {
	w := share(t)
	a := w.host(t.TempDir())
	dir := t.TempDir()
	file, err := os.ReadFile(filepath.Join(a.dir, keyfile.Name))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, keyfile.Name), file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := w.host(dir)
	if err := w.signs(a, b); err != nil {
		t.Fatal(err)
	}
	if err := a.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Second) // b hears of it late
	w.board.Tell(false)
	w.board.Tell(false)
	for range 2 {
		w.now = w.now.Add(keyfile.Lead - time.Second) // at first a has its new keys, and b the old ones
		if err := errors.Join(w.signs(a, b), w.signs(b, a)); err != nil {
			t.Errorf("at %s: %v", w.now, err)
		}
		w.now = w.now.Add(time.Second)
	}
	x, _, err := a.signer.SignStatement("snapshot", [32]byte{}, w.now)
	y, _, bad := b.signer.SignStatement("snapshot", [32]byte{}, w.now)
	if err != nil || bad != nil || x == y {
		t.Errorf("both sign with %s and %s: %v, %v", x, y, err, bad)
	}
}

// Keys of hosts of earlier versions lie beside the records: the first host takes them over.
func TestKeysOfEarlierVersions(t *testing.T) {
	w := share(t)
	before, err := keyfile.Generate(rand.Reader, epoch)
	if err == nil {
		err = keyfile.Publish(t.Context(), w.store, before)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := w.host(t.TempDir())
	kid, sig, err := keyfile.Signer{Ring: before}.SignStatement("snapshot", [32]byte{1}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*peer{a, w.host(t.TempDir())} {
		if err := p.believed.VerifyStatement("snapshot", [32]byte{1}, w.now, kid, sig); err != nil {
			t.Error(err)
		}
	}
	// Later ones would be anybody's.
	after, err := keyfile.Generate(rand.Reader, epoch)
	if err == nil {
		err = keyfile.Publish(t.Context(), w.store, after)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.board.Tell(false)
	if kid, sig, err = (keyfile.Signer{Ring: after}).SignStatement("snapshot", [32]byte{1}, w.now); err != nil {
		t.Fatal(err)
	}
	if w.host(t.TempDir()).believed.VerifyStatement("snapshot", [32]byte{1}, w.now, kid, sig) == nil {
		t.Error("a key without a seal is believed")
	}
}

// A host does not start under an id that is another key's.
func TestAnIDIsOneKeys(t *testing.T) {
	w := share(t)
	a := w.host(t.TempDir())
	kid, _, err := a.signer.SignStatement("snapshot", [32]byte{}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := keyring.Generate(kid, keyring.Receipt, keyring.EdDSA, rand.Reader, epoch)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.New(other)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := keyfile.Write(filepath.Join(dir, keyfile.Name), ring, keyring.NewSealer(nil), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if p, err := w.start(dir); err == nil || !strings.Contains(err.Error(), kid) {
		if p != nil {
			_ = p.Close()
		}
		t.Errorf("it starts: %v", err)
	}
}

package tests

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// plain is an agent that answers at once.
func plain() *stile.Agent {
	return &stile.Agent{Manifest: manifest.Default("plain"), Model: says("yes")}
}

// rotates does what the command keys rotate does: another runtime on the same directory.
func rotates(t *testing.T, dir string) {
	t.Helper()
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rt.RotateKeys(t.Context(), time.Minute), rt.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
}

// Keys that another process rotates are taken up by the host that runs: every receipt, also
// those around the change, is of a key that was in force, and the old private half is
// erased, in the file too, by the clock alone.
func TestRotationBesideAHost(t *testing.T) {
	for _, busy := range []bool{true, false} { // a host that signs notices at once, one that rests by its clock
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			rt := start(t, stile.Config{Dir: dir})
			s := open(t, rt, "s", plain())
			ask(t, s, "before")
			old := rt.Keys().Set().Keys()
			rotates(t, dir)
			if busy {
				for range 300 {
					time.Sleep(50 * time.Millisecond)
					ask(t, s, "beside")
				}
			} else {
				time.Sleep(15 * time.Second)
				ask(t, s, "after")
			}
			time.Sleep(11 * time.Minute)
			synctest.Wait()
			set := rt.Keys().Set()
			for _, k := range old {
				if now, is := set.Key(k.KID()); is && now.CanSign() || is != (k.Purpose() == keyring.Receipt) || k.CanSign() {
					t.Errorf("the private half of %v is there still: %v", k, now)
				}
			}
			file, err := stile.ReadKeys(filepath.Join(dir, stile.KeyFile), nil)
			if err != nil || file.String() != rt.Keys().String() {
				t.Fatalf("the file has %v, the host %v: %v", file, rt.Keys(), err)
			}
			for _, k := range file.Set().Keys() {
				if _, retired := k.RetiredAt(); retired == k.CanSign() {
					t.Errorf("the file has %v", k)
				}
			}
			doc, err := rt.Keys().JWKS()
			if err != nil {
				t.Fatal(err)
			}
			trusted, err := keyring.ParseJWKS(doc)
			if err != nil {
				t.Fatal(err)
			}
			signers := map[string]int{}
			for r, err := range s.Records(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Sig != nil {
					signers[r.Sig.KID]++
				}
			}
			head, err := rt.Archive().Head(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			rep, err := rt.Archive().Verify(t.Context(), head.Inc, stile.VerifyOptions{Keys: trusted})
			if err != nil || !rep.OK() || rep.Missing > 0 || len(signers) != 2 {
				t.Errorf("busy %v: %d valid, %d missing, signers %v, problems %+v, %v", busy, rep.Valid, rep.Missing, signers, rep.Problems, err)
			}
		})
	}
}

// A key file that is gone, damaged, sealed, of another host or older than the keys in use
// is not taken up, and is when it is put right.
func TestKeyFileIsTakenUpWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, elsewhere := t.TempDir(), t.TempDir()
		path := filepath.Join(dir, stile.KeyFile)
		rt := start(t, stile.Config{Dir: dir})
		s := open(t, rt, "s", plain())
		older, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.RotateKeys(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		start(t, stile.Config{Dir: elsewhere})
		foreign, err := os.ReadFile(filepath.Join(elsewhere, stile.KeyFile))
		if err != nil {
			t.Fatal(err)
		}
		want := rt.Keys().String()
		for name, put := range map[string]func() error{
			"gone":    func() error { return os.Remove(path) },
			"damaged": func() error { return os.WriteFile(path, good[:len(good)-9], 0o600) },
			"older":   func() error { return os.WriteFile(path, older, 0o600) },
			"foreign": func() error { return os.WriteFile(path, foreign, 0o600) },
			"folder":  func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		} {
			if err := put(); err != nil {
				t.Fatal(name, err)
			}
			time.Sleep(30 * time.Second)
			wantDone(t, ask(t, s, name))
			if rt.Keys().String() != want {
				t.Errorf("%s: the keys are %v, want %v", name, rt.Keys(), want)
			}
			wantCode(t, rt.RotateKeys(t.Context(), time.Minute), messages.ErrConfig)
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, good, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		rotates(t, dir)
		time.Sleep(30 * time.Second)
		if rt.Keys().String() == want {
			t.Error("a key file that was put right is not taken up")
		}
	})
}

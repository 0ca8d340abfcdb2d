package keyfile_test

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/keyfile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

// A key file is made where there never was one. One that is lost, or that a directory
// took the place of, is not replaced: its journal says that it was there.
func TestALostKeyFileIsNotReplaced(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	dir, store := t.TempDir(), memory.New()
	defer store.Close()
	path := filepath.Join(dir, keyfile.Name)
	again := func(signed journal.Store) error {
		_, err := keyfile.Open(t.Context(), signed, dir, keyring.NewSealer(nil), rand.Reader, now)
		return err
	}
	ring, err := keyfile.Open(t.Context(), store, dir, keyring.NewSealer(nil), rand.Reader, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyfile.Publish(t.Context(), store, ring); err != nil {
		t.Fatal(err)
	}
	if err := again(store); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := again(store); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("of a lost key file: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made in its place: %v", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := again(store); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("of a directory: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := again(nil); err != nil { // of hosts that share a journal each has its own
		t.Error(err)
	}
}

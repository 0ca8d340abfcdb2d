package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// FuzzRestore: whatever a backup says of itself, it is refused with an error that names the
// file, or what it restores is, byte by byte, files that lay in its folder, in the new
// directory and nowhere else.
func FuzzRestore(f *testing.F) {
	content := []byte("a journal")
	src := f.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(src, JournalFile), content, 0o600), os.WriteFile(filepath.Join(src, "keys.json"), []byte("keys"), 0o600), os.WriteFile(filepath.Join(src, "other.txt"), []byte("other"), 0o600)); err != nil {
		f.Fatal(err)
	}
	entry := func(name string) string {
		e, err := entryOf(src, name)
		if err != nil {
			f.Fatal(err)
		}
		return fmt.Sprintf(`{"name":%q,"bytes":%d,"sha256":%q}`, name, e.Bytes, e.SHA256)
	}
	journal := entry(JournalFile)
	honest := `{"format":1,"made":"2026-01-02T03:04:05Z","sessions":2,"records":9,"files":[` + journal + `,` + entry("keys.json") + `]}`
	for _, s := range []string{
		honest, `{}`, `[]`, ``, `{"format":2}`, `{"format":1,"sessions":2,"records":9,"files":[]}`, `{"format":1,"sessions":2,"records":9,"files":[` + journal + `,` + journal + `]}`, `{"format":1,"sessions":2,"records":9,"files":[{"name":"../evil","bytes":0,"sha256":""}]}`,
		`{"format":1,"sessions":2,"records":9,"files":[{"name":"/etc/passwd","bytes":0,"sha256":""},` + journal + `]}`, `{"format":1,"sessions":2,"records":9,"files":[{"name":"..","bytes":0,"sha256":""}]}`, `{"format":1,"sessions":2,"records":9,"files":[{"name":"a\u0000b","bytes":0,"sha256":""}]}`, `{"format":1,"sessions":3,"records":9,"files":[` + journal + `]}`,
		`{"format":1,"sessions":2,"records":9,"root":true,"files":[` + journal + `]}`, honest + `{}`, `{"format":1,"sessions":2,"records":9,"files":[{"name":"backup.json","bytes":0,"sha256":""},` + journal + `]}`, `{"format":1,"sessions":2,"records":9,"files":[{"name":"","bytes":0,"sha256":""},` + journal + `]}`,
		`{"format":2,"sessions":2,"records":9,"base":{"folder":"../x","sha256":""},"files":[` + journal + `]}`, `{"format":2,"sessions":2,"records":9,"base":{"folder":"` + filepath.Base(src) + `","sha256":""},"files":[` + strings.Replace(journal, JournalFile, "other.txt", 1) + `,` + entry("keys.json") + `]}`,
		`{"format":1,"sessions":2,"records":9,"files":[` + journal + `,{"name":"keys.json","bytes":4,"sha256":"","in":"x"}]}`, `{"format":2,"sessions":2,"records":9,"files":[` + journal + `]}`,
	} {
		f.Add([]byte(s))
	}
	verify := func(context.Context, string) (int64, int64, []string, error) { return 2, 9, nil, nil }
	restore := func(t testing.TB, doc []byte) (Backup, string, string, error) {
		if err := os.WriteFile(filepath.Join(src, File), doc, 0o600); err != nil {
			t.Fatal(err)
		}
		around, err := os.MkdirTemp(filepath.Dir(src), "around")
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(around, "new")
		b, err := Restore(context.Background(), src, dir, nil, verify)
		return b, around, dir, err
	}
	if _, _, dir, err := restore(f, []byte(honest)); err != nil {
		f.Fatal(err)
	} else if got, err := os.ReadFile(filepath.Join(dir, JournalFile)); err != nil || !bytes.Equal(got, content) {
		f.Fatalf("%q, %v", got, err)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		b, around, dir, err := restore(t, doc)
		defer os.RemoveAll(around)
		if err == nil && !json.Valid(doc) {
			t.Fatal("text behind it is taken")
		}
		if all, e := os.ReadDir(around); e != nil || len(all) > 1 {
			t.Fatalf("beside the new directory there is %v, %v", all, e)
		}
		if err != nil {
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.File == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		all, err := os.ReadDir(dir)
		if err != nil || len(all) != len(b.Files) {
			t.Fatalf("%v of %v, %v", all, b.Files, err)
		}
		for _, made := range all {
			got, err := os.ReadFile(filepath.Join(dir, made.Name()))
			lay, other := os.ReadFile(filepath.Join(src, made.Name()))
			if err != nil || other != nil || !bytes.Equal(got, lay) {
				t.Fatalf("%s: %q, %q, %v, %v", made.Name(), got, lay, err, other)
			}
		}
	})
}

package stile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/messages"
)

// BackupFile is the name of what a backup says of itself, in its folder.
const BackupFile = "backup.json"

const backupFormat = 1

// Backup is what a backup says of itself.
type Backup struct {
	Format   int           `json:"format"`
	Made     time.Time     `json:"made"`
	Sessions int64         `json:"sessions"`
	Records  int64         `json:"records"`
	Files    []BackupEntry `json:"files"`
}

// BackupEntry is a file of a backup.
type BackupEntry struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// MakeBackup copies a data directory into a new folder: the journal as it is at one
// moment, also while a runtime works on it, the key file, and what else is named and
// there. The copy is verified, every session of it, before MakeBackup returns. A shared
// journal is backed up with the tools of its database.
//
// Errors: ERR_CONFIG (no journal there, the folder exists), ERR_JOURNAL (what was copied
// does not verify: the folder stays, to be looked at, without backup.json; an empty one
// goes).
func MakeBackup(ctx context.Context, dir, dest string, also ...string) (b Backup, err error) {
	if _, err := os.Stat(filepath.Join(dir, JournalFile)); err != nil {
		return b, &messages.Error{Code: messages.ErrConfig, Field: "dir", File: dir, Detail: "there is no journal in this directory", Cause: unwrapPath(err)}
	}
	if err := os.Mkdir(dest, 0o700); err != nil {
		return b, &messages.Error{Code: messages.ErrConfig, Field: "dest", File: dest, Detail: "the folder of the backup cannot be made", Cause: unwrapPath(err)}
	}
	defer func() {
		if err != nil {
			os.Remove(dest) // if nothing is in it, so that the same command can be given again
		}
	}()
	b = Backup{Format: backupFormat, Made: time.Now().UTC().Truncate(time.Second)}
	if err := sqlite.Backup(ctx, filepath.Join(dir, JournalFile), filepath.Join(dest, JournalFile)); err != nil {
		return b, err
	}
	names := []string{JournalFile}
	for _, name := range append([]string{KeyFile}, also...) { // after the journal: keys that signed it are there
		switch err := copyFile(filepath.Join(dir, name), filepath.Join(dest, name)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return b, unusable(name, err)
		default:
			names = append(names, name)
		}
	}
	for _, name := range names {
		e, err := entryOf(dest, name)
		if err != nil {
			return b, unusable(name, err)
		}
		b.Files = append(b.Files, e)
	}
	if b.Sessions, b.Records, err = verifyAll(ctx, dest); err != nil {
		return b, err
	}
	doc, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return b, err
	}
	return b, writeFile(filepath.Join(dest, BackupFile), append(doc, '\n'), os.Link)
}

// CheckBackup verifies a backup: its files are the ones that were made, and every
// session verifies.
func CheckBackup(ctx context.Context, src string) (b Backup, err error) {
	wrong := func(detail string, cause error) error {
		return &messages.Error{Code: messages.ErrConfig, File: BackupFile, Detail: detail, Cause: cause}
	}
	f, err := os.Open(filepath.Join(src, BackupFile))
	if err != nil {
		return b, &messages.Error{Code: messages.ErrConfig, File: src, Detail: "there is no backup in this folder", Cause: unwrapPath(err)}
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, 1<<20))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		return b, wrong("is not what a backup says of itself", err)
	}
	if b.Format != backupFormat {
		return b, wrong("is of another format", nil)
	}
	journaled := false
	for _, want := range b.Files {
		if want.Name != filepath.Base(want.Name) || strings.HasPrefix(want.Name, ".") {
			return b, wrong("names a file elsewhere", nil)
		}
		got, err := entryOf(src, want.Name)
		if err != nil {
			return b, unusable(want.Name, err)
		}
		if got != want {
			return b, &messages.Error{Code: messages.ErrConfig, File: want.Name, Detail: "is not the file that was backed up"}
		}
		journaled = journaled || want.Name == JournalFile
	}
	if !journaled {
		return b, wrong("names no journal", nil)
	}
	sessions, records, err := verifyAll(ctx, src)
	if err == nil && (sessions != b.Sessions || records != b.Records) {
		err = wrong("counts other sessions or records than there are", nil)
	}
	return b, err
}

// RestoreBackup makes a data directory of a backup, which is checked first. A directory
// that has a journal, keys or another file of the backup is refused: nothing is replaced.
func RestoreBackup(ctx context.Context, src, dir string) (Backup, error) {
	b, err := CheckBackup(ctx, src)
	if err != nil {
		return b, err
	}
	if err := makeDir(dir); err != nil {
		return b, err
	}
	names := []string{JournalFile + "-wal"}
	for _, f := range b.Files {
		names = append(names, f.Name)
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return b, &messages.Error{Code: messages.ErrConfig, Field: "dir", File: filepath.Join(dir, name), Detail: "is there already; restore into a new directory"}
		}
	}
	// The journal comes last: a directory without one is not taken for a whole.
	for i := len(b.Files) - 1; i >= 0; i-- {
		name := b.Files[i].Name
		if err := copyFile(filepath.Join(src, name), filepath.Join(dir, name)); err != nil {
			return b, unusable(name, err)
		}
		if got, err := entryOf(dir, name); err != nil || got != b.Files[i] {
			return b, errors.Join(unusable(name, errors.New("did not arrive as it was")), err)
		}
	}
	return b, nil
}

func unusable(name string, err error) error {
	return &messages.Error{Code: messages.ErrConfig, File: name, Detail: "cannot be copied", Cause: unwrapPath(err)}
}

// copyFile makes a durable copy for its owner's eyes alone; what is there stays.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := os.Link(out.Name(), to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func entryOf(dir, name string) (e BackupEntry, err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return e, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return BackupEntry{Name: name, Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// verifyAll verifies every session of a directory, against the keys in its journal.
func verifyAll(ctx context.Context, dir string) (sessions, records int64, err error) {
	ar, err := OpenArchive(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, ar.Close()) }()
	for h, err := range ar.Sessions(ctx, "") {
		if err != nil {
			return 0, 0, err
		}
		rep, err := ar.Verify(ctx, h.Inc, VerifyOptions{})
		if err != nil {
			return 0, 0, err
		}
		if !rep.OK() {
			return 0, 0, messages.Errorf(messages.ErrJournal, "session %s of the copy does not verify: %s", h.SID, rep.Problems[0].Detail)
		}
		sessions, records = sessions+1, records+rep.Records
	}
	return sessions, records, nil
}

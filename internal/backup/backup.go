// Package backup copies the data directory of a host, and restores such a copy to a new
// directory. Every copy is verified.
package backup

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
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/messages"
)

// File is the name of the description of a backup, in its folder.
const File = "backup.json"

const format = 1

// JournalFile is the journal's name inside a data directory.
const JournalFile = "journal.db"

// Verifier verifies every session of a data directory, and counts sessions and records. spoilt
// are the sessions that do not verify, in the order of the journal.
type Verifier func(ctx context.Context, dir string) (sessions, records int64, spoilt []string, err error)

// Backup is the description of a backup.
type Backup struct {
	Format   int       `json:"format"`
	Made     time.Time `json:"made"`
	Sessions int64     `json:"sessions"`
	Records  int64     `json:"records"`
	// Spoilt are the sessions that did not verify when the backup was made. They are copied
	// unchanged.
	Spoilt []string `json:"spoilt,omitempty"`
	Files  []Entry  `json:"files"`
	// Signature is the signature of a receipt key over all other fields, at the time Made;
	// nil for a backup that is not signed.
	Signature *Signature `json:"signature,omitempty"`
}

// Signature is a signature of a receipt key.
type Signature struct {
	KID string `json:"kid"`
	Sig []byte `json:"sig"`
}

// kind is that of the statement that signs a backup.
const kind = "backup"

// digest is of the document without its signature.
func (b Backup) digest() ([32]byte, error) {
	b.Signature = nil
	b.Made = b.Made.UTC()
	doc, err := json.Marshal(b)
	return sha256.Sum256(doc), err
}

func (b *Backup) sign(by proof.Signer) error {
	sum, err := b.digest()
	if err != nil {
		return err
	}
	kid, sig, err := by.SignStatement(kind, sum, b.Made)
	if err != nil {
		return err
	}
	b.Signature = &Signature{KID: kid, Sig: sig}
	return nil
}

// signedBy checks that a trusted key signed a backup.
func (b *Backup) signedBy(keys proof.Keys) error {
	bad := func(detail string, cause error) error {
		return &messages.Error{Code: messages.ErrJournal, Reason: journal.ReasonUnproved, File: File, Field: "signature", Detail: detail, Cause: cause}
	}
	if b.Signature == nil {
		return bad("is missing: the backup is of a version before backups were signed, or was made without keys, or the signature was taken away", nil)
	}
	sum, err := b.digest()
	if err != nil {
		return err
	}
	if err := keys.VerifyStatement(kind, sum, b.Made, b.Signature.KID, b.Signature.Sig); err != nil {
		return bad("is not that of a trusted key over this backup", err)
	}
	return nil
}

// Entry is a file of a backup.
type Entry struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Make copies a data directory into a new folder: the journal as it is at one moment, also
// while a runtime works on it, the audit log with all its files, and the files of names that
// exist. Make verifies every session of the copy. A shared journal must be backed up with the
// tools of its database.
//
// A session that does not verify is copied as well and reported in Spoilt: a backup of the
// rest is better than none. Errors: ERR_CONFIG (no journal, the folder exists), ERR_JOURNAL
// (the copy cannot be read: the folder stays for inspection, without backup.json; an empty
// one is removed), and those of by, which signs the backup; nil leaves it unsigned.
func Make(ctx context.Context, dir, dest string, by proof.Signer, verify Verifier, names ...string) (b Backup, err error) {
	if _, err := os.Stat(filepath.Join(dir, JournalFile)); err != nil {
		return b, &messages.Error{Code: messages.ErrConfig, Field: "dir", File: dir, Detail: "there is no journal in this directory", Cause: files.Cause(err)}
	}
	if err := os.Mkdir(dest, 0o700); err != nil {
		return b, &messages.Error{Code: messages.ErrConfig, Field: "dest", File: dest, Detail: "the folder of the backup cannot be made", Cause: files.Cause(err)}
	}
	defer func() {
		if err != nil {
			os.Remove(dest) // if nothing is in it, so that the same command can be given again
		}
	}()
	b = Backup{Format: format, Made: time.Now().UTC().Truncate(time.Second)}
	if err := sqlite.Backup(ctx, filepath.Join(dir, JournalFile), filepath.Join(dest, JournalFile)); err != nil {
		return b, err
	}
	copied := []string{JournalFile}
	for _, name := range names { // after the journal: keys that signed it are there
		switch err := files.Copy(filepath.Join(dir, name), filepath.Join(dest, name)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return b, unusable(name, err)
		default:
			copied = append(copied, name)
		}
	}
	logged, err := audit.Copy(dir, dest)
	if err != nil {
		return b, unusable(audit.Name, err)
	}
	copied = append(copied, logged...)
	for _, name := range copied {
		e, err := entryOf(dest, name)
		if err != nil {
			return b, unusable(name, err)
		}
		b.Files = append(b.Files, e)
	}
	if b.Sessions, b.Records, b.Spoilt, err = verify(ctx, dest); err != nil {
		return b, err
	}
	if by != nil {
		if err := b.sign(by); err != nil {
			return b, err
		}
	}
	doc, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return b, err
	}
	return b, files.Create(filepath.Join(dest, File), append(doc, '\n'))
}

// Check verifies a backup: its files are unchanged, and every session verifies except those
// that did not when the backup was made. With keys, one of them must have signed the backup:
// otherwise the error is ERR_JOURNAL with the reason UNPROVED.
func Check(ctx context.Context, src string, keys proof.Keys, verify Verifier) (b Backup, err error) {
	wrong := func(detail string, cause error) error {
		return &messages.Error{Code: messages.ErrConfig, File: File, Detail: detail, Cause: cause}
	}
	f, err := os.Open(filepath.Join(src, File))
	if err != nil {
		return b, &messages.Error{Code: messages.ErrConfig, File: src, Detail: "there is no backup in this folder", Cause: files.Cause(err)}
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, 1<<20))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		return b, wrong("is not what a backup says of itself", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return b, wrong("has text behind what a backup says of itself", err)
	}
	if b.Format != format {
		return b, wrong("is of another format", nil)
	}
	if keys != nil {
		if err := b.signedBy(keys); err != nil {
			return b, err
		}
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
	sessions, records, spoilt, err := verify(ctx, src)
	if i := slices.IndexFunc(spoilt, func(sid string) bool { return !slices.Contains(b.Spoilt, sid) }); err == nil && i >= 0 {
		err = messages.Errorf(messages.ErrJournal, "session %s of the copy does not verify, and did when it was made", spoilt[i])
	}
	if err == nil && (sessions != b.Sessions || records != b.Records) {
		err = wrong("counts other sessions or records than there are", nil)
	}
	return b, err
}

// Restore makes a data directory from a backup, which it checks first. It replaces nothing: a
// directory with a journal, keys or another file of the backup is ERR_CONFIG.
func Restore(ctx context.Context, src, dir string, keys proof.Keys, verify Verifier) (Backup, error) {
	b, err := Check(ctx, src, keys, verify)
	if err != nil {
		return b, err
	}
	if err := files.MakeDir(dir); err != nil {
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
		if err := files.Copy(filepath.Join(src, name), filepath.Join(dir, name)); err != nil {
			return b, unusable(name, err)
		}
		if got, err := entryOf(dir, name); err != nil || got != b.Files[i] {
			return b, errors.Join(unusable(name, errors.New("did not arrive as it was")), err)
		}
	}
	return b, nil
}

func unusable(name string, err error) error {
	return &messages.Error{Code: messages.ErrConfig, File: name, Detail: "cannot be copied", Cause: files.Cause(err)}
}

func entryOf(dir, name string) (e Entry, err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return e, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return Entry{Name: name, Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

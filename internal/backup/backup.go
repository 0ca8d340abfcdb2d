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

// Formats of the description: of a whole backup, and of an increment.
const (
	format          = 1
	incrementFormat = 2
)

// JournalFile is the journal's name inside a data directory.
const JournalFile = "journal.db"

// incrementFile has, in the folder of an increment, what the journal had beyond the base.
const incrementFile = "increment.db"

// Verifier verifies every session of a data directory, and counts sessions and records. spoilt
// are the sessions that do not verify, in the order of the journal.
type Verifier func(ctx context.Context, dir string) (sessions, records int64, spoilt []string, err error)

// Some verifies some sessions of a data directory, and returns those that do not verify.
type Some func(ctx context.Context, dir string, incs []messages.Incarnation) (spoilt []string, err error)

// Backup is the description of a backup.
type Backup struct {
	Format   int       `json:"format"`
	Made     time.Time `json:"made"`
	Sessions int64     `json:"sessions"`
	Records  int64     `json:"records"`
	// Spoilt are the sessions that did not verify when the backup was made. They are copied
	// unchanged.
	Spoilt []string `json:"spoilt,omitempty"`
	// Base is what an increment continues; nil for a whole backup.
	Base  *Base   `json:"base,omitempty"`
	Files []Entry `json:"files"`
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

// Base is the backup that an increment continues: a whole one or an increment.
type Base struct {
	// Folder is its folder, beside that of the increment.
	Folder string `json:"folder"`
	// SHA256 is the digest of its description.
	SHA256 string `json:"sha256"`
}

// Entry is a file of a backup.
type Entry struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// In is the folder, beside that of an increment, with an unchanged file; "" is its own.
	In string `json:"in,omitempty"`
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
func Make(ctx context.Context, dir, dest string, by proof.Signer, verify Verifier, names ...string) (Backup, error) {
	b := Backup{Format: format}
	return b.make(dir, dest, by, names, JournalFile, nil, func(path, file string) (err error) {
		if err := sqlite.Backup(ctx, path, file); err != nil {
			return err
		}
		b.Sessions, b.Records, b.Spoilt, err = verify(ctx, dest)
		return err
	})
}

// MakeSince makes an increment: a backup with what is new since the one in the folder base,
// which must be beside dest, and without the files that have not changed since. It verifies
// the sessions with new records in the directory; Check verifies all of them, put together.
// Errors are those of Make, and ERR_JOURNAL for a journal that does not continue the base.
func MakeSince(ctx context.Context, dir, dest, base string, by proof.Signer, verify Some, names ...string) (Backup, error) {
	b := Backup{Format: incrementFormat}
	before, err := chainTo(base, nil)
	if err != nil {
		return b, err
	}
	last := before[len(before)-1]
	if !beside(dest, base) {
		return b, &messages.Error{Code: messages.ErrConfig, Field: "since", File: base, Detail: "is not beside the new folder: a backup and its increments stay together"}
	}
	b.Base, b.Spoilt = &Base{Folder: filepath.Base(last.folder), SHA256: last.digest}, slices.Clone(last.Spoilt)
	return b.make(dir, dest, by, names, incrementFile, &last, func(path, file string) error {
		x, err := sqlite.BackupSince(ctx, path, file, journals(before)...)
		if err != nil {
			return err
		}
		b.Sessions, b.Records = x.Sessions, x.Records
		spoilt, err := verify(ctx, dir, x.Changed)
		for _, sid := range spoilt {
			if !slices.Contains(b.Spoilt, sid) {
				b.Spoilt = append(b.Spoilt, sid)
			}
		}
		return err
	})
}

func beside(a, b string) bool {
	a, bad := filepath.Abs(a)
	b, worse := filepath.Abs(b)
	return bad == nil && worse == nil && filepath.Dir(a) == filepath.Dir(b)
}

// make makes the folder of a backup. journaled copies the journal at path to a file, and counts and
// verifies what is in it.
func (b *Backup) make(dir, dest string, by proof.Signer, names []string, journalAs string, base *member, journaled func(path, file string) error) (_ Backup, err error) {
	if err := files.Find(dir, JournalFile, "journal"); err != nil {
		return *b, err
	}
	if err := os.Mkdir(dest, 0o700); err != nil {
		return *b, &messages.Error{Code: messages.ErrConfig, Field: "dest", File: dest, Detail: "the folder of the backup cannot be made", Cause: files.Cause(err)}
	}
	defer func() {
		if err != nil {
			os.Remove(dest) // if nothing is in it, so that the same command can be given again
		}
	}()
	b.Made = time.Now().UTC().Truncate(time.Second)
	if err := journaled(filepath.Join(dir, JournalFile), filepath.Join(dest, journalAs)); err != nil {
		return *b, err
	}
	copied := []string{journalAs}
	for _, name := range names { // after the journal: keys that signed it are there
		switch err := files.Copy(filepath.Join(dir, name), filepath.Join(dest, name)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return *b, unusable(name, err)
		default:
			copied = append(copied, name)
		}
	}
	logged, err := audit.Copy(dir, dest)
	if err != nil {
		return *b, unusable(audit.Name, err)
	}
	copied = append(copied, logged...)
	for _, name := range copied {
		e, err := entryOf(dest, name)
		if err == nil && name != journalAs {
			if e.In = base.has(e); e.In != "" {
				err = os.Remove(filepath.Join(dest, name))
			}
		}
		if err != nil {
			return *b, unusable(name, err)
		}
		b.Files = append(b.Files, e)
	}
	if by != nil {
		if err := b.sign(by); err != nil {
			return *b, err
		}
	}
	doc, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return *b, err
	}
	return *b, files.Create(filepath.Join(dest, File), append(doc, '\n'))
}

// Check verifies a backup: its files are unchanged, and every session verifies except those
// that did not when the backup was made. With keys, one of them must have signed the backup:
// otherwise the error is ERR_JOURNAL with the reason UNPROVED. An increment is checked with all
// that it continues, put together in a folder of its own meanwhile.
func Check(ctx context.Context, src string, keys proof.Keys, verify Verifier) (b Backup, err error) {
	chain, err := chainTo(src, keys)
	if err != nil {
		return b, err
	}
	b = chain[len(chain)-1].Backup
	if err := whole(chain); err != nil {
		return b, err
	}
	if len(chain) == 1 {
		return b, b.holds(ctx, src, verify)
	}
	dir, err := os.MkdirTemp("", "stile-check-")
	if err != nil {
		return b, unusable(incrementFile, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return b, together(ctx, &b, chain, nil, dir, verify)
}

// holds compares the sessions of a folder with what the backup says.
func (b *Backup) holds(ctx context.Context, dir string, verify Verifier) error {
	sessions, records, spoilt, err := verify(ctx, dir)
	if i := slices.IndexFunc(spoilt, func(sid string) bool { return !slices.Contains(b.Spoilt, sid) }); err == nil && i >= 0 {
		err = messages.Errorf(messages.ErrJournal, "session %s of the copy does not verify, and did when it was made", spoilt[i])
	}
	if err == nil && (sessions != b.Sessions || records != b.Records) {
		err = wrong("counts other sessions or records than there are", nil)
	}
	return err
}

func wrong(detail string, cause error) error {
	return &messages.Error{Code: messages.ErrConfig, File: File, Detail: detail, Cause: cause}
}

// Restore makes a data directory from a backup, which it checks first. It replaces nothing: a
// directory with a journal, keys or another file of the backup is ERR_CONFIG.
func Restore(ctx context.Context, src, dir string, keys proof.Keys, verify Verifier) (Backup, error) {
	chain, err := chainTo(src, keys)
	if err != nil {
		return Backup{}, err
	}
	return restore(ctx, chain, nil, dir, verify)
}

// RestoreTo makes a data directory from the backups in the folder src: the sessions as they
// were in the last backup made at to or before, without what the later ones do not have any
// more; and all other files of the last backup, so that nothing that was erased or revoked
// comes back.
func RestoreTo(ctx context.Context, src string, to time.Time, dir string, keys proof.Keys, verify Verifier) (Backup, error) {
	all, err := membersIn(src)
	if err != nil {
		return Backup{}, err
	}
	at := -1
	for i, m := range all {
		if !m.Made.After(to) {
			at = i
		}
	}
	if at < 0 {
		return Backup{}, &messages.Error{Code: messages.ErrNotFound, Field: "to", File: src, Detail: "no backup in this folder was made at " + to.UTC().Format(time.RFC3339) + " or before"}
	}
	chain, err := chainTo(all[at].folder, keys)
	if err != nil {
		return Backup{}, err
	}
	for i, m := range all[at+1:] { // with the same care as what is restored
		if all[at+1+i], err = memberOf(m.folder, keys); err != nil {
			return Backup{}, err
		}
	}
	return restore(ctx, chain, all[at+1:], dir, verify)
}

func restore(ctx context.Context, chain, later []member, dir string, verify Verifier) (b Backup, err error) {
	b = chain[len(chain)-1].Backup
	last := &chain[len(chain)-1]
	if err := whole(chain); err != nil {
		return b, err
	}
	if err := whole(later); err != nil {
		return b, err
	}
	simple := len(chain) == 1 && len(later) == 0
	if simple {
		if err := b.holds(ctx, last.folder, verify); err != nil {
			return b, err
		}
	}
	if len(later) > 0 {
		last = &later[len(later)-1]
	}
	if err := files.MakeDir(dir); err != nil {
		return b, err
	}
	names := []string{JournalFile, JournalFile + "-wal"}
	for _, f := range last.Files {
		names = append(names, f.Name)
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return b, &messages.Error{Code: messages.ErrConfig, Field: "dir", File: filepath.Join(dir, name), Detail: "is there already; restore into a new directory"}
		}
	}
	aside := ""
	if !simple {
		if aside, err = os.MkdirTemp(dir, ".restored-"); err != nil {
			return b, unusable(JournalFile, err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
		if err := together(ctx, &b, chain, later, aside, verify); err != nil {
			return b, err
		}
	}
	// The journal comes last: a directory without one is not taken for a whole.
	for i := len(last.Files) - 1; i >= 0; i-- {
		f := last.Files[i]
		if !simple && f.Name == last.journal() {
			continue
		}
		if err := files.Copy(filepath.Join(last.at(f), f.Name), filepath.Join(dir, f.Name)); err != nil {
			return b, unusable(f.Name, err)
		}
		if got, err := entryOf(dir, f.Name); err != nil || got.SHA256 != f.SHA256 {
			return b, errors.Join(unusable(f.Name, errors.New("did not arrive as it was")), err)
		}
	}
	if simple {
		return b, nil
	}
	if err := os.Rename(filepath.Join(aside, JournalFile), filepath.Join(dir, JournalFile)); err != nil {
		return b, unusable(JournalFile, err)
	}
	return b, nil
}

// together puts the journal of a chain together in dir, without what later members lack, and checks it. b is what
// the last of the chain says, and then counts what is left of it.
func together(ctx context.Context, b *Backup, chain, later []member, dir string, verify Verifier) error {
	path := filepath.Join(dir, JournalFile)
	if err := files.Copy(filepath.Join(chain[0].folder, JournalFile), path); err != nil {
		return unusable(JournalFile, err)
	}
	if err := sqlite.Restore(ctx, path, journals(chain)[1:], nil); err != nil {
		return err
	}
	if err := b.holds(ctx, dir, verify); err != nil || len(later) == 0 {
		return err
	}
	if err := sqlite.Restore(ctx, path, nil, journals(later)); err != nil {
		return err
	}
	var spoilt []string
	var err error
	b.Sessions, b.Records, spoilt, err = verify(ctx, dir)
	if i := slices.IndexFunc(spoilt, func(sid string) bool { return !slices.Contains(b.Spoilt, sid) }); err == nil && i >= 0 {
		err = messages.Errorf(messages.ErrJournal, "session %s does not verify without what was erased later", spoilt[i])
	}
	return err
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

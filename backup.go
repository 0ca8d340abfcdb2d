package stile

import (
	"context"
	"errors"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/backup"
	"github.com/seed14be6753/stile/internal/keyfile"
)

// BackupFile is the name of the manifest file in the folder of a backup.
const BackupFile = backup.File

// Backup is the manifest of a backup: its time, files with digests, and counts.
type Backup = backup.Backup

// MakeBackup copies a data directory into a new folder: a consistent copy of the journal,
// also while a runtime uses it, the key file, the audit log, and those of the files in also
// that exist. It verifies every session of the copy before it returns. Back up a shared
// journal with the tools of its database.
//
// A session that does not verify is copied as it is and named in Spoilt. Errors: ERR_CONFIG
// (dir has no journal, dest exists), ERR_JOURNAL (the copy cannot be read: the folder stays
// for inspection, without backup.json; an empty one is removed).
func MakeBackup(ctx context.Context, dir, dest string, also ...string) (Backup, error) {
	return backup.Make(ctx, dir, dest, nil, verifyAll, append([]string{KeyFile}, also...)...)
}

// MakeSignedBackup is MakeBackup, and signs the backup's manifest, which has the digests of
// its files, with the receipt key of a ring.
func MakeSignedBackup(ctx context.Context, keys *keyring.Ring, dir, dest string, also ...string) (Backup, error) {
	return backup.Make(ctx, dir, dest, keyfile.Signer{Ring: keys}, verifyAll, append([]string{KeyFile}, also...)...)
}

// CheckBackup verifies a backup: its files have the recorded digests, and every session
// verifies except those in Spoilt.
func CheckBackup(ctx context.Context, src string) (Backup, error) {
	return backup.Check(ctx, src, nil, verifyAll)
}

// CheckSignedBackup is CheckBackup, and requires a signature by one of keys: public keys that
// were exported and kept elsewhere. Without one the error is ERR_JOURNAL, and IsUnproved
// reports true for it.
func CheckSignedBackup(ctx context.Context, keys *keyring.Set, src string) (Backup, error) {
	return backup.Check(ctx, src, keyfile.Verifier{Set: keys}, verifyAll)
}

// RestoreBackup checks a backup and restores it into the data directory dir. It replaces
// nothing: a directory that has a journal, keys or another file of the backup is refused.
func RestoreBackup(ctx context.Context, src, dir string) (Backup, error) {
	return backup.Restore(ctx, src, dir, nil, verifyAll)
}

// RestoreSignedBackup is RestoreBackup of a backup that CheckSignedBackup accepts.
func RestoreSignedBackup(ctx context.Context, keys *keyring.Set, src, dir string) (Backup, error) {
	return backup.Restore(ctx, src, dir, keyfile.Verifier{Set: keys}, verifyAll)
}

type backupProgress struct{}

// WithBackupProgress returns a context with which the functions for backups call show after each session
// that they have verified, with how many there were and will be. show is called from one goroutine.
func WithBackupProgress(ctx context.Context, show func(done, total int64)) context.Context {
	return context.WithValue(ctx, backupProgress{}, show)
}

// verifyAll verifies every session of a directory, against the keys in its journal.
func verifyAll(ctx context.Context, dir string) (sessions, records int64, spoilt []string, err error) {
	ar, err := OpenArchive(dir)
	if err != nil {
		return 0, 0, nil, err
	}
	defer func() { err = errors.Join(err, ar.Close()) }()
	show, _ := ctx.Value(backupProgress{}).(func(done, total int64))
	total := int64(0)
	if show != nil {
		for _, err := range ar.Sessions(ctx, "") {
			if err != nil {
				return 0, 0, nil, err
			}
			total++
		}
	}
	for h, err := range ar.Sessions(ctx, "") {
		if err != nil {
			return 0, 0, nil, err
		}
		rep, err := ar.Verify(ctx, h.Inc, VerifyOptions{})
		if err != nil {
			return 0, 0, nil, err
		}
		if !rep.OK() {
			spoilt = append(spoilt, h.SID)
		}
		sessions, records = sessions+1, records+rep.Records
		if show != nil {
			show(sessions, total)
		}
	}
	return sessions, records, spoilt, nil
}

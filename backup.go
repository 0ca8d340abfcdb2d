package stile

import (
	"context"
	"errors"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/backup"
	"github.com/seed14be6753/stile/internal/keyfile"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
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

// MakeBackupSince makes an increment: a backup with what is new since the one in the folder
// base, whole or an increment itself. The folders must be beside each other, and stay so. It
// is signed with the receipt key of a ring; nil leaves it unsigned. The sessions with new
// records are verified; CheckBackup and RestoreBackup of an increment take all that it
// continues, and verify every session. Further errors: ERR_JOURNAL for a journal that does not
// continue the base, or has another format: make a whole backup then.
func MakeBackupSince(ctx context.Context, keys *keyring.Ring, dir, dest, base string, also ...string) (Backup, error) {
	var by proof.Signer
	if keys != nil {
		by = keyfile.Signer{Ring: keys}
	}
	return backup.MakeSince(ctx, dir, dest, base, by, verifySome, append([]string{KeyFile}, also...)...)
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

// RestoreBackupTo restores the sessions as they were in the last backup in the folder src that
// was made at to or before, without what later backups in it have erased or removed. Keys,
// tokens, usage and audit log are those of the last backup in the folder, so that nothing that
// was revoked comes back. With keys, one of them must have signed each backup that is read; nil
// checks no signature. Errors are those of RestoreSignedBackup, and ERR_NOT_FOUND for a time
// before the first backup.
func RestoreBackupTo(ctx context.Context, keys *keyring.Set, src string, to time.Time, dir string) (Backup, error) {
	var by proof.Keys
	if keys != nil {
		by = keyfile.Verifier{Set: keys}
	}
	return backup.RestoreTo(ctx, src, to, dir, by, verifyAll)
}

type backupProgress struct{}

// WithBackupProgress returns a context with which the functions for backups call show after each session
// that they have verified, with how many there were and will be. show is called from one goroutine.
func WithBackupProgress(ctx context.Context, show func(done, total int64)) context.Context {
	return context.WithValue(ctx, backupProgress{}, show)
}

// verifySome verifies some sessions of a directory, against the keys in its journal. One that is gone meanwhile
// is passed over.
func verifySome(ctx context.Context, dir string, incs []messages.Incarnation) (spoilt []string, err error) {
	ar, err := OpenArchive(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ar.Close()) }()
	show, _ := ctx.Value(backupProgress{}).(func(done, total int64))
	for i, inc := range incs {
		h, err := ar.HeadOf(ctx, inc)
		if journal.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rep, err := ar.Verify(ctx, inc, VerifyOptions{})
		if err != nil {
			return nil, err
		}
		if !rep.OK() {
			spoilt = append(spoilt, h.SID)
		}
		if show != nil {
			show(int64(i)+1, int64(len(incs)))
		}
	}
	return spoilt, nil
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

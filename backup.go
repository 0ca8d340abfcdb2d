package stile

import (
	"context"
	"errors"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/backup"
	"github.com/seed14be6753/stile/internal/keyfile"
)

// BackupFile is the name of what a backup says of itself, in its folder.
const BackupFile = backup.File

// Backup is what a backup says of itself.
type Backup = backup.Backup

// MakeBackup copies a data directory into a new folder: the journal as it is at one
// moment, also while a runtime works on it, the key file, the audit log, and the files that
// also lists, as far as they are there. The copy is verified, every session of it, before MakeBackup
// returns. A shared journal is backed up with the tools of its database.
//
// A session that does not verify is copied as it is and named in Spoilt. Errors: ERR_CONFIG
// (no journal there, the folder exists), ERR_JOURNAL (what was copied cannot be read: the
// folder stays, to be looked at, without backup.json; an empty one goes).
func MakeBackup(ctx context.Context, dir, dest string, also ...string) (Backup, error) {
	return backup.Make(ctx, dir, dest, nil, verifyAll, append([]string{KeyFile}, also...)...)
}

// MakeSignedBackup is MakeBackup, and signs what the backup says of itself, the digests of its
// files, with the receipt key of a ring.
func MakeSignedBackup(ctx context.Context, keys *keyring.Ring, dir, dest string, also ...string) (Backup, error) {
	return backup.Make(ctx, dir, dest, keyfile.Signer{Ring: keys}, verifyAll, append([]string{KeyFile}, also...)...)
}

// CheckBackup verifies a backup: its files are the ones that were made, and every
// session verifies but for those in Spoilt.
func CheckBackup(ctx context.Context, src string) (Backup, error) {
	return backup.Check(ctx, src, nil, verifyAll)
}

// CheckSignedBackup is CheckBackup of a backup that one of the keys must have signed: public
// keys that were exported and kept elsewhere. Else it is ERR_JOURNAL, which IsUnproved
// reports.
func CheckSignedBackup(ctx context.Context, keys *keyring.Set, src string) (Backup, error) {
	return backup.Check(ctx, src, keyfile.Verifier{Set: keys}, verifyAll)
}

// RestoreBackup makes a data directory of a backup, which is checked first. A directory
// that has a journal, keys or another file of the backup is refused: nothing is replaced.
func RestoreBackup(ctx context.Context, src, dir string) (Backup, error) {
	return backup.Restore(ctx, src, dir, nil, verifyAll)
}

// RestoreSignedBackup is RestoreBackup of what CheckSignedBackup accepts.
func RestoreSignedBackup(ctx context.Context, keys *keyring.Set, src, dir string) (Backup, error) {
	return backup.Restore(ctx, src, dir, keyfile.Verifier{Set: keys}, verifyAll)
}

// verifyAll verifies every session of a directory, against the keys in its journal.
func verifyAll(ctx context.Context, dir string) (sessions, records int64, spoilt []string, err error) {
	ar, err := OpenArchive(dir)
	if err != nil {
		return 0, 0, nil, err
	}
	defer func() { err = errors.Join(err, ar.Close()) }()
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
	}
	return sessions, records, spoilt, nil
}

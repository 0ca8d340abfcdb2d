package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

func (a *app) backupCommand() *cobra.Command {
	var asJSON, quiet bool
	var since string
	cmd := &cobra.Command{
		Use:   "backup DEST",
		Short: "Copy a data directory, also of a running host",
		Long: `Copies journal, keys, tokens, usage and audit log into the new folder DEST: the journal as
it is at one moment, also while a host works on it, without what was erased. Every session
of the copy is verified; one that does not verify is copied as it is and named, and the
exit status is 4. The copy holds the key file: keep it as you keep that. An audit log
outside of the directory is not in it. A shared journal is backed up with the tools of its
database. The directory is that of the settings of stile serve, unless --dir names one.

With --since the backup is an increment: it has what is new since another backup, whole or an
increment itself, whose folder must be beside DEST. Keep these folders together: stile restore
takes all that an increment continues. The sessions with new records are verified, and all of
them when it is restored. What was erased since is gone in what is restored of it.

backup.json is signed with the receipt key. Where there is none, or the key file is sealed
and there is no passphrase, the backup is made without a signature, and a warning says so.`,
		Example: `  stile backup /backups/stile-2026-11-21
  stile backup /backups/stile-2026-11-22 --since /backups/stile-2026-11-21
  stile restore /backups/stile-2026-11-21 --dir stile-data`,
		Args: cobra.ExactArgs(1),
	}
	a.ofHost(cmd, func(ctx context.Context, s *settings, args []string) error {
		switch {
		case a.env(envJournal) != "":
			return configError("journal", "a shared journal is backed up with the tools of its database; unset $"+envJournal+" for the directory")
		case s.Journal != "":
			return configError("journal", "a shared journal is backed up with the tools of its database; for the directory take it out of the settings")
		}
		ring, err := a.signingRing(s)
		if err != nil {
			return err
		}
		var b stile.Backup
		ctx, shown := a.showingBackup(ctx, quiet)
		switch {
		case since != "":
			b, err = stile.MakeBackupSince(ctx, ring, a.dir, args[0], since, tokenFile, usageFile)
		case ring == nil:
			b, err = stile.MakeBackup(ctx, a.dir, args[0], tokenFile, usageFile)
		default:
			b, err = stile.MakeSignedBackup(ctx, ring, a.dir, args[0], tokenFile, usageFile)
		}
		shown.end()
		if err != nil {
			return shown.interrupted(err, args[0]+" is no backup, and can be removed")
		}
		return a.backupDone(b, args[0], asJSON)
	})
	a.keyFlag(cmd)
	cmd.Flags().StringVar(&since, "since", "", "folder of the backup, beside DEST, that an increment continues")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the backup says of itself as JSON")
	quietly(cmd, &quiet)
	return cmd
}

func quietly(cmd *cobra.Command, quiet *bool) {
	cmd.Flags().BoolVar(quiet, "quiet", false, "do not show on a terminal how far it is")
}

// backupShown shows how far the verification of a backup is.
type backupShown struct {
	*progress
	a           *app
	done, total int64
}

// showingBackup has the functions of backups show how far they are.
func (a *app) showingBackup(ctx context.Context, quiet bool) (context.Context, *backupShown) {
	s := &backupShown{a: a}
	return stile.WithBackupProgress(ctx, func(done, total int64) {
		if s.total == 0 && !quiet {
			s.progress = a.progressOf("session", total)
		}
		s.done, s.total = done, total
		s.reach(done)
	}), s
}

// interrupted says how far an interrupted backup came, and what is there now.
func (s *backupShown) interrupted(err error, now string) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	_, bad := fmt.Fprintf(s.a.err, "stile: %d of %s verified; %s\n", s.done, count(s.total, "session"), now)
	return errors.Join(err, bad)
}

// signingRing reads the keys that sign what is said of a directory; nil, with a warning, where
// there are none that can.
func (a *app) signingRing(s *settings) (*keyring.Ring, error) {
	if a.passphraseFile == "" {
		a.passphraseFile = s.PassphraseFile
	}
	why := "there is no key file"
	switch _, err := os.Lstat(a.keyPath()); {
	case err == nil:
		ring, err := a.ring()
		var e *messages.Error
		switch {
		case err == nil && ring.ReceiptSigner(time.Now()) != nil:
			return ring, nil
		case err == nil:
			why = "no receipt key is in force"
		case errors.As(err, &e) && e.Reason == keyring.FileSealed:
			why = "the key file is sealed, and no passphrase was given"
		default:
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		why = "the key file cannot be looked for: " + files.Cause(err).Error()
	}
	_, err := fmt.Fprintf(a.err, "stile: not signed: %s\n", why)
	return nil, err
}

func (a *app) restoreCommand() *cobra.Command {
	var asJSON, quiet bool
	var keys, to string
	cmd := &cobra.Command{
		Use:   "restore SRC",
		Short: "Make a data directory of a backup",
		Long: `Checks the backup in the folder SRC, that its files are those that were made and that
every session verifies, and copies it into --dir, or the directory of the settings of
stile serve. What is there already is not replaced: the command refuses.

An increment is restored with all that it continues. With --to, SRC is a folder with backups, such
as backup.dir of the settings, and TIME (RFC 3339) the point to go back to: sessions are as they
were in the last backup made at that time or before, without what the later backups have erased
or removed, and keys, tokens, usage and audit log are those of the last backup, so that nothing
that was erased or revoked comes back.

With --keys the backup must be signed by one of these keys: a file that was changed since,
together with what backup.json says of it, is refused then, and so is a backup without a
signature. Pass keys that were exported earlier (stile keys export) and kept elsewhere.
Without --keys the signature is not checked, as those who can change the backup can change
the keys in it: that finds accidents. Backups of versions before have no signature and are
restored without --keys.`,
		Example: `  stile restore /backups/stile-2026-11-21 --dir stile-data --keys keys.jwks
  stile restore /backups --to 2026-11-21T09:30:00Z --dir stile-data --keys keys.jwks`,
		Args: cobra.ExactArgs(1),
	}
	a.ofHost(cmd, func(ctx context.Context, _ *settings, args []string) error {
		var at time.Time
		if to != "" {
			var err error
			if at, err = time.Parse(time.RFC3339, to); err != nil {
				return configError("to", "want a time such as 2026-11-21T09:30:00Z")
			}
		}
		var set *keyring.Set
		if keys != "" {
			var err error
			if set, err = publicKeys(keys); err != nil {
				return err
			}
		}
		ctx, shown := a.showingBackup(ctx, quiet)
		var b stile.Backup
		var err error
		switch {
		case to != "":
			b, err = stile.RestoreBackupTo(ctx, set, args[0], at, a.dir)
		case set != nil:
			b, err = stile.RestoreSignedBackup(ctx, set, args[0], a.dir)
		default:
			b, err = stile.RestoreBackup(ctx, args[0], a.dir)
		}
		shown.end()
		if err != nil {
			return shown.interrupted(err, "nothing was restored")
		}
		if to != "" {
			if _, err := fmt.Fprintf(a.err, "stile: sessions are those of %s\n", b.Made.Format(time.RFC3339)); err != nil {
				return err
			}
		}
		if set != nil {
			return a.backupDone(b, a.dir, asJSON)
		}
		why := "the backup is not signed"
		if b.Signature != nil {
			why = "the backup's signature, of key " + b.Signature.KID + ", was not checked: --keys does"
		}
		if _, err := fmt.Fprintf(a.err, "stile: %s; who could change the backup could change all of it\n", harmless(why)); err != nil {
			return err
		}
		return a.backupDone(b, a.dir, asJSON)
	})
	cmd.Flags().StringVar(&to, "to", "", "restore the state of this `TIME` (RFC 3339) from a folder of backups")
	cmd.Flags().StringVar(&keys, "keys", "", "JWKS file with public receipt keys, one of which must have signed the backup")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the backup says of itself as JSON")
	quietly(cmd, &quiet)
	return cmd
}

func (a *app) backupDone(b stile.Backup, where string, asJSON bool) error {
	var spoilt error
	if len(b.Spoilt) > 0 {
		spoilt = exitDifference
	}
	if asJSON {
		return errors.Join(a.writeJSON(b), spoilt)
	}
	var bytes int64
	for _, f := range b.Files {
		bytes += f.Bytes
	}
	verified := "verified"
	if spoilt != nil {
		verified = "verified but for " + count(int64(len(b.Spoilt)), "session")
	}
	_, err := fmt.Fprintf(a.out, "%s: %s, %s, %s in %s; %s\n", where, count(b.Sessions, "session"), count(b.Records, "record"), sizeText(bytes), count(int64(len(b.Files)), "file"), verified)
	for _, sid := range b.Spoilt {
		_, failed := fmt.Fprintf(a.out, "%s does not verify, and is copied as it is: stile verify %s\n", sid, sid)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, spoilt)
}

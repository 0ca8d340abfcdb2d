package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// checkpointFile is the name of a host's latest checkpoint, in the data directory.
const checkpointFile = "checkpoint.jsonl"

func (a *app) checkpointCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Write a signed list of the heads of all sessions",
		Long: `Writes where every session stands now, signed with the receipt key: lines of JSON, to
standard output or the file of --out, which is replaced. Kept elsewhere, it shows with
stile verify --since what a journal alone cannot: an end that was cut off, a session that was
dropped or rewritten since. It may be taken beside a running host.`,
		Example: `  stile checkpoint > /elsewhere/heads.jsonl
  stile verify --since /elsewhere/heads.jsonl --keys keys.jwks`,
		Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error { return a.checkpoint(ctx, out) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "file to write, in place of standard output")
	return cmd
}

func (a *app) checkpoint(ctx context.Context, out string) error {
	ring, err := a.ring()
	if err != nil {
		return err
	}
	return a.withArchive(ctx, func(ar *stile.Archive) error {
		write := func(w io.Writer) error {
			_, _, err := ar.Checkpoint(ctx, ring, w)
			return err
		}
		if out == "" {
			return write(a.out)
		}
		return replaced(out, write)
	})
}

// replaced writes a file in one step: a crash leaves the old one or the new one.
func replaced(path string, write func(io.Writer) error) error {
	var failed error
	err := files.ReplaceWith(path, func(w io.Writer) error {
		failed = write(w)
		return failed
	})
	if err != nil && failed == nil {
		return unwritable(path, err)
	}
	return failed
}

// checkpoints writes a host's checkpoint into its directory at intervals, and logs what it is
// of, until ctx ends: the log is elsewhere than the journal. An interval of 0 writes none.
func checkpoints(ctx context.Context, rt *stile.Runtime, dir string, every time.Duration, log *zap.Logger) {
	if every <= 0 {
		return
	}
	each(ctx, every, func() {
		var sessions int64
		var digest messages.Digest
		err := replaced(filepath.Join(dir, checkpointFile), func(w io.Writer) (err error) {
			sessions, digest, err = rt.Archive().Checkpoint(ctx, rt.Keys(), w)
			return err
		})
		switch {
		case err == nil:
			log.Info("checkpoint", zap.Int64("sessions", sessions), zap.Stringer("digest", digest))
		case ctx.Err() == nil:
			log.Error("there is no checkpoint", zap.Error(err))
		}
	})
}

// since verifies the sessions that a checkpoint has, retired ones too, and those that came
// after it. judge verifies one and shows what comes of it; lost shows what is no session.
func (a *app) since(ctx context.Context, ar *stile.Archive, path string, against stile.VerifyOptions, judge func(stile.Head, stile.VerifyOptions) (journal.Report, error), lost func(string) error, say func(string) error) error {
	keys := against.Keys
	if keys == nil {
		var err error
		if keys, err = ar.PublicKeys(ctx); err != nil {
			return err
		}
	}
	read := func(each func(string, messages.Incarnation, journal.Anchor) error) (c proof.Checkpoint, err error) {
		f, err := os.Open(path)
		if err != nil {
			return c, unreadable(path, err)
		}
		defer f.Close()
		c, err = proof.ReadCheckpoint(f, each)
		return c, messages.InFile(err, path)
	}
	c, err := read(nil)
	if err != nil {
		return err
	}
	if err := c.Check(keys); err != nil { // nothing that it says counts then
		return lost(path + ": " + err.Error())
	}
	if err := say(fmt.Sprintf("checkpoint of %s, %s, digest %s, signed by %s", c.At.Format(time.RFC3339), count(c.Sessions, "session"), messages.Digest(c.Digest), c.KID)); err != nil {
		return err
	}
	seen := make(map[messages.Incarnation]struct{}, c.Sessions)
	var erased, retired int64
	if _, err := read(func(sid string, inc messages.Incarnation, at journal.Anchor) error {
		seen[inc] = struct{}{}
		h, err := ar.HeadOf(ctx, inc)
		if stile.IsNotFound(err) {
			return lost(fmt.Sprintf("%s  the session is gone, which had %s (incarnation %s)", sid, count(at.Seq, "record"), inc))
		}
		if err != nil {
			return err
		}
		if h.SID != sid {
			return lost(fmt.Sprintf("%s  the session is called %s (incarnation %s)", sid, h.SID, inc))
		}
		opts := against
		opts.Since = at
		rep, err := judge(h, opts)
		switch {
		case err != nil || !rep.OK():
		case len(rep.Erased) > 0:
			erased++
		case !h.Live:
			retired++
		}
		return err
	}); err != nil {
		return err
	}
	for h, err := range ar.Sessions(ctx, "") {
		if err != nil {
			return err
		}
		if _, had := seen[h.Inc]; had {
			continue
		}
		if _, err := judge(h, against); err != nil {
			return err
		}
	}
	by := "as the journal says"
	if against.Keys != nil && !against.AllowMissing {
		by = "by a signed session.closed"
	}
	return say(fmt.Sprintf("%s of the checkpoint erased %s, %s retired: another has the name", count(erased, "session"), by, count(retired, "session")))
}

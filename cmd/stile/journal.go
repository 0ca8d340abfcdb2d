package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
)

// envJournal names the shared journal for every command that takes --journal.
const envJournal = "STILE_JOURNAL"

// sharedJournal is a store in a database, and what its operator should know of it.
type sharedJournal interface {
	journal.Store
	Notices() []string
}

// journalFlag gives a command the way to a journal that is not in the data directory.
func (a *app) journalFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.journal, "journal", "", "URL of a shared journal, postgres://host/database (default $"+envJournal+"; without one SQLite in --dir)")
}

// inDatabase reports whether settings or environment name a journal in a database.
func (a *app) inDatabase(s *settings) bool { return s.Journal != "" || a.env(envJournal) != "" }

// openShared opens the journal that flag or environment name; nil without one. What
// it has to say goes to stderr.
func (a *app) openShared(ctx context.Context, readOnly bool) (sharedJournal, error) {
	url, given := a.journal, true
	if url == "" {
		url, given = a.env(envJournal), false
	}
	if url == "" {
		return nil, nil
	}
	if given && holdsPassword(url) {
		return nil, configError("journal", "a password in an argument is there for all to see; put it into $"+envJournal+", $PGPASSWORD or a password file")
	}
	store, err := openPostgres(ctx, url, readOnly)
	if err != nil {
		return nil, err
	}
	for _, n := range store.Notices() {
		if a.noticed[n] {
			continue
		}
		if a.noticed == nil {
			a.noticed = make(map[string]bool)
		}
		a.noticed[n] = true
		if _, err := fmt.Fprintf(a.err, "stile: journal: %s\n", harmless(n)); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	return store, nil
}

// withRuntime is withRuntime on the journal of this command line.
func (a *app) withRuntime(ctx context.Context, cfg stile.Config, f func(*stile.Runtime) error) error {
	if cfg.InMemory {
		if a.journal != "" {
			return configError("journal", "goes not together with --memory")
		}
		return withRuntime(ctx, cfg, f)
	}
	if cfg.Store != nil {
		return withRuntime(ctx, cfg, f)
	}
	store, err := a.openShared(ctx, false)
	switch {
	case err != nil:
		return err
	case store == nil:
		return withRuntime(ctx, cfg, f)
	}
	cfg.Store = store
	if a.cluster != nil {
		if cfg.Cluster.Secret, cfg.Cluster.OldSecrets, err = clusterSecrets(a.cluster); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	return errors.Join(withRuntime(ctx, cfg, f), store.Close())
}

// withArchive runs f with the journal of this command line, read only.
func (a *app) withArchive(ctx context.Context, f func(*stile.Archive) error) error {
	store, err := a.openShared(ctx, true)
	if err != nil {
		return err
	}
	if store != nil {
		return errors.Join(f(stile.NewArchive(store)), store.Close())
	}
	ar, err := stile.OpenArchive(a.dir)
	if err != nil {
		return err
	}
	return errors.Join(f(ar), ar.Close())
}

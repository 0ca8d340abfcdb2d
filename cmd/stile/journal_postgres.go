//go:build !lite

package main

import (
	"context"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/postgres"
	relics "github.com/seed14be6753/stile/tools/sql/postgres"
)

func openPostgres(ctx context.Context, url string, readOnly bool) (sharedJournal, error) {
	s, err := postgres.Open(ctx, postgres.Options{URL: url, ReadOnly: readOnly})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// transient reports whether the database of a journal that could not be opened may be there later.
func transient(err error) bool { return postgres.Transient(err) }

// databases are those that relics may be in, beside sqlite.
func databases() map[string]stile.Database {
	return map[string]stile.Database{"postgres": relics.Open}
}

func holdsPassword(url string) bool { return postgres.HasPassword(url) }

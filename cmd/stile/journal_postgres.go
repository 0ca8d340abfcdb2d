//go:build !lite

package main

import (
	"context"

	"github.com/seed14be6753/stile/journal/postgres"
)

func openPostgres(ctx context.Context, url string, readOnly bool) (sharedJournal, error) {
	s, err := postgres.Open(ctx, postgres.Options{URL: url, ReadOnly: readOnly})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func holdsPassword(url string) bool { return postgres.HasPassword(url) }

//go:build lite

package main

import (
	"context"

	"github.com/seed14be6753/stile"
)

// A lite build has no client of PostgreSQL in it.
func openPostgres(context.Context, string, bool) (sharedJournal, error) {
	return nil, configError("journal", "this build is lite: it has SQLite alone")
}

func transient(error) bool { return false }

// databases are none in a lite build, beside sqlite.
func databases() map[string]stile.Database { return nil }

func holdsPassword(string) bool { return false }

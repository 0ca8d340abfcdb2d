//go:build lite

package main

import "context"

// A lite build has no client of PostgreSQL in it.
func openPostgres(context.Context, string, bool) (sharedJournal, error) {
	return nil, configError("journal", "this build is lite: it has SQLite alone")
}

func holdsPassword(string) bool { return false }

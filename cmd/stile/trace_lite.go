//go:build lite

package main

import (
	"context"

	"github.com/seed14be6753/stile"
)

// tracing is off in a build without exporters.
func tracing(context.Context, func(string) string) (observe func(*stile.Runtime), end func() error, err error) {
	return func(*stile.Runtime) {}, func() error { return nil }, nil
}

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"os"

	"github.com/seed14be6753/stile/messages"
)

// own refuses: without flock there is no lock that dies with its process.
func own(string) (*os.File, error) {
	return nil, &messages.Error{Code: messages.ErrConfig, Field: "exclusive", Detail: "not available on this system"}
}

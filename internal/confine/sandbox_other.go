//go:build !linux

package confine

import (
	"errors"

	"github.com/seed14be6753/stile/messages"
)

// Probe finds nothing: Landlock is Linux's.
func Probe() Sandbox { return Sandbox{Why: "it is a part of Linux, and this system is another"} }

// Bubblewrap finds nothing.
func Bubblewrap() (string, error) {
	return "", &messages.Error{Code: messages.ErrConfig, Field: "shell.isolation", Detail: "isolation: bubblewrap is for Linux", Cause: errors.ErrUnsupported}
}

//go:build !linux

package tools

import (
	"errors"
	"os/exec"
)

const limitsKnown = false

// runLimited is not reached: NewCommand refuses commands here.
func runLimited(*exec.Cmd, *Command) error { return errors.ErrUnsupported }

//go:build !linux

package tools

import (
	"errors"
	"os/exec"
)

const limitsKnown = false

// runLimited is not reached: NewCommand refuses commands here.
func runLimited(*exec.Cmd, *limits, *jail) error { return errors.ErrUnsupported }

// startGroup is not reached: Start refuses servers here.
func startGroup(*exec.Cmd, *limits, *jail) (func() error, error) { return nil, errors.ErrUnsupported }

func killGroup(int) error { return errors.ErrUnsupported }

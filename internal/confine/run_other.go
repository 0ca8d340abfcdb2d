//go:build !linux

package confine

import (
	"errors"
	"os"
	"os/exec"
)

// Supported reports whether programs can be held to limits on this system.
const Supported = false

// Run refuses: callers look at Supported before.
func Run(*exec.Cmd, *Limits, *Jail) error { return errors.ErrUnsupported }

// Given refuses, as Run does.
func Given([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }

// startGroup is not reached: Start refuses servers here.
func startGroup(*exec.Cmd, *Limits, *Jail) (func() error, error) { return nil, errors.ErrUnsupported }

func killGroup(int) error { return errors.ErrUnsupported }

// Try is not reached.
func (j *Jail) Try() error { return errors.ErrUnsupported }

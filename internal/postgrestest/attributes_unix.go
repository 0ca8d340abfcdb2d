//go:build unix && !linux

package postgrestest

import "syscall"

func attributes(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred}
}

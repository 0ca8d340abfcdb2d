package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// onRecord makes a change of a data directory, and leaves a line of it in the audit log, if a
// host keeps one there. As at the host, what cannot be recorded is not done. change may fill
// in e what it finds out.
func (a *app) onRecord(e *host.AuditEntry, change func() error) error {
	log, kept := a.auditLog.(host.AuditFile)
	switch {
	case a.auditLog == nil, kept && !begun(string(log)):
		return change()
	case kept && regular(string(log)):
		if err := (audit.File{Path: string(log)}).Check(); err != nil {
			return a.unrecorded("nothing was changed, because it could not be recorded", err)
		}
	}
	err := change()
	e.At, e.Token = time.Now(), "command by "+userName()
	if refused := (*messages.Error)(nil); errors.As(err, &refused) {
		e.Code, e.Reason = string(refused.Code), refused.Reason
	} else if err != nil {
		e.Reason = "FAILED" // an error of the system, which may name paths
	}
	if lost := host.WriteAudit(a.auditLog, *e); lost != nil {
		return errors.Join(err, a.unrecorded(e.Action+" is not recorded, whatever came of it", lost))
	}
	return err
}

// about begins the line of what is done to a session.
func about(action string, key messages.SessionKey) host.AuditEntry {
	return host.AuditEntry{Action: action, Tenant: key.Tenant, User: key.User, Session: key.ID}
}

// unrecorded returns the error of an audit log that took no line.
func (a *app) unrecorded(what string, err error) error {
	if errors.Is(err, files.ErrHeld) {
		what += "; the lock is " + a.auditPath + audit.HeadSuffix
	}
	return &messages.Error{Code: messages.ErrAudit, File: a.auditPath, Detail: what, Cause: files.Cause(err)}
}

// begun reports whether a host has kept an audit log, or one of its files was moved away.
func begun(path string) bool {
	for _, p := range []string{path, path + audit.HeadSuffix} {
		if _, err := os.Lstat(p); err == nil {
			return true
		}
	}
	return false
}

// regular reports whether a file can be read back, if it is there.
func regular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// maxNamedKeys bounds the keys that a line of the audit log names.
const maxNamedKeys = 16

func kids(ring *keyring.Ring) (names []string) {
	for _, k := range ring.Set().Keys() {
		names = append(names, k.KID())
	}
	return names
}

// newKeys names the keys that came to those of before.
func newKeys(before []string, ring *keyring.Ring) string {
	names := slices.DeleteFunc(kids(ring), func(kid string) bool { return slices.Contains(before, kid) })
	more := ""
	if n := len(names) - maxNamedKeys; n > 0 {
		names, more = names[:maxNamedKeys], fmt.Sprintf(" and %d more", n)
	}
	return "new keys " + strings.Join(names, ",") + more
}

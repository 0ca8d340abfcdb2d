package journal

import (
	"errors"

	"github.com/seed14be6753/stile/messages"
)

// Reasons beside ERR_JOURNAL, for messages.Error.Reason. A batch of a superseded
// owner is ERR_FENCED, without a reason.
const (
	// ReasonStaleHead: the batch does not continue the head, and no higher epoch
	// explains it. Discard the machine and load again; never retry the batch.
	ReasonStaleHead = "STALE_HEAD"
	// ReasonBusy: another process held the file too long. Not sticky.
	ReasonBusy = "BUSY"
	// ReasonIO: a write or sync failed. Sticky until the store is reopened.
	ReasonIO = "IO"
	// ReasonUnavailable: the server that holds the journal cannot be reached, or the
	// connection to it broke. Not sticky. Load again: the head shows what was committed.
	ReasonUnavailable = "UNAVAILABLE"
	// ReasonLost: the server has not got what it had acknowledged, as one that took the place of
	// another. It is said once, by each host that can tell, and the journal goes on from what is there.
	ReasonLost = "LOST"
	// ReasonOverload: the writer's queue is over its hard limit. Not sticky.
	ReasonOverload = "OVERLOAD"
	// ReasonClosed: the store or writer was closed.
	ReasonClosed = "CLOSED"
	// ReasonInvalid: the caller's batch, record or query is malformed; a defect.
	ReasonInvalid = "INVALID"
	// ReasonNotFound: no such session, blob, snapshot or key.
	ReasonNotFound = "NOT_FOUND"
	// ReasonCorrupt: stored bytes are not what was written.
	ReasonCorrupt = "CORRUPT"
	// ReasonUnproved: the receipts that a session must have are missing or wrong, so that a
	// host does not go on with it. The detail names session and record.
	ReasonUnproved = "UNPROVED"
	// ReasonErased: the bodies asked for have been erased.
	ReasonErased = "ERASED"
	// ReasonFormat: the file is foreign, or a newer version wrote it.
	ReasonFormat = "FORMAT"
	// ReasonReadOnly: the store was opened for reading alone.
	ReasonReadOnly = "READ_ONLY"
	// ReasonOwned: another process owns the file exclusively.
	ReasonOwned = "OWNED"
)

// Fail returns an ERR_JOURNAL with a reason; cause may be nil. Every store makes its
// errors with it, so that all of them use the same codes and words.
func Fail(reason string, cause error, format string, args ...any) *messages.Error {
	e := messages.Errorf(messages.ErrJournal, format, args...)
	e.Reason = reason
	e.Cause = cause
	return e
}

// ReasonOf returns the reason of the ERR_JOURNAL that err wraps, or "".
func ReasonOf(err error) string {
	var e *messages.Error
	if errors.As(err, &e) && e.Code == messages.ErrJournal {
		return e.Reason
	}
	return ""
}

// IsNotFound reports whether err means that the session, blob, snapshot or meta value does
// not exist.
func IsNotFound(err error) bool { return ReasonOf(err) == ReasonNotFound }

// IsStale reports whether err refuses a batch that does not continue the head: the caller
// must load the session again.
func IsStale(err error) bool { return ReasonOf(err) == ReasonStaleHead }

// IsFenced reports whether err refuses a batch of a superseded owner: the caller must stop.
func IsFenced(err error) bool { return messages.CodeOf(err) == messages.ErrFenced }

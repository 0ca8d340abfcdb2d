package stile

import (
	"errors"

	"github.com/seed14be6753/stile/internal/answer"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Programs branch on errors with the predicates below, or with a switch on the code:
//
//	switch stile.CodeOf(err) {
//	case stile.CodeBusy: // ask again later
//
// What a code means, and who can do something about it, is in docs/reference/codes.md. The
// names begin with Code because they are no error values: errors.Is does not take them.

// Code names a failure.
type Code = messages.Code

// The codes that a caller can act on. A run that HALTs has one of all codes as its reason.
const (
	CodeNotFound  = messages.ErrNotFound  // what is named does not exist
	CodeInvalid   = messages.ErrInvalid   // a name, position or argument is malformed
	CodeConflict  = messages.ErrConflict  // the call conflicts with existing state
	CodeBusy      = messages.ErrBusy      // work is in flight: the same call may succeed later
	CodeApproval  = messages.ErrApproval  // an answer to an approval was refused: see ApprovalLate and the other reasons
	CodeDenied    = messages.ErrDenied    // policy does not allow it
	CodeConfig    = messages.ErrConfig    // a setting, file, manifest or agent cannot be used
	CodeCancelled = messages.ErrCancelled // the runtime has closed, or the run was cancelled
	CodeJournal   = messages.ErrJournal   // the journal cannot be read or appended to
)

// CodeOf returns the code of err, "" for an error that has none; for joined errors the code
// of the first that has one.
func CodeOf(err error) Code { return messages.CodeOf(err) }

// IsNotFound reports whether err means that a session, a run, an approval or the bytes that
// a record names do not exist.
func IsNotFound(err error) bool { return CodeOf(err) == CodeNotFound || journal.IsNotFound(err) }

// IsUnproved reports whether err means that the receipts of a session do not prove its
// history, so that the host does not go on with it (Config.Unproved).
func IsUnproved(err error) bool { return proof.IsUnproved(err) }

// missing turns the journal's error for a missing value into ERR_NOT_FOUND.
func missing(err error) error {
	if !journal.IsNotFound(err) {
		return err
	}
	return &messages.Error{Code: messages.ErrNotFound, Reason: journal.ReasonNotFound, Cause: err}
}

// IsInvalid reports whether err means that a name, position or argument is malformed: the
// same call fails again.
func IsInvalid(err error) bool { return CodeOf(err) == CodeInvalid }

// IsConflict reports whether err means that a call conflicts with existing state: a session
// of that name exists, an idempotency key belongs to another input, a position is after the
// end of the journal.
func IsConflict(err error) bool { return CodeOf(err) == CodeConflict }

// IsBusy reports whether err means that work is in flight. The same call may succeed later.
func IsBusy(err error) bool { return CodeOf(err) == CodeBusy }

// IsDenied reports whether err says that policy does not allow a call.
func IsDenied(err error) bool { return CodeOf(err) == CodeDenied }

// IsConfig reports whether err is about a setting, file, manifest or agent that cannot be
// used.
func IsConfig(err error) bool { return CodeOf(err) == CodeConfig }

// IsHalt reports whether err means that a run ended HALT; CodeOf returns the reason. errors.As
// finds the *Outcome in err.
func IsHalt(err error) bool { return decisionOf(err) == Halt }

// IsAbort reports whether err says that a run ended ABORT: its program gave up.
func IsAbort(err error) bool { return decisionOf(err) == Abort }

func decisionOf(err error) Decision {
	var o *Outcome
	if !errors.As(err, &o) {
		return ""
	}
	return o.Decision
}

// IsTakenBack reports whether err means that a crash took back text which a TextStream had
// yielded; Run.Text returns the final text.
func IsTakenBack(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == answer.ReasonTakenBack
}

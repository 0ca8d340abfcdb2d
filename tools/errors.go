package tools

import (
	"errors"

	"github.com/seed14be6753/stile/messages"
)

// Refused is the error of an action that fails for a reason of its own, which stands in
// its record and which the model sees.
type Refused struct {
	Reason string // a word, or a word, a colon and more
	Text   string // for people; may be empty
}

// Refuse makes a Refused.
func Refuse(reason, text string) error { return &Refused{Reason: reason, Text: text} }

// Error implements error.
func (e *Refused) Error() string {
	if e.Text == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Text
}

// RefusalOf makes a Refused of a *messages.Error that has a reason; another error stays
// as it is.
func RefusalOf(err error) error {
	var e *messages.Error
	if !errors.As(err, &e) || e.Reason == "" {
		return err
	}
	text := e.Detail
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	return Refuse(e.Reason, text)
}

// Unsettled is the error of an action of which a part may have happened: its outcome is
// unknown (docs/spec/design.md §7).
type Unsettled struct{ Reason string }

// Error implements error.
func (e *Unsettled) Error() string { return "outcome unknown: " + e.Reason }

// Ceased is the error of an attempt that was told to stop and confirms that it has:
// nothing of it goes on, and what came of it is known.
type Ceased struct{ Reason string }

// Error implements error.
func (e *Ceased) Error() string { return "stopped: " + e.Reason }

// ErrLetGo is the cause of a context that ends because this process lets go of a
// session, not because the action should end: the session's next owner goes on with it.
// What lives beyond the process is not to be stopped.
var ErrLetGo = messages.Errorf(messages.ErrCancelled, "the session is not run here any more")

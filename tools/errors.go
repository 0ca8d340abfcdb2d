package tools

import (
	"errors"

	"github.com/seed14be6753/stile/messages"
)

// Refused is the error of an action that fails with a reason, which is recorded and shown
// to the model.
type Refused struct {
	Reason string // a word, or a word, a colon and more
	Text   string // for people; may be empty
}

// Refuse returns a *Refused.
func Refuse(reason, text string) error { return &Refused{Reason: reason, Text: text} }

// Error implements error.
func (e *Refused) Error() string {
	if e.Text == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Text
}

// RefusalOf returns a *Refused for a *messages.Error with a reason, and any other error
// unchanged.
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

// Unsettled is the error of an action whose outcome is unknown, because a part of it may
// have happened (docs/spec/design.md §7).
type Unsettled struct{ Reason string }

// Error implements error.
func (e *Unsettled) Error() string { return "outcome unknown: " + e.Reason }

// Ceased is the error of an attempt that was told to stop and has stopped: nothing of it
// runs any more, and its outcome is known.
type Ceased struct{ Reason string }

// Error implements error.
func (e *Ceased) Error() string { return "stopped: " + e.Reason }

// ErrLetGo is the cause of a context that ends because this process gives up a session, not
// because the action should end: the session's next owner goes on with it. A tool must not
// stop work that can outlive the process.
var ErrLetGo = messages.Errorf(messages.ErrCancelled, "the session is not run here any more")

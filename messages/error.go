package messages

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is the one error type that crosses rooms. Code says what, the place says
// where, Detail says it in words. Zero places are unknown.
//
// Who acts on it is in the code's table (Code.Info). It is safe to share: nothing
// changes an Error after it is made.
type Error struct {
	Code   Code
	Reason string // a constant of the specification behind the code, such as EXPIRED or GAS; may be empty
	Detail string // for people; holds no secret, no host path

	File   string // as the caller named it
	Line   int    // 1-based
	Col    int    // 1-based, in bytes
	Field  string // a key path such as model.provider
	Offset int64  // byte offset, meaningful when HasOffset
	// HasOffset tells offset 0 from no offset.
	HasOffset bool

	Cause error
}

// Errorf makes an Error with a formatted detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Error returns "place: CODE/REASON: detail: cause".
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
			if e.Col > 0 {
				fmt.Fprintf(&b, ":%d", e.Col)
			}
		}
		b.WriteString(": ")
	} else if e.Line > 0 {
		fmt.Fprintf(&b, "line %d", e.Line)
		if e.Col > 0 {
			fmt.Fprintf(&b, ":%d", e.Col)
		}
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field)
		b.WriteString(": ")
	}
	b.WriteString(string(e.Code))
	if e.Reason != "" {
		b.WriteByte('/')
		b.WriteString(e.Reason)
	}
	if e.HasOffset {
		fmt.Fprintf(&b, " at byte %d", e.Offset)
	}
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(e.Detail)
	}
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// At returns a copy of e whose field lies under another: base_url under model is
// model.base_url.
func (e *Error) At(field string) *Error {
	placed := *e
	placed.Field = field
	if e.Field != "" {
		placed.Field += "." + e.Field
	}
	return &placed
}

// At puts the field of err under another one. Of joined errors it places each; an error
// that carries no Error comes back as it is. The result holds the Error without what
// wrapped it.
func At(err error, field string) error {
	return place(err, func(e *Error) *Error { return e.At(field) })
}

// InFile names the file of an error whose maker did not know it, as At places a field.
func InFile(err error, file string) error {
	return place(err, func(e *Error) *Error {
		if e.File != "" {
			return e
		}
		placed := *e
		placed.File = file
		return &placed
	})
}

func place(err error, at func(*Error) *Error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all := slices.Clone(joined.Unwrap())
		for i := range all {
			all[i] = place(all[i], at)
		}
		return errors.Join(all...)
	}
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return at(e)
}

// CodeOf finds the code of err, or "" when it carries none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

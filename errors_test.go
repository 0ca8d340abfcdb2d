package stile_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// One predicate is true of each error, wrapped or not.
func TestPredicates(t *testing.T) {
	is := map[string]func(error) bool{
		"not found": stile.IsNotFound, "invalid": stile.IsInvalid, "conflict": stile.IsConflict,
		"busy": stile.IsBusy, "denied": stile.IsDenied, "config": stile.IsConfig,
	}
	for _, c := range []struct {
		err  error
		want string
		code stile.Code
	}{
		{messages.Errorf(stile.CodeNotFound, "x"), "not found", "ERR_NOT_FOUND"},
		{&stile.Error{Code: stile.CodeNotFound, Reason: journal.ReasonNotFound}, "not found", "ERR_NOT_FOUND"},
		{journal.Fail(journal.ReasonNotFound, nil, "no blob"), "not found", "ERR_JOURNAL"},
		{messages.Errorf(stile.CodeInvalid, "x"), "invalid", "ERR_INVALID"},
		{&stile.Error{Code: stile.CodeConflict, Reason: stile.ReasonKeyReused}, "conflict", "ERR_CONFLICT"},
		{messages.Errorf(stile.CodeBusy, "x"), "busy", "ERR_BUSY"},
		{messages.Errorf(stile.CodeDenied, "x"), "denied", "ERR_DENIED"},
		{messages.Errorf(stile.CodeConfig, "x"), "config", "ERR_CONFIG"},
		{messages.Errorf(stile.CodeApproval, "x"), "", "ERR_APPROVAL"},
		{messages.Errorf(stile.CodeCancelled, "x"), "", "ERR_CANCELLED"},
		{journal.Fail(journal.ReasonIO, io.EOF, "x"), "", "ERR_JOURNAL"},
		{io.EOF, "", ""},
		{nil, "", ""},
	} {
		for _, err := range []error{c.err, fmt.Errorf("around: %w", c.err), errors.Join(io.EOF, c.err)} {
			if stile.CodeOf(err) != c.code {
				t.Errorf("%v: the code is %q", err, stile.CodeOf(err))
			}
			for name, holds := range is {
				if holds(err) != (name == c.want) {
					t.Errorf("%v: %s is %v", err, name, holds(err))
				}
			}
		}
	}
}

// IsNotFound holds for everything that the journal does not have, from every method.
func TestNoBlob(t *testing.T) {
	rt := start(t, stile.Config{})
	s := opened(t, rt, "s", &stile.Agent{Dialect: "plain", Model: scripted.New("x")})
	_, one := s.Blob(t.Context(), messages.Digest{1})
	_, two := rt.Archive().Blob(t.Context(), s.Incarnation(), messages.Digest{1})
	for _, err := range []error{one, two} {
		if !stile.IsNotFound(err) || stile.CodeOf(err) != stile.CodeNotFound {
			t.Error(err)
		}
	}
}

// A caller's mistakes can be told apart without words.
func ExampleCodeOf() {
	_, err := messages.ParseSID("not a name")
	switch stile.CodeOf(err) {
	case stile.CodeInvalid:
		fmt.Println("another name is wanted")
	case stile.CodeBusy:
		fmt.Println("ask again")
	}
	// Output: another name is wanted
}

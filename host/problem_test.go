package host

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// The status of an error is that of its code, but for those that HTTP or its clients
// want otherwise.
func TestProblems(t *testing.T) {
	for _, c := range messages.Codes() {
		if p := problemOf(fmt.Errorf("around: %w", messages.Errorf(c.Code, "x"))); p.Status != c.HTTP || p.Code != string(c.Code) || p.Retryable != c.Retryable {
			t.Errorf("%s: %+v", c.Code, p)
		}
	}
	for _, c := range []struct {
		err    error
		status int
		code   messages.Code
	}{
		{journal.Fail(journal.ReasonNotFound, nil, "no blob"), 404, messages.ErrNotFound},
		{journal.Fail(journal.ReasonIO, nil, "disk"), 503, messages.ErrJournal},
		{&messages.Error{Code: messages.ErrNotFound, Reason: stile.ApprovalUnknown}, 404, messages.ErrNotFound},
		{&messages.Error{Code: messages.ErrApproval, Reason: stile.ApprovalLate}, 409, messages.ErrApproval},
		{&messages.Error{Code: messages.ErrConflict, Reason: stile.ReasonKeyReused, Field: "key"}, 422, messages.ErrConflict},
		{errors.New("a defect"), 500, messages.ErrCrash},
		{messages.Errorf("ERR_OTHER", "not in the table"), 500, messages.ErrCrash},
	} {
		if p := problemOf(c.err); p.Status != c.status || p.Code != string(c.code) || p.Type != "urn:stile:"+string(c.code) || c.status == 404 && p.Retryable {
			t.Errorf("%v: %+v", c.err, p)
		}
	}
}

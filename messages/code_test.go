package messages_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// Every code has a layer, a status that HTTP knows, who acts on it and what it means.
func TestCodes(t *testing.T) {
	seen := map[messages.Code]bool{}
	for _, c := range messages.Codes() {
		lint := strings.HasPrefix(string(c.Code), "LINT_")
		switch {
		case seen[c.Code], !lint && !strings.HasPrefix(string(c.Code), "ERR_"):
			t.Errorf("%s: there twice, or no name of a code", c.Code)
		case c.Layer == "", !strings.HasSuffix(c.Meaning, "."):
			t.Errorf("%s: no layer, or no sentence: %+v", c.Code, c)
		case lint && (c.HTTP != 200 || c.Retryable), !lint && (c.HTTP < 400 || c.HTTP > 599):
			t.Errorf("%s: status %d", c.Code, c.HTTP)
		}
		switch c.Acts {
		case messages.ActorAuthor, messages.ActorClient, messages.ActorOperator, messages.ActorNobody:
		default:
			t.Errorf("%s: %q acts", c.Code, c.Acts)
		}
		if info, ok := c.Code.Info(); !ok || info != c {
			t.Errorf("%s: %+v, %v", c.Code, info, ok)
		}
		seen[c.Code] = true
	}
	if _, ok := messages.Code("ERR_OTHER").Info(); ok {
		t.Error("a code that is not in the table is described")
	}
}

// What a caller can mend is apart from what the operator can.
func TestCallersCodes(t *testing.T) {
	for code, want := range map[messages.Code]messages.CodeInfo{
		messages.ErrNotFound: {HTTP: 404, Acts: messages.ActorClient},
		messages.ErrInvalid:  {HTTP: 400, Acts: messages.ActorClient},
		messages.ErrConflict: {HTTP: 409, Acts: messages.ActorClient},
		messages.ErrBusy:     {HTTP: 409, Acts: messages.ActorClient, Retryable: true},
		messages.ErrApproval: {HTTP: 409, Acts: messages.ActorClient},
		messages.ErrConfig:   {HTTP: 400, Acts: messages.ActorOperator},
	} {
		if got, ok := code.Info(); !ok || got.HTTP != want.HTTP || got.Acts != want.Acts || got.Retryable != want.Retryable {
			t.Errorf("%s: %+v, want %+v", code, got, want)
		}
	}
}

func TestNamesAreInvalid(t *testing.T) {
	for name, field := range map[string]string{
		"": "id", "a b": "id", "a:b": "sid", "a:b:c:d": "sid", ":u:i": "tenant", "t::i": "user", "t:u:": "id", strings.Repeat("x", 128): "id",
	} {
		_, err := messages.ParseSID(name)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrInvalid || e.Field != field {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, unit := range []string{"", "1", "0.1", "1.x", "1.1.1"} {
		if _, err := messages.ParseUnitID(unit); messages.CodeOf(err) != messages.ErrInvalid {
			t.Errorf("%q: %v", unit, err)
		}
	}
}

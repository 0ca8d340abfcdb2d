package messages_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

func TestAt(t *testing.T) {
	bare := messages.Errorf(messages.ErrConfig, "wrong")
	inner := &messages.Error{Code: messages.ErrInvalid, Field: "base_url", File: "a.yaml", Line: 3}
	for _, c := range []struct {
		err  error
		want string
	}{
		{bare, "model: ERR_CONFIG: wrong"},
		{inner, "a.yaml:3: model.base_url: ERR_INVALID"},
		{fmt.Errorf("around: %w", inner), "a.yaml:3: model.base_url: ERR_INVALID"},
		{errors.Join(bare, io.EOF, errors.Join(inner)), "model: ERR_CONFIG: wrong\nEOF\na.yaml:3: model.base_url: ERR_INVALID"},
		{io.EOF, "EOF"},
	} {
		if got := messages.At(c.err, "model"); got.Error() != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
	if err := messages.At(nil, "model"); err != nil {
		t.Error(err)
	}
	if bare.Field != "" || inner.Field != "base_url" {
		t.Errorf("what was placed has changed: %v, %v", bare, inner)
	}
}

func TestInFile(t *testing.T) {
	bare := messages.Errorf(messages.ErrConfig, "wrong")
	known := &messages.Error{Code: messages.ErrConfig, File: "a.yaml", Line: 3}
	for _, c := range []struct {
		err  error
		want string
	}{
		{bare, "b.yaml: ERR_CONFIG: wrong"},
		{known, "a.yaml:3: ERR_CONFIG"},
		{errors.Join(bare, known), "b.yaml: ERR_CONFIG: wrong\na.yaml:3: ERR_CONFIG"},
		{io.EOF, "EOF"},
	} {
		if got := messages.InFile(c.err, "b.yaml"); got.Error() != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
	if bare.File != "" {
		t.Errorf("what was placed has changed: %v", bare)
	}
}

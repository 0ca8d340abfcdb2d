package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		f            Failure
		reason, text string
	}{
		{Failure{Status: 429}, "STATUS_429", "status 429"},
		{Failure{Status: 429, Code: "rate_limited"}, "STATUS_429", "status 429, rate_limited"},
		{Failure{Code: "exhausted"}, ReasonExhausted, "exhausted"},
		{Failure{Code: "econn-reset.9ä"}, "ECONN_RESET_9_", "econn-reset.9ä"},
		{Failure{}, ReasonTransport, "no answer"},
	} {
		e := Fail(c.f, "why")
		if e.Code != messages.ErrModel || e.Reason != c.reason || c.f.Error() != c.text {
			t.Errorf("%+v: %v, %q", c.f, e, c.f.Error())
		}
		if got := FailureOf(fmt.Errorf("wrapped: %w", e)); got != c.f {
			t.Errorf("%+v comes back as %+v", c.f, got)
		}
	}
	if f := FailureOf(errors.New("x")); f.Retryable || f.Status != 0 {
		t.Errorf("%+v", f)
	}
	if f := FailureOf(messages.Errorf(messages.ErrQuota, "x")); f != (Failure{Code: "ERR_QUOTA"}) {
		t.Errorf("%+v", f)
	}
	retryable := map[int]bool{408: true, 425: true, 429: true, 500: true, 502: true, 503: true, 504: true, 529: true}
	for status := range 600 {
		if RetryableStatus(status) != retryable[status] {
			t.Errorf("status %d", status)
		}
	}
}

type fixed []string

func (f fixed) Stream(context.Context, Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for _, s := range f {
			if !yield(Chunk{Text: []byte(s)}, nil) {
				return
			}
		}
		yield(Chunk{}, Fail(Failure{Status: 500}, ""))
	}
}

func TestBound(t *testing.T) {
	text := "abcdef"
	for limit := range int64(9) {
		for cut := range text {
			var got strings.Builder
			var last error
			for c, err := range Bound(fixed{text[:cut], text[cut:]}.Stream(t.Context(), Request{}), limit) {
				if last != nil {
					t.Fatal("something follows the error")
				}
				got.Write(c.Text)
				last = err
			}
			want, code := text, messages.ErrModel
			if limit > 0 && limit < 6 {
				want, code = text[:limit], messages.ErrQuota
			}
			if got.String() != want || messages.CodeOf(last) != code {
				t.Errorf("limit %d, cut %d: %q, %v", limit, cut, got.String(), last)
			}
		}
	}
	for range Bound(fixed{"a", "b"}.Stream(t.Context(), Request{}), 5) {
		break // a panic would tell if Bound went on
	}
	for range Bound(fixed{"abc"}.Stream(t.Context(), Request{}), 1) {
		break
	}
}

package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func TestPolicy(t *testing.T) {
	var p Policy
	passing := Failure{Status: 503, Retryable: true}
	for _, c := range []struct {
		name string
		p    Policy
		a    Attempt
		f    Failure
		want Step
	}{
		{"first", p, Attempt{N: 1}, passing, Step{Retry, 500 * time.Millisecond}},
		{"second", p, Attempt{N: 2}, passing, Step{Retry, time.Second}},
		{"third is the last", p, Attempt{N: 3}, passing, Step{}},
		{"third, another model", p, Attempt{N: 3, Models: 1}, passing, Step{Do: Fallback}},
		{"not retryable", p, Attempt{N: 1}, Failure{Status: 401}, Step{}},
		{"not retryable, another model", p, Attempt{N: 1, Models: 2}, Failure{Status: 401}, Step{Do: Fallback}},
		{"a byte was delivered", p, Attempt{N: 1, Delivered: 1, Models: 1}, passing, Step{}},
		{"asked to wait", p, Attempt{N: 1}, Failure{Retryable: true, RetryAfter: 7 * time.Second}, Step{Retry, 7 * time.Second}},
		{"asked to wait less than we would", p, Attempt{N: 2}, Failure{Retryable: true, RetryAfter: time.Millisecond}, Step{Retry, time.Second}},
		{"asked to wait the cap", p, Attempt{N: 1}, Failure{Retryable: true, RetryAfter: DefaultCap}, Step{Retry, DefaultCap}},
		{"asked to wait too long", p, Attempt{N: 1}, Failure{Retryable: true, RetryAfter: DefaultCap + 1}, Step{}},
		{"asked to wait too long, another model", p, Attempt{N: 1, Models: 1}, Failure{Retryable: true, RetryAfter: time.Hour}, Step{Do: Fallback}},
		{"own numbers", Policy{Attempts: 9, Base: time.Second, Cap: 5 * time.Second}, Attempt{N: 3}, passing, Step{Retry, 4 * time.Second}},
		{"capped", Policy{Attempts: 9, Base: time.Second, Cap: 5 * time.Second}, Attempt{N: 4}, passing, Step{Retry, 5 * time.Second}},
		{"no overflow", Policy{Attempts: 1 << 30}, Attempt{N: 1 << 20}, passing, Step{Retry, DefaultCap}},
		{"one attempt", Policy{Attempts: 1}, Attempt{N: 1}, passing, Step{}},
		{"another key", p, Attempt{N: 3}, Failure{Status: 429, NextKey: true, Keys: 2, RetryAfter: time.Second}, Step{Rotate, time.Second}},
		{"another key, at once", p, Attempt{N: 1}, Failure{Status: 401, NextKey: true, Keys: 3}, Step{Do: Rotate}},
		{"all keys have had their turn", p, Attempt{N: 1, Rotations: 1}, Failure{Status: 429, NextKey: true, Keys: 2, Retryable: true}, Step{Retry, 500 * time.Millisecond}},
		{"all keys were refused", p, Attempt{N: 1, Rotations: 1, Models: 1}, Failure{Status: 401, NextKey: true, Keys: 2}, Step{Do: Fallback}},
		{"a byte was delivered, another key", p, Attempt{N: 1, Delivered: 1}, Failure{NextKey: true, Keys: 2}, Step{}},
		{"another key, too long to wait", Policy{Cap: time.Second}, Attempt{N: 1}, Failure{NextKey: true, Keys: 2, RetryAfter: 2 * time.Second}, Step{}},
		{"base over cap", Policy{Base: time.Hour}, Attempt{N: 1}, passing, Step{Retry, DefaultCap}},
	} {
		if got := c.p.Next(c.a, c.f); got != c.want {
			t.Errorf("%s: %v after %v, want %v after %v", c.name, got.Do, got.Wait, c.want.Do, c.want.Wait)
		}
	}
	if s := fmt.Sprint(GiveUp, Retry, Fallback, Rotate); s != "give up retry fallback rotate" {
		t.Error(s)
	}
}

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

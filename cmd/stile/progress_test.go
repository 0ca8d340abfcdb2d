package main

import (
	"strings"
	"testing"
	"time"
)

// The line is drawn over, not for each step, and cleared at the end.
func TestProgressLine(t *testing.T) {
	for name, c := range map[string]struct {
		total int64
		steps int
		each  time.Duration
		want  string
	}{
		"known":   {100, 20, 100 * time.Millisecond, "\r2 of 100 sessions, 10 a second, 10s left\x1b[K\r4 of 100 sessions, 10 a second, 10s left\x1b[K"},
		"unknown": {0, 3, 200 * time.Millisecond, "\r1 session, 5 a second\x1b[K\r2 sessions, 5 a second\x1b[K\r3 sessions, 5 a second\x1b[K\r\x1b[K"},
		"short":   {10, 10, time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			at := time.Unix(0, 0)
			p := newProgress(&out, "session", c.total, func() time.Time { return at })
			for range c.steps {
				at = at.Add(c.each)
				p.step()
			}
			p.end()
			got := out.String()
			if name == "known" {
				if !strings.HasPrefix(got, c.want) || strings.Count(got, "left") != 10 || !strings.HasSuffix(got, "\r\x1b[K") {
					t.Errorf("%q", got)
				}
			} else if got != c.want {
				t.Errorf("%q", got)
			}
		})
	}
	var none *progress
	none.step()
	none.end()
}

package cortex

import (
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// retry_delay and backoff are members of rendering 2; the first ignores them, as all that it
// does not know.
func TestRetryMembers(t *testing.T) {
	for body, want := range map[string]struct {
		delay   time.Duration
		backoff int
		bad     string
	}{
		``:                                   {0, 0, ""},
		`,"retry_delay":2,"backoff":3`:       {2 * time.Second, 3, ""},
		`,"retry_delay":0.5`:                 {500 * time.Millisecond, 0, ""},
		`,"retry_delay":0,"backoff":1`:       {-1, 1, ""},
		`,"retry_delay":61,"backoff":11`:     {time.Minute, 10, ""},
		`,"retry_delay":"4","backoff":"2"`:   {4 * time.Second, 2, ""}, // a forgiven habit
		`,"retry_delay":null,"backoff":null`: {0, 0, ""},
		`,"retry_delay":-1`:                  {0, 0, "retry_delay"},
		`,"retry_delay":"soon"`:              {0, 0, "retry_delay"},
		`,"backoff":0`:                       {0, 0, "backoff"},
		`,"backoff":1.5`:                     {0, 0, "backoff"},
		`,"backoff":true`:                    {0, 0, "backoff"},
	} {
		for _, rendering := range []int64{1, 2} {
			x := Dialect{Rendering: rendering}
			if rendering == 2 {
				x = lenient
			}
			d := x.NewDecoder(messages.TurnInfo{Turn: 1})
			var got *messages.Action
			bad := ""
			see := func(ev messages.Event) {
				if ev.Action != nil {
					a := *ev.Action
					got = &a
				}
				if ev.Fault != nil {
					bad = ev.Fault.Detail
				}
			}
			d.Push([]byte(`<action id="a">{"name":"t","retry":2`+body+`}</action>`), see)
			d.End(messages.FinishComplete, see)
			if rendering == 2 && want.bad != "" {
				if got != nil || !strings.Contains(bad, want.bad) || !strings.Contains(bad, wanted[want.bad]) {
					t.Errorf("%s: %+v, told %q", body, got, bad)
				}
				continue
			}
			delay, backoff := want.delay, want.backoff
			if rendering == 1 {
				delay, backoff = 0, 0
			}
			if got == nil || got.Retry != 2 || got.RetryDelay != delay || got.Backoff != backoff {
				t.Errorf("rendering %d, %s: %+v, told %q", rendering, body, got, bad)
			}
		}
	}
}

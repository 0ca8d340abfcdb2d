package feeds

import "time"

// The back-off of feeds that crash (docs/spec/streaming.md §7.2).
const (
	BackOffFirst  = time.Second
	BackOffMost   = 60 * time.Second
	BackOffTimes  = 5
	BackOffWindow = 10 * time.Minute
)

// Crashes is what a feed's crashes came to. It is a value; the zero Crashes has none.
type Crashes struct {
	recent   [BackOffTimes]time.Time // the last restarts, oldest first; zero for none
	row      int                     // crashes since the last success
	next     time.Time               // not fetched before
	disabled bool
}

// Crashed adds a crash. The feed is restarted after 1 s·2ⁿ, n being the crashes in a
// row before this one, and 60 s at most; the sixth crash within ten minutes disables
// it.
func (c Crashes) Crashed(now time.Time) Crashes {
	if c.disabled {
		return c
	}
	if first := c.recent[0]; !first.IsZero() && now.Sub(first) < BackOffWindow {
		c.disabled = true
		return c
	}
	copy(c.recent[:], c.recent[1:])
	c.recent[BackOffTimes-1] = now
	delay := BackOffMost
	if c.row < 6 { // 2⁶ s is more than 60 s
		delay = BackOffFirst << c.row
	}
	c.row++
	c.next = now.Add(delay)
	return c
}

// Succeeded ends a row of crashes. Those of the last ten minutes still count.
func (c Crashes) Succeeded() Crashes {
	if !c.disabled {
		c.row, c.next = 0, time.Time{}
	}
	return c
}

// Disabled reports whether the feed is not restarted any more.
func (c Crashes) Disabled() bool { return c.disabled }

// Next is when the feed may be fetched again; zero is at any time.
func (c Crashes) Next() time.Time { return c.next }

// May reports whether the feed may be fetched.
func (c Crashes) May(now time.Time) bool { return !c.disabled && !now.Before(c.next) }

// forgettable reports whether the crashes no longer matter for anything.
func (c Crashes) forgettable(now time.Time) bool {
	return !c.disabled && c.row == 0 && now.Sub(c.recent[BackOffTimes-1]) >= BackOffWindow
}

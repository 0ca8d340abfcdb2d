package share

import (
	"math"
	"time"
)

// Unit is one request, in the thousandths in which parts of rates are counted.
const Unit = 1000

// Bucket is a host's part of a rate: it fills by its part of the requests a second, up to its
// part of those at once. A part of less than one request lets one in as well, when it has come
// together. The zero value is empty, and stays so.
type Bucket struct {
	rate, burst int64 // in thousandths
	level       float64
	at          time.Time
}

func (b *Bucket) room() float64 { return float64(max(b.burst, Unit)) }

// fill brings the level to a time.
func (b *Bucket) fill(now time.Time) {
	if d := now.Sub(b.at).Seconds(); d > 0 && !b.at.IsZero() {
		b.level = max(b.level, min(b.room(), b.level+d*float64(b.rate)))
	}
	if now.After(b.at) {
		b.at = now
	}
}

// Take takes one request, or says how long it would have to wait.
func (b *Bucket) Take(now time.Time) (wait time.Duration) {
	b.fill(now)
	if b.level >= Unit {
		b.level -= Unit
		return 0
	}
	if b.rate <= 0 {
		return time.Second
	}
	return max(time.Millisecond, time.Duration(math.Ceil((Unit-b.level)/float64(b.rate)*1000))*time.Millisecond)
}

// Give gives up all but so much of the part. It returns what is kept of the burst: what was taken
// of it a moment ago is kept until it has come again, so that what others get is full.
func (b *Bucket) Give(now time.Time, rate, burst int64) (kept int64) {
	b.fill(now)
	b.rate = min(b.rate, rate)
	if less := min(b.burst-burst, int64(b.level)); less > 0 {
		b.burst -= less
		b.level -= float64(less)
	}
	return b.burst
}

// Get makes the part larger, if it is. What comes is full.
func (b *Bucket) Get(now time.Time, rate, burst int64) {
	b.fill(now)
	b.rate = max(b.rate, rate)
	if more := burst - b.burst; more > 0 {
		b.burst += more
		b.level += float64(more)
	}
}

// Full reports whether nothing is missing in it.
func (b *Bucket) Full(now time.Time) bool {
	b.fill(now)
	return b.level >= float64(b.burst)
}

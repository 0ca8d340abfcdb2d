package feeds

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
)

const benchFeeds = 100_000 // four in each of 25,000 sessions

// intervals of 30 s, begun evenly over 30 s: each tick has 833 of them due.
func benchNames() (sessions, names []string) {
	for i := range benchFeeds / 4 {
		sessions = append(sessions, fmt.Sprintf("session-%08d", i))
	}
	return sessions, []string{"metrics", "errors", "journal_tree", "docker_status"}
}

// BenchmarkWheelTick100000Feeds is one tick of 250 ms: what is due is found, placed
// again and handed over. An idle tick has the same feeds and nothing due. The floor
// looks at every feed's time in turn, the least that keeps no order.
func BenchmarkWheelTick100000Feeds(b *testing.B) {
	sessions, names := benchNames()
	const interval = int64(30 * time.Second / Tick)
	b.Run("wheel/833-due", func(b *testing.B) {
		s := newSlots()
		for i := range benchFeeds {
			d := s.add(sessions[i/4], names[i%4], nil, interval, int64(i)%interval)
			s.done(d.Ticket, 0)
		}
		var due []Due
		now, total := int64(interval), 0
		s.advance(now, nil, math.MaxInt)
		b.ReportAllocs()
		for b.Loop() {
			now++
			due = s.advance(now, due[:0], math.MaxInt)
			for i := range due {
				s.done(due[i].Ticket, 0)
			}
			total += len(due)
		}
		b.ReportMetric(float64(total)/float64(b.N), "due/op")
	})
	b.Run("wheel/0-due", func(b *testing.B) {
		s := newSlots()
		for i := range benchFeeds {
			s.add(sessions[i/4], names[i%4], nil, 1<<40, 0)
		}
		now := int64(0)
		b.ReportAllocs()
		for b.Loop() {
			now++
			s.advance(now, nil, math.MaxInt)
		}
	})
	b.Run("floor/scan", func(b *testing.B) {
		due := make([]int64, benchFeeds)
		for i := range due {
			due[i] = interval + int64(i)%interval
		}
		now, total := interval-1, 0
		b.ReportAllocs()
		for b.Loop() {
			now++
			for i := range due {
				if due[i] <= now {
					due[i] += interval
					total++
				}
			}
		}
		b.ReportMetric(float64(total)/float64(b.N), "due/op")
	})
}

// BenchmarkWheelMemory100000Feeds is the heap that periodic feeds take, against a
// timer of the runtime for each, which is the floor of what one goroutine less per
// feed can do.
func BenchmarkWheelMemory100000Feeds(b *testing.B) {
	sessions, names := benchNames()
	measure := func(b *testing.B, fill func() any) {
		b.ReportAllocs()
		var bytes float64
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			kept := fill()
			runtime.GC()
			runtime.ReadMemStats(&after)
			// What the runtime still had of the round before is not taken off.
			bytes = max(bytes, float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)))
			if w, ok := kept.(*Wheel); ok {
				w.Close()
			}
			if ts, ok := kept.([]*time.Timer); ok {
				for _, t := range ts {
					t.Stop()
				}
			}
			runtime.KeepAlive(kept)
		}
		b.ReportMetric(bytes/benchFeeds, "B/feed")
	}
	b.Run("wheel", func(b *testing.B) {
		measure(b, func() any {
			w := NewWheel(func([]Due) {})
			for i := range benchFeeds {
				w.Add(sessions[i/4], names[i%4], time.Hour)
			}
			for {
				w.mu.Lock()
				idle := len(w.waiting) == 0 && w.armed != 0
				w.mu.Unlock()
				if idle {
					return w
				}
				runtime.Gosched()
			}
		})
	})
	b.Run("floor/timers", func(b *testing.B) {
		measure(b, func() any {
			timers := make([]*time.Timer, benchFeeds)
			for i := range timers {
				timers[i] = time.AfterFunc(time.Hour, func() {})
			}
			return timers
		})
	})
}

// BenchmarkInjection8FeedsOf4KiB appends the elements of a prompt. The floor copies
// the same bytes.
// appendAll appends elements in their order.
func appendAll(dst []byte, elements []Element) []byte {
	for i := range elements {
		dst = elements[i].Append(dst)
	}
	return dst
}

func BenchmarkInjection8FeedsOf4KiB(b *testing.B) {
	els := make([]Element, 8)
	for i := range els {
		line := fmt.Sprintf("feed %d says </context_feed> and 0123456789 abcdef\n", i)
		els[i] = Element{ID: fmt.Sprint("feed_", i), Body: strings.Repeat(line, 4096/len(line)+1)[:4096]}
	}
	b.Run("append", func(b *testing.B) {
		dst := appendAll(nil, els)
		b.SetBytes(8 * 4096)
		b.ReportAllocs()
		for b.Loop() {
			dst = appendAll(dst[:0], els)
		}
	})
	b.Run("append-plain", func(b *testing.B) {
		plain := make([]Element, len(els))
		for i := range els {
			plain[i] = Element{ID: els[i].ID, Body: strings.ReplaceAll(els[i].Body, "<", "(")}
		}
		dst := appendAll(nil, plain)
		b.SetBytes(8 * 4096)
		b.ReportAllocs()
		for b.Loop() {
			dst = appendAll(dst[:0], plain)
		}
	})
	b.Run("floor/copy", func(b *testing.B) {
		var dst bytes.Buffer
		b.SetBytes(8 * 4096)
		b.ReportAllocs()
		for b.Loop() {
			dst.Reset()
			for i := range els {
				dst.WriteString(els[i].Body)
			}
		}
	})
}

// BenchmarkLimit64KiB cuts a text to 1,000 tokens, by the default counter and by one
// that has to be asked.
func BenchmarkLimit64KiB(b *testing.B) {
	text := strings.Repeat("lorem ipsum äöü ", 4096)
	for name, count := range map[string]Counter{"code-points": CodePoints{}, "asked": slowCodePoints{}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				limit(text, 1000, 0, count)
			}
		})
	}
}

package feeds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The slots against one number per feed, under random operations and jumps of time.
func TestSlotsAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	type feed struct {
		interval, due int64
		running       bool
		ticket        Ticket
	}
	for range 40 {
		s := newSlots()
		model := map[string]*feed{}
		now := int64(0)
		var stale []Ticket
		for range 400 {
			session, name := fmt.Sprint("s", r.IntN(4)), fmt.Sprint("f", r.IntN(6))
			key := session + "/" + name
			switch r.IntN(8) {
			case 0, 1:
				interval := []int64{1, 4, 20, 1200, 5000}[r.IntN(5)]
				if m := model[key]; m != nil {
					stale = append(stale, m.ticket)
				}
				d := s.add(session, name, nil, interval, now)
				model[key] = &feed{interval, now + interval, true, d.Ticket}
			case 2:
				if m := model[key]; m != nil {
					stale = append(stale, m.ticket)
				}
				s.remove(session, name)
				delete(model, key)
			case 3:
				if r.IntN(10) == 0 {
					s.removeSession(session)
					for k, m := range model {
						if strings.HasPrefix(k, session+"/") {
							stale = append(stale, m.ticket)
							delete(model, k)
						}
					}
				}
			case 4, 5:
				if m := model[key]; m != nil && m.running {
					at := int64(0)
					if r.IntN(3) == 0 {
						at = now + 1 + r.Int64N(3000)
						m.due = at
					}
					m.running = false
					s.done(m.ticket, at)
				}
				if len(stale) > 0 {
					s.done(stale[r.IntN(len(stale))], now+1)
				}
			default:
				now += []int64{1, 1, 3, 700, 1024, 9000}[r.IntN(6)]
				var got, want []string
				for most := 1 + r.IntN(5); ; { // in helpings, until one is not full
					due := s.advance(now, nil, most)
					for _, d := range due {
						got = append(got, d.Session+"/"+d.Feed)
						model[d.Session+"/"+d.Feed].ticket = d.Ticket
					}
					if len(due) < most {
						break
					}
				}
				for k, m := range model {
					if m.due > now {
						continue
					}
					for m.due <= now {
						m.due += m.interval
					}
					if !m.running {
						m.running = true
						want = append(want, k)
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("at %d due %v, want %v", now, got, want)
				}
			}
			if s.count != len(model) {
				t.Fatalf("%d feeds, want %d", s.count, len(model))
			}
			next, ok := s.next()
			for k, m := range model {
				if !ok || next > m.due && m.due-now <= slotCount {
					t.Fatalf("next is %d, %v; %s is due at %d", next, ok, k, m.due)
				}
			}
		}
	}
}

// A wheel that was empty in between knows no old ticket.
func TestOldTickets(t *testing.T) {
	s := newSlots()
	old := s.add("s", "a", nil, 4, 0)
	s.remove("s", "a")
	s.add("s", "a", nil, 4, 0)
	s.done(old.Ticket, 0)
	s.done(Ticket{}, 0)
	s.done(Ticket{index: 9, start: 1}, 0)
	if due := s.advance(4, nil, math.MaxInt); len(due) != 0 || s.dropped != 1 {
		t.Errorf("due %v, dropped %d: an old ticket ended a new start", due, s.dropped)
	}
}

// handed is what a wheel handed over and when.
type handed struct {
	mu    sync.Mutex
	begun time.Time
	lines []string
	due   []Due
	calls int
}

func (h *handed) take(batch []Due) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	for _, d := range batch {
		h.lines = append(h.lines, fmt.Sprintf("%s %s", time.Since(h.begun), d.Feed))
		h.due = append(h.due, d)
	}
}

func (h *handed) since() (lines []string, due []Due) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines, due = h.lines, h.due
	h.lines, h.due = nil, nil
	return lines, due
}

func (h *handed) batches() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

func TestWheel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handed{begun: time.Now()}
		w := NewWheel(h.take)
		defer w.Close()
		want := func(lines ...string) []Due {
			t.Helper()
			synctest.Wait()
			got, due := h.since()
			if !slices.Equal(got, lines) {
				t.Fatalf("at %s handed over %q, want %q", time.Since(h.begun), got, lines)
			}
			return due
		}
		w.Add("s", "a", 10*time.Second)
		first := want("0s a")
		time.Sleep(3 * time.Second)
		w.Add("s", "b", 5*time.Second)
		for _, d := range append(first, want("3s b")...) {
			w.Done(d.Ticket, time.Time{})
		}

		// From start to start, however long a fetch took; a start during one is dropped.
		time.Sleep(5 * time.Second)
		slow := want("8s b")
		time.Sleep(9 * time.Second)
		due := want("10s a")
		if _, dropped := w.Len(); dropped != 1 { // b at 13 s
			t.Errorf("dropped %d starts, want 1", dropped)
		}
		for _, d := range append(due, slow...) {
			w.Done(d.Ticket, time.Time{})
		}
		time.Sleep(3 * time.Second)
		for _, d := range want("18s b", "20s a") {
			w.Done(d.Ticket, time.Time{})
		}

		// Another interval begins now, and what runs for the old one no longer counts.
		w.Add("s", "b", 7*time.Second)
		again := want("20s b")
		w.Done(slow[0].Ticket, time.Now().Add(time.Second))
		time.Sleep(6 * time.Second)
		want()
		w.Done(again[0].Ticket, time.Now().Add(9*time.Second)) // a restart
		time.Sleep(9 * time.Second)
		want("30s a", "35s b")

		w.RemoveSession("s")
		time.Sleep(time.Hour)
		want()
		if n, _ := w.Len(); n != 0 {
			t.Errorf("%d feeds are left", n)
		}
		w.Add("s", "c", time.Second)
		want("1h0m35s c")
		w.Remove("s", "c")
		w.Close()
		w.Close()
		w.Add("s", "d", time.Second)
		want()
	})
}

// What is due together is handed over together, and a host with nothing due does not
// wake: the bubble's clock jumps over the hour, and the wheel delivers but once.
func TestWheelBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handed{begun: time.Now()}
		w := NewWheel(h.take)
		defer w.Close()
		const feeds = 3*BatchSize + 1
		for i := range feeds {
			w.Add(fmt.Sprint("s", i), "f", time.Hour)
		}
		synctest.Wait()
		_, due := h.since()
		for _, d := range due {
			w.Done(d.Ticket, time.Time{})
		}
		begun := h.batches()
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if _, due := h.since(); len(due) != feeds || h.batches()-begun != 4 {
			t.Errorf("%d feeds in %d batches, want %d in 4", len(due), h.batches()-begun, feeds)
		}
	})
}

// After Close nothing more is handed over, also of what is due already.
func TestWheelClosesBetweenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan int, 10)
		goOn := make(chan struct{})
		w := NewWheel(func(batch []Due) {
			calls <- len(batch)
			<-goOn
		})
		w.Add("s", "first", time.Second)
		<-calls
		for i := range 2 * BatchSize {
			w.Add("s", fmt.Sprint("f", i), time.Second)
		}
		goOn <- struct{}{}
		if n := <-calls; n != BatchSize {
			t.Errorf("a batch of %d", n)
		}
		go func() {
			time.Sleep(time.Second)
			close(goOn)
		}()
		w.Close()
		if len(calls) != 0 {
			t.Error("a batch after Close")
		}
	})
}

// Many goroutines at once; the race detector watches, and nothing is lost or doubled.
func TestWheelRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running := map[string]bool{}
		var w *Wheel
		starts := 0
		w = NewWheel(func(batch []Due) {
			for _, d := range batch {
				key := d.Session + d.Feed
				mu.Lock()
				if running[key] {
					t.Errorf("%s runs twice", key)
				}
				running[key] = true
				starts++
				mu.Unlock()
				go func() {
					time.Sleep(1500 * time.Millisecond)
					mu.Lock()
					running[key] = false
					mu.Unlock()
					w.Done(d.Ticket, time.Time{})
				}()
			}
		})
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 16 {
					w.Add(fmt.Sprint("s", i), fmt.Sprint("f", j), time.Second)
				}
			})
		}
		all.Wait()
		// Started at 0, and each that falls into a running fetch dropped: 0 2 4 … 60.
		time.Sleep(time.Minute + time.Second/2)
		synctest.Wait()
		if want := 8 * 16 * 31; starts != want {
			t.Errorf("%d starts, want %d", starts, want)
		}
		w.Close()
		time.Sleep(2 * time.Second)
	})
}

func TestBackOff(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(d) }
	var c Crashes
	now := time.Duration(0)
	for i, want := range []time.Duration{1, 2, 4, 8, 16} {
		if c = c.Crashed(at(now)); c.Disabled() || c.Next() != at(now+want*time.Second) {
			t.Fatalf("crash %d: next at %s, disabled %v", i+1, c.Next(), c.Disabled())
		}
		if c.May(at(now+want*time.Second-1)) || !c.May(at(now+want*time.Second)) {
			t.Fatalf("crash %d: may be fetched at the wrong time", i+1)
		}
		now += want * time.Second
	}
	if six := c.Crashed(at(now)); !six.Disabled() || six.May(at(now+time.Hour)) || six.Succeeded().May(at(now+time.Hour)) {
		t.Error("the sixth crash within ten minutes does not disable")
	}
	if c.Disabled() {
		t.Error("a value changed")
	}
	// The first one leaves the window exactly after ten minutes.
	if c.Crashed(at(10*time.Minute-1)).Disabled() != true || c.Crashed(at(10*time.Minute)).Disabled() {
		t.Error("the window is not ten minutes")
	}
	// Slow crashes go on for ever, with a minute at most between.
	c, now = Crashes{}, 0
	for i := range 100 {
		c = c.Crashed(at(now))
		if want := min(60*time.Second, time.Second<<min(i, 10)); c.Disabled() || c.Next() != at(now+want) {
			t.Fatalf("crash %d: %s later, disabled %v", i+1, c.Next().Sub(at(now)), c.Disabled())
		}
		now += 3 * time.Minute
	}
	// A success ends the row; the window remembers.
	c = c.Succeeded()
	if !c.May(at(0)) || c.forgettable(at(now)) || !c.forgettable(at(now+7*time.Minute)) {
		t.Error("after a success")
	}
	if c = c.Crashed(at(now)); c.Next() != at(now+time.Second) {
		t.Error("a new row does not begin with 1 s")
	}
}

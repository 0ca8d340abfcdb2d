package feeds

import (
	"math/bits"
	"time"
)

// Tick is the grain of the wheel: what is due within one tick is handed over together.
// It divides a second, so feeds with whole seconds between them keep their distance
// exactly.
const Tick = 250 * time.Millisecond

// slotCount slots make one turn of 256 s. Entries that are due later stay in their
// slot until their turn.
const slotCount = 1024

const none int32 = -1

// A Ticket names one start of a periodic feed.
type Ticket struct {
	index int32
	start uint64
}

// Due is a periodic feed that is to be fetched.
type Due struct {
	Session string
	Feed    string
	Ticket  Ticket
	client  *Client // what the session gave with it
}

// slots is the pure part of the wheel: who is due when, without clock or goroutine.
// Times are ticks since an origin. An entry is in exactly one slot, or running.
//
// An entry costs its struct and its share of one map per session: no timer, no
// channel, no allocation of its own.
type slots struct {
	entries  []entry
	free     int32 // first of the free list, linked by next
	heads    [slotCount]int32
	occupied [slotCount / 64]uint64
	sessions map[string]int32 // first entry, linked by sibling
	now      int64            // the last tick done
	count    int
	starts   uint64
	dropped  int64 // starts that a running fetch let pass
}

type entry struct {
	session, feed string
	client        *Client
	interval      int64 // ticks
	due           int64
	prev, next    int32  // in the slot
	sibling       int32  // of the same session
	start         uint64 // the last one; never used again on this wheel
	running       bool
	placed        bool
}

func newSlots() *slots {
	s := &slots{free: none, sessions: map[string]int32{}}
	for i := range s.heads {
		s.heads[i] = none
	}
	return s
}

func (s *slots) find(session, feed string) int32 {
	i, ok := s.sessions[session]
	if !ok {
		return none
	}
	for ; i != none && s.entries[i].feed != feed; i = s.entries[i].sibling {
	}
	return i
}

// add starts a feed, or gives one that is there another interval from now on. What is
// due at once is the caller's to hand over: the entry is running.
func (s *slots) add(session, feed string, c *Client, interval, at int64) Due {
	i := s.find(session, feed)
	if i == none {
		if i = s.free; i != none {
			s.free = s.entries[i].next
		} else {
			i = int32(len(s.entries))
			s.entries = append(s.entries, entry{})
		}
		first, ok := s.sessions[session]
		if !ok {
			first = none
		}
		e := &s.entries[i]
		*e = entry{session: session, feed: feed, sibling: first}
		s.sessions[session] = i
		s.count++
	} else {
		s.unplace(i)
	}
	e := &s.entries[i]
	e.client, e.interval = c, interval
	s.place(i, at+interval)
	return s.begin(i)
}

// begin makes a start of an entry. A fetch that still runs is another start's.
func (s *slots) begin(i int32) Due {
	s.starts++
	e := &s.entries[i]
	e.running, e.start = true, s.starts
	return Due{Session: e.session, Feed: e.feed, Ticket: Ticket{i, e.start}, client: e.client}
}

func (s *slots) remove(session, feed string) {
	if i := s.find(session, feed); i != none {
		s.drop(i)
	}
}

func (s *slots) drop(i int32) {
	s.unplace(i)
	e := &s.entries[i]
	if first := s.sessions[e.session]; first == i {
		if e.sibling == none {
			delete(s.sessions, e.session)
		} else {
			s.sessions[e.session] = e.sibling
		}
	} else {
		for s.entries[first].sibling != i {
			first = s.entries[first].sibling
		}
		s.entries[first].sibling = e.sibling
	}
	*e = entry{next: s.free, sibling: none}
	s.free = i
	s.count--
	if s.count == 0 { // what a burst took goes back
		*s = slots{free: none, heads: s.heads, sessions: map[string]int32{}, now: s.now, starts: s.starts, dropped: s.dropped}
	}
}

func (s *slots) removeSession(session string) {
	for {
		i, ok := s.sessions[session]
		if !ok {
			return
		}
		s.drop(i)
	}
}

// done ends a start. With at it is the feed's next one, from which its interval counts;
// 0 leaves the next one where it is.
func (s *slots) done(t Ticket, at int64) {
	if t.index < 0 || int(t.index) >= len(s.entries) || s.entries[t.index].start != t.start || t.start == 0 {
		return
	}
	s.entries[t.index].running = false
	if at > 0 {
		s.unplace(t.index)
		s.place(t.index, at)
	}
}

func (s *slots) place(i int32, due int64) {
	due = max(due, s.now+1)
	e := &s.entries[i]
	slot := due % slotCount
	e.due, e.placed = due, true
	e.prev, e.next = none, s.heads[slot]
	if e.next != none {
		s.entries[e.next].prev = i
	}
	s.heads[slot] = i
	s.occupied[slot/64] |= 1 << (slot % 64)
}

func (s *slots) unplace(i int32) {
	e := &s.entries[i]
	if !e.placed {
		return
	}
	e.placed = false
	slot := e.due % slotCount
	if e.prev != none {
		s.entries[e.prev].next = e.next
	} else if s.heads[slot] = e.next; e.next == none {
		s.occupied[slot/64] &^= 1 << (slot % 64)
	}
	if e.next != none {
		s.entries[e.next].prev = e.prev
	}
}

// advance goes to a tick and appends what is due, slot by slot. A feed whose fetch
// still runs is passed over; one that missed several starts, because the host slept,
// is started once, and its next start keeps to its interval. It stops when due has most:
// the same call again goes on from there.
func (s *slots) advance(to int64, due []Due, most int) []Due {
	if to <= s.now {
		return due
	}
	from := max(s.now+1, to-slotCount+1) // a slot is visited once
	s.now = to
	for tick := from; tick <= to; tick++ {
		slot := tick % slotCount
		if s.occupied[slot/64]&(1<<(slot%64)) == 0 {
			continue
		}
		for i := s.heads[slot]; i != none; {
			if len(due) >= most {
				s.now = tick - 1 // what is left of this slot is due at once
				return due
			}
			e := &s.entries[i]
			next := e.next
			if e.due <= to {
				s.unplace(i)
				s.place(i, e.due+((to-e.due)/e.interval+1)*e.interval)
				if e.running {
					s.dropped++
				} else {
					due = append(due, s.begin(i))
				}
			}
			i = next
		}
	}
	return due
}

// next is the first tick after now whose slot holds anything; ok is false when none
// does. What lies there may be due a turn later.
func (s *slots) next() (int64, bool) {
	if s.count == 0 {
		return 0, false
	}
	for tick := s.now + 1; tick <= s.now+slotCount; {
		slot := tick % slotCount
		if word := s.occupied[slot/64] >> (slot % 64); word != 0 {
			return tick + int64(bits.TrailingZeros64(word)), true
		}
		tick += 64 - slot%64
	}
	return 0, false
}

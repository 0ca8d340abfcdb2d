package token

import "time"

// Defaults of the replay set (docs/spec/aeiou.md §10, §18).
const (
	DefaultReplayCap = 4096              // entries
	DefaultReplayTTL = 300 * time.Second // ≥ token.max_ttl + key.grace
)

// mapFrom is the number of entries from which an index pays for itself: below
// it a scan over the entries is as fast and costs no memory.
const mapFrom = 16

// none is the index that points at no entry.
const none = -1

// ReplaySet remembers the jtis of one session's accepted tokens, exactly: no
// entry is admitted by chance or dropped early, up to the capacity, behind which
// the least recently used one goes. An entry expires a fixed time after it was
// inserted; being hit makes it recently used but no younger. Expired entries are
// removed when the set is next used.
//
// The zero value is an empty set with the defaults; it allocates nothing until
// the first claim, and an index only from the 17th entry on. A set has one
// owner, the session: it is not safe for concurrent use, because check and insert
// are one step without a lock.
type ReplaySet struct {
	entries []entry
	index   map[string]int32 // nil while the entries are few
	ttl     int64            // seconds; 0 is the default
	cap     int32            // entries; 0 is the default
	// Two orders run through the entries. recent: most to least recently used.
	// age: oldest to newest insertion, the order in which they expire.
	// Entries outside both are chained from free by their newer link.
	first, last    int32 // of recent
	oldest, newest int32 // of age
	free           int32
	used           int32
}

// entry is one jti. While it is free, only newer means something.
type entry struct {
	jti        string
	inserted   int64 // Unix seconds
	prev, next int32 // recent
	older      int32 // age
	newer      int32
}

// NewReplaySet returns an empty set for at most capacity entries that each live
// for ttl. Zero means the default. The ttl must be at least token.max_ttl +
// key.grace, see [ReplayTTL].
func NewReplaySet(capacity int, ttl time.Duration) *ReplaySet {
	r := &ReplaySet{}
	if capacity > 0 {
		r.cap = int32(min(capacity, 1<<30))
	}
	if ttl > 0 {
		r.ttl = seconds(ttl, 0)
	}
	return r
}

// Len counts the entries, expired ones that nothing has removed yet included.
func (r *ReplaySet) Len() int { return int(r.used) }

// Claim reports whether jti is new, and makes it known, in one step. false means
// that it was claimed before and has not expired.
//
// Whole Unix seconds count, and an entry lives up to and including its last one:
// a token that is accepted from the greatest allowed future is valid for exactly
// as long.
func (r *ReplaySet) Claim(jti string, now time.Time) bool {
	unix := now.Unix()
	r.purge(unix)
	if i := r.find(jti); i != none {
		// Insertion order is expiry order only while the clock does not step
		// back, so an expired entry can hide behind a younger one.
		if !r.expired(i, unix) {
			r.unlinkRecent(i)
			r.linkRecent(i)
			return false
		}
		r.remove(i)
	}
	if r.used >= r.capacity() {
		r.remove(r.last)
	}
	r.insert(jti, unix)
	return true
}

func (r *ReplaySet) capacity() int32 {
	if r.cap == 0 {
		return DefaultReplayCap
	}
	return r.cap
}

func (r *ReplaySet) expired(i int32, unix int64) bool {
	ttl := r.ttl
	if ttl == 0 {
		ttl = int64(DefaultReplayTTL / time.Second)
	}
	return unix > r.entries[i].inserted+ttl
}

// purge removes what has expired, oldest first.
func (r *ReplaySet) purge(unix int64) {
	for r.used > 0 && r.expired(r.oldest, unix) {
		r.remove(r.oldest)
	}
}

// find returns the entry of jti, or none.
func (r *ReplaySet) find(jti string) int32 {
	if r.index != nil {
		if i, ok := r.index[jti]; ok {
			return i
		}
		return none
	}
	if r.used == 0 {
		return none
	}
	for i := r.first; i != none; i = r.entries[i].next {
		if r.entries[i].jti == jti {
			return i
		}
	}
	return none
}

// insert puts a new jti at the recent end of one order and the new end of the
// other. There is room.
func (r *ReplaySet) insert(jti string, unix int64) {
	if r.used == 0 {
		r.first, r.last, r.oldest, r.newest = none, none, none, none
		if len(r.entries) == 0 {
			r.free = none
		}
	}
	i := r.free
	if i != none {
		r.free = r.entries[i].newer
	} else {
		i = int32(len(r.entries))
		r.entries = append(r.entries, entry{})
	}
	r.entries[i] = entry{jti: jti, inserted: unix, older: r.newest, newer: none}
	if r.newest != none {
		r.entries[r.newest].newer = i
	} else {
		r.oldest = i
	}
	r.newest = i
	r.linkRecent(i)
	r.used++
	switch {
	case r.index != nil:
		r.index[jti] = i
	case r.used > mapFrom:
		r.index = make(map[string]int32, 2*mapFrom)
		for k := r.first; k != none; k = r.entries[k].next {
			r.index[r.entries[k].jti] = k
		}
	}
}

// remove takes entry i out of everything. An empty set gives its memory back.
func (r *ReplaySet) remove(i int32) {
	e := &r.entries[i]
	if r.index != nil {
		delete(r.index, e.jti)
	}
	r.unlinkRecent(i)
	if e.older != none {
		r.entries[e.older].newer = e.newer
	} else {
		r.oldest = e.newer
	}
	if e.newer != none {
		r.entries[e.newer].older = e.older
	} else {
		r.newest = e.older
	}
	*e = entry{newer: r.free}
	r.free = i
	if r.used--; r.used == 0 {
		r.entries, r.index = nil, nil
	}
}

// linkRecent puts entry i at the most recently used end.
func (r *ReplaySet) linkRecent(i int32) {
	e := &r.entries[i]
	e.prev, e.next = none, r.first
	if r.first != none {
		r.entries[r.first].prev = i
	} else {
		r.last = i
	}
	r.first = i
}

// unlinkRecent takes entry i out of the order of use.
func (r *ReplaySet) unlinkRecent(i int32) {
	e := &r.entries[i]
	if e.prev != none {
		r.entries[e.prev].next = e.next
	} else {
		r.first = e.next
	}
	if e.next != none {
		r.entries[e.next].prev = e.prev
	} else {
		r.last = e.prev
	}
}

package neuroscript

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// Cache holds compiled programs by the SHA-256 of their source and drops those
// used least recently (§1). It is safe for concurrent use; programs are compiled
// outside its lock.
//
//	bytes = Σ cost of the entries ≤ limit
type Cache struct {
	mu      sync.Mutex
	limit   int64
	bytes   int64
	entries map[[sha256.Size]byte]*list.Element
	recent  list.List // of *cacheEntry, most recent first
	hits    int64
	misses  int64
}

type cacheEntry struct {
	key     [sha256.Size]byte
	program *Program
	cost    int64
}

// entryBytes is what an entry costs beside its program: key, element and map slot.
const entryBytes = 256

// NewCache makes a cache of at most limit bytes; 0 or less keeps nothing.
func NewCache(limit int64) *Cache {
	return &Cache{limit: limit, entries: map[[sha256.Size]byte]*list.Element{}}
}

// Compile returns the program of src, compiled now or before. Errors are not kept.
func (c *Cache) Compile(src []byte) (*Program, error) {
	key := sha256.Sum256(src)
	if p := c.get(key); p != nil {
		return p, nil
	}
	p, err := Compile(src)
	if err != nil {
		return nil, err
	}
	c.put(key, p)
	return p, nil
}

func (c *Cache) get(key [sha256.Size]byte) *Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		c.misses++
		return nil
	}
	c.hits++
	c.recent.MoveToFront(e)
	return e.Value.(*cacheEntry).program
}

func (c *Cache) put(key [sha256.Size]byte, p *Program) {
	cost := p.Bytes() + entryBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	if cost > c.limit || c.entries[key] != nil {
		return
	}
	for c.bytes+cost > c.limit {
		oldest := c.recent.Back()
		entry := c.recent.Remove(oldest).(*cacheEntry)
		delete(c.entries, entry.key)
		c.bytes -= entry.cost
	}
	c.entries[key] = c.recent.PushFront(&cacheEntry{key, p, cost})
	c.bytes += cost
}

// CacheStats is the state of a Cache.
type CacheStats struct {
	Programs int
	Bytes    int64
	Hits     int64
	Misses   int64
}

// Stats returns the state of the cache.
func (c *Cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheStats{len(c.entries), c.bytes, c.hits, c.misses}
}

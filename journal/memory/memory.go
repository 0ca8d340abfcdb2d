// Package memory is the journal store that forgets with the process: for tests,
// simulation and sessions that need not outlive the process.
//
// Invariant: what a reader was given never changes; erasure writes the session
// anew, without the bodies, and lets the old bytes go. It promises no durability and
// says so by being Immediate.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/removals"
	"github.com/seed14be6753/stile/messages"
)

// Store implements journal.Store. Use New.
type Store struct {
	removals.Count
	mu       sync.RWMutex
	sessions map[messages.Incarnation]*session
	live     map[string]messages.Incarnation
	wakes    map[messages.Incarnation]struct{} // whose turn is suspended
	meta     map[string][]byte
	closed   bool
}

type session struct {
	head     journal.Head
	about    *journal.Listing // without the head; nil before the first record
	log      packed
	blobs    map[messages.Digest]place
	snapshot *journal.Snapshot
}

var _ journal.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store {
	return &Store{
		sessions: make(map[messages.Incarnation]*session),
		live:     make(map[string]messages.Incarnation),
		wakes:    make(map[messages.Incarnation]struct{}),
		meta:     make(map[string][]byte),
	}
}

func errClosed() error { return journal.Fail(journal.ReasonClosed, nil, "the store is closed") }

func errUnknown(inc messages.Incarnation) error {
	return journal.Fail(journal.ReasonNotFound, nil, "no session %s", inc)
}

// open takes the lock for reading, unless the store is closed or ctx is over.
func (s *Store) open(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return errClosed()
	}
	return nil
}

// openWrite takes the lock for writing.
func (s *Store) openWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed()
	}
	return nil
}

// Commit implements journal.Store.
func (s *Store) Commit(batches []journal.Batch) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(batches))
	for i := range batches {
		if s.closed {
			errs[i] = errClosed()
			continue
		}
		errs[i] = s.commit(&batches[i])
	}
	return errs
}

func (s *Store) commit(b *journal.Batch) error {
	ses, known := s.sessions[b.Inc]
	if !known {
		fresh := journal.NewHead(b.SID, b.Inc)
		if err := journal.Judge(&fresh, b); err != nil {
			return err
		}
		if inc, taken := s.live[b.SID]; taken && !s.sessions[inc].head.Closed {
			return journal.Fail(journal.ReasonStaleHead, nil, "session %s: incarnation %s is live", b.SID, inc)
		}
		ses = s.create(b.SID, b.Inc)
	} else {
		if ses.head.SID != b.SID {
			return journal.Fail(journal.ReasonInvalid, nil, "session %s: the incarnation is %s's", b.SID, ses.head.SID)
		}
		if err := journal.Judge(&ses.head, b); err != nil {
			return err
		}
	}
	ses.head = ses.head.Advance(b)
	if ses.head.Wake != 0 {
		s.wakes[b.Inc] = struct{}{}
	} else {
		delete(s.wakes, b.Inc)
	}
	for _, r := range b.Records {
		ses.log.add(r)
	}
	if ses.about == nil {
		ses.about = new(journal.Listing)
	}
	ses.about.Fold(b.Records)
	for _, blob := range b.Blobs {
		if _, ok := ses.blobs[blob.Digest]; !ok {
			if ses.blobs == nil {
				ses.blobs = make(map[messages.Digest]place)
			}
			ses.blobs[blob.Digest] = ses.log.keep(blob.Data)
		}
	}
	if b.Snapshot != nil {
		snap := *b.Snapshot
		ses.snapshot = &snap
	}
	return nil
}

// create makes inc the live incarnation of sid, in place of a closed one.
func (s *Store) create(sid string, inc messages.Incarnation) *session {
	if old, ok := s.live[sid]; ok {
		s.sessions[old].head.Live = false
	}
	ses := &session{head: journal.NewHead(sid, inc)}
	s.sessions[inc] = ses
	s.live[sid] = inc
	return ses
}

// Create implements journal.Store.
func (s *Store) Create(ctx context.Context, key messages.SessionKey, inc messages.Incarnation) (journal.Head, error) {
	if err := key.Validate(); err != nil {
		return journal.Head{}, err
	}
	if inc == (messages.Incarnation{}) {
		return journal.Head{}, journal.Fail(journal.ReasonInvalid, nil, "session %s: no incarnation", key)
	}
	if err := s.openWrite(ctx); err != nil {
		return journal.Head{}, err
	}
	defer s.mu.Unlock()
	if old, ok := s.live[key.SID()]; ok && !s.sessions[old].head.Closed {
		return s.sessions[old].head, nil
	}
	if _, ok := s.sessions[inc]; ok {
		return journal.Head{}, journal.Fail(journal.ReasonInvalid, nil, "session %s: incarnation %s was used before", key, inc)
	}
	return s.create(key.SID(), inc).head, nil
}

// Head implements journal.Store.
func (s *Store) Head(ctx context.Context, sid string) (journal.Head, error) {
	if err := s.open(ctx); err != nil {
		return journal.Head{}, err
	}
	defer s.mu.RUnlock()
	inc, ok := s.live[sid]
	if !ok {
		return journal.Head{}, journal.Fail(journal.ReasonNotFound, nil, "no session %s", sid)
	}
	return s.sessions[inc].head, nil
}

// HeadOf implements journal.Store.
func (s *Store) HeadOf(ctx context.Context, inc messages.Incarnation) (journal.Head, error) {
	if err := s.open(ctx); err != nil {
		return journal.Head{}, err
	}
	defer s.mu.RUnlock()
	ses, ok := s.sessions[inc]
	if !ok {
		return journal.Head{}, errUnknown(inc)
	}
	return ses.head, nil
}

// Sessions implements journal.Store.
func (s *Store) Sessions(ctx context.Context, q journal.Query) ([]journal.Head, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	var heads []journal.Head
	for _, ses := range s.sessions {
		h := &ses.head
		if !strings.HasPrefix(h.SID, q.Prefix) || q.Pending && !h.Pending() || !q.Retired && !h.Live {
			continue
		}
		if order(h.SID, h.Inc, q.AfterSID, q.AfterInc) > 0 {
			heads = append(heads, *h)
		}
	}
	slices.SortFunc(heads, func(a, b journal.Head) int { return order(a.SID, a.Inc, b.SID, b.Inc) })
	return heads[:min(len(heads), q.Page())], nil
}

// Listings returns a page as journal.Listings describes it, of which it looks at every session.
func (s *Store) Listings(ctx context.Context, q journal.Query) ([]journal.Listing, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	sessions := s.sessions
	if q.Inc != (messages.Incarnation{}) {
		sessions = map[messages.Incarnation]*session{}
		if one := s.sessions[q.Inc]; one != nil {
			sessions[q.Inc] = one
		}
	}
	return q.PageOf(func(yield func(*journal.Listing) bool) {
		for _, ses := range sessions {
			if ses.about == nil {
				continue
			}
			l := *ses.about
			l.Head = ses.head
			if !yield(&l) {
				return
			}
		}
	}), nil
}

// Wakes implements journal.Store.
func (s *Store) Wakes(ctx context.Context, after int64, limit int) ([]journal.Head, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	var heads []journal.Head
	for inc := range s.wakes {
		if h := &s.sessions[inc].head; h.Live && h.Wake > after {
			heads = append(heads, *h)
		}
	}
	slices.SortFunc(heads, func(a, b journal.Head) int {
		return cmp.Or(cmp.Compare(a.Wake, b.Wake), order(a.SID, a.Inc, b.SID, b.Inc))
	})
	q := journal.Query{Limit: limit}
	n := min(len(heads), q.Page())
	for n > 0 && n < len(heads) && heads[n].Wake == heads[n-1].Wake {
		n++
	}
	return heads[:n], nil
}

func order(sid string, inc messages.Incarnation, sid2 string, inc2 messages.Incarnation) int {
	return cmp.Or(cmp.Compare(sid, sid2), bytes.Compare(inc[:], inc2[:]))
}

// Read implements journal.Store.
func (s *Store) Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		if err := s.open(ctx); err != nil {
			yield(nil, err)
			return
		}
		ses, ok := s.sessions[inc]
		var log packed
		var sid string
		if ok {
			log, sid = ses.log, ses.head.SID // erasure makes a new log, appending never changes this part
		}
		s.mu.RUnlock()
		if !ok {
			yield(nil, errUnknown(inc))
			return
		}
		from = max(from, 1)
		if to <= 0 || to > int64(len(log.at)) {
			to = int64(len(log.at))
		}
		for seq := from; seq <= to; seq++ {
			if ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			r, err := log.record(sid, inc, seq)
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Blob implements journal.Store.
func (s *Store) Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	ses, ok := s.sessions[inc]
	if !ok {
		return nil, errUnknown(inc)
	}
	at, ok := ses.blobs[d]
	if !ok {
		return nil, journal.Fail(journal.ReasonNotFound, nil, "session %s: no blob %s", ses.head.SID, d)
	}
	data := ses.log.bytes(at)
	if messages.Digest(sha256.Sum256(data)) != d {
		return nil, journal.Fail(journal.ReasonCorrupt, nil, "session %s: blob %s has other bytes", ses.head.SID, d)
	}
	return data, nil
}

// Recall implements journal.Store.
func (s *Store) Recall(ctx context.Context, q journal.RecallQuery) ([]journal.Recollection, error) {
	return journal.Scan(ctx, s, q)
}

// Heard implements journal.Store.
func (s *Store) Heard(ctx context.Context, q journal.HeardQuery) ([]journal.Heard, error) {
	return journal.ScanHeard(ctx, s, q)
}

// PutSnapshot implements journal.Store.
func (s *Store) PutSnapshot(ctx context.Context, inc messages.Incarnation, snap journal.Snapshot) error {
	if err := s.openWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	ses, ok := s.sessions[inc]
	if !ok {
		return errUnknown(inc)
	}
	if snap.Seq < 1 || snap.Seq > int64(len(ses.log.at)) || ses.log.hash(snap.Seq) != snap.Hash {
		return journal.Fail(journal.ReasonInvalid, nil, "session %s: a snapshot of record %d, which is another or not there", ses.head.SID, snap.Seq)
	}
	ses.snapshot = &snap
	return nil
}

// Snapshot implements journal.Store.
func (s *Store) Snapshot(ctx context.Context, inc messages.Incarnation) (journal.Snapshot, error) {
	if err := s.open(ctx); err != nil {
		return journal.Snapshot{}, err
	}
	defer s.mu.RUnlock()
	ses, ok := s.sessions[inc]
	if !ok {
		return journal.Snapshot{}, errUnknown(inc)
	}
	if ses.snapshot == nil {
		return journal.Snapshot{}, journal.Fail(journal.ReasonNotFound, nil, "session %s: no snapshot", ses.head.SID)
	}
	return *ses.snapshot, nil
}

// DropSnapshot implements journal.Store.
func (s *Store) DropSnapshot(ctx context.Context, inc messages.Incarnation) error {
	if err := s.openWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	ses, ok := s.sessions[inc]
	if !ok {
		return errUnknown(inc)
	}
	ses.snapshot = nil
	return nil
}

// Erase implements journal.Store.
func (s *Store) Erase(ctx context.Context, inc messages.Incarnation, from, to int64) (int64, error) {
	if err := s.openWrite(ctx); err != nil {
		return 0, err
	}
	defer s.Erased()
	defer s.mu.Unlock()
	ses, ok := s.sessions[inc]
	if !ok {
		return 0, errUnknown(inc)
	}
	return ses.erase(max(from, 1), to)
}

// erase writes the session's log anew without the bodies from..to and without the
// blobs that only they named.
func (ses *session) erase(from, to int64) (int64, error) {
	last := int64(len(ses.log.at))
	if to <= 0 || to > last {
		to = last
	}
	var log packed
	named := map[messages.Digest]bool{} // by a body that stays
	dropped := map[messages.Digest]bool{}
	var n int64
	for seq := int64(1); seq <= last; seq++ {
		r, err := ses.log.record(ses.head.SID, ses.head.Inc, seq)
		if err != nil {
			return 0, err
		}
		names := named
		if seq >= from && seq <= to && r.Raw != nil {
			names = dropped
			n++
		}
		if err := blobs(r, names); err != nil {
			return 0, err
		}
		if seq >= from && seq <= to {
			r.Raw, r.Salt = nil, [16]byte{}
		}
		log.add(r)
	}
	kept := map[messages.Digest]place{}
	for d, at := range ses.blobs {
		// What no body names any more goes, too, when nothing is left that could.
		if gone := dropped[d] && !named[d]; !gone && (from > 1 || to < last) {
			kept[d] = log.keep(ses.log.bytes(at))
		}
	}
	ses.log, ses.blobs, ses.snapshot = log, kept, nil
	if ses.about != nil {
		ses.about.Forget(from, to)
	}
	return n, nil
}

// blobs adds to names what the record's body names.
func blobs(r *messages.Record, names map[messages.Digest]bool) error {
	if r.Raw == nil {
		return nil
	}
	if err := journal.Decode(r); err != nil {
		return err
	}
	for _, d := range journal.Blobs(r.Body) {
		names[d] = true
	}
	return nil
}

// Delete implements journal.Store.
func (s *Store) Delete(ctx context.Context, inc messages.Incarnation) error {
	if err := s.openWrite(ctx); err != nil {
		return err
	}
	defer s.Erased()
	defer s.mu.Unlock()
	ses, ok := s.sessions[inc]
	if !ok {
		return errUnknown(inc)
	}
	delete(s.sessions, inc)
	delete(s.wakes, inc)
	if s.live[ses.head.SID] == inc {
		delete(s.live, ses.head.SID)
	}
	return nil
}

// Meta implements journal.Store.
func (s *Store) Meta(ctx context.Context, key string) ([]byte, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	v, ok := s.meta[key]
	if !ok {
		return nil, journal.Fail(journal.ReasonNotFound, nil, "no value %s", key)
	}
	return slices.Clone(v), nil
}

// PutMeta implements journal.Store.
func (s *Store) PutMeta(ctx context.Context, key string, value []byte) error {
	if err := s.openWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.meta[key] = append([]byte{}, value...)
	return nil
}

// Immediate implements journal.Store: there is nothing to wait for.
func (s *Store) Immediate() bool { return true }

// Reopen implements journal.Store; there is nothing to reopen.
func (s *Store) Reopen() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed()
	}
	return nil
}

// Close implements journal.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

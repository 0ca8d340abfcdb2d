package postgres

import (
	"slices"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// row is a row of heads.
type row = sqlstore.Session

// maxHeads bounds the cached heads, about 300 bytes each.
const maxHeads = 4096

// chain is the part of a group that belongs to one incarnation: its batches in order, and
// what was decided about them.
type chain struct {
	inc      messages.Incarnation
	batches  []*journal.Batch
	verdicts []*error // of the group's answer, parallel to batches

	// at is the head that the batches were judged against: a cached one, or a row that
	// this transaction has locked. known reports whether they were judged.
	at    row
	known bool
	// accepted are the batches that continue at, next is the head after them, and
	// won reports whether the server has agreed.
	accepted []*journal.Batch
	next     journal.Head
	won      bool
	// taken are the SIDs under which this incarnation could not be created, because another
	// one is live there.
	taken []string
}

// chains sorts a group by incarnation, in the order of first appearance.
func chains(batches []journal.Batch, errs []error) []*chain {
	all := make([]*chain, 0, len(batches))
	by := make(map[messages.Incarnation]*chain, len(batches))
	for i := range batches {
		b := &batches[i]
		c := by[b.Inc]
		if c == nil {
			c = &chain{inc: b.Inc}
			by[b.Inc] = c
			all = append(all, c)
		}
		c.batches = append(c.batches, b)
		c.verdicts = append(c.verdicts, &errs[i])
	}
	return all
}

// guess judges by the cached head if the first batch continues that.
func (c *chain) guess(heads map[messages.Incarnation]row) {
	c.at, c.accepted, c.known, c.won = row{}, nil, false, false
	c.taken = nil
	r, ok := heads[c.inc]
	b := c.batches[0]
	if ok && len(b.Records) > 0 && b.Records[0] != nil && r.Head.Seq == b.ExpectSeq && r.Head.Hash == b.Records[0].Prev {
		c.judge(r)
	}
}

// judge decides the batches against a head, in order.
func (c *chain) judge(at row) {
	c.at, c.known, c.won = at, true, false
	c.accepted = c.accepted[:0]
	h := at.Head
	for i, b := range c.batches {
		if at.ID == 0 && len(c.accepted) == 0 {
			h = journal.NewHead(b.SID, b.Inc)
		}
		err := fits(b)
		if err == nil && h.SID != b.SID {
			err = journal.Fail(journal.ReasonInvalid, nil, "session %s: the incarnation is %s's", b.SID, h.SID)
		}
		if err == nil {
			err = journal.Judge(&h, b)
		}
		if err == nil && len(c.accepted) == 0 && slices.Contains(c.taken, b.SID) {
			err = journal.Fail(journal.ReasonStaleHead, nil, "session %s: another incarnation is live", b.SID)
		}
		*c.verdicts[i] = err
		if err == nil {
			h = h.Advance(b)
			c.accepted = append(c.accepted, b)
		}
	}
	c.next = h
}

// refuse refuses the batches that were to be accepted with err. Batches that were refused
// already keep their error.
func (c *chain) refuse(err error) {
	for i := range c.batches {
		if v := c.verdicts[i]; !c.known || *v == nil {
			*v = err
		}
	}
	c.known, c.won, c.accepted = true, false, nil
}

// creates reports whether the chain begins with a new row of heads.
func (c *chain) creates() bool { return c.at.ID == 0 }

// contends reports whether the chain has accepted batches that the server has yet to agree
// to.
func (c *chain) contends() bool { return c.known && !c.won && len(c.accepted) > 0 }

// last is the record a chain ends with once it is accepted.
func (c *chain) last() *messages.Record {
	recs := c.accepted[len(c.accepted)-1].Records
	return recs[len(recs)-1]
}

// fits returns INVALID for a batch that PostgreSQL could not hold.
func fits(b *journal.Batch) error {
	if len(b.SID) > messages.MaxSIDBytes || !plain(b.SID) {
		return journal.Fail(journal.ReasonInvalid, nil, "a name of a session has at most %d bytes of text", messages.MaxSIDBytes)
	}
	for _, r := range b.Records {
		if r != nil && len(r.Raw) > MaxValueBytes {
			return tooLarge(b.SID, "a body", len(r.Raw))
		}
	}
	for i := range b.Blobs {
		if n := len(b.Blobs[i].Data); n > MaxValueBytes {
			return tooLarge(b.SID, "a blob", n)
		}
	}
	if b.Snapshot != nil {
		return fitsSnapshot(b.SID, b.Snapshot)
	}
	return nil
}

func fitsSnapshot(sid string, s *journal.Snapshot) error {
	if len(s.State) > MaxValueBytes {
		return tooLarge(sid, "a snapshot", len(s.State))
	}
	return nil
}

func tooLarge(sid, what string, n int) error {
	return journal.Fail(journal.ReasonInvalid, nil, "session %s: %s of %d bytes; the limit is %d", sid, what, n, int64(MaxValueBytes))
}

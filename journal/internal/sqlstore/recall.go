package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// indexSpan is how many positions one transaction puts into the index of recalls:
// commits may wait for it.
const indexSpan = 2048

// Texts are what was said in a session, column by column.
type Texts struct {
	Seqs, Times          []int64
	Roles, Shown, Folded []string
}

// Recall implements journal.Store. It first puts what is new of the owner's sessions
// into the index; a journal that is open for reading is scanned instead.
func (t *Tables) Recall(ctx context.Context, q journal.RecallQuery) ([]journal.Recollection, error) {
	if t.d.Unindexed != nil {
		return journal.Scan(ctx, t.d.Unindexed, q)
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if err := t.index(ctx, q.Owner); err != nil {
		return nil, err
	}
	var hits []journal.Recollection
	err := t.d.Reading(ctx, "recalling", func(c Conn) error {
		hits = nil
		stmt, args, err := t.d.Recall(c, &q)
		if err != nil {
			return err
		}
		for row, err := range c.Rows(stmt, args...) {
			if err != nil {
				return err
			}
			var h journal.Recollection
			var p place
			if err := row.Scan(&h.SID, &p.inc, &h.Seq, &p.ts, &h.Role, &h.Shown, &h.Words, &h.Runes); err != nil {
				return err
			}
			if h.Inc, h.TS, err = p.of(h.SID, q.Owner); err != nil {
				return err
			}
			hits = append(hits, h)
		}
		return nil
	})
	return hits, err
}

// Heard implements journal.Store, from the same index.
func (t *Tables) Heard(ctx context.Context, q journal.HeardQuery) ([]journal.Heard, error) {
	if t.d.Unindexed != nil {
		return journal.ScanHeard(ctx, t.d.Unindexed, q)
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if err := t.index(ctx, q.Owner); err != nil {
		return nil, err
	}
	after := int64(math.MinInt64)
	if !q.After.TS.IsZero() {
		after = q.After.TS.UnixNano()
	}
	var all []journal.Heard
	err := t.d.Reading(ctx, "looking for messages of a user", func(c Conn) error {
		all = nil
		for row, err := range c.Rows(t.d.heard, q.Owner, string(messages.RoleUser), after, q.After.Inc[:], q.After.Seq, q.Limit) {
			if err != nil {
				return err
			}
			var h journal.Heard
			var p place
			if err := row.Scan(&h.SID, &p.inc, &h.Seq, &p.ts); err != nil {
				return err
			}
			if h.Inc, h.TS, err = p.of(h.SID, q.Owner); err != nil {
				return err
			}
			all = append(all, h)
		}
		return nil
	})
	return all, err
}

// place is where and when something was said, as the index has it.
type place struct {
	inc []byte
	ts  int64
}

// of looks whether the place is a session of the owner.
func (p *place) of(sid, owner string) (inc messages.Incarnation, at time.Time, err error) {
	if len(p.inc) != len(inc) || !strings.HasPrefix(sid, owner) {
		return inc, at, journal.Fail(journal.ReasonCorrupt, nil, "the index of what can be recalled is damaged")
	}
	return messages.Incarnation(p.inc), time.Unix(0, p.ts).UTC(), nil
}

// index brings the index of an owner up to date, one session after the other, a span at a
// time. Sessions come in the order of their numbers and each gets on with every span, so
// that no damage of the tables makes it go on for ever.
func (t *Tables) index(ctx context.Context, owner string) error {
	for after := int64(math.MinInt64); ; {
		behind, err := t.behind(ctx, owner, after)
		if err != nil || len(behind) == 0 {
			return err
		}
		for _, after = range behind {
			if err := t.catchUp(ctx, owner, after); err != nil {
				return err
			}
		}
	}
}

// behind are the next sessions of an owner that have records which are not in the index.
func (t *Tables) behind(ctx context.Context, owner string, after int64) (all []int64, err error) {
	err = t.d.Reading(ctx, "looking for what can be recalled", func(c Conn) error {
		all = nil
		for row, err := range c.Rows(t.d.behind, owner, after) {
			var id int64
			if err == nil {
				err = row.Scan(&id)
			}
			if err != nil {
				return err
			}
			all = append(all, id)
		}
		return nil
	})
	return all, err
}

// catchUp puts a session into the index.
func (t *Tables) catchUp(ctx context.Context, owner string, id int64) error {
	for from, to, last := int64(0), int64(0), false; !last; from = to {
		err := t.d.Writing(ctx, "indexing what can be recalled", func(c Conn) (err error) {
			to, last, err = t.indexSession(c, owner, id, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// indexSession puts the next span of a session into the index, which is from a position
// on, or further. It gives how far the session is in it, and whether that is all. The
// head is locked, so that nothing is erased between reading and writing.
func (t *Tables) indexSession(c Conn, owner string, id, from int64) (to int64, last bool, err error) {
	var mark, seq int64
	err = c.Row(t.d.length, id, owner).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) { // it was deleted meanwhile, and its number may be another's
		return from, true, nil
	}
	if err == nil {
		err = c.Row(selectMark, id).Scan(&mark)
	}
	if err != nil {
		return from, false, err
	}
	switch {
	case mark < 0 || seq > journal.MaxSeq:
		return from, false, journal.Fail(journal.ReasonCorrupt, nil, "session %d has %d records, %d of them indexed", id, seq, mark)
	case mark < from || mark >= seq: // it is another's, or another host was quicker
		return from, true, nil
	}
	to = min(seq, mark+indexSpan)
	var hash []byte
	err = c.Row(t.d.Hash, id, to).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = journal.Fail(journal.ReasonCorrupt, nil, "a session has %d records, and record %d is not there", seq, to)
	}
	if err == nil {
		err = t.indexSpan(c, owner, id, mark+1, to)
	}
	if err != nil {
		return from, false, err
	}
	_, err = c.Exec(putMark, id, to)
	return to, to == seq, err
}

// indexSpan puts what was said in some records of a session into the index.
func (t *Tables) indexSpan(c Conn, owner string, id, from, to int64) error {
	var texts Texts
	for row, err := range c.Rows(t.d.texts, id, from, to) {
		if err != nil {
			return err
		}
		var seq, ts int64
		var kind string
		var body []byte
		if err := row.Scan(&seq, &kind, &ts, &body); err != nil {
			return err
		}
		b, err := journal.DecodeBody(messages.Kind(kind), body)
		if err != nil {
			return journal.Fail(journal.ReasonCorrupt, err, "the body of a record that can be recalled")
		}
		if role, text, ok := journal.Said(b); ok {
			texts.Seqs, texts.Times, texts.Roles = append(texts.Seqs, seq), append(texts.Times, ts), append(texts.Roles, string(role))
			texts.Shown, texts.Folded = append(texts.Shown, journal.Show(text)), append(texts.Folded, journal.Fold(text))
		}
	}
	if len(texts.Seqs) == 0 {
		return nil
	}
	return t.d.Index(c, id, owner, &texts)
}

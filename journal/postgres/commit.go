package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

const (
	// rounds bounds how often one transaction reads heads that other hosts keep moving.
	rounds = 4
	// attempts bounds how often a group is tried again when the last try left nothing.
	attempts = 4
	// apartWait is how long a session that has cost its group the transaction may
	// wait for a row, in the transaction it then gets for itself.
	apartWait = 50 * time.Millisecond
)

// Commit implements journal.Store.
func (s *Store) Commit(batches []journal.Batch) []error {
	s.write.Lock()
	defer s.write.Unlock()
	errs := make([]error, len(batches))
	if len(batches) == 0 {
		return errs
	}
	for from := 0; from < len(batches); {
		to := from + alike(batches[from:])
		s.decide(chains(batches[from:to], errs[from:to]))
		from = to
	}
	return errs
}

// alike returns how many batches may share a transaction: those before the first that uses a
// SID of the group under another incarnation, because whether that one may have the SID
// depends on what the first does to it. Nearly always all batches may.
func alike(batches []journal.Batch) int {
	by := make(map[string]messages.Incarnation, len(batches))
	for i := range batches {
		b := &batches[i]
		if inc, ok := by[b.SID]; ok && inc != b.Inc {
			return i
		}
		by[b.SID] = b.Inc
	}
	return len(batches)
}

// decide commits a group, and sets the error of every batch.
func (s *Store) decide(group []*chain) {
	err := s.commit(group, 0)
	if err != nil && len(group) > 1 && single(err) {
		// The rows of one session are locked, or contradict its head. Each session gets a
		// transaction of its own, so that the others are committed.
		deadline := time.Now().Add(s.opts.Outage)
		for i, c := range group {
			if i > 0 && time.Now().After(deadline) { // the failure is the server's, after all
				c.refuse(err)
				continue
			}
			if err := s.commit(group[i:i+1], apartWait); err != nil {
				s.stick(err)
				c.refuse(err)
			}
		}
	} else if err != nil {
		s.stick(err)
		for _, c := range group {
			c.refuse(err)
		}
	}
}

// single reports whether err may be the failure of one session alone.
func single(err error) bool {
	switch journal.ReasonOf(err) {
	case journal.ReasonBusy, journal.ReasonCorrupt, journal.ReasonInvalid:
		return true
	}
	return false
}

// commit tries a group until its outcome is known.
func (s *Store) commit(group []*chain, wait time.Duration) error {
	for try := 1; ; try++ {
		if err := s.writable(); err != nil {
			return err
		}
		fresh := s.w == nil
		if fresh {
			// The last commit has waited for this server; this one does not wait again.
			ctx, cancel := context.WithTimeout(s.life, s.opts.Outage)
			err := s.connect(ctx)
			cancel()
			if err != nil {
				return err
			}
		}
		if err := s.told.gap(); err != nil {
			return err
		}
		for _, c := range group {
			c.guess(s.heads)
		}
		t := transaction{s: s, w: s.w, group: group, wait: wait}
		err := t.run()
		if err == nil {
			s.remember(group)
			return nil
		}
		for _, c := range group {
			delete(s.heads, c.inc)
		}
		broken := s.w.lost(err)
		if broken || !s.rollback() {
			s.disconnect()
		}
		var pe *pgconn.PgError
		switch {
		case t.local:
			// The group is committed, but not on the standbys that it was promised on.
			return err
		case broken:
			deadline := time.Now().Add(s.opts.Outage)
			if lost := s.await(deadline); lost != nil {
				if t.sent {
					return journal.Fail(journal.ReasonUnavailable, errors.Join(s.target.quiet(err), lost),
						"the connection broke in a commit; the head will tell what became of it")
				}
				return lost
			}
			if t.sent {
				there, doubt := s.settle(&t, deadline)
				if doubt != nil {
					return doubt
				}
				if there {
					s.remember(group)
					return nil
				}
			}
			// The group left nothing, and cannot be committed any more.
			if try < attempts {
				continue
			}
		case errors.As(err, &pe) && (pe.Code == "40001" || pe.Code == "40P01") && try < attempts:
			continue
		}
		return s.failure(err, "committing")
	}
}

var errUnreplicated = journal.Fail(journal.ReasonUnavailable, nil,
	"the commit was ended before a synchronous standby had it; the head shows what was committed")

// rollback reports whether the connection is as before.
func (s *Store) rollback() bool {
	ctx, cancel := s.bounded()
	defer cancel()
	if s.w.conn.PgConn().TxStatus() == 'I' {
		return true
	}
	_, err := s.w.conn.Exec(ctx, "ROLLBACK")
	return err == nil && s.w.conn.PgConn().TxStatus() == 'I'
}

// bounded returns a context for one exchange: the time of a statement, and of the network.
func (s *Store) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.opts.StatementTimeout+s.opts.BusyTimeout)
}

// remember caches the heads after a commit.
func (s *Store) remember(group []*chain) {
	if len(s.heads) > maxHeads {
		clear(s.heads)
	}
	for _, c := range group {
		if c.won {
			s.heads[c.inc] = row{ID: c.at.ID, Head: c.next}
			s.told.note(mark{c.inc, c.next.Seq, c.next.Hash})
		}
	}
}

// transaction is one try at a group.
type transaction struct {
	s     *Store
	w     *writer
	group []*chain
	wait  time.Duration // for locked rows; 0 is the connection's setting

	begun bool
	xid   string // of this transaction, once a chain has passed the fence
	sent  bool   // COMMIT may have reached the server
	local bool   // the server committed without waiting for a standby
}

const (
	// The order keeps two hosts that load the same sessions from a deadlock.
	sqlHeads = "SELECT " + sqlstore.HeadColumns + " FROM heads WHERE inc = ANY($1) ORDER BY inc FOR UPDATE"

	// The fence: compare and append. It judges the row as journal.Judge judges a head in
	// memory.
	sqlAdvance = `UPDATE heads h SET seq = n.seq, hash = n.hash, epoch = n.epoch, run = n.run, turn = n.turn,
			open = n.open, queued = n.queued, closed = n.closed, wake = n.wake
		FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bigint[],
			$8::bigint[], $9::bigint[], $10::boolean[], $11::bigint[], $12::boolean[], $13::bigint[])
			AS n (id, at, prev, claim, seq, hash, epoch, run, turn, open, queued, closed, wake)
		WHERE h.id = n.id AND h.seq = n.at AND h.hash = n.prev AND h.epoch <= n.claim
		RETURNING h.id, pg_current_xact_id()::text`
	// Inserting a new row is a comparison too: SID and incarnation must be free.
	sqlRetire = "UPDATE heads SET live = false WHERE sid = ANY($1) AND live AND closed"
	sqlCreate = `INSERT INTO heads (inc, sid, live, seq, hash, epoch, run, turn, open, queued, closed, wake)
		SELECT inc, sid, true, seq, hash, epoch, run, turn, open, queued, closed, wake
		FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[],
			$8::boolean[], $9::bigint[], $10::boolean[], $11::bigint[]) WITH ORDINALITY
			AS n (inc, sid, seq, hash, epoch, run, turn, open, queued, closed, wake, place)
		ORDER BY place ON CONFLICT DO NOTHING RETURNING id, inc, pg_current_xact_id()::text`

	sqlRecords = `INSERT INTO records (session, seq, epoch, run, turn, type, ts, salt, body, hash, kid, sig)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[],
			$8::bytea[], $9::text[], $10::bytea[], $11::bytea[], $12::bytea[])`
	sqlBlobs = `INSERT INTO blobs (session, digest, data)
		SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) ON CONFLICT DO NOTHING`
)

// run decides the group, and makes the accepted batches durable. After an error nothing was
// committed, or sent is true.
func (t *transaction) run() error {
	for round := 1; ; round++ {
		if err := t.load(); err != nil {
			return err
		}
		losers, err := t.fence()
		if err != nil {
			return err
		}
		if losers == 0 {
			break
		}
		for _, c := range t.group {
			switch {
			case !c.contends():
			case round == rounds:
				c.refuse(journal.Fail(journal.ReasonBusy, nil, "session %s: the head moves faster than it can be read", c.batches[0].SID))
			default:
				c.known = false
			}
		}
	}
	return t.append()
}

// send runs a batch of statements, each with its reader, in a transaction.
func (t *transaction) send(b *pgx.Batch) error {
	ctx, cancel := t.s.bounded()
	defer cancel()
	if !t.begun {
		t.begun = true
		// A host of a cluster that stands still in a transaction has rows that the others go on with when
		// its lease is over.
		if most := time.Duration(t.s.lease.Load()); most != t.w.idle {
			if _, err := t.w.conn.Exec(ctx, "SELECT set_config('idle_in_transaction_session_timeout', $1, false)", milliseconds(most)); err != nil {
				return err
			}
			t.w.idle = most
		}
		begin := &pgx.Batch{}
		begin.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
		if t.wait > 0 {
			begin.Queue("SELECT set_config('lock_timeout', $1, true)", milliseconds(t.wait))
		}
		b.QueuedQueries = append(begin.QueuedQueries, b.QueuedQueries...)
	}
	return t.w.conn.SendBatch(ctx, b).Close()
}

// load reads and locks the heads that are not known, and judges their batches. When the
// creation of an incarnation failed and it still has no row, another one has its SID.
func (t *transaction) load() error {
	var incs []messages.Incarnation
	by := make(map[messages.Incarnation]*chain)
	for _, c := range t.group {
		if !c.known {
			incs = append(incs, c.inc)
			by[c.inc] = c
		}
	}
	if len(incs) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	b.Queue(sqlHeads, incs).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var r row
			if err := r.Scan(rows); err != nil {
				return err
			}
			if c := by[r.Head.Inc]; c != nil {
				c.judge(r)
				delete(by, r.Head.Inc)
			}
		}
		return rows.Err()
	})
	if err := t.send(b); err != nil {
		return err
	}
	for _, c := range by {
		if c.creates() && len(c.accepted) > 0 {
			c.taken = append(c.taken, c.next.SID)
		}
		c.judge(row{})
	}
	return nil
}

// fence lets the server compare, and returns how many chains it refused.
func (t *transaction) fence() (losers int, err error) {
	var moves, births []*chain
	for _, c := range t.group {
		switch {
		case !c.contends():
		case c.creates():
			births = append(births, c)
		default:
			moves = append(moves, c)
		}
	}
	if len(moves)+len(births) == 0 {
		return 0, nil
	}
	b := &pgx.Batch{}
	won := 0
	if len(moves) > 0 {
		byID := make(map[int64]*chain, len(moves))
		var at, claim, id []int64
		var prev [][]byte
		for _, c := range moves {
			first := c.accepted[0]
			byID[c.at.ID] = c
			id, at, claim = append(id, c.at.ID), append(at, first.ExpectSeq), append(claim, first.Epoch)
			prev = append(prev, first.Records[0].Prev[:])
		}
		n := heads(moves)
		b.Queue(sqlAdvance, id, at, prev, claim, n.seq, n.hash, n.epoch, n.run, n.turn, n.open, n.queued, n.closed, n.wake).
			Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var id int64
					if err := rows.Scan(&id, &t.xid); err != nil {
						return err
					}
					if c := byID[id]; c != nil {
						c.won = true
						won++
					}
				}
				return rows.Err()
			})
	}
	if len(births) > 0 {
		byInc := make(map[messages.Incarnation]*chain, len(births))
		incs, sids := make([]messages.Incarnation, len(births)), make([]string, len(births))
		for i, c := range births {
			byInc[c.inc] = c
			incs[i], sids[i] = c.inc, c.next.SID
		}
		n := heads(births)
		b.Queue(sqlRetire, sids)
		b.Queue(sqlCreate, incs, sids, n.seq, n.hash, n.epoch, n.run, n.turn, n.open, n.queued, n.closed, n.wake).
			Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var id int64
					var inc messages.Incarnation
					if err := rows.Scan(&id, &inc, &t.xid); err != nil {
						return err
					}
					if c := byInc[inc]; c != nil {
						c.at.ID, c.won = id, true
						won++
					}
				}
				return rows.Err()
			})
	}
	if err := t.send(b); err != nil {
		return 0, err
	}
	return len(moves) + len(births) - won, nil
}

// columns are the heads after the accepted batches.
type columns struct {
	seq, epoch, run, turn, queued, wake []int64
	hash                                [][]byte
	open, closed                        []bool
}

func heads(cs []*chain) (n columns) {
	for _, c := range cs {
		h := &c.next
		n.seq, n.epoch, n.run = append(n.seq, h.Seq), append(n.epoch, h.Epoch), append(n.run, h.Run)
		n.turn, n.queued, n.hash = append(n.turn, h.Turn), append(n.queued, h.Queued), append(n.hash, h.Hash[:])
		n.open, n.closed = append(n.open, h.Open), append(n.closed, h.Closed)
		n.wake = append(n.wake, h.Wake)
	}
	return n
}

// append writes the records of the chains that passed the fence, and commits.
func (t *transaction) append() error {
	var p parcel
	for _, c := range t.group {
		if !c.won {
			continue
		}
		for _, b := range c.accepted {
			for _, r := range b.Records {
				p.record(c.at.ID, r)
			}
			for i := range b.Blobs {
				p.blob(c.at.ID, &b.Blobs[i])
			}
		}
		p.listing(c)
		for i := len(c.accepted) - 1; i >= 0; i-- {
			if snap := c.accepted[i].Snapshot; snap != nil { // the last one counts
				p.snapshot(c.at.ID, c.inc, snap)
				break
			}
		}
	}
	if !t.begun {
		return nil // every batch was refused without asking the server
	}
	b := p.batch()
	var done pgconn.CommandTag
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		done = tag
		return nil
	})
	t.w.local = false
	t.sent = t.xid != ""
	if err := t.send(b); err != nil {
		return err
	}
	if done.String() != "COMMIT" {
		t.sent = false
		return journal.Fail(journal.ReasonIO, nil, "the server answered a COMMIT with %s", done)
	}
	if t.local = t.w.local; t.local {
		return errUnreplicated
	}
	return nil
}

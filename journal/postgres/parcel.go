package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// parcelBytes bounds the rows of one INSERT, so that a message stays far below the limit of
// the protocol.
const parcelBytes = 8 << 20

// parcel collects rows by column, and queues an INSERT when it has parcelBytes of them.
type parcel struct {
	queue pgx.Batch

	records                recordColumns
	blobSessions           []int64
	blobDigests, blobData  [][]byte
	recordBytes, blobBytes int
}

type recordColumns struct {
	session, seq, epoch, run, turn, ts []int64
	kind                               []string
	salt, body, hash, kid, sig         [][]byte
}

func (p *parcel) record(id int64, r *messages.Record) {
	n := len(r.Raw) + 256
	if p.recordBytes > 0 && p.recordBytes+n > parcelBytes {
		p.flushRecords()
	}
	p.recordBytes += n
	c := &p.records
	c.session, c.seq, c.epoch = append(c.session, id), append(c.seq, r.Seq), append(c.epoch, r.Epoch)
	c.run, c.turn, c.ts = append(c.run, r.Run), append(c.turn, r.Turn), append(c.ts, r.TS.UnixNano())
	c.kind = append(c.kind, string(r.Body.Kind()))
	c.salt, c.body, c.hash = append(c.salt, r.Salt[:]), append(c.body, r.Raw), append(c.hash, r.Hash[:])
	var kid, sig []byte
	if r.Sig != nil {
		kid, sig = []byte(r.Sig.KID), sqlstore.Present(r.Sig.Sig)
	}
	c.kid, c.sig = append(c.kid, kid), append(c.sig, sig)
}

func (p *parcel) flushRecords() {
	c := &p.records
	if len(c.seq) > 0 {
		p.queue.Queue(sqlRecords, c.session, c.seq, c.epoch, c.run, c.turn, c.kind, c.ts, c.salt, c.body, c.hash, c.kid, c.sig)
	}
	p.records, p.recordBytes = recordColumns{}, 0
}

func (p *parcel) blob(id int64, b *messages.Blob) {
	n := len(b.Data) + 64
	if p.blobBytes > 0 && p.blobBytes+n > parcelBytes {
		p.flushBlobs()
	}
	p.blobBytes += n
	p.blobSessions = append(p.blobSessions, id)
	p.blobDigests, p.blobData = append(p.blobDigests, b.Digest[:]), append(p.blobData, sqlstore.Present(b.Data))
}

func (p *parcel) flushBlobs() {
	if len(p.blobData) > 0 {
		p.queue.Queue(sqlBlobs, p.blobSessions, p.blobDigests, p.blobData)
	}
	p.blobSessions, p.blobDigests, p.blobData, p.blobBytes = nil, nil, nil, 0
}

func (p *parcel) snapshot(id int64, inc messages.Incarnation, s *journal.Snapshot) {
	p.queue.Queue(sqlstore.PutSnapshot, sqlstore.SnapshotRow(id, inc, s)...)
}

// listing queues the statements that update a session's listing.
func (p *parcel) listing(c *chain) {
	var l journal.Listing
	changed := false
	for _, b := range c.accepted {
		changed = l.Fold(b.Records) || changed
	}
	if changed {
		p.queue.Queue(sqlstore.PutListing, sqlstore.ListingRow(c.at.ID, c.inc, c.next.SID, &l)...)
	}
}

// batch returns all queued statements, to be sent in one exchange.
func (p *parcel) batch() *pgx.Batch {
	p.flushRecords()
	p.flushBlobs()
	return &p.queue
}

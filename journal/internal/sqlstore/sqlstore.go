// Package sqlstore has what the stores in SQL databases share: the methods of journal.Store
// but Commit, and the texts of their statements (statements.go). Each store has its own
// connections, commits, and the few statements for which its database needs another text.
package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"strings"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/removals"
	"github.com/seed14be6753/stile/messages"
)

// Row is what a statement has found.
type Row interface{ Scan(to ...any) error }

// Conn is a connection or a transaction, for one call. Both databases know $1 and so on.
type Conn interface {
	// Row is the only row of a statement; without one its Scan gives sql.ErrNoRows.
	Row(stmt string, args ...any) Row
	// Rows are those of a statement. An error is the last it gives.
	Rows(stmt string, args ...any) iter.Seq2[Row, error]
	// Exec gives how many rows were changed.
	Exec(stmt string, args ...any) (int64, error)
}

// Dialect is what is a store's own.
type Dialect struct {
	// Reading and Writing run f, Writing in a transaction of its own, and say what was
	// at hand when it failed. Reading may run f twice.
	Reading, Writing func(ctx context.Context, what string, f func(Conn) error) error
	// Unindexed is the store itself if it is open for reading alone: a recall scans it.
	Unindexed journal.Store

	// Plain reports whether the database can hold a text.
	Plain func(text string) bool
	// Fits names what the database cannot hold of a session's snapshot.
	Fits func(sid string, s *journal.Snapshot) error

	// Register makes inc the live incarnation of sid, unless another one is live or inc
	// was used before.
	Register func(c Conn, sid string, inc messages.Incarnation) error
	// Has is a condition: that a text has a part; both are expressions.
	Has func(text, part string) string
	// Titled narrows a search for a part of titles, in lower case, to the sessions that may have
	// it; nil where no index can.
	Titled func(c Conn, part string) (Narrow, error)
	// Narrowed narrows a search for texts with all of some words to few texts; nil where no
	// index can. The match is on recall.
	Narrowed func(c Conn, words []string) (Narrow, error)
	// Latest is the order of the table recall in which a search looks at texts.
	Latest string
	// Recall selects the hits of a query, the best first: sid, inc, seq, ts, role, shown,
	// words, runes.
	Recall func(c Conn, q *journal.RecallQuery) (stmt string, args []any, err error)
	// Index puts texts of a session into the index of recalls; those in it stay.
	Index func(c Conn, id int64, owner string, t *Texts) error
	// EraseBodies puts digests in the place of salts and bodies, and counts them.
	EraseBodies func(c Conn, id int64, seqs []int64, digests [][]byte) (int64, error)
	// DropBlobs removes blobs of a session.
	DropBlobs func(c Conn, id int64, digests [][]byte) error

	Statements
	// Page selects session, seq, epoch, run, turn, type, ts, salt, body, digest, hash, kid,
	// sig of records, at most PageRecords of them and soon after PageBytes no more; session,
	// from, to.
	Page string
}

// Statements that every database understands as they are.
const (
	SelectBlob     = "SELECT data FROM blobs WHERE session = $1 AND digest = $2"
	SelectSnapshot = "SELECT seq, hash, format, state, sum FROM snapshots WHERE session = $1"
	SelectMeta     = "SELECT value FROM meta WHERE key = $1"
	PutSnapshot    = `INSERT INTO snapshots (session, seq, hash, format, state, sum) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, format = excluded.format,
			state = excluded.state, sum = excluded.sum`
	PutMeta = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"

	selectMark   = "SELECT coalesce(max(seq), 0) FROM recall_marks WHERE session = $1"
	putMark      = "INSERT INTO recall_marks (session, seq) VALUES ($1, $2) ON CONFLICT (session) DO UPDATE SET seq = excluded.seq"
	dropMark     = "DELETE FROM recall_marks WHERE session = $1"
	dropSnapshot = "DELETE FROM snapshots WHERE session = $1"
	dropAllBlobs = "DELETE FROM blobs WHERE session = $1"
)

// Kinds of records, as lists in SQL.
var (
	saidKinds   = listed(journal.SaidKinds...)
	namingKinds = listed(messages.KindInput, messages.KindModelRequest, messages.KindModelReply, messages.KindTurnDecided, messages.KindFeedInjected)
)

func listed(kinds ...messages.Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, "'"+string(k)+"'")
	}
	return strings.Join(names, ", ")
}

// Tables are a journal in a database: what journal.Store asks of one but commits and
// connections. Stores embed them.
type Tables struct {
	removals.Count
	d Dialect
}

// New returns the tables of a store.
func New(d Dialect) *Tables { return &Tables{d: d} }

// HeadColumns are those of the table of heads, as Session.Scan takes them.
const HeadColumns = "id, sid, inc, live, seq, hash, epoch, run, turn, open, queued, closed, wake"

// Session is a row of the table of heads. With ID 0 it is none.
type Session struct {
	ID   int64
	Head journal.Head
}

// Scan reads a row of HeadColumns.
func (s *Session) Scan(row Row) error {
	h := &s.Head
	var inc, hash []byte
	err := row.Scan(&s.ID, &h.SID, &inc, &h.Live, &h.Seq, &hash, &h.Epoch, &h.Run, &h.Turn, &h.Open, &h.Queued, &h.Closed, &h.Wake)
	if err != nil {
		return err
	}
	if len(inc) != len(h.Inc) || len(hash) != len(h.Hash) || s.ID <= 0 || h.Seq < 0 || h.Seq > journal.MaxSeq {
		return journal.Fail(journal.ReasonCorrupt, nil, "the row of session %s is damaged", h.SID)
	}
	copy(h.Inc[:], inc)
	copy(h.Hash[:], hash)
	return nil
}

// SnapshotRow is a snapshot as PutSnapshot takes it.
func SnapshotRow(id int64, inc messages.Incarnation, s *journal.Snapshot) []any {
	sum := SnapshotSum(inc, s)
	return []any{id, s.Seq, s.Hash[:], s.Format, Present(s.State), sum[:]}
}

// SnapshotSum guards a snapshot, which no chain covers, against decay. It is no
// signature: who can write the table can write the sum.
func SnapshotSum(inc messages.Incarnation, s *journal.Snapshot) [32]byte {
	h := sha256.New()
	h.Write(inc[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(s.Seq)))
	h.Write(s.Hash[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(s.Format)))
	h.Write(s.State)
	return [32]byte(h.Sum(nil))
}

// Present keeps an empty value from being NULL.
func Present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

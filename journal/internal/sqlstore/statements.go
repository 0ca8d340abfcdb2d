package sqlstore

import "strings"

// Shape is how the tables and the SQL of one database differ from those of another.
// Statements writes the statements for it.
type Shape struct {
	// Table is the name of the table of heads.
	Table string
	// Records and Recall say how rows of these tables name their session and position.
	Records, Recall Place
	// Live, Waiting, Suspended and Ended are conditions on a row h of the table of heads.
	Live, Waiting, Suspended, Ended string
	// Last is a text that sorts after every character of a SID.
	Last string
	// Locked is the end of a SELECT that locks its rows; "" where the transaction does.
	Locked string
}

// Place is how rows of a table name their session and their position in it.
type Place struct {
	session, seq string // expressions
	order        string // the column that sorts the rows of a session
	// Conditions on $1, a session: all its rows, the row at $2, the rows at $2..$3.
	all, one, span string
}

// Columns is the place of rows with a column for the session and one for the position.
func Columns(table string) Place {
	session, seq := table+".session", table+".seq"
	return Place{
		session: session, seq: seq, order: seq,
		all: session + " = $1", one: session + " = $1 AND " + seq + " = $2", span: session + " = $1 AND " + seq + " BETWEEN $2 AND $3",
	}
}

// Packed is the place of rows with one column for both: session << 32 | position.
func Packed(table, column string) Place {
	column = table + "." + column
	return Place{
		session: column + " >> 32", seq: column + " & 4294967295", order: column,
		all:  column + " BETWEEN $1 << 32 AND ($1 << 32 | 4294967295)",
		one:  column + " = ($1 << 32 | $2)",
		span: column + " BETWEEN ($1 << 32 | $2) AND ($1 << 32 | $3)",
	}
}

// Statements are the statements of every store, as one database understands them. A comment
// gives the columns and, after the semicolon, the parameters.
type Statements struct {
	shape Shape

	Head, HeadOf string   // HeadColumns; the SID of a live incarnation | the incarnation
	Wakes        string   // HeadColumns; after, limit
	Hash         string   // hash; session, seq
	bodies       string   // seq, type, salt, body of those that are not erased; session, from, to, limit
	naming       string   // type, body of those that may name blobs (namingKinds); session
	behind       string   // id of sessions that the index of recalls lags behind; owner, after
	length       string   // seq of a session, whose head it locks; id, owner
	texts        string   // seq, type, ts, body of those with text (saidKinds); session, from, to
	heard        string   // sid, inc, seq, ts; owner, role, after: ts, inc, seq; limit
	kept         string   // bytes of bodies and blobs; prefix of SIDs
	unindex      string   // drops rows from the index of recalls; session, from, to
	delete       []string // drop a session from these tables, its head last; session
}

// Statements writes the statements for a shape.
func (s Shape) Statements() Statements {
	heads := "SELECT " + HeadColumns + " FROM " + s.Table + " h WHERE "
	records, recall := s.Records, s.Recall
	suspended := " WHERE h.wake > 0 AND h.wake > $1 AND " + s.Live
	sum := func(column, table, of string) string {
		return "coalesce((SELECT sum(octet_length(" + column + ")) FROM " + s.Table + " h JOIN " + table + " ON " + of + " WHERE h.sid >= $1 AND h.sid < $1 || " + s.Last + "), 0)"
	}
	return Statements{
		shape:  s,
		Head:   heads + "h.sid = $1 AND " + s.Live,
		HeadOf: heads + "h.inc = $1",
		// A page does not end between sessions of one time.
		Wakes: "SELECT " + HeadColumns + " FROM " + s.Table + " h" + suspended + ` AND h.wake <= coalesce(
			(SELECT h.wake FROM ` + s.Table + " h" + suspended + ` ORDER BY h.wake LIMIT 1 OFFSET $2 - 1), 9223372036854775807)
			ORDER BY h.wake, h.sid, h.inc`,
		Hash: "SELECT hash FROM records WHERE " + records.one,
		bodies: "SELECT " + records.seq + ", type, salt, body FROM records WHERE " + records.span +
			" AND body IS NOT NULL ORDER BY " + records.order + " LIMIT $4",
		naming: "SELECT type, body FROM records WHERE " + records.all + " AND body IS NOT NULL AND type IN (" + namingKinds + ")",
		behind: "SELECT h.id FROM " + s.Table + ` h LEFT JOIN recall_marks m ON m.session = h.id
			WHERE h.sid >= $1 AND h.sid < $1 || ` + s.Last + " AND h.seq > coalesce(m.seq, 0) AND h.id > $2 ORDER BY h.id LIMIT 256",
		length: "SELECT h.seq FROM " + s.Table + " h WHERE h.id = $1 AND h.sid >= $2 AND h.sid < $2 || " + s.Last + s.Locked,
		texts: "SELECT " + records.seq + ", type, ts, body FROM records WHERE " + records.span +
			" AND type IN (" + saidKinds + ") AND body IS NOT NULL ORDER BY " + records.order,
		heard: "SELECT h.sid, h.inc, " + recall.seq + ", recall.ts FROM recall JOIN " + s.Table + " h ON h.id = " + recall.session + `
			WHERE recall.owner = $1 AND recall.role = $2 AND (recall.ts, h.inc, ` + recall.seq + `) > ($3, $4, $5)
			ORDER BY recall.ts, h.inc, ` + recall.seq + " LIMIT $6",
		kept:    "SELECT " + sum("body", "records", strings.ReplaceAll(records.all, "$1", "h.id")) + " + " + sum("data", "blobs", "blobs.session = h.id"),
		unindex: "DELETE FROM recall WHERE " + recall.span,
		delete: []string{
			dropAllBlobs, dropSnapshot, dropMark, dropListing,
			"DELETE FROM recall WHERE " + recall.all,
			"DELETE FROM records WHERE " + records.all,
			"DELETE FROM " + s.Table + " WHERE id = $1",
		},
	}
}

// sessions selects HeadColumns of a page of sessions; prefix, after: sid, inc; limit. It has
// no condition that the query does not ask for, so that an index of pending sessions is used.
// The limit is an expression, because SQLite plans anew for each value of a bare parameter.
func (s *Statements) sessions(pending, retired bool) string {
	stmt := "SELECT " + HeadColumns + " FROM " + s.shape.Table + " h WHERE h.sid >= $1 AND h.sid < $1 || " + s.shape.Last + " AND (h.sid, h.inc) > ($2, $3)"
	if pending {
		stmt += " AND " + s.shape.Waiting
	}
	if !retired {
		stmt += " AND " + s.shape.Live
	}
	return stmt + " ORDER BY h.sid, h.inc LIMIT 0 + $4"
}

// Frequent are the statements that a store does well to prepare.
func (s *Statements) Frequent() []string {
	return []string{
		s.Head, s.HeadOf, s.Wakes, s.Hash, SelectBlob, SelectSnapshot, SelectMeta,
		s.sessions(false, false), s.sessions(false, true), s.sessions(true, false), s.sessions(true, true),
	}
}

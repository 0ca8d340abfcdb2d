package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// PutListing writes what a batch changes of a listing, as ListingRow gives it. What the
// batch says nothing of stays.
const PutListing = `INSERT INTO listings (session, inc, owner, agent, manifest, created, changed, title, folded, tags, described,
		decision, code, ended, parent, origin)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
	ON CONFLICT (session) DO UPDATE SET changed = excluded.changed,
		agent = CASE WHEN excluded.agent = '' THEN listings.agent ELSE excluded.agent END,
		manifest = coalesce(excluded.manifest, listings.manifest),
		title = CASE WHEN excluded.described = 0 THEN listings.title ELSE excluded.title END,
		folded = CASE WHEN excluded.described = 0 THEN listings.folded ELSE excluded.folded END,
		tags = CASE WHEN excluded.described = 0 THEN listings.tags ELSE excluded.tags END,
		described = CASE WHEN excluded.described = 0 THEN listings.described ELSE excluded.described END,
		decision = CASE WHEN excluded.ended = 0 THEN listings.decision ELSE excluded.decision END,
		code = CASE WHEN excluded.ended = 0 THEN listings.code ELSE excluded.code END,
		ended = CASE WHEN excluded.ended = 0 THEN listings.ended ELSE excluded.ended END,
		parent = CASE WHEN excluded.parent = '' THEN listings.parent ELSE excluded.parent END,
		origin = CASE WHEN excluded.origin = '' THEN listings.origin ELSE excluded.origin END`

const (
	dropListing      = "DELETE FROM listings WHERE session = $1"
	unlistOpened     = "UPDATE listings SET agent = '', manifest = NULL, parent = '', origin = '' WHERE session = $1"
	unlistDescribed  = "UPDATE listings SET title = '', folded = '', tags = '', described = 0 WHERE session = $1 AND described BETWEEN $2 AND $3"
	unlistEnded      = "UPDATE listings SET decision = '', code = '' WHERE session = $1 AND ended BETWEEN $2 AND $3"
	listingColumns   = "l.agent, l.manifest, l.created, l.changed, l.title, l.tags, l.described, l.decision, l.code, l.ended, l.parent, l.origin"
	listingsOrder    = " ORDER BY l.changed DESC, l.inc DESC"
	listingSeparator = "\n" // no tag has it
)

// ListingRow is what the records of a batch, folded in an empty listing, change of a row.
func ListingRow(id int64, inc messages.Incarnation, sid string, l *journal.Listing) []any {
	var manifest any
	if !l.Manifest.IsZero() {
		manifest = l.Manifest[:]
	}
	tags := ""
	if len(l.Tags) > 0 {
		tags = listingSeparator + strings.Join(l.Tags, listingSeparator) + listingSeparator
	}
	return []any{
		id, inc[:], owner(sid), l.Agent, manifest, created(l), l.Updated.UnixNano(), l.Title, strings.ToLower(l.Title), tags, l.Described,
		string(l.Decision), string(l.Code), l.Ended, l.Parent, l.Origin,
	}
}

// created is when a row that this batch makes says the session was created.
func created(l *journal.Listing) int64 {
	if l.Created.IsZero() {
		return l.Updated.UnixNano()
	}
	return l.Created.UnixNano()
}

// owner is tenant:user: of a SID.
func owner(sid string) string { return sid[:strings.LastIndexByte(sid, ':')+1] }

// unlist drops what erased records said.
func unlist(c Conn, id, from, to int64) error {
	if from <= 1 {
		if _, err := c.Exec(unlistOpened, id); err != nil {
			return err
		}
	}
	for _, stmt := range []string{unlistDescribed, unlistEnded} {
		if _, err := c.Exec(stmt, id, from, to); err != nil {
			return err
		}
	}
	return nil
}

// Listings returns a page as journal.Listings describes it.
func (t *Tables) Listings(ctx context.Context, q journal.Query) ([]journal.Listing, error) {
	if !t.listable(&q) {
		return nil, t.d.Reading(ctx, "", func(Conn) error { return nil }) // no session is so
	}
	var page []journal.Listing
	err := t.d.Reading(ctx, "listing sessions", func(c Conn) error {
		page = nil
		var n Narrow
		if q.Title != "" && t.d.Titled != nil {
			var err error
			if n, err = t.d.Titled(c, strings.ToLower(q.Title)); err != nil {
				return err
			}
		}
		stmt, args := ListingsStatement(&t.d, &q, n)
		for row, err := range c.Rows(stmt, args...) {
			var l journal.Listing
			if err == nil {
				err = scanListing(row, &l)
			}
			if err != nil {
				return err
			}
			page = append(page, l)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// listable reports whether the database can hold the texts that are looked for.
func (t *Tables) listable(q *journal.Query) bool {
	for _, s := range append([]string{q.Prefix, q.Agent, q.Title}, q.Tags...) {
		if !t.d.Plain(s) {
			return false
		}
	}
	return true
}

// Narrow is a table that has few of the sessions in it, those that a query may select; the zero
// value narrows nothing.
type Narrow struct {
	Table string // name and alias
	Match string // condition on it and on l.session; the parameter is $1
	Arg   any
}

// ListingsStatement selects a page. The index by owner, or the one of all, gives its order, so that
// a page without other conditions reads as many rows as it has; that of a decision other than
// DONE does, too, by an index of its own.
func ListingsStatement(d *Dialect, q *journal.Query, n Narrow) (stmt string, args []any) {
	var where strings.Builder
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	and := func(condition string) {
		if where.Len() > 0 {
			where.WriteString(" AND ")
		}
		where.WriteString(condition)
	}
	from := "listings l"
	if n.Table != "" { // its parameter is the first
		from = n.Table + " CROSS JOIN listings l"
		arg(n.Arg)
		and(n.Match)
	}
	if q.Inc != (messages.Incarnation{}) {
		and("l.session = (SELECT id FROM " + d.shape.Table + " WHERE inc = " + arg(q.Inc[:]) + ")")
	}
	if strings.Count(q.Prefix, ":") == 2 && strings.HasSuffix(q.Prefix, ":") {
		and("l.owner = " + arg(q.Prefix))
	} else if q.Prefix != "" {
		p := arg(q.Prefix)
		and("h.sid >= " + p + " AND h.sid < " + p + " || " + d.shape.Last)
	}
	if !q.AfterUpdated.IsZero() {
		and("(l.changed, l.inc) < (" + arg(q.AfterUpdated.UnixNano()) + ", " + arg(q.AfterInc[:]) + ")")
	}
	for _, c := range []struct {
		on bool
		is string
	}{{!q.Retired, d.shape.Live}, {q.Pending, d.shape.Waiting}, {q.Suspended, d.shape.Suspended}, {q.Decision != "", d.shape.Ended}} {
		if c.on {
			and(c.is)
		}
	}
	switch q.Decision { // by a name that is a constant, for which there may be an index
	case "":
	case messages.Done, messages.Abort, messages.Halt:
		and("l.decision = '" + string(q.Decision) + "'")
	default:
		and("l.decision = " + arg(string(q.Decision)))
	}
	if q.Agent != "" {
		and("l.agent = " + arg(q.Agent))
	}
	if q.Title != "" {
		and(d.Has("l.folded", arg(strings.ToLower(q.Title))))
	}
	if !q.CreatedAfter.IsZero() {
		and("l.created > " + arg(q.CreatedAfter.UnixNano()))
	}
	if !q.UpdatedAfter.IsZero() {
		and("l.changed > " + arg(q.UpdatedAfter.UnixNano()))
	}
	for _, tag := range q.Tags {
		and("(" + d.Has("l.tags", arg(listingSeparator+tag+listingSeparator)) + " OR " + d.Has("l.tags", arg(listingSeparator+tag+"=")) + ")")
	}
	if where.Len() > 0 {
		where.WriteByte(' ')
	}
	columns := "h." + strings.ReplaceAll(HeadColumns, ", ", ", h.")
	stmt = "SELECT " + columns + ", " + listingColumns + " FROM " + from + " CROSS JOIN " + d.shape.Table + " h WHERE "
	if where.Len() > 0 {
		stmt += where.String() + "AND "
	}
	return stmt + "h.id = l.session" + listingsOrder + fmt.Sprintf(" LIMIT %d", q.Page()), args
}

func scanListing(row Row, l *journal.Listing) error {
	var s Session
	var manifest []byte
	var created, changed int64
	var tags, decision, code string
	err := s.Scan(also{row, []any{&l.Agent, &manifest, &created, &changed, &l.Title, &tags, &l.Described, &decision, &code, &l.Ended, &l.Parent, &l.Origin}})
	if err != nil {
		return err
	}
	l.Head, l.Decision, l.Code = s.Head, messages.Decision(decision), messages.Code(code)
	copy(l.Manifest[:], manifest)
	l.Created, l.Updated = time.Unix(0, created).UTC(), time.Unix(0, changed).UTC()
	if tags = strings.Trim(tags, listingSeparator); tags != "" {
		l.Tags = strings.Split(tags, listingSeparator)
	}
	return nil
}

// also is a row whose Scan takes further columns behind those it is asked for.
type also struct {
	Row
	more []any
}

// Scan implements Row.
func (a also) Scan(to ...any) error { return a.Row.Scan(append(to, a.more...)...) }

package sqlite

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
)

const (
	// scanTexts is how many texts of a user are searched one by one; of more texts, the index
	// first finds those with the letters of the words.
	scanTexts = 2000
	trigram   = 3 // runes that the index of texts goes by
)

// index puts texts into the index of recalls, one by one.
func index(c sqlstore.Conn, id int64, owner string, t *sqlstore.Texts) error {
	for i, seq := range t.Seqs {
		_, err := c.Exec("INSERT OR IGNORE INTO recall (id, owner, ts, role, shown, folded) VALUES ($1, $2, $3, $4, $5, $6)",
			position(id, seq), owner, t.Times[i], t.Roles[i], t.Shown[i], t.Folded[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// titled narrows a search of titles by the index of their letters, unless the part is shorter than
// the index goes by, or so many titles may have it that a page is soon full without an index.
func titled(c sqlstore.Conn, part string) (n sqlstore.Narrow, err error) {
	match, ok := matching([]string{part})
	if !ok {
		return n, nil
	}
	var many int64
	err = c.Row("SELECT count(*) FROM (SELECT 1 FROM listing_text WHERE listing_text MATCH $1 LIMIT $2)", match, scanTexts+1).Scan(&many)
	if err == nil && many <= scanTexts {
		n = sqlstore.Narrow{Table: "listing_text", Match: "listing_text MATCH $1 AND l.session = listing_text.rowid", Arg: match}
	}
	return n, err
}

// narrowed narrows a search of texts with all words by the index of their letters, unless a word is
// shorter than the index goes by, or so many texts may have them that the newest are soon enough.
func narrowed(c sqlstore.Conn, words []string) (n sqlstore.Narrow, err error) {
	all := make([]string, len(words))
	for i, w := range words {
		match, ok := matching([]string{w})
		if !ok {
			return n, nil
		}
		all[i] = match
	}
	match := strings.Join(all, " AND ")
	var many int64
	err = c.Row("SELECT count(*) FROM (SELECT 1 FROM recall_text WHERE recall_text MATCH $1 LIMIT $2)", match, scanTexts+1).Scan(&many)
	if err == nil && many <= scanTexts {
		n = sqlstore.Narrow{Table: "recall_text", Match: "recall_text MATCH $1 AND recall.id = recall_text.rowid", Arg: match}
	}
	return n, err
}

// recall returns the query that searches the index.
func recall(c sqlstore.Conn, q *journal.RecallQuery) (string, []any, error) {
	var many int64
	if err := c.Row("SELECT count(*) FROM (SELECT 1 FROM recall WHERE owner = $1 LIMIT $2)", q.Owner, scanTexts+1).Scan(&many); err != nil {
		return "", nil, err
	}
	var words, runes, where strings.Builder
	args := []any{q.Owner, q.Except[:], q.Limit}
	for i, w := range q.Words {
		if i > 0 {
			words.WriteString(" + ")
			runes.WriteString(" + ")
		}
		args = append(args, w)
		found := fmt.Sprintf("(instr(c.folded, ?%d) > 0)", len(args))
		words.WriteString(found)
		fmt.Fprintf(&runes, "%d * %s", utf8.RuneCountInString(w), found)
	}
	if match, ok := matching(q.Words); ok && many > scanTexts {
		args = append(args, match)
		fmt.Fprintf(&where, " AND c.id IN (SELECT rowid FROM recall_text WHERE recall_text MATCH ?%d)", len(args))
	}
	return `SELECT * FROM (
		SELECT s.sid, s.inc, c.id & 4294967295 AS seq, c.ts, c.role, c.shown, ` + words.String() + ` AS words, ` + runes.String() + ` AS runes
		FROM recall c JOIN sessions s ON s.id = c.id >> 32 WHERE c.owner = ?1 AND s.inc <> ?2` + where.String() + `)
		WHERE words > 0 ORDER BY words DESC, runes DESC, ts DESC, inc DESC, seq DESC LIMIT ?3`, args, nil
}

// matching returns the full-text query for texts that have all trigrams of one of the words:
// more texts than those with the word itself. ok is false when a word is shorter than a
// trigram.
func matching(words []string) (match string, ok bool) {
	var b strings.Builder
	for i, w := range words {
		letters := []rune(w)
		if len(letters) < trigram {
			return "", false
		}
		if i > 0 {
			b.WriteString(" OR ")
		}
		b.WriteByte('(')
		for j := 0; j+trigram <= len(letters); j++ {
			if j > 0 {
				b.WriteString(" AND ")
			}
			b.WriteString(`"` + strings.ReplaceAll(string(letters[j:j+trigram]), `"`, `""`) + `"`)
		}
		b.WriteByte(')')
	}
	return b.String(), true
}

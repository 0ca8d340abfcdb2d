package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// For a user with many texts the full-text index goes first: it finds what a look at
// every record finds.
func TestRecallOfManyTexts(t *testing.T) {
	s := open(t, Options{Path: filepath.Join(t.TempDir(), "journal.db")})
	rng := specimen.Seed(t)
	for i := range 3 {
		ses := specimen.Start(t, fmt.Sprintf("t:u:s%d", i), i+1)
		for range 12 {
			specimen.Must(t, s, ses.Batch(specimen.Saying(rng, 150)...))
		}
	}
	for _, words := range [][]string{
		{"gopher"}, {"golang", "been"}, {"日本語"}, {"straße"}, {`"quoted"`, "it's"}, {"near("}, {"and"}, {"100%", "a_b"}, {"be"}, {"gopher", "e"}, {"nothing of it"}, {"i̇stanbul"},
	} {
		q := journal.RecallQuery{Owner: "t:u:", Words: words, Limit: 20}
		want, err := journal.Scan(t.Context(), s, q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Recall(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", words, d)
		}
	}
	var n int64
	if err := s.r.db.QueryRow("SELECT count(*) FROM recall").Scan(&n); err != nil || n <= scanTexts {
		t.Errorf("%d texts, %v: too few to show anything", n, err)
	}
	check := func(c sqlstore.Conn) error {
		_, err := c.Exec("INSERT INTO recall_text (recall_text, rank) VALUES ('integrity-check', 1)")
		return err
	}
	if err := s.writing(t.Context(), "checking", check); err != nil {
		t.Errorf("the index and what it is of differ: %v", err)
	}
}

// A head that counts records which are not there, or an index that knows of such, is
// damage, and no reason to look for them one span after the other.
func TestRecallFindsDamage(t *testing.T) {
	for _, damage := range []string{
		"UPDATE sessions SET seq = 1 << 22", "UPDATE sessions SET seq = 1 << 32", "UPDATE sessions SET seq = 9223372036854775807",
		"UPDATE recall_marks SET seq = -1", "UPDATE recall_marks SET seq = 1 << 63",
	} {
		s := open(t, Options{Path: filepath.Join(t.TempDir(), "journal.db")})
		ses := specimen.Start(t, "t:u:s", 1)
		specimen.Must(t, s, ses.Batch(&messages.Input{Text: "a gopher"}))
		q := journal.RecallQuery{Owner: "t:u:", Words: []string{"gopher"}}
		if hits, err := s.Recall(t.Context(), q); err != nil || len(hits) != 1 {
			t.Fatalf("%d hits, %v", len(hits), err)
		}
		harm := func(c sqlstore.Conn) error {
			_, err := c.Exec(damage)
			return err
		}
		if err := s.writing(t.Context(), "damaging", harm); err != nil {
			t.Fatal(err)
		}
		_, err := s.Recall(t.Context(), q)
		wantReason(t, err, journal.ReasonCorrupt)
	}
}

// Nothing of an erased text is left in the file, neither in the table nor in the index.
func TestRecallErased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, Options{Path: path})
	ses := specimen.Start(t, "t:u:s", 1)
	const secret = "zyxomma-kwijibo"
	specimen.Must(t, s, ses.Batch(&messages.Input{Text: "plain words"}, &messages.Input{Text: "my word is " + secret}, &messages.Input{Text: "more of them"}))
	q := journal.RecallQuery{Owner: "t:u:", Words: []string{secret}}
	if hits, err := s.Recall(t.Context(), q); err != nil || len(hits) != 1 {
		t.Fatalf("%+v, %v", hits, err)
	}
	if _, err := s.Erase(t.Context(), ses.Inc, 2, 2); err != nil {
		t.Fatal(err)
	}
	if hits, err := s.Recall(t.Context(), q); err != nil || len(hits) != 0 {
		t.Fatalf("%+v, %v", hits, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, trace := range []string{secret, "xom", "kwi", "wij"} {
			if bytes.Contains(data, []byte(trace)) {
				t.Errorf("%s still has %q", filepath.Base(file), trace)
			}
		}
		if file == path && !bytes.Contains(data, []byte("plain words")) {
			t.Error("the test looks at the wrong file")
		}
	}
}

// A journal that is open for reading finds the same without an index.
func TestRecallReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, Options{Path: path})
	ses := specimen.Start(t, "t:u:s", 1)
	specimen.Must(t, s, ses.Batch(&messages.Input{Text: "words to find"}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := openStore(Options{Path: path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hits, err := r.Recall(t.Context(), journal.RecallQuery{Owner: "t:u:", Words: []string{"find"}})
	if err != nil || len(hits) != 1 || !strings.HasPrefix(hits[0].Shown, "words") {
		t.Errorf("%+v, %v", hits, err)
	}
}

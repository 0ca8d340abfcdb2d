package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
)

// trodden is a store on a file with some sessions in it, made an hour ago.
func trodden(t *testing.T) (*store, *specimen.Session) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	s := open(t, Options{Path: path})
	specimen.Must(t, s, specimen.Start(t, "local:local:before", 1).Notes(400))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Path: path})
	ses := specimen.Start(t, "local:local:a", 2)
	specimen.Must(t, s, ses.Notes(2))
	return s, ses
}

// Whatever is done to the file under a store, the next commit is not acknowledged, and who
// only asks hears of it too. What is undone is over; what is lost stays lost.
func TestTheGroundIsWatched(t *testing.T) {
	overwrite := func(off int64, n int) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, n), off)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	cut := func(n int64) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.Truncate(path, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		harm  func(t *testing.T, path string)
		mends func(t *testing.T, path string)
		says  string
	}{
		"unlinked": {harm: func(t *testing.T, path string) { move(t, path, path+".away") }, mends: func(t *testing.T, path string) { move(t, path+".away", path) }, says: "gone"},
		"replaced": {
			harm: func(t *testing.T, path string) {
				b, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path+".new", b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				move(t, path, path+".away")
				move(t, path+".new", path)
			},
			mends: func(t *testing.T, path string) { move(t, path+".away", path) }, says: "another file",
		},
		"emptied":               {harm: cut(0), says: "cut"},
		"cut behind its header": {harm: cut(4096), says: "cut"},
		"cut in the middle":     {harm: cut(40000), says: "cut"},
		"header overwritten":    {harm: overwrite(0, 100), says: "overwritten"},
		"pages overwritten":     {harm: overwrite(8192, 40000), says: "overwritten"},
	} {
		for _, asks := range []bool{false, true} {
			kind := ", a commit"
			if asks {
				kind = ", a look"
			}
			t.Run(name+kind, func(t *testing.T) {
				s, ses := trodden(t)
				if err := s.Stands(); err != nil {
					t.Fatal(err)
				}
				c.harm(t, s.path)
				var err error
				if asks {
					err = s.Stands()
				} else {
					err = s.Commit([]journal.Batch{ses.Notes(1)})[0]
				}
				wantReason(t, err, journal.ReasonIO)
				if !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				wantReason(t, s.Stands(), journal.ReasonIO)
				wantReason(t, s.Reopen(), journal.ReasonIO)
				wantReason(t, s.PutMeta(ctx, "x", nil), journal.ReasonIO)
				if c.mends == nil {
					return
				}
				c.mends(t, s.path)
				if err := s.Reopen(); err != nil {
					t.Fatal(err)
				}
				if h, err := s.Head(ctx, "local:local:a"); err != nil || h.Seq < 2 {
					t.Errorf("%+v, %v", h, err)
				}
				specimen.Must(t, s, specimen.Start(t, "local:local:b", 3).Notes(2))
			})
		}
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// Of a log that was unlinked nothing is lost: the store still has it when it opens the
// file anew.
func TestUnlinkedLog(t *testing.T) {
	s, ses := trodden(t)
	if err := os.Remove(s.path + "-wal"); err != nil {
		t.Fatal(err)
	}
	refused := ses.Notes(1)
	wantReason(t, s.Commit([]journal.Batch{refused})[0], journal.ReasonIO)
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Head(ctx, "local:local:a"); err != nil || h.Seq != 3 {
		t.Errorf("%+v, %v", h, err)
	}
	specimen.Must(t, s, specimen.Start(t, "local:local:b", 3).Notes(2))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, Options{Path: s.path})
	for sid, seq := range map[string]int64{"local:local:a": 3, "local:local:b": 2, "local:local:before": 400} {
		if h, err := again.Head(ctx, sid); err != nil || h.Seq != seq {
			t.Errorf("%s: %+v, %v", sid, h, err)
		}
	}
}

// What a store itself does to its file is no harm: it moves its log, empties it, and
// erases. Nor is what another one does.
func TestOwnWritesAreNoHarm(t *testing.T) {
	s, ses := trodden(t)
	other := open(t, Options{Path: s.path})
	theirs := specimen.Start(t, "local:local:theirs", 4)
	for i := range 6 {
		specimen.Must(t, s, ses.Notes(200))
		s.move()
		specimen.Must(t, other, theirs.Notes(200))
		other.move()
		if i == 3 {
			s.settle()
		}
		if err := s.Stands(); err != nil {
			t.Fatal(err)
		}
		if err := other.Stands(); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Reopen(); err != nil {
		t.Fatal(err)
	}
	specimen.Must(t, s, ses.Notes(1))
}

// What lies in the place of a journal and is none is refused and left as it is.
func TestNoJournalInItsPlace(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, FileName)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{dir, path} {
			_, err := openStore(Options{Path: p})
			wantReason(t, err, journal.ReasonFormat)
		}
		if left, err := os.ReadDir(path); err != nil || len(left) > 0 {
			t.Errorf("%v, %v", left, err)
		}
	})
	t.Run("log", func(t *testing.T) {
		s, _ := trodden(t)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		garbage := bytes.Repeat([]byte("garbage "), 1000)
		if err := os.WriteFile(s.path+"-wal", garbage, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openStore(Options{Path: s.path})
		wantReason(t, err, journal.ReasonCorrupt)
		if b, err := os.ReadFile(s.path + "-wal"); err != nil || !bytes.Equal(b, garbage) {
			t.Errorf("the log was touched: %v", err)
		}
	})
}

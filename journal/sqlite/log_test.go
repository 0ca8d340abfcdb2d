package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// The log is moved into the file when it has become long, and begun anew: it does not
// grow with what is written.
func TestLogIsMoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	ses := specimen.Start(t, "local:local:a", 1)
	text := strings.Repeat("x", moveAfter/16)
	for range 4 * 16 {
		specimen.Must(t, s, ses.Batch(&messages.Note{Text: text}))
		s.movers.Wait()
	}
	if n := bytesOf(t, dir, FileName+"-wal"); n > 2*moveAfter {
		t.Errorf("%d bytes were written, and the log has %d", 4*moveAfter, n)
	}
	if n := bytesOf(t, dir, FileName); n < 3*moveAfter {
		t.Errorf("%d bytes were written, and the file has %d", 4*moveAfter, n)
	}
}

func bytesOf(t *testing.T, dir, name string) int64 {
	t.Helper()
	fi, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

// While it is moved sessions go on: nothing is lost, nothing another.
func TestLogIsMovedBesideCommits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	const sessions, batches = 4, 20
	text := strings.Repeat("x", moveAfter/16)
	var all [sessions]*specimen.Session
	var wg sync.WaitGroup
	for i := range all {
		all[i] = specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1)
		wg.Go(func() {
			for range batches {
				if err := s.Commit([]journal.Batch{all[i].Batch(&messages.Note{Text: text})})[0]; err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.movers.Wait()
	if n := bytesOf(t, dir, FileName); n < moveAfter {
		t.Errorf("the file has %d bytes", n)
	}
	for _, ses := range all {
		if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != batches {
			t.Errorf("%d records, %v", len(recs), err)
		}
	}
	if err := s.Check(ctx); err != nil {
		t.Error(err)
	}
}

// A store that is closed or opened anew while its log is moved waits for it.
func TestLogIsMovedBesideReopen(t *testing.T) {
	s := open(t, Options{Path: t.TempDir()})
	ses := specimen.Start(t, "local:local:a", 1)
	text := strings.Repeat("x", moveAfter/8)
	const batches = 28
	for i := range batches {
		specimen.Must(t, s, ses.Batch(&messages.Note{Text: text}))
		if i%9 == 8 { // the log has just become long
			if err := s.Reopen(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != batches {
		t.Errorf("%d records, %v", len(recs), err)
	}
	for range 8 {
		specimen.Must(t, s, ses.Batch(&messages.Note{Text: text}))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The log of a small journal is left alone: moving it costs two syncs of the disk.
func TestShortLogStays(t *testing.T) {
	d, vfs := newDisk(t)
	s := open(t, Options{Path: t.TempDir(), vfs: vfs})
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(1)) // begins the log
	before, counted := d.count("sync"), s.Syncs()
	for range 20 {
		specimen.Must(t, s, ses.Notes(1))
	}
	s.movers.Wait()
	if n := d.count("sync") - before; n != 20 || s.Syncs()-counted != 20 {
		t.Errorf("20 commits took %d syncs, and the store counts %d", n, s.Syncs()-counted)
	}
}

// What the store counts is what the disk was asked for, also when the log is moved.
func TestSyncsAreCounted(t *testing.T) {
	d, vfs := newDisk(t)
	s := open(t, Options{Path: t.TempDir(), vfs: vfs})
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(1))
	before, counted := d.count("sync"), s.Syncs()
	text := strings.Repeat("x", moveAfter/8)
	for range 40 {
		specimen.Must(t, s, ses.Batch(&messages.Note{Text: text}))
		s.movers.Wait()
	}
	if asked, counts := d.count("sync")-before, s.Syncs()-counted; int64(asked) != counts || counts <= 40 {
		t.Errorf("the disk was asked for %d syncs, the store counts %d", asked, counts)
	}
}

package sqlite

import (
	"bytes"
	"database/sql"
	goflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// exhaustive takes some ten minutes of a processor: make crash-sweep does it.
var (
	exhaustive = goflag.Bool("exhaustive", false, "cut a journal at every byte, and turn every bit over")
	part       = goflag.Int("part", 0, "with -parts: which of them, from 0 on")
	parts      = goflag.Int("parts", 1, "try every n-th place alone: -part 0 to -part n-1 are all of them")
)

// A small journal with every kind of record is cut at every byte, and every bit of it is
// turned over, in the file as a clean end leaves it and in the log as a kill does.
// Whatever opens gives beginnings of the true history, decisions and all, or refuses by
// name. The files are in memory. The short test takes some of the places, and looks
// whether a real disk gives the same.
func TestEveryBit(t *testing.T) {
	rng := specimen.Seed(t)
	pictures := tiny(t)
	stride := func(n int) int {
		if *exhaustive {
			return 1
		}
		return 1 + rng.IntN(2*n/100)
	}
	type place struct {
		of *picture
		at int
	}
	places := make(chan place)
	go func() {
		defer close(places)
		all := 0
		for i := range pictures {
			p := &pictures[i]
			cuts := len(p.bytes())
			for _, span := range [][2]int{{0, cuts}, {cuts, 9 * cuts}} {
				for at := span[0]; at < span[1]; at += stride(span[1] - span[0]) {
					if all++; (all-1)%max(1, *parts) == *part {
						places <- place{p, at}
					}
				}
			}
		}
	}()
	var tried, loud atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, nil, 0o600); err != nil { // Open looks for it on the real disk
			t.Fatal(err)
		}
		workers.Go(func() {
			for p := range places {
				name, db, wal := p.of.damage(p.at)
				putRAM(path, bytes.Clone(db))
				putRAM(path+"-wal", bytes.Clone(wal))
				n := p.of.judge(t, name, path)
				if !*exhaustive {
					real := *p.of.copies
					real.vfs = ""
					if m := real.check(t, name, db, wal); m != n {
						t.Errorf("%s: %d records on a disk, %d in memory", name, m, n)
					}
				}
				tried.Add(1)
				if n < p.of.whole {
					loud.Add(1)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("a file of %d bytes, a log of %d: %d places, %d with a loss that was told", len(pictures[0].db), len(pictures[1].wal), tried.Load(), loud.Load())
	if loud.Load() == 0 {
		t.Error("nothing was ever lost")
	}
}

// picture is what a process left on the disk, whole records in all.
type picture struct {
	*copies
	name  string
	whole int
}

// bytes are those that are damaged: the log, or where there is none the file.
func (p *picture) bytes() []byte {
	if p.wal != nil {
		return p.wal
	}
	return p.db
}

// damage is the picture damaged at a place, of nine for each byte: first it is cut before
// every byte, then every bit is turned over.
func (p *picture) damage(at int) (name string, db, wal []byte) {
	b := p.bytes()
	if at < len(b) {
		name, b = fmt.Sprintf("%s cut at %d", p.name, at), b[:at]
	} else {
		at -= len(b)
		name, b = fmt.Sprintf("bit %d of byte %d of %s", at%8, at/8, p.name), bytes.Clone(b)
		b[at/8] ^= 1 << (at % 8)
	}
	if p.wal != nil {
		return name, p.db, b
	}
	return name, b, nil
}

// tiny makes a journal of pages of 512 bytes, the smallest there are, and gives it as a
// clean end and as a kill leave it. The log of the kill holds all but the empty tables.
func tiny(t *testing.T) []picture {
	t.Helper()
	path, vfs := filepath.Join(t.TempDir(), FileName), newRAM(t)
	raw, err := sql.Open("sqlite", "file:"+path+"?vfs="+vfs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Exec("PRAGMA page_size = 512; PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Options{Path: path, vfs: vfs}).Close(); err != nil { // the tables
		t.Fatal(err)
	}
	s := open(t, Options{Path: path, vfs: vfs})
	ses := specimen.Start(t, "local:local:a", 1)
	blob := specimen.NewBlob("reply")
	var bodies []messages.Body
	for _, b := range specimen.Bodies() {
		switch b := b.(type) {
		case *messages.SessionClosed:
			continue
		case *messages.ModelReply:
			b.Blob = blob.Digest
		case *messages.TurnDecided:
			b.Decision = messages.Done
		case *messages.Input:
			b.Text = "a gopher"
		}
		bodies = append(bodies, b)
	}
	first := ses.Batch(bodies...)
	first.Blobs = []messages.Blob{blob}
	first.Snapshot = &journal.Snapshot{Seq: first.Records[0].Seq, Hash: first.Records[0].Hash, State: []byte("state")}
	last := ses.Batch(&messages.SessionClosed{})
	for _, b := range []journal.Batch{first, last} {
		specimen.Must(t, s, b)
	}
	if hits, err := s.Recall(ctx, journal.RecallQuery{Owner: "local:local:", Words: []string{"gopher"}}); err != nil || len(hits) != 1 {
		t.Fatalf("%d hits, %v", len(hits), err)
	}
	if err := s.PutMeta(ctx, "key", []byte("value")); err != nil {
		t.Fatal(err)
	}
	killed := &copies{vfs: vfs, db: getRAM(path), wal: getRAM(path + "-wal"), all: map[messages.Incarnation][]*messages.Record{
		ses.Inc: slices.Concat(first.Records, last.Records),
	}}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	closed := &copies{vfs: vfs, db: getRAM(path), all: killed.all}
	pictures := []picture{{closed, "the file", len(killed.all[ses.Inc])}, {killed, "the log", len(killed.all[ses.Inc])}}
	for _, p := range pictures {
		putRAM(path, bytes.Clone(p.db))
		putRAM(path+"-wal", bytes.Clone(p.wal))
		if n := p.judge(t, p.name, path); n != p.whole {
			t.Fatalf("%s, whole, has %d records of %d", p.name, n, p.whole)
		}
	}
	return pictures
}

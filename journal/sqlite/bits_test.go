package sqlite

import (
	"bytes"
	goflag "flag"
	"fmt"
	"testing"

	"github.com/seed14be6753/stile/journal/journaltest"
	"github.com/seed14be6753/stile/messages"
)

// exhaustive takes some ten minutes of a processor: make crash-sweep does it.
var (
	exhaustive = goflag.Bool("exhaustive", false, "cut a journal at every byte, and turn a bit of every byte over")
	part       = goflag.Int("part", 0, "with -parts: which of them, from 0 on")
	parts      = goflag.Int("parts", 1, "try every n-th place alone: -part 0 to -part n-1 are all of them")
)

// A small journal is cut at every byte, and a bit of every byte is turned over, in the
// file as a clean end leaves it and in the log as a kill does. Whatever opens gives
// beginnings of the true history, decisions and all, or refuses by name. The short
// test takes some of the places.
func TestEveryBit(t *testing.T) {
	rng := journaltest.Seed(t)
	dir := t.TempDir()
	_, vfs := newDisk(t)
	s := open(t, Options{Path: dir, vfs: vfs})
	c := &copies{all: map[messages.Incarnation][]*messages.Record{}}
	ses := journaltest.Start(t, "local:local:a", 1)
	for i := range 2 {
		blob := journaltest.NewBlob(fmt.Sprint("reply ", i))
		b := ses.Batch(&messages.ModelReply{Blob: blob.Digest}, &messages.TurnDecided{Decision: messages.Done, TurnIndex: int64(i)}, &messages.RunEnd{Decision: messages.Done})
		b.Blobs = []messages.Blob{blob}
		journaltest.Must(t, s, b)
		c.all[ses.Inc] = append(c.all[ses.Inc], b.Records...)
	}
	c.load(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	closed := copies{all: c.all}
	closed.load(t, dir)
	if c.vfs, closed.vfs = vfs, vfs; c.check(t, "killed", c.db, c.wal) != 6 || closed.check(t, "closed", closed.db, nil) != 6 {
		t.Fatal("whole, not everything is there")
	}
	places, loud, all := 0, 0, 0
	try := func(name string, of *copies, db, wal []byte) {
		if all++; (all-1)%max(1, *parts) != *part {
			return
		}
		places++
		if of.check(t, name, db, wal) < 6 {
			loud++
		}
	}
	stride := func(n int) int {
		if *exhaustive {
			return 1
		}
		return 1 + rng.IntN(2*n/150)
	}
	for i := 0; i < len(closed.db); i += stride(len(closed.db)) {
		try(fmt.Sprint("the file cut at ", i), &closed, closed.db[:i], nil)
	}
	for i := 0; i < len(c.wal); i += stride(len(c.wal)) {
		try(fmt.Sprint("the log cut at ", i), c, c.db, c.wal[:i])
	}
	flips := func(name string, b []byte, f func(name string, b []byte)) {
		b = bytes.Clone(b)
		for i := 0; i < len(b); i += stride(len(b)) {
			bit := rng.IntN(8)
			b[i] ^= 1 << bit
			f(fmt.Sprintf("bit %d of byte %d of %s", bit, i, name), b)
			b[i] ^= 1 << bit
		}
	}
	flips("the file", closed.db, func(name string, b []byte) { try(name, &closed, b, nil) })
	flips("the log", c.wal, func(name string, b []byte) { try(name, c, c.db, b) })
	t.Logf("a file of %d bytes, a log of %d: %d of %d places, %d with a loss that was told", len(closed.db), len(c.wal), places, all, loud)
	if loud == 0 {
		t.Error("nothing was ever lost")
	}
}

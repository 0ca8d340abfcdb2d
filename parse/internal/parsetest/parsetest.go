// Package parsetest has what the tests of all dialects do with a reply: it comes in
// pieces, and reading it costs time.
//
// It knows no dialect: what a reply means is for each of them to test.
package parsetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Cut returns a reply in random pieces, some of them empty. draw gives a number from 0 to
// below n, as rand.IntN does.
func Cut(draw func(n int) int, reply []byte) (pieces [][]byte) {
	most := 1 + draw(40+len(reply)/50)
	for len(reply) > 0 {
		n := min(draw(most+1), len(reply))
		pieces = append(pieces, reply[:n])
		reply = reply[n:]
	}
	return pieces
}

// Pieces returns a reply in pieces of n bytes; the last one may be shorter.
func Pieces(reply []byte, n int) (pieces [][]byte) {
	for len(reply) > 0 {
		k := min(n, len(reply))
		pieces = append(pieces, reply[:k])
		reply = reply[k:]
	}
	return pieces
}

// Bench reads a reply whole, in pieces of 64 bytes and of 4, and beside it a floor: every
// "<" is found and nothing else is done, below which no scanner of tags can be.
func Bench(b *testing.B, d parse.Dialect, reply []byte) {
	run := func(name string, read func() int) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(reply)))
			b.ReportAllocs()
			found := 0
			for b.Loop() {
				found += read()
			}
			if found == 0 {
				b.Fatal("there was nothing to find")
			}
		})
	}
	run("floor", func() (n int) {
		for rest := reply; ; n++ {
			i := bytes.IndexByte(rest, '<')
			if i < 0 {
				return n
			}
			rest = rest[i+1:]
		}
	})
	for _, size := range []int{len(reply), 64, 4} {
		name := fmt.Sprintf("chunks=%dB", size)
		if size == len(reply) {
			name = "chunks=whole"
		}
		run(name, func() (events int) {
			emit := func(messages.Event) { events++ }
			dec := d.NewDecoder(messages.TurnInfo{})
			for i := 0; i < len(reply); i += size {
				dec.Push(reply[i:min(i+size, len(reply))], emit)
			}
			dec.End(messages.FinishComplete, emit)
			return events
		})
	}
}

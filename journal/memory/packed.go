package memory

import (
	"encoding/binary"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// packed keeps the records and blobs of one session as bytes in a few large
// pieces. A journal in memory only grows: as structs it would be most of what the
// collector has to look at, as bytes it is nothing.
//
// Readers work on a copy of this struct without a lock: neither an element of its
// slices nor a byte that was handed out is ever written again.
type packed struct {
	pieces [][]byte
	used   int     // of the last piece
	at     []place // of record seq, at seq-1
}

// place is where something stands.
type place struct{ piece, off, n uint32 }

// Sizes of pieces: small for the many sessions that hold little, then larger.
const (
	firstPieceBytes = 1 << 10
	lastPieceBytes  = 256 << 10
)

// room returns n bytes at the end of the last piece, in a new one if need be.
func (p *packed) room(n int) ([]byte, place) {
	last := len(p.pieces) - 1
	if last < 0 || len(p.pieces[last])-p.used < n {
		size := firstPieceBytes
		if last >= 0 {
			size = min(2*len(p.pieces[last]), lastPieceBytes)
		}
		p.pieces = append(p.pieces, make([]byte, max(size, n)))
		p.used = 0
		last++
	}
	off := p.used
	p.used += n
	return p.pieces[last][off : off+n : off+n], place{uint32(last), uint32(off), uint32(n)}
}

// bytes returns what stands at a place.
func (p *packed) bytes(at place) []byte {
	return p.pieces[at.piece][at.off : at.off+at.n : at.off+at.n]
}

// keep copies b in.
func (p *packed) keep(b []byte) place {
	room, at := p.room(len(b))
	copy(room, b)
	return at
}

// fixedBytes are the parts of a record that always have the same size: run, turn,
// epoch, ts, four digests and the salt.
const fixedBytes = 4*8 + 3*32 + 16

func (p *packed) add(r *messages.Record) { p.at = append(p.at, p.pack(r)) }

// pack writes a record: the fixed part, then kind, key id, signature and body, each
// led by its length. A body of length 2^32−1 is an erased one.
func (p *packed) pack(r *messages.Record) place {
	kind := string(r.Body.Kind())
	var kid string
	var sig []byte
	if r.Sig != nil {
		kid, sig = r.Sig.KID, r.Sig.Sig
	}
	b, at := p.room(fixedBytes + 4*4 + len(kind) + len(kid) + len(sig) + len(r.Raw))
	for i, n := range [...]int64{r.Run, r.Turn, r.Epoch, r.TS.UnixNano()} {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(n))
	}
	n := 32
	n += copy(b[n:], r.Salt[:])
	n += copy(b[n:], r.BodyDigest[:])
	n += copy(b[n:], r.Prev[:])
	n += copy(b[n:], r.Hash[:])
	part := func(length int, copyTo func([]byte) int) {
		binary.LittleEndian.PutUint32(b[n:], uint32(length))
		n += 4
		n += copyTo(b[n:])
	}
	part(len(kind), func(b []byte) int { return copy(b, kind) })
	part(len(kid), func(b []byte) int { return copy(b, kid) })
	part(len(sig), func(b []byte) int { return copy(b, sig) })
	body := len(r.Raw)
	if r.Raw == nil {
		body = erased
	}
	part(body, func(b []byte) int { return copy(b, r.Raw) })
	return at
}

const erased = 1<<32 - 1

// record reads one back. Its body is not decoded; Raw and the signature are the
// packed bytes themselves and must not be written to. CORRUPT when the lengths in it
// cannot be; what else a stray write may have changed, the chain shows.
func (p *packed) record(sid string, inc messages.Incarnation, seq int64) (*messages.Record, error) {
	b := p.bytes(p.at[seq-1])
	word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	r := &messages.Record{
		SID: sid, Inc: inc, Seq: seq, Run: word(0), Turn: word(1), Epoch: word(2), TS: time.Unix(0, word(3)).UTC(),
	}
	b = b[32:]
	b = b[copy(r.Salt[:], b):]
	b = b[copy(r.BodyDigest[:], b):]
	b = b[copy(r.Prev[:], b):]
	b = b[copy(r.Hash[:], b):]
	whole := true
	part := func() (out []byte, length uint32) {
		if len(b) < 4 {
			whole = false
			return nil, erased
		}
		length = binary.LittleEndian.Uint32(b)
		b = b[4:]
		switch {
		case length == erased:
		case int64(length) > int64(len(b)):
			whole = false
		default:
			out, b = b[:length:length], b[length:]
		}
		return out, length
	}
	kind, _ := part()
	kid, _ := part()
	sig, _ := part()
	raw, length := part()
	if !whole || len(b) > 0 {
		return nil, journal.Fail(journal.ReasonCorrupt, nil, "session %s: record %d is damaged", sid, seq)
	}
	r.Body = &messages.Undecoded{Of: messages.Kind(kind)}
	if len(sig) > 0 {
		r.Sig = &messages.Receipt{KID: string(kid), Sig: sig}
	}
	if length != erased {
		r.Raw = raw
	}
	return r, nil
}

// hash returns a record's hash alone.
func (p *packed) hash(seq int64) messages.Digest {
	return messages.Digest(p.bytes(p.at[seq-1])[32+16+64:])
}

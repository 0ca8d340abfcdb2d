package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Receipts says which records are signed.
type Receipts string

// The receipt policies: under "run" every run.end is signed, under "decision" every
// turn.decided. session.opened, which records the policy, and session.closed are signed
// under each policy, "off" included (docs/spec/design.md §7).
const (
	ReceiptsDecision Receipts = "decision" // default
	ReceiptsRun      Receipts = "run"
	ReceiptsOff      Receipts = "off"
)

// Signs reports whether a record of kind k bears a receipt.
func (p Receipts) Signs(k messages.Kind) bool {
	return k == messages.KindSessionOpened || k == messages.KindSessionClosed || p.signsWork(k)
}

// signsWork is Signs for the records between the first and the last.
func (p Receipts) signsWork(k messages.Kind) bool {
	switch p {
	case ReceiptsRun:
		return k == messages.KindRunEnd
	case ReceiptsOff:
		return false
	}
	return k == messages.KindTurnDecided
}

// Signer makes receipts: signatures over "stile-receipt/1\n" inc "\n" seq "\n" hash. ts is
// the record's own time; the signer picks a key that is valid then.
type Signer interface {
	Receipt(inc string, seq int64, hash [32]byte, ts time.Time) (*messages.Receipt, error)
}

// forkEpoch is the epoch of the records that a fork copies from its original.
const forkEpoch = 1

// SignedAt returns the time at which the receipt of r must be valid: the record's own time.
// In a fork, a record copied from the original was signed when the fork was made, which is
// the time in its incarnation; its own time may be before the signing key was valid.
func SignedAt(r *messages.Record, fork bool) time.Time {
	if fork && r.Epoch == forkEpoch && r.Inc.Version() == 7 {
		sec, nsec := r.Inc.Time().UnixTime()
		return time.Unix(sec, nsec)
	}
	return r.TS
}

// Genesis returns the Prev of a session's first record:
// SHA-256("stile/1\n" sid "\n" inc), inc in the usual text form of a UUID.
func Genesis(sid string, inc messages.Incarnation) messages.Digest {
	b := append(make([]byte, 0, 192), "stile/1\n"...)
	b = append(b, sid...)
	b = append(b, '\n')
	b = appendInc(b, inc)
	return sha256.Sum256(b)
}

// Anchor names a place in a chain: a position and the hash of the record there.
type Anchor struct {
	Seq  int64
	Hash messages.Digest
}

// saltBytes salts a body digest, so that an erased body cannot be found by
// guessing.
const saltBytes = 16

// bodyDigest is SHA-256(salt ‖ body); buf is scratch space.
func bodyDigest(buf []byte, salt *[saltBytes]byte, body []byte) (messages.Digest, []byte) {
	buf = append(buf[:0], salt[:]...)
	buf = append(buf, body...)
	return sha256.Sum256(buf), buf
}

// appendHeader appends the canonical header, whose SHA-256 is the record's hash.
// Its members: body (the digest), epoch, inc, prev, run, seq, sid, ts, turn, type.
func appendHeader(dst []byte, r *messages.Record, kind messages.Kind) []byte {
	dst = append(dst, `{"body":"`...)
	dst = hex.AppendEncode(dst, r.BodyDigest[:])
	dst = append(dst, `","epoch":`...)
	dst = strconv.AppendInt(dst, r.Epoch, 10)
	dst = append(dst, `,"inc":"`...)
	dst = appendInc(dst, r.Inc)
	dst = append(dst, `","prev":"`...)
	dst = hex.AppendEncode(dst, r.Prev[:])
	dst = append(dst, `","run":`...)
	dst = strconv.AppendInt(dst, r.Run, 10)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendInt(dst, r.Seq, 10)
	dst = append(dst, `,"sid":`...)
	dst, _ = appendText(dst, r.SID)
	dst = append(dst, `,"ts":"`...)
	dst = appendTime(dst, r.TS)
	dst = append(dst, `","turn":`...)
	dst = strconv.AppendInt(dst, r.Turn, 10)
	dst = append(dst, `,"type":`...)
	dst, _ = appendText(dst, string(kind))
	return append(dst, '}')
}

// appendInc appends the usual text form of a UUID.
func appendInc(dst []byte, inc messages.Incarnation) []byte {
	dst = hex.AppendEncode(dst, inc[0:4])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, inc[4:6])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, inc[6:8])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, inc[8:10])
	dst = append(dst, '-')
	return hex.AppendEncode(dst, inc[10:16])
}

// appendTime appends RFC 3339 in UTC with all nine digits of the fraction. All
// nine, because one instant must have one form and the texts then sort like the
// instants.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = appendDigits(dst, year, 4)
	dst = append(dst, '-')
	dst = appendDigits(dst, int(month), 2)
	dst = append(dst, '-')
	dst = appendDigits(dst, day, 2)
	dst = append(dst, 'T')
	dst = appendDigits(dst, hour, 2)
	dst = append(dst, ':')
	dst = appendDigits(dst, minute, 2)
	dst = append(dst, ':')
	dst = appendDigits(dst, second, 2)
	dst = append(dst, '.')
	dst = appendDigits(dst, t.Nanosecond(), 9)
	return append(dst, 'Z')
}

func appendDigits(dst []byte, v, width int) []byte {
	var b [9]byte
	for i := width - 1; i >= 0; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return append(dst, b[:width]...)
}

// firstTime and endTime bound what a record's time may be: what fits 64 bits of
// nanoseconds around 1970, in whole years.
var (
	firstTime = time.Date(1678, 1, 1, 0, 0, 0, 0, time.UTC)
	endTime   = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
)

// SealerConfig configures a Sealer.
type SealerConfig struct {
	Head  Head  // as loaded
	Epoch int64 // of this activation; 0 is Head.Epoch + 1
	// Rand is the source of salts; required.
	Rand io.Reader
	// Signer makes the receipts; nil commits unsigned.
	Signer   Signer
	Receipts Receipts // "" is ReceiptsDecision
	// Fork marks records that a fork copies from its original: their receipts are of the
	// time of the fork (SignedAt).
	Fork bool
}

// Sealer chains, hashes and signs the machine's records. Each activation of a session has
// a Sealer of its own. It is not safe for concurrent use.
type Sealer struct {
	rand     io.Reader
	signer   Signer
	receipts Receipts
	sid      string
	inc      messages.Incarnation
	epoch    int64
	head     Anchor
	unsigned int64

	salts  [saltsAtOnce * saltBytes]byte
	unused int8 // salts at the end that were not given out yet
	fork   bool
}

// saltsAtOnce is how many salts one read of randomness yields: few, because every idle
// session keeps those that it has not used.
const saltsAtOnce = 3

// sealing is the working memory of one Seal. Sealers share it through a pool, so
// that an idle session holds none.
type sealing struct {
	scratch []byte // salt and body, then header, of one record
	arena   []byte // bodies of the batch at hand
}

var sealings = sync.Pool{New: func() any { return new(sealing) }}

// maxScratchBytes bounds what a pooled piece of working memory keeps.
const maxScratchBytes = 64 << 10

// NewSealer returns a Sealer that continues cfg.Head.
func NewSealer(cfg SealerConfig) *Sealer {
	s := &Sealer{
		rand: cfg.Rand, signer: cfg.Signer, receipts: cfg.Receipts, fork: cfg.Fork, sid: cfg.Head.SID, inc: cfg.Head.Inc, epoch: cfg.Epoch,
		head: Anchor{Seq: cfg.Head.Seq, Hash: cfg.Head.Hash},
	}
	if s.epoch == 0 {
		s.epoch = cfg.Head.Epoch + 1
	}
	return s
}

// Head returns the anchor of the last sealed record, which the next one continues.
func (s *Sealer) Head() Anchor { return s.head }

// Epoch returns the epoch of the activation.
func (s *Sealer) Epoch() int64 { return s.epoch }

// Unsigned returns how many records should bear a receipt and do not, because there is
// no signer or the signer failed.
func (s *Sealer) Unsigned() int64 { return s.unsigned }

// Seal fills the fields that the machine leaves empty: SID, Inc, Epoch, Raw, Salt,
// BodyDigest, Prev, Hash and, by policy, Sig; a zero TS becomes now. The records must
// continue the head in Seq. A body whose text is not UTF-8 is replaced by what its
// canonical bytes decode to, so that live and restored readers see the same.
//
// On an error (ERR_JOURNAL/INVALID: a defect; IO: no randomness) the sealer is unchanged;
// the caller must discard the records and the machine that made them.
func (s *Sealer) Seal(recs []*messages.Record, now time.Time) error {
	head, unsigned := s.head, s.unsigned
	if err := s.seal(recs, now); err != nil {
		s.head, s.unsigned = head, unsigned
		return err
	}
	return nil
}

func (s *Sealer) seal(recs []*messages.Record, now time.Time) error {
	w := sealings.Get().(*sealing)
	defer w.recycle()
	w.arena = w.arena[:0]
	for _, r := range recs {
		if err := s.one(w, r, now); err != nil {
			return err
		}
	}
	// The bodies move from the arena to one piece of exactly their size.
	own := make([]byte, len(w.arena))
	copy(own, w.arena)
	for _, r := range recs {
		n := len(r.Raw)
		r.Raw, own = own[:n:n], own[n:]
	}
	return nil
}

func (w *sealing) recycle() {
	if cap(w.arena) > maxScratchBytes {
		w.arena = nil
	}
	if cap(w.scratch) > maxScratchBytes {
		w.scratch = nil
	}
	sealings.Put(w)
}

// one seals r and appends its canonical body to the arena.
func (s *Sealer) one(w *sealing, r *messages.Record, now time.Time) error {
	if r == nil || r.Body == nil {
		return Fail(ReasonInvalid, nil, "session %s: a record without a body", s.sid)
	}
	if r.Seq != s.head.Seq+1 || r.Seq > MaxSeq {
		return Fail(ReasonInvalid, nil, "session %s: record %d where %d belongs", s.sid, r.Seq, s.head.Seq+1)
	}
	if r.TS.IsZero() {
		r.TS = now
	}
	if r.TS.Before(firstTime) || !r.TS.Before(endTime) {
		return Fail(ReasonInvalid, nil, "session %s: record %d has a time out of range", s.sid, r.Seq)
	}
	if r.Run < 0 || r.Run > maxInt || r.Turn < 0 || r.Turn > maxInt || s.epoch > maxInt {
		return Fail(ReasonInvalid, nil, "session %s: record %d has a run, turn or epoch out of range", s.sid, r.Seq)
	}
	r.TS = time.Unix(0, r.TS.UnixNano()).UTC() // without monotonic reading, as it will be read back
	r.SID, r.Inc, r.Epoch, r.Prev = s.sid, s.inc, s.epoch, s.head.Hash

	if err := s.salt(&r.Salt); err != nil {
		return err
	}
	start := len(w.arena)
	e := encoder{dst: w.arena}
	e.body(r.Body)
	w.arena = e.dst
	if e.fault != "" {
		return Fail(ReasonInvalid, nil, "session %s: record %d, %s: member %s cannot be written", s.sid, r.Seq, r.Body.Kind(), e.fault)
	}
	kind := r.Body.Kind()
	raw := w.arena[start:]
	if e.repaired {
		b, err := DecodeBody(kind, raw)
		if err != nil {
			return err
		}
		r.Body = b
	}
	r.Raw = raw
	r.BodyDigest, w.scratch = bodyDigest(w.scratch, &r.Salt, raw)
	w.scratch = appendHeader(w.scratch[:0], r, kind)
	r.Hash = sha256.Sum256(w.scratch)
	r.Sig = nil
	if s.receipts.Signs(kind) {
		s.sign(r)
	}
	s.head = Anchor{Seq: r.Seq, Hash: r.Hash}
	return nil
}

// sign signs r, or leaves it unsigned and counts it when the signer is missing or fails: a
// missing signature does not cost a decision (docs/spec/design.md §7).
func (s *Sealer) sign(r *messages.Record) {
	if s.signer != nil {
		sig, err := s.signer.Receipt(s.inc.String(), r.Seq, r.Hash, SignedAt(r, s.fork))
		if err == nil && sig != nil {
			r.Sig = sig
			return
		}
	}
	s.unsigned++
}

// salt takes the next salt; random bytes are read for many salts at once.
func (s *Sealer) salt(dst *[saltBytes]byte) error {
	if s.unused == 0 {
		if s.rand == nil {
			return Fail(ReasonInvalid, nil, "session %s: no source of salts", s.sid)
		}
		if _, err := io.ReadFull(s.rand, s.salts[:]); err != nil {
			return Fail(ReasonIO, err, "session %s: no randomness for salts", s.sid)
		}
		s.unused = saltsAtOnce
	}
	at := (saltsAtOnce - int(s.unused)) * saltBytes
	copy(dst[:], s.salts[at:])
	clear(s.salts[at : at+saltBytes])
	s.unused--
	return nil
}

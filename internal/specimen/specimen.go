// Package specimen makes journals for tests: records of every kind, sessions written as
// one activation would, and what a user may have said.
//
// Invariant: all of it is a function of a seed, which a failing test has logged.
package specimen

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Seed draws a seed, logs it, and gives its generator.
func Seed(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// Bodies returns one empty body of every kind.
func Bodies() []messages.Body {
	return []messages.Body{
		&messages.SessionOpened{}, &messages.SessionClosed{}, &messages.SessionDescribed{}, &messages.Input{}, &messages.RunBegin{},
		&messages.RunEnd{}, &messages.RunWithdrawn{}, &messages.TurnBegin{}, &messages.ModelRequest{}, &messages.ModelChunk{Bytes: []byte{}}, &messages.ActionChunk{Bytes: []byte{}},
		&messages.ModelReply{}, &messages.ModelFallback{}, &messages.ModelSession{},
		&messages.UnitText{UnitKind: messages.ResponseUnit}, &messages.UnitText{UnitKind: messages.ThoughtUnit},
		&messages.UnitText{UnitKind: messages.TextUnit},
		&messages.Emit{}, &messages.Whisper{}, &messages.ActionDeclared{}, &messages.ActionTemplate{}, &messages.ActionApproval{},
		&messages.ActionStarted{}, &messages.ActionEnded{}, &messages.BlockBegin{}, &messages.BlockDecided{}, &messages.BlockEnded{}, &messages.ParseFault{}, &messages.Lint{}, &messages.FeedInjected{},
		&messages.TurnDecided{}, &messages.TurnSuspended{}, &messages.TurnRestored{}, &messages.Control{}, &messages.Audit{}, &messages.Note{}, &messages.Retract{}, &messages.RollbackBegin{},
	}
}

// Fill sets every field of b at random, about one in four to zero. Texts are
// UTF-8 with all that needs escaping; integers keep to ±(2^53−1).
func Fill(rng *rand.Rand, b messages.Body) {
	fill(rng, reflect.ValueOf(b).Elem(), nil)
}

// fill sets v, which is in a list of type within, or in none: no list holds itself.
func fill(rng *rand.Rand, v reflect.Value, within reflect.Type) {
	if u, ok := v.Addr().Interface().(*messages.Kind); ok && *u != "" {
		return // part of the kind
	}
	if d, ok := v.Addr().Interface().(*messages.Digest); ok {
		if rng.IntN(4) > 0 {
			*d = sha256.Sum256([]byte(Text(rng, 8)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // no part of a record
				fill(rng, v.Field(i), within)
			}
		}
	case reflect.Pointer:
		if rng.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem(), within)
		}
	case reflect.Slice:
		if v.Type() == within {
			return
		}
		if rng.IntN(4) == 0 {
			if v.Len() == 0 && !v.IsNil() {
				return // stays empty
			}
			v.SetZero()
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(5), 5))
		for i := range v.Len() {
			fill(rng, v.Index(i), v.Type())
		}
	case reflect.String:
		if rng.IntN(4) > 0 {
			v.SetString(Text(rng, 24))
		}
	case reflect.Int64:
		if rng.IntN(4) > 0 {
			v.SetInt((rng.Int64N(1<<53) - 1<<52) >> rng.IntN(53) * 2)
		}
	case reflect.Uint8:
		v.SetUint(uint64(rng.IntN(256)))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	default:
		panic("a body has a field of a kind that Fill does not know: " + v.Type().String())
	}
}

// Text makes up to n runes of UTF-8.
func Text(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range rng.IntN(n + 1) {
		switch rng.IntN(6) {
		case 0:
			b.WriteByte(byte(rng.IntN(0x20)))
		case 1:
			b.WriteString([]string{`"`, `\`, "/", "\x7f", "<", "&", "\u2028", "\ufffd", "\u00e9", "\U0001f600"}[rng.IntN(10)])
		default:
			b.WriteByte(byte(' ' + rng.IntN(95)))
		}
	}
	return b.String()
}

// Random is an endless random stream for salts.
func Random(seed uint64) io.Reader {
	var key [32]byte
	key[0], key[1], key[2] = byte(seed), byte(seed>>8), byte(seed>>16)
	return rand.NewChaCha8(key)
}

// Epoch is when test sessions begin.
var Epoch = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)

// Session writes a session as one activation would.
type Session struct {
	tb     testing.TB
	SID    string
	Inc    messages.Incarnation
	Sealer *journal.Sealer
	now    time.Time
}

// Inc makes the n-th incarnation of a test.
func Inc(n int) messages.Incarnation {
	return messages.Incarnation{0: 1, 1: 0x93, 6: 0x70, 8: 0x80, 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
}

// Continue starts an activation at a head.
func Continue(tb testing.TB, head journal.Head, signer journal.Signer) *Session {
	return &Session{
		tb: tb, SID: head.SID, Inc: head.Inc, now: Epoch.Add(time.Duration(head.Seq) * time.Millisecond),
		Sealer: journal.NewSealer(journal.SealerConfig{Head: head, Rand: Random(uint64(head.Epoch) + 7), Signer: signer}),
	}
}

// Start starts the first activation of a session.
func Start(tb testing.TB, sid string, n int) *Session {
	return Continue(tb, journal.NewHead(sid, Inc(n)), nil)
}

// Batch seals one record per body.
func (s *Session) Batch(bodies ...messages.Body) journal.Batch {
	s.tb.Helper()
	at := s.Sealer.Head()
	recs := make([]*messages.Record, len(bodies))
	for i, b := range bodies {
		s.now = s.now.Add(time.Millisecond)
		recs[i] = &messages.Record{Seq: at.Seq + int64(i) + 1, Run: 1, Turn: 1, TS: s.now, Body: b}
	}
	if err := s.Sealer.Seal(recs, s.now); err != nil {
		s.tb.Fatal(err)
	}
	return journal.Batch{SID: s.SID, Inc: s.Inc, ExpectSeq: at.Seq, Epoch: s.Sealer.Epoch(), Records: recs}
}

// Notes makes a batch of n notes.
func (s *Session) Notes(n int) journal.Batch {
	s.tb.Helper()
	bodies := make([]messages.Body, n)
	for i := range bodies {
		bodies[i] = &messages.Note{Text: "note"}
	}
	return s.Batch(bodies...)
}

// NewBlob makes a blob of data.
func NewBlob(data string) messages.Blob {
	return messages.Blob{Digest: sha256.Sum256([]byte(data)), Data: []byte(data)}
}

// vocabulary has what is a wildcard, a quote or an escape somewhere, words inside words,
// capitals, and letters of more than one byte.
var vocabulary = []string{
	"Go", "golang", "gopher", "lang", "100%", "%", "_", "a_b", "axb", `\`, `C:\dir`, "it's", `"quoted"`, "Straße", "STRASSE", "ÄÖÜ", "äöü", "naïve",
	"日本語", "日本", "e", "be", "bee", "been", "<end>", "NUL\x00byte", "x*y", "AND", "OR", "NEAR(", "a", "-", "^a", "tab\tline\nend", "İstanbul",
}

// Sentence makes a text of words that recalls look for.
func Sentence(rng *rand.Rand, n int) string {
	words := make([]string, 1+rng.IntN(n))
	for i := range words {
		words[i] = vocabulary[rng.IntN(len(vocabulary))]
	}
	return strings.Join(words, []string{" ", "  ", "\n", "\u3000"}[rng.IntN(4)])
}

// Saying makes bodies of a conversation, and some that say nothing or nothing to a user.
func Saying(rng *rand.Rand, n int) []messages.Body {
	bodies := make([]messages.Body, n)
	for i := range bodies {
		text := Sentence(rng, 8)
		bodies[i] = []messages.Body{
			&messages.Input{Text: text},
			&messages.Input{Userdata: `{"subject":"s","fields":{"text":"gopher"}}`},
			&messages.UnitText{Unit: "1.0", UnitKind: messages.ResponseUnit, Text: text},
			&messages.UnitText{Unit: "1.0", UnitKind: messages.ThoughtUnit, Text: text},
			&messages.Emit{Text: text},
			&messages.Emit{Text: text, Candidate: true},
			&messages.Note{Text: text},
			&messages.Input{Text: " "},
			&messages.Input{Userdata: `{"messages":["gopher"]}`, User: messages.ProfileKeeper},
		}[rng.IntN(9)]
	}
	return bodies
}

// Must commits batches that have to be accepted.
func Must(t testing.TB, s journal.Store, batches ...journal.Batch) {
	t.Helper()
	for i, err := range s.Commit(batches) {
		if err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
}

// Decided is the record of a decision such as most turns end with.
func Decided() *messages.TurnDecided {
	return &messages.TurnDecided{
		Decision: messages.Continue, Digest: sha256.Sum256([]byte("d")), LatencyMS: 1234,
		Output: sha256.Sum256([]byte("o")), OutputBytes: 512, TurnIndex: 42, KID: "k1",
	}
}

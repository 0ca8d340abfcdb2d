package journal_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// notary signs and verifies receipts with one key that is valid from a time on.
type notary struct {
	key    ed25519.PrivateKey
	from   time.Time
	broken bool
	calls  int
}

func newNotary() *notary {
	return &notary{key: ed25519.NewKeyFromSeed(make([]byte, 32)), from: specimen.Epoch}
}

func receiptMessage(inc string, seq int64, hash [32]byte) []byte {
	return fmt.Appendf(nil, "stile-receipt/1\n%s\n%d\n%x", inc, seq, hash)
}

func (n *notary) Receipt(inc string, seq int64, hash [32]byte, _ time.Time) (*messages.Receipt, error) {
	n.calls++
	if n.broken {
		return nil, errors.New("the key is locked")
	}
	return &messages.Receipt{KID: "r1", Sig: ed25519.Sign(n.key, receiptMessage(inc, seq, hash))}, nil
}

func (n *notary) VerifyReceipt(kid, inc string, seq int64, hash [32]byte, sig []byte, ts time.Time) error {
	switch {
	case kid != "r1":
		return errors.New("unknown key " + kid)
	case ts.Before(n.from):
		return errors.New("the key did not sign yet")
	case !ed25519.Verify(n.key.Public().(ed25519.PublicKey), receiptMessage(inc, seq, hash), sig):
		return errors.New("a wrong signature")
	}
	return nil
}

// The header of docs/spec/design.md §7, spelled out once by hand.
func TestHashByHand(t *testing.T) {
	inc := messages.Incarnation{0x01, 0x93, 0xab, 0xcd, 0xef, 0x01, 0x72, 0x34, 0x81, 0x23, 1, 2, 3, 4, 5, 6}
	const incText = "0193abcd-ef01-7234-8123-010203040506"
	const sid = "acme:ann:support-42"
	genesis := sha256.Sum256([]byte("stile/1\n" + sid + "\n" + incText))
	if journal.Genesis(sid, inc) != genesis {
		t.Fatal("genesis")
	}
	salt := bytes.Repeat([]byte{7}, 16)
	head := journal.NewHead(sid, inc)
	head.Epoch = 6
	s := journal.NewSealer(journal.SealerConfig{Head: head, Rand: bytes.NewReader(bytes.Repeat([]byte{7}, 4096))})
	r := &messages.Record{
		Seq: 1, Run: 2, Turn: 3, Body: &messages.Note{Text: "é\n"},
		TS: time.Date(2026, 2, 3, 4, 5, 6, 7000, time.FixedZone("x", 3600)),
	}
	if err := s.Seal([]*messages.Record{r}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	const body = `{"text":"é\n"}`
	digest := sha256.Sum256(append(salt, body...))
	header := `{"body":"` + hex.EncodeToString(digest[:]) + `","epoch":7,"inc":"` + incText + `","prev":"` + hex.EncodeToString(genesis[:]) +
		`","run":2,"seq":1,"sid":"` + sid + `","ts":"2026-02-03T03:05:06.000007000Z","turn":3,"type":"note"}`
	if canonical, err := jcs.Transform([]byte(header)); err != nil || string(canonical) != header {
		t.Fatalf("the header by hand is not canonical: %s, %v", canonical, err)
	}
	want := &messages.Record{
		SID: sid, Inc: inc, Seq: 1, Epoch: 7, Run: 2, Turn: 3, TS: time.Date(2026, 2, 3, 3, 5, 6, 7000, time.UTC),
		Body: &messages.Note{Text: "é\n"}, Raw: []byte(body), Salt: [16]byte(salt), BodyDigest: digest, Prev: genesis, Hash: sha256.Sum256([]byte(header)),
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Fatal(d)
	}
	if s.Head() != (journal.Anchor{Seq: 1, Hash: want.Hash}) || s.Epoch() != 7 {
		t.Fatal("the sealer's head")
	}
}

// A header of any record is canonical, whatever its fields hold.
func TestSealRandom(t *testing.T) {
	rng := specimen.Seed(t)
	ses := specimen.Start(t, "local:local:r", 1)
	prev := journal.Genesis(ses.SID, ses.Inc)
	salts := map[[16]byte]bool{}
	for range 30 {
		var bodies []messages.Body
		for _, b := range specimen.Bodies() {
			specimen.Fill(rng, b)
			bodies = append(bodies, b)
		}
		for i, r := range ses.Batch(bodies...).Records {
			fields := map[string]any{
				"body": r.BodyDigest, "epoch": r.Epoch, "inc": r.Inc.String(), "prev": prev, "run": r.Run, "seq": r.Seq,
				"sid": r.SID, "ts": r.TS.Format("2006-01-02T15:04:05.000000000Z07:00"), "turn": r.Turn, "type": bodies[i].Kind(),
			}
			plain, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			canonical, err := jcs.Transform(plain)
			if err != nil {
				t.Fatal(err)
			}
			if r.Hash != sha256.Sum256(canonical) || r.Prev != prev || string(r.Raw) != string(independent(t, bodies[i])) {
				t.Fatalf("record %d: %s", r.Seq, canonical)
			}
			if salts[r.Salt] {
				t.Fatalf("record %d: a salt that was used before", r.Seq)
			}
			salts[r.Salt] = true
			prev = r.Hash
		}
	}
}

func TestSealRefuses(t *testing.T) {
	note := &messages.Note{Text: "x"}
	now := specimen.Epoch
	for _, c := range []struct {
		name   string
		rec    *messages.Record
		reason string
	}{
		{"nil", nil, journal.ReasonInvalid},
		{"no body", &messages.Record{Seq: 2}, journal.ReasonInvalid},
		{"foreign body", &messages.Record{Seq: 2, Body: &messages.Undecoded{Of: "note"}}, journal.ReasonInvalid},
		{"unit of no kind", &messages.Record{Seq: 2, Body: &messages.UnitText{UnitKind: "poem"}}, journal.ReasonInvalid},
		{"too large", &messages.Record{Seq: 2, Body: &messages.RunBegin{Input: 1 << 53}}, journal.ReasonInvalid},
		{"too small", &messages.Record{Seq: 2, Body: &messages.ActionEnded{ErrorCode: -1 << 53}}, journal.ReasonInvalid},
		{"position repeated", &messages.Record{Seq: 1, Body: note}, journal.ReasonInvalid},
		{"position skipped", &messages.Record{Seq: 3, Body: note}, journal.ReasonInvalid},
		{"time before", &messages.Record{Seq: 2, Body: note, TS: time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)}, journal.ReasonInvalid},
		{"time after", &messages.Record{Seq: 2, Body: note, TS: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)}, journal.ReasonInvalid},
		{"negative run", &messages.Record{Seq: 2, Body: note, Run: -1}, journal.ReasonInvalid},
		{"turn too large", &messages.Record{Seq: 2, Body: note, Turn: 1 << 53}, journal.ReasonInvalid},
	} {
		n := newNotary()
		ses := specimen.Continue(t, journal.NewHead("local:local:a", specimen.Inc(1)), n)
		before := ses.Sealer.Head()
		err := ses.Sealer.Seal([]*messages.Record{{Seq: 1, Body: specimen.Decided()}, c.rec}, now)
		if journal.ReasonOf(err) != c.reason {
			t.Errorf("%s: %v", c.name, err)
		}
		if ses.Sealer.Head() != before {
			t.Errorf("%s: the sealer has moved", c.name)
		}
		if err := ses.Sealer.Seal([]*messages.Record{{Seq: 1, Body: note}}, now); err != nil {
			t.Errorf("%s: afterwards: %v", c.name, err)
		}
	}
	broken := journal.NewSealer(journal.SealerConfig{Head: journal.NewHead("a", specimen.Inc(1)), Rand: iotest.ErrReader(errors.New("dry"))})
	if err := broken.Seal([]*messages.Record{{Seq: 1, Body: note}}, now); journal.ReasonOf(err) != journal.ReasonIO {
		t.Error(err)
	}
	none := journal.NewSealer(journal.SealerConfig{Head: journal.NewHead("a", specimen.Inc(1))})
	if err := none.Seal([]*messages.Record{{Seq: 1, Body: note}}, now); journal.ReasonOf(err) != journal.ReasonInvalid {
		t.Error(err)
	}
	if err := none.Seal(nil, now); err != nil {
		t.Error(err)
	}
}

func TestSealRepairsText(t *testing.T) {
	ses := specimen.Start(t, "local:local:a", 1)
	given := &messages.Note{Text: "a\xff"}
	r := ses.Batch(given).Records[0]
	if got := r.Body.(*messages.Note).Text; got != "a\uFFFD" || string(r.Raw) != `{"text":"a`+"\uFFFD"+`"}` {
		t.Errorf("%q %s", got, r.Raw)
	}
	if given.Text != "a\xff" {
		t.Error("the body that was handed over has changed")
	}
}

func TestSealedBodiesAreApart(t *testing.T) {
	ses := specimen.Start(t, "local:local:a", 1)
	recs := ses.Notes(2).Records
	_ = append(recs[0].Raw, "overwritten"...)
	if string(recs[1].Raw) != `{"text":"note"}` {
		t.Errorf("%s", recs[1].Raw)
	}
	ses.Batch(&messages.Note{Text: strings.Repeat("y", 200<<10)})
	if string(recs[1].Raw) != `{"text":"note"}` {
		t.Errorf("%s", recs[1].Raw)
	}
}

func TestReceiptPolicies(t *testing.T) {
	bodies := func() []messages.Body {
		return []messages.Body{&messages.TurnDecided{}, &messages.RunEnd{}, &messages.Note{}, &messages.TurnDecided{}}
	}
	for _, c := range []struct {
		policy  journal.Receipts
		signs   string
		without int64
	}{{"", "x..x", 2}, {journal.ReceiptsDecision, "x..x", 2}, {journal.ReceiptsRun, ".x..", 1}, {journal.ReceiptsOff, "....", 0}} {
		for _, state := range []string{"good", "broken", "none"} {
			n := newNotary()
			n.broken = state == "broken"
			cfg := journal.SealerConfig{Head: journal.NewHead("local:local:a", specimen.Inc(1)), Rand: specimen.Random(1), Receipts: c.policy}
			if state != "none" {
				cfg.Signer = n
			}
			s := journal.NewSealer(cfg)
			var recs []*messages.Record
			for i, b := range bodies() {
				recs = append(recs, &messages.Record{Seq: int64(i + 1), TS: specimen.Epoch, Body: b})
			}
			if err := s.Seal(recs, specimen.Epoch); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, r := range recs {
				if r.Sig != nil {
					got += "x"
				} else {
					got += "."
				}
			}
			want, unsigned := c.signs, int64(0)
			if state != "good" {
				want, unsigned = "....", c.without
			}
			if got != want || s.Unsigned() != unsigned {
				t.Errorf("%q, signer %s: %s, %d unsigned", c.policy, state, got, s.Unsigned())
			}
		}
	}
}

// One turn.decided of about 300 bytes, without signature; the floor is the two
// hashes alone.
func BenchmarkSeal_Typical300B(b *testing.B) {
	b.Run("seal", func(b *testing.B) {
		s := journal.NewSealer(journal.SealerConfig{
			Head: journal.NewHead("local:local:support-42", specimen.Inc(1)),
			Rand: specimen.Random(1), Receipts: journal.ReceiptsOff,
		})
		r := &messages.Record{Body: specimen.Decided(), TS: specimen.Epoch, Run: 3, Turn: 42}
		recs := []*messages.Record{r}
		b.ReportAllocs()
		for b.Loop() {
			r.Seq = s.Head().Seq + 1
			if err := s.Seal(recs, specimen.Epoch); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(r.Raw)), "body-bytes")
	})
	b.Run("floor_two_sha256", func(b *testing.B) {
		body, header := make([]byte, 16+300), make([]byte, 370)
		b.ReportAllocs()
		for b.Loop() {
			d := sha256.Sum256(body)
			copy(header, d[:])
			d = sha256.Sum256(header)
			copy(body, d[:])
		}
	})
}

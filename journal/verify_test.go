package journal_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func sequence(recs []*messages.Record) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		for _, r := range recs {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// history is 10 records by two activations; 4 and 9 are decisions with receipts.
func history(t *testing.T, n *notary) []*messages.Record {
	t.Helper()
	var recs []*messages.Record
	head := journal.NewHead("local:local:h", specimen.Inc(1))
	for range 2 {
		ses := specimen.Continue(t, head, n)
		b := ses.Batch(&messages.Input{Text: "x"}, &messages.RunBegin{}, &messages.TurnBegin{}, &messages.TurnDecided{}, &messages.RunEnd{})
		head = head.Advance(&b)
		recs = append(recs, b.Records...)
	}
	if recs[3].Sig == nil || recs[8].Sig == nil {
		t.Fatal("decisions 4 and 9 bear receipts")
	}
	return recs
}

// Every way of changing a record, and of the sequence of them, is named at its
// position.
func TestVerifyNamesTampering(t *testing.T) {
	n := newNotary()
	type found map[string]int // "seq what" → times
	one := func(seq int64, what ...string) found {
		f := found{}
		for _, w := range what {
			f[fmt.Sprint(seq, " ", w)]++
		}
		return f
	}
	both := func(fs ...found) found {
		all := found{}
		for _, f := range fs {
			for k, v := range f {
				all[k] += v
			}
		}
		return all
	}
	edit := func(seq int, change func(r *messages.Record)) func([]*messages.Record) []*messages.Record {
		return func(recs []*messages.Record) []*messages.Record {
			change(recs[seq-1])
			return recs
		}
	}
	for _, c := range []struct {
		name   string
		tamper func([]*messages.Record) []*messages.Record
		want   found
	}{
		{"nothing", edit(3, func(*messages.Record) {}), found{}},
		{"sid", edit(3, func(r *messages.Record) { r.SID = "local:local:i" }), one(3, journal.WhatIdentity, journal.WhatHash)},
		{"incarnation", edit(3, func(r *messages.Record) { r.Inc[5] ^= 1 }), one(3, journal.WhatIdentity, journal.WhatHash)},
		{"epoch up", edit(3, func(r *messages.Record) { r.Epoch++ }), both(one(3, journal.WhatHash), one(4, journal.WhatEpoch))},
		{"epoch down", edit(8, func(r *messages.Record) { r.Epoch-- }), one(8, journal.WhatHash, journal.WhatEpoch)},
		{"run", edit(3, func(r *messages.Record) { r.Run++ }), one(3, journal.WhatHash)},
		{"turn", edit(3, func(r *messages.Record) { r.Turn++ }), one(3, journal.WhatHash)},
		{"ts", edit(3, func(r *messages.Record) { r.TS = r.TS.Add(1) }), one(3, journal.WhatHash)},
		{"kind", edit(3, func(r *messages.Record) { r.Body = &messages.Note{} }), one(3, journal.WhatHash)},
		{"raw", edit(3, func(r *messages.Record) { r.Raw = slices.Clone(r.Raw); r.Raw[2] ^= 1 }), one(3, journal.WhatBody)},
		{"raw shorter", edit(3, func(r *messages.Record) { r.Raw = r.Raw[:len(r.Raw)-1] }), one(3, journal.WhatBody)},
		{"salt", edit(3, func(r *messages.Record) { r.Salt[15] ^= 1 }), one(3, journal.WhatBody)},
		{"body digest", edit(3, func(r *messages.Record) { r.BodyDigest[0] ^= 1 }), one(3, journal.WhatBody, journal.WhatHash)},
		{"prev", edit(3, func(r *messages.Record) { r.Prev[0] ^= 1 }), one(3, journal.WhatPrev, journal.WhatHash)},
		{"first prev", edit(1, func(r *messages.Record) { r.Prev = messages.Digest{} }), one(1, journal.WhatPrev, journal.WhatHash)},
		{"hash", edit(3, func(r *messages.Record) { r.Hash[0] ^= 1 }), both(one(3, journal.WhatHash), one(4, journal.WhatPrev))},
		{"hash of a decision", edit(4, func(r *messages.Record) { r.Hash[0] ^= 1 }), both(one(4, journal.WhatHash, journal.WhatReceipt), one(5, journal.WhatPrev))},
		{"receipt", edit(4, func(r *messages.Record) { r.Sig = &messages.Receipt{KID: "r1", Sig: make([]byte, 64)} }), one(4, journal.WhatReceipt)},
		{"receipt's key", edit(4, func(r *messages.Record) { r.Sig = &messages.Receipt{KID: "r2", Sig: r.Sig.Sig} }), one(4, journal.WhatReceipt)},
		{"receipt moved", func(recs []*messages.Record) []*messages.Record { recs[4].Sig = recs[3].Sig; return recs }, one(5, journal.WhatReceipt)},
		{"dropped", func(recs []*messages.Record) []*messages.Record { return slices.Delete(recs, 4, 5) }, one(6, journal.WhatGap, journal.WhatPrev)},
		{"first dropped", func(recs []*messages.Record) []*messages.Record { return recs[1:] }, one(2, journal.WhatGap, journal.WhatPrev)},
		{"cut", func(recs []*messages.Record) []*messages.Record { return recs[:7] }, one(10, journal.WhatTail)},
		{"all gone", func([]*messages.Record) []*messages.Record { return nil }, one(10, journal.WhatTail)},
		{"repeated", func(recs []*messages.Record) []*messages.Record { return slices.Insert(recs, 5, recs[4]) }, one(5, journal.WhatOrder, journal.WhatPrev)},
		{
			"swapped", func(recs []*messages.Record) []*messages.Record { recs[2], recs[1] = recs[1], recs[2]; return recs },
			both(one(3, journal.WhatGap, journal.WhatPrev), one(2, journal.WhatOrder, journal.WhatPrev), one(4, journal.WhatGap, journal.WhatPrev)),
		},
		{"resealed without the key", func(recs []*messages.Record) []*messages.Record {
			head := journal.Head{SID: recs[2].SID, Inc: recs[2].Inc, Seq: 2, Hash: recs[1].Hash}
			forged := specimen.Continue(t, head, nil).Batch(&messages.Note{}, &messages.TurnDecided{}).Records
			forged[1].Sig = recs[3].Sig
			return append(recs[:2:2], append(forged, recs[4:]...)...)
		}, both(one(4, journal.WhatReceipt), one(5, journal.WhatPrev))},
	} {
		recs := history(t, n)
		last := recs[9]
		opts := journal.VerifyOptions{SID: last.SID, Inc: last.Inc, Keys: n, Head: journal.Anchor{Seq: 10, Hash: last.Hash}}
		rep := journal.Verify(sequence(c.tamper(recs)), opts)
		got := found{}
		first := int64(11)
		for _, p := range rep.Problems {
			got[fmt.Sprint(p.Seq, " ", p.What)]++
			if p.Detail == "" {
				t.Errorf("%s: no detail: %+v", c.name, p)
			}
			if p.What != journal.WhatReceipt && p.What != journal.WhatTail {
				first = min(first, p.Seq)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) || rep.OK() != (len(c.want) == 0) {
			t.Errorf("%s: found %v, want %v", c.name, got, c.want)
		}
		if c.name == "repeated" {
			first = 6 // the first record 5 is as it was
		}
		if rep.Through.Seq >= first {
			t.Errorf("%s: through %d although %d is wrong", c.name, rep.Through.Seq, first)
		}
	}
}

func TestVerifyReceipts(t *testing.T) {
	n := newNotary()
	recs := history(t, n)
	count := func(opts journal.VerifyOptions) [4]int64 {
		rep := journal.Verify(sequence(recs), opts)
		return [4]int64{rep.Valid, rep.Missing, rep.Bad, rep.Unchecked}
	}
	if got := count(journal.VerifyOptions{Keys: n}); got != [4]int64{2, 0, 0, 0} {
		t.Errorf("all signed: %v", got)
	}
	if got := count(journal.VerifyOptions{}); got != [4]int64{0, 0, 0, 2} {
		t.Errorf("no keys: %v", got)
	}
	if got := count(journal.VerifyOptions{Keys: n, Receipts: journal.ReceiptsRun}); got != [4]int64{2, 2, 0, 0} {
		t.Errorf("policy run: %v", got)
	}
	n.from = recs[5].TS
	if got := count(journal.VerifyOptions{Keys: n}); got != [4]int64{1, 0, 1, 0} {
		t.Errorf("before the key's time: %v", got)
	}
	recs[3].Sig = nil
	rep := journal.Verify(sequence(recs), journal.VerifyOptions{Keys: n})
	if rep.Missing != 1 || rep.FirstMissing != 4 || !rep.OK() || rep.Through.Seq != 10 {
		t.Errorf("%+v", rep)
	}
}

func TestVerifyFromAnAnchor(t *testing.T) {
	recs := history(t, newNotary())
	rep := journal.Verify(sequence(recs[6:]), journal.VerifyOptions{From: journal.Anchor{Seq: 6, Hash: recs[5].Hash}})
	if !rep.OK() || rep.Records != 4 || rep.Through.Seq != 10 || rep.Last != rep.Through || rep.SID != recs[0].SID || rep.Inc != recs[0].Inc {
		t.Errorf("%+v", rep)
	}
	rep = journal.Verify(sequence(recs[6:]), journal.VerifyOptions{From: journal.Anchor{Seq: 6, Hash: recs[4].Hash}})
	if rep.OK() || rep.Problems[0].What != journal.WhatPrev || rep.Through.Seq != 6 {
		t.Errorf("%+v", rep)
	}
}

func TestVerifyErasedAndUnknownKinds(t *testing.T) {
	recs := history(t, newNotary())
	for _, seq := range []int{2, 3, 7} {
		r := *recs[seq-1]
		r.Raw, r.Salt, r.Body = nil, [16]byte{}, &messages.Undecoded{Of: r.Body.Kind()}
		recs[seq-1] = &r
	}
	rep := journal.Verify(sequence(recs), journal.VerifyOptions{})
	if !rep.OK() || fmt.Sprint(rep.Erased) != "[[2 3] [7 7]]" {
		t.Errorf("%+v", rep)
	}
	recs[1].BodyDigest[4] ^= 1
	if rep = journal.Verify(sequence(recs), journal.VerifyOptions{}); rep.OK() || rep.Problems[0].Seq != 2 || rep.Problems[0].What != journal.WhatHash {
		t.Errorf("%+v", rep)
	}
}

func TestVerifyReadErrorAndBound(t *testing.T) {
	recs := history(t, newNotary())
	rep := journal.Verify(func(yield func(*messages.Record, error) bool) {
		_ = yield(recs[0], nil) && yield(nil, errors.New("unreadable"))
	}, journal.VerifyOptions{})
	if rep.OK() || rep.Problems[0] != (journal.Problem{Seq: 2, What: journal.WhatRead, Detail: "unreadable"}) || rep.Through.Seq != 1 {
		t.Errorf("%+v", rep)
	}
	rep = journal.Verify(func(yield func(*messages.Record, error) bool) {
		for range 3 * journal.MaxProblems {
			if !yield(&messages.Record{Seq: 1, TS: time.Unix(0, 0), Raw: []byte("x"), Body: &messages.Note{}}, nil) {
				return
			}
		}
	}, journal.VerifyOptions{})
	if len(rep.Problems) != journal.MaxProblems || rep.Found <= journal.MaxProblems {
		t.Errorf("%d of %d problems", len(rep.Problems), rep.Found)
	}
}

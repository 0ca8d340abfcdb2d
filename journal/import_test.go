package journal_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

// export writes records as an export does, one of them erased.
func export(recs []*messages.Record) []byte {
	var b []byte
	for i, r := range recs {
		if i == 2 {
			gone := *r
			gone.Raw, gone.Salt, gone.Body = nil, [16]byte{}, &messages.Undecoded{Of: r.Body.Kind()}
			r = &gone
		}
		b = append(journal.AppendRecord(b, r), '\n')
	}
	return b
}

// checkExport verifies an export against the true history: what is accepted up to
// Through is a beginning of it, whatever was done to the bytes.
func checkExport(t *testing.T, name string, in []byte, recs []*messages.Record, n *notary) journal.Report {
	t.Helper()
	var got []*messages.Record
	seq := journal.ReadExport(bytes.NewReader(in))
	rep := journal.Verify(func(yield func(*messages.Record, error) bool) {
		for r, err := range seq {
			if err == nil {
				got = append(got, r)
			} else if messages.CodeOf(err) != messages.ErrJournal {
				t.Errorf("%s: an error without a type: %v", name, err)
			}
			if !yield(r, err) {
				return
			}
		}
	}, journal.VerifyOptions{SID: recs[0].SID, Inc: recs[0].Inc, Keys: n})
	if rep.Through.Seq > int64(len(recs)) || rep.Through.Seq > 0 && rep.Through.Hash != recs[rep.Through.Seq-1].Hash {
		t.Errorf("%s: holds through %+v", name, rep.Through)
	}
	for i := range rep.Through.Seq {
		if r, want := got[i], recs[i]; r.Hash != want.Hash || r.Raw != nil && !bytes.Equal(r.Raw, want.Raw) {
			t.Errorf("%s: record %d is another", name, i+1)
		}
	}
	return rep
}

// An export that was cut at any byte is its longest whole beginning, and says that it
// was cut.
func TestExportCutAtEveryByte(t *testing.T) {
	n := newNotary()
	recs := history(t, n)
	whole := export(recs)
	if rep := checkExport(t, "whole", whole, recs, n); !rep.OK() || rep.Records != 10 || rep.Valid != 2 || len(rep.Erased) != 1 {
		t.Fatalf("%+v", rep)
	}
	for cut := range whole {
		in := whole[:cut]
		lines := int64(bytes.Count(in, []byte("\n")))
		rep := checkExport(t, "cut", in, recs, n)
		if rep.Through.Seq != lines || rep.OK() != (cut == 0 || in[cut-1] == '\n') {
			t.Fatalf("cut at %d: %d lines, %+v", cut, lines, rep)
		}
		last := recs[len(recs)-1]
		head := journal.Anchor{Seq: last.Seq, Hash: last.Hash}
		if rep := journal.Verify(journal.ReadExport(bytes.NewReader(in)), journal.VerifyOptions{SID: last.SID, Inc: last.Inc, Head: head}); rep.OK() {
			t.Fatalf("cut at %d: the head does not show it", cut)
		}
	}
}

// Every bit of an export is held by something: no flip passes.
func TestExportEveryBit(t *testing.T) {
	n := newNotary()
	recs := history(t, n)[:4] // to a receipt
	whole := export(recs)
	in := bytes.Clone(whole)
	for i := range in {
		for bit := range 8 {
			in[i] ^= 1 << bit
			rep := checkExport(t, "flipped", in, recs, n)
			if rep.OK() {
				t.Fatalf("bit %d of byte %d passes: %s", bit, i, in[max(0, i-20):min(len(in), i+20)])
			}
			if line := int64(bytes.Count(whole[:i], []byte("\n"))); rep.Through.Seq < line {
				t.Fatalf("bit %d of byte %d in line %d: it holds through %d alone", bit, i, line+1, rep.Through.Seq)
			}
			in[i] ^= 1 << bit
		}
	}
}

// An export out of a store reads back as the store has it, in pieces of any size.
func TestExportReadsBack(t *testing.T) {
	s := memory.New()
	ses := specimen.Start(t, "local:local:a", 1)
	for range 20 {
		specimen.Must(t, s, ses.Notes(7))
	}
	var want []*messages.Record
	var b []byte
	for r, err := range s.Read(context.Background(), ses.Inc, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
		b = append(journal.AppendRecord(b, r), '\n')
	}
	for _, in := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b))} {
		var got []*messages.Record
		for r, err := range journal.ReadExport(in) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		for i := range got {
			if diff := cmp.Diff(journal.AppendRecord(nil, want[i]), journal.AppendRecord(nil, got[i])); diff != "" {
				t.Fatal(diff)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d of %d", len(got), len(want))
		}
	}
	broken := errors.New("the cable")
	for _, err := range journal.ReadExport(io.MultiReader(strings.NewReader(string(b[:100])), iotest.ErrReader(broken))) {
		if !errors.Is(err, broken) || journal.ReasonOf(err) != journal.ReasonIO {
			t.Error(err)
		}
	}
	for _, err := range journal.ReadExport(io.LimitReader(endless{}, journal.MaxLineBytes+1<<20)) {
		if journal.ReasonOf(err) != journal.ReasonCorrupt || !strings.Contains(err.Error(), "67108864") {
			t.Error(err)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// A line is a record, or is refused: whatever is accepted is written the same again.
func FuzzParseRecord(f *testing.F) {
	ses := specimen.Start(f, "local:local:a", 1)
	for _, r := range ses.Notes(2).Records {
		f.Add(journal.AppendRecord(nil, r))
	}
	f.Add([]byte(`{"body":null}`))
	rnd := rand.New(rand.NewPCG(1, 1))
	b := journal.AppendRecord(nil, ses.Notes(1).Records[0])
	b[rnd.IntN(len(b))] ^= 1
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := journal.ParseRecord(b)
		if err != nil {
			if journal.ReasonOf(err) != journal.ReasonCorrupt {
				t.Fatal(err)
			}
			return
		}
		if got := journal.AppendRecord(nil, r); !bytes.Equal(got, b) {
			t.Fatalf("%s is written %s", b, got)
		}
	})
}

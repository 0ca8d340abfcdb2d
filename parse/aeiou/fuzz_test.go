package aeiou

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

func FuzzEnvelope(f *testing.F) {
	for _, r := range replies {
		f.Add([]byte(r), true)
		f.Add([]byte(r), false)
	}
	for _, c := range envelopeCases(f) {
		if len(c.Parts) == 0 {
			f.Add(c.bytes(f), false)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, extract bool) {
		checkMarks(t, b)
		e, lints, err := Parse(b, Options{Extract: extract})
		if err != nil {
			var typed *messages.Error
			if !errors.As(err, &typed) || typed.Offset < 0 || typed.Offset > int64(len(b)) || typed.Line != 1+bytes.Count(b[:typed.Offset], []byte{'\n'}) {
				t.Fatalf("%v", err)
			}
			return
		}
		_, _, strict := Parse(b, Options{Extract: extract, StrictDuplicates: true})
		if dup := messages.CodeOf(strict) == messages.ErrEnvSectionDup; dup != (len(lints) > 0) {
			t.Fatalf("lints %v, strictly %v", lints, strict)
		}
		for k, body := range e.bodies() {
			if _, marked := nextMark(body, 0); marked || !utf8.Valid(body) {
				t.Fatalf("%v: %q", kind(k), body)
			}
		}
		roundTrip(t, e)
	})
}

// Whatever a program emitted, the next envelope has the host's USERDATA and
// ACTIONS and nothing else from it than indented, shortened text.
func FuzzCompose(f *testing.F) {
	for _, r := range replies {
		f.Add([]byte(r), []byte(markEnd+"\n"+markActions+" \n"))
		f.Add([]byte("x\n"), []byte(r))
	}
	f.Fuzz(func(t *testing.T, out, scr []byte) {
		e := Envelope{Userdata: []byte(goodUserdata), Output: out, Scratchpad: scr, Actions: []byte(emptyProgram)}
		b, _, err := Compose(e)
		if err != nil {
			if utf8.Valid(out) && utf8.Valid(scr) {
				t.Fatal(err)
			}
			return
		}
		got, lints, err := Parse(b, Options{StrictDuplicates: true})
		if err != nil || len(lints) > 0 {
			t.Fatalf("%q: %v", b, err)
		}
		if string(got.Userdata) != goodUserdata || string(got.Actions) != emptyProgram {
			t.Fatalf("forged: %q", b)
		}
		for _, s := range []struct{ body, stream []byte }{{got.Output, out}, {got.Scratchpad, scr}} {
			from, to := bytes.Split(s.stream, []byte{'\n'}), bytes.Split(s.body, []byte{'\n'})
			for i := 1; i <= len(to) && len(s.body) > 0; i++ {
				line, was := to[len(to)-i], from[len(from)-i]
				want := was
				if referenceMarker(was) {
					want = append([]byte{' '}, bytes.TrimRight(was, " \t\r")...)
				}
				if !bytes.Equal(line, want) {
					t.Fatalf("line %q became %q", was, line)
				}
			}
		}
	})
}

func FuzzUserdata(f *testing.F) {
	for _, c := range userdataSamples {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err, ref := CheckUserdata(b), referenceUserdata(b)
		if len(b) > MaxSectionBytes {
			return
		}
		if (err == nil) != (ref == nil) {
			t.Fatalf("%q: %v, the reference says %v", b, err, ref)
		}
		in, err := Dialect{}.CheckInput(messages.Input{Text: string(b)})
		if err != nil {
			return
		}
		if err := referenceUserdata([]byte(in.Userdata)); err != nil {
			t.Fatalf("%q passed as %q: %v", b, in.Userdata, err)
		}
	})
}

func FuzzDecoder(f *testing.F) {
	for i, r := range replies {
		f.Add([]byte(r), uint64(i), int64(0))
		f.Add([]byte(r), uint64(i), int64(40))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64, limit int64) {
		r := rand.New(rand.NewPCG(seed, 1))
		whole := decode(t, limit, messages.FinishComplete, b)
		sameEvents(t, "cut", decode(t, limit, messages.FinishComplete, pieces(r, b, 12)...), whole)
		if limit <= 0 || limit > MaxEnvelopeBytes {
			limit = MaxEnvelopeBytes
		}
		sameEvents(t, "against the parser", whole, expected(b, int(limit)))
		sameEvents(t, "length", decode(t, limit, messages.FinishLength, pieces(r, b, 12)...), decode(t, limit, messages.FinishLength, b))
	})
}

// FuzzProgress holds the line iterator to the formula.
func FuzzProgress(f *testing.F) {
	f.Add([]byte("a \r\r\n\t\n" + candidatePrefix + "\rx"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, s []byte) {
		lf := bytes.ReplaceAll(bytes.ReplaceAll(s, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
		var keep [][]byte
		for line := range bytes.SplitSeq(bytes.TrimSuffix(lf, []byte("\n")), []byte("\n")) {
			if !IsCandidate(line) {
				keep = append(keep, bytes.TrimRight(line, " \t"))
			}
		}
		if want, got := bytes.Join(keep, []byte("\n")), Normal(nil, s); !bytes.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", s, got, want)
		}
	})
}

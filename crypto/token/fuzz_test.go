package token

import (
	"bytes"
	"testing"

	"github.com/gowebpki/jcs"
)

// FuzzVerify: no line crashes the verifier, gets past it without a reason, or is
// valid without being in its one canonical spelling.
func FuzzVerify(f *testing.F) {
	b := newBuild()
	f.Add(b.make(f))
	for _, fault := range orderedFaults(f) {
		b := newBuild()
		fault.cause(b)
		f.Add(b.make(f))
	}
	f.Add([]byte("<<<NSMAG:V3:LOOP:e30.AA>>>"))
	keys := hostSet(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		var replay ReplaySet
		c := Verify(line, testScope, keys, &replay, Policy{}, at(testUnix))
		if c.Valid() != (c.Reason == "") || c.Valid() != (replay.Len() == 1) {
			t.Fatalf("%+v with %d claims", c, replay.Len())
		}
		if !c.Valid() {
			return
		}
		if !Candidate(line) || len(line) > MaxLineBytes || !knownAction(c.Action) || c.KID == "" || c.JTI == "" {
			t.Fatalf("%+v", c)
		}
		payload := payloadOf(t, string(line))
		if canonical, err := canonicalOf(payload); err != nil || !bytes.Equal(canonical, payload) {
			t.Fatalf("a valid token holds %q, %v", payload, err)
		}
	})
}

// FuzzCanonical: what is accepted has the transform's form, and that form is its
// own. The general entry accepts whatever the strict one does, with the same result.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"a":1}`, ` {"b":[{},null,true],"a":"\u0041\n"}`, `{"` + "\U0001f600" + `":1,"` + "\ufb33" + `":2}`, `{"a":1,"a":2}`,
		`{"a":-0}`, `{"a":9007199254740993}`, `{"a":"\ud83d\ude00"}`, `[1.5,1e3]`, `"x"`, `{"a":{"b":{"c":[[[[0]]]]}}}`, "{\"\xff\":0}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		general, generalErr := Canonicalize(b)
		if generalErr == nil {
			want, err := jcs.Transform(b)
			if err != nil || !bytes.Equal(general, want) {
				t.Fatalf("%q gives %q, the transform %q, %v", b, general, want, err)
			}
			if again, err := Canonicalize(general); err != nil || !bytes.Equal(again, general) {
				t.Fatalf("%q is not its own form: %q, %v", general, again, err)
			}
		}
		out, err := canonicalOf(b)
		if err != nil {
			return
		}
		if generalErr != nil || !bytes.Equal(out, general) {
			t.Fatalf("%q gives %q, in general %q, %v", b, out, general, generalErr)
		}
		if again, err := canonicalOf(out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q is not its own form: %q, %v", out, again, err)
		}
		if s, f := scan(out, MaxDepth); f != nil || !s.canonical {
			t.Fatalf("%q is not called canonical", out)
		}
	})
}

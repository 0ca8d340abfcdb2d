package token

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/gowebpki/jcs"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/messages"
)

// canonicalOf returns the canonical form of a payload.
func canonicalOf(payload []byte) ([]byte, error) {
	out, _, err := canonicalObject(payload, MaxDepth)
	return out, err
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, out, fault string }{
		{`{}`, `{}`, ""},
		{" {\t\"b\" : 1 ,\r\n\"a\":[ ] } \n", `{"a":[],"b":1}`, ""},
		{`{"a":{"z":[1,-2,{"y":null,"x":true}],"b":false}}`, `{"a":{"b":false,"z":[1,-2,{"x":true,"y":null}]}}`, ""},
		{"{\"\u00e9\":1,\"e\u0301\":2}", "{\"e\u0301\":2,\"\u00e9\":1}", ""}, // no normalisation
		{`{"\/\u0041\u00e9\u000A\u001F\u007f":""}`, `{"/Aé\n\u001f` + "\x7f" + `":""}`, ""},
		{`{"\u0008\u0009\u000a\u000c\u000d\u0000\u001F":0}`, `{"\b\t\n\f\r\u0000\u001f":0}`, ""},
		{`{"\"\\":0}`, `{"\"\\":0}`, ""},
		{`{"\u0020\u0022\u005C":"\u0000\u001f"}`, `{" \"\\":"\u0000\u001f"}`, ""},
		{`{"` + "\ufb33" + `":1,"` + "\U0001f600" + `":2}`, `{"` + "\U0001f600" + `":2,"` + "\ufb33" + `":1}`, ""},
		{`{"\ud83d\ude00":1}`, `{"` + "\U0001f600" + `":1}`, ""},
		{`{"<>&":"` + "\u2028" + `"}`, `{"<>&":"` + "\u2028" + `"}`, ""},
		{`{"a":9007199254740991,"b":-9007199254740991,"c":0}`, `{"a":9007199254740991,"b":-9007199254740991,"c":0}`, ""},

		{`{"a":9007199254740992}`, "", "BAD_FIELD@5"},
		{`{"a":-9007199254740992}`, "", "BAD_FIELD@5"},
		{`{"a":[1,-0]}`, "", "BAD_FIELD@8"},
		{`{"a":0.0}`, "", "BAD_FIELD@5"},
		{`{"a":1e0}`, "", "BAD_FIELD@5"},
		{`{"a":1E+2}`, "", "BAD_FIELD@5"},
		{`{"a":00}`, "", "BAD_JSON@5"},
		{`{"a":-01}`, "", "BAD_JSON@5"},
		{`{"a":+1}`, "", "BAD_JSON@5"},
		{`{"a":-}`, "", "BAD_JSON@5"},
		{`{"a":.5}`, "", "BAD_JSON@5"},
		{`{"a":1.}`, "", "BAD_JSON@5"},
		{`{"a":1e}`, "", "BAD_JSON@5"},
		{`{"a":0x1}`, "", "BAD_JSON@6"},
		{`{"a":NaN}`, "", "BAD_JSON@5"},
		{`{"a":True}`, "", "BAD_JSON@5"},
		{`{"a":nul}`, "", "BAD_JSON@5"},
		{`{"a":truely}`, "", "BAD_JSON@9"},
		{``, "", "BAD_JSON@0"},
		{` `, "", "BAD_JSON@1"},
		{`[]`, "", "BAD_JSON@0"},
		{` "a"`, "", "BAD_JSON@1"},
		{`null`, "", "BAD_JSON@0"},
		{`{`, "", "BAD_JSON@1"},
		{`{"a"`, "", "BAD_JSON@4"},
		{`{"a":`, "", "BAD_JSON@5"},
		{`{"a":1`, "", "BAD_JSON@6"},
		{`{"a":1,`, "", "BAD_JSON@7"},
		{`{"a":1,}`, "", "BAD_JSON@7"},
		{`{,}`, "", "BAD_JSON@1"},
		{`{"a" 1}`, "", "BAD_JSON@5"},
		{`{"a":1 "b":2}`, "", "BAD_JSON@7"},
		{`{"a":[1,]}`, "", "BAD_JSON@8"},
		{`{"a":[1}`, "", "BAD_JSON@7"},
		{`{"a":{]}`, "", "BAD_JSON@6"},
		{`{1:2}`, "", "BAD_JSON@1"},
		{`{} {}`, "", "BAD_JSON@3"},
		{`{}x`, "", "BAD_JSON@2"},
		{"\xef\xbb\xbf{}", "", "BAD_JSON@0"},
		{"{\"a\":\"\xff\"}", "", "BAD_JSON@6"},
		{"{\"a\":\"\xed\xa0\x80\"}", "", "BAD_JSON@6"},
		{"{\"a\":\"\xc0\x80\"}", "", "BAD_JSON@6"},
		{"{\"a\":\"\n\"}", "", "BAD_JSON@6"},
		{`{"a":"\x"}`, "", "BAD_JSON@6"},
		{`{"a":"\u12g4"}`, "", "BAD_JSON@6"},
		{`{"a":"\u12`, "", "BAD_JSON@6"},
		{`{"a":"\ud800"}`, "", "BAD_JSON@6"},
		{`{"a":"\ud800\u0041"}`, "", "BAD_JSON@6"},
		{`{"a":"\udc00\ud800"}`, "", "BAD_JSON@6"},
		{`{"\ud800x":1}`, "", "BAD_JSON@2"},
		{`{"a":"`, "", "BAD_JSON@5"},
		{`{"a":"\`, "", "BAD_JSON@6"},
		{`{"a":1,"a":1}`, "", "BAD_JSON@7"},
		{`{"b":1,"a":{"c":1,"d":1,"c":1},"b":1}`, "", "BAD_JSON@24"},
		{`{"b":1,"a":{"c":1,"d":1,"c":1}}`, "", "BAD_JSON@24"},
		{`{"a":1,"\u0061":1}`, "", "BAD_JSON@7"},
		{`{"a":0.5,"a":1}`, "", "BAD_JSON@9"},
		{`{"a":[{"x":1},{"x":1}]}`, `{"a":[{"x":1},{"x":1}]}`, ""},
		{"{\"a\":\"" + `\\"` + `,"b":["\\\""]}`, "{\"a\":\"" + `\\"` + `,"b":["\\\""]}`, ""},
	} {
		in := []byte(c.in)
		got, same, err := canonicalObject(in, MaxDepth)
		if c.fault != "" {
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.ErrTokenParse || !e.HasOffset ||
				e.Reason+"@"+strconv.FormatInt(e.Offset, 10) != c.fault {
				t.Errorf("%q: got %q, %v, want %s", c.in, got, err, c.fault)
			}
			continue
		}
		if err != nil || string(got) != c.out {
			t.Errorf("%q: got %q, %v, want %q", c.in, got, err, c.out)
			continue
		}
		if same != (c.in == c.out) || same != (&got[0] == &in[0]) {
			t.Errorf("%q: same is %t, and the result %q", c.in, same, got)
		}
	}
}

// TestHostileText holds depth and repetition to their bounds.
func TestHostileText(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 1_000_000)
	if _, err := canonicalOf([]byte(deep)); messages.CodeOf(err) != messages.ErrTokenParse {
		t.Error(err)
	}
	if _, err := Canonicalize([]byte(strings.Repeat("[", 1_000_000))); messages.CodeOf(err) != messages.ErrTokenParse {
		t.Error(err)
	}
	if got, err := Canonicalize([]byte(strings.Repeat("[", MaxValueDepth) + strings.Repeat(" ]", MaxValueDepth))); err != nil || len(got) != 2*MaxValueDepth {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := Canonicalize([]byte(strings.Repeat("[", MaxValueDepth+1) + strings.Repeat("]", MaxValueDepth+1))); err == nil {
		t.Error("one level more was taken")
	}
	var b strings.Builder
	for i := range 100_000 {
		b.WriteString(`,"` + strconv.Itoa(i*7919%100_003) + `":0`)
	}
	if got, err := canonicalOf([]byte("{" + b.String()[1:] + "}")); err != nil || len(got) != b.Len()+1 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestCanonicalize(t *testing.T) {
	for in, want := range map[string]string{
		` "a\/b" `: `"a/b"`, "\n0.10": `0.1`, `-0`: `0`, `1E400`: "", `-1e309`: "", `1e-400`: `0`, `true `: `true`,
		`[1e2,100,1.0e2]`: `[100,100,100]`, `9007199254740993`: `9007199254740992`, "1" + strings.Repeat("0", 308): `1e+308`,
		"1" + strings.Repeat("0", 309): "", `{"b":1.50,"a":{}}`: `{"a":{},"b":1.5}`, `1 2`: "", `{"a":1.5,"a":2}`: "",
		`01`: "", `[1,]`: "", ``: "", `tru`: "", `"`: "",
	} {
		got, err := Canonicalize([]byte(in))
		if want == "" && err == nil || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%.40q: got %q, %v, want %q", in, got, err, want)
		}
	}
}

// randomText writes a random JSON object of the kind tokens allow, with white
// space, escapes and order at random.
func randomText(r *rand.Rand, depth int) string {
	blank := func() string { return []string{"", "", "", " ", "\n\t"}[r.IntN(5)] }
	str := func() string {
		var b strings.Builder
		for range r.IntN(6) {
			switch c := []rune{'a', 'Z', '"', '\\', '\n', 0, 0x1f, 0x7f, 'é', 0xfb33, 0x1f600, 0x2028, '/'}[r.IntN(13)]; {
			case r.IntN(3) == 0 || c < ' ' || c == '"' || c == '\\':
				for _, u := range utf16.Encode([]rune{c}) {
					hex := strconv.FormatUint(uint64(u)|1<<16, 16)[1:]
					if r.IntN(2) == 0 {
						hex = strings.ToUpper(hex)
					}
					b.WriteString(`\u` + hex)
				}
			default:
				b.WriteRune(c)
			}
		}
		return `"` + b.String() + `"`
	}
	var b strings.Builder
	b.WriteString(blank() + "{" + blank())
	for i := range r.IntN(5) {
		if i > 0 {
			b.WriteString("," + blank())
		}
		b.WriteString(str() + blank() + ":" + blank())
		switch k := r.IntN(5); {
		case k == 0 && depth > 0:
			b.WriteString(randomText(r, depth-1))
		case k == 1 && depth > 0:
			b.WriteString("[" + randomText(r, depth-1) + ",null" + blank() + "]")
		case k == 2:
			b.WriteString(str())
		case k == 3:
			b.WriteString("true")
		default:
			b.WriteString(strconv.FormatInt(r.Int64N(1<<54)-1<<53, 10))
		}
		b.WriteString(blank())
	}
	b.WriteString("}" + blank())
	return b.String()
}

// TestAgainstTransform compares with the transform: what Canonical accepts has the
// form the transform gives, and a form it calls canonical is that form.
func TestAgainstTransform(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	accepted := 0
	for range 20_000 {
		text := []byte(randomText(r, 3))
		want, jcsErr := jcs.Transform(text)
		got, err := canonicalOf(text)
		if err != nil {
			var e *messages.Error
			if errors.As(err, &e); jcsErr == nil && e.Reason == BadJSON {
				t.Fatalf("%q: refused: %v", text, err)
			}
			continue
		}
		accepted++
		if !bytes.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
		if s, _ := scan(text, MaxDepth); s.canonical != bytes.Equal(text, want) {
			t.Fatalf("%q: canonical is %v", text, s.canonical)
		}
		if s, f := scan(want, MaxDepth); f != nil || !s.canonical {
			t.Fatalf("%q is not called canonical", want)
		}
	}
	if accepted < 1000 {
		t.Fatalf("only %d accepted", accepted)
	}
}

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", "\"\\\b\t\n\f\r\x00\x1f\x7f", "é😀<>&/", "tail\x01"} {
		got := jsonstring.Append(nil, s)
		again, err := Canonicalize(got)
		if err != nil || !bytes.Equal(got, again) || string(unquote(got[1:len(got)-1])) != s {
			t.Errorf("%q: got %q, canonical %q, %v", s, got, again, err)
		}
	}
}

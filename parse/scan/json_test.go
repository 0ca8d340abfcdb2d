package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// write gives the text in pieces of n bytes, or by letters where it can for 0, and tells
// how many were taken.
func write(j *JSON, s string, n int) (taken int) {
	letters := n == 0
	n = max(n, 1)
	for i := 0; i < len(s); i += n {
		p := []byte(s[i:min(i+n, len(s))])
		if letters && p[0] < utf8.RuneSelf && j.Letter(p[0]) {
			taken++
			continue
		}
		k := j.Write(p)
		taken += k
		for i := range p {
			p[i] = '!' // the caller's again
		}
		if k < len(p) {
			return taken
		}
	}
	return taken
}

// read gives the normal form of a text, however it is cut.
func read(t testing.TB, s string) (normal string, taken int, valid bool) {
	t.Helper()
	var j JSON
	taken = j.Write([]byte(s))
	valid = j.End() && taken == len(s)
	if valid {
		normal = string(j.Bytes())
	}
	for _, n := range []int{0, 1, 2, 3, 7} {
		j.Reset()
		k := write(&j, s, n)
		ok := j.End() && k == len(s)
		if k != taken || ok != valid || ok && string(j.Bytes()) != normal {
			t.Fatalf("%q by %d: %d bytes, %v, %q; whole %d, %v, %q", s, n, k, ok, j.Bytes(), taken, valid, normal)
		}
	}
	for i := 0; i < len(s); i += 1 + len(s)/40 {
		j.Reset()
		k := j.Write([]byte(s[:i]))
		if k == i {
			k += j.Write([]byte(s[i:]))
		}
		if ok := j.End() && k == len(s); k != taken || ok != valid || ok && string(j.Bytes()) != normal {
			t.Fatalf("%q cut at %d: %d bytes, %v, %q", s, i, k, ok, j.Bytes())
		}
	}
	return normal, taken, valid
}

func TestNormalForm(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{" { } ", "{}"},
		{"[\t1 ,\r\n2]", "[1,2]"},
		{`{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{`{"a":1,"a":2}`, `{"a":2}`},
		{`{"a":{"x":1},"b":0,"a":{"y":2}}`, `{"a":{"y":2},"b":0}`},
		{`{"a":1,"\u0061":2,"b":3,"\u0061":[4]}`, `{"a":[4],"b":3}`},
		{`{"a":[{"d":1,"c":2,"d":3},{"f":1,"e":2}],"":0}`, `{"":0,"a":[{"c":2,"d":3},{"e":2,"f":1}]}`},
		{`{"\ufb33":1,"\ud83d\ude80":2,"é":3,"z":4,"\r":5,"\\":6}`, "{\"\\r\":5,\"\\\\\":6,\"z\":4,\"é\":3,\"\U0001f680\":2,\"\ufb33\":1}"},
		{`{"ab":1,"a":2,"a\n":3}`, `{"a":2,"a\n":3,"ab":1}`},
		{`"\u0000\u001f\u007f\u00e9\/\"\\\b\f\n\r\t\u000a\u0022"`, "\"\\u0000\\u001f\x7fé/\\\"\\\\\\b\\f\\n\\r\\t\\n\\\"\""},
		{`"\ud83D\uDe80"`, "\"\U0001f680\""},
		{`"\ufffd"`, "\"\ufffd\""},
		{"-0", "-0"},
		{"[1.0,1e2,1E+2,0.10,-1.5e-07,12345678901234567890,0]", "[1.0,1e2,1E+2,0.10,-1.5e-07,12345678901234567890,0]"},
		{"[true,false,null]", "[true,false,null]"},
	} {
		if got, _, ok := read(t, c.in); !ok || got != c.want {
			t.Errorf("%q: %q %v, want %q", c.in, got, ok, c.want)
		}
	}
}

// The first byte that no JSON text has there, and texts that are no whole one.
func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		in    string
		taken int
	}{
		{"", 0},
		{" ", 1},
		{"{", 1},
		{`{"a"`, 4},
		{`{"a":`, 5},
		{`{"a":1`, 6},
		{"[1,", 3},
		{"-", 1},
		{"1.", 2},
		{"1e", 2},
		{"1e+", 3},
		{"tru", 3},
		{`"\`, 2},
		{`"\u12`, 5},
		{`"a`, 2},
		{"{,", 1},
		{"{1", 1},
		{"[,", 1},
		{"[1,]", 3},
		{`{"a":1,}`, 7},
		{`{"a" 1`, 5},
		{"01", 1},
		{"00", 1},
		{"-00", 2},
		{"-a", 1},
		{"1.a", 2},
		{"1ea", 2},
		{"1e+a", 3},
		{"+1", 0},
		{".5", 0},
		{"trux", 3},
		{"truee", 4},
		{`"\x"`, 2},
		{`"\u12g4"`, 5},
		{"\"\x1f\"", 1},
		{"\"\n", 1},
		{"{}x", 2},
		{"1 2", 2},
		{"[1}", 2},
		{"{]", 1},
		{`{"a":]`, 5},
		{"<", 0},
		{"[1<", 2},
		{"\v", 0},
		{"nulL", 3},
		{"é", 0},
		{"{\"a\":1]", 6},
		{"0x", 1},
		{"-01", 2},
		{"1.5.", 3},
		{"1e5e", 3},
		{"[1 2", 3},
		{`["a""`, 4},
	} {
		if _, taken, ok := read(t, c.in); ok || taken != c.taken {
			t.Errorf("%q: %d bytes, complete %v; want %d", c.in, taken, ok, c.taken)
		}
	}
}

// A lone surrogate is invalid and protects the rest of its string all the same.
func TestLoneSurrogates(t *testing.T) {
	for _, s := range []string{
		`"\ud800"`, `"\ud800x"`, `"\ud800x\udc00"`, `"\ud800\n\udc00"`, `"\ud800\/\udc00"`, `"\ud800\n"`, `"\udc00"`, `"\ud800\ud800\udc00"`, `"\ud800\u0041"`, `["\udbff", "x<y\"z"]`, `{"\ud800":1}`, `"\udc00\ud800"`,
	} {
		_, taken, ok := read(t, s)
		if ok || taken != len(s) {
			t.Errorf("%s: %d of %d bytes, %v", s, taken, len(s), ok)
		}
	}
	var j JSON
	j.Write([]byte(`"\ud800"`))
	j.Reset()
	if j.Write([]byte(`"a"`)); !j.End() {
		t.Error("Reset remembers")
	}
}

func TestDepth(t *testing.T) {
	for _, c := range []struct{ limit, n int }{{0, 64}, {3, 3}, {1, 1}} {
		for _, open := range []string{"[", `{"a":`} {
			shut := map[string]string{"[": "]", `{"a":`: "}"}[open]
			j := JSON{MaxDepth: c.limit}
			good := strings.Repeat(open, c.n) + "1" + strings.Repeat(shut, c.n)
			if k := j.Write([]byte(good)); k != len(good) || !j.End() {
				t.Errorf("depth %d: %d", c.n, k)
			}
			j.Reset()
			if k := j.Write([]byte(strings.Repeat(open, c.n+1))); k != c.n*len(open) {
				t.Errorf("depth %d: %d", c.n+1, k)
			}
		}
	}
}

func TestMembers(t *testing.T) {
	var j JSON
	for range 2 {
		j.Reset()
		j.Write([]byte(`{"z": {"q":1,"p":{}}, "a\u0062" : [1, {"x":2}], "z": "\n", "":null}`))
		if !j.End() {
			t.Fatal("refused")
		}
		var got []string
		for _, m := range j.Members() {
			got = append(got, string(j.Bytes()[m.Key:m.KeyEnd])+"="+string(j.Bytes()[m.Value:m.ValueEnd]))
		}
		if want := []string{`""=null`, `"ab"=[1,{"x":2}]`, `"z"="\n"`}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	}
	j.Reset()
	j.Write([]byte(`[{"a":1}]`))
	if !j.End() || len(j.Members()) != 0 {
		t.Errorf("%v", j.Members())
	}
	if !slices.Equal(AppendString([]byte("x"), []byte(`"a\n\\\"\u001fé\b\f\r\t"`)), []byte("xa\n\\\"\x1fé\b\f\r\t")) {
		t.Errorf("%q", AppendString(nil, []byte(`"a\n\\\"\u001fé\b\f\r\t"`)))
	}
}

// Objects that are kept have their members as they come, in one list; what is in them
// is in normal form.
func TestKeep(t *testing.T) {
	for _, c := range []struct {
		keep          int
		in, out, want string
	}{
		{0, `{"b":1,"a":{"d":1,"c":2},"b":[]}`, `{"a":{"c":2,"d":1},"b":[]}`, `"a":{"c":2,"d":1} "b":[] `},
		{1, `{"b":1,"a":{"d":1,"c":2},"b":[]}`, `{"b":1,"a":{"c":2,"d":1},"b":[]}`, `"b":1 "a":{"c":2,"d":1} "b":[] `},
		{1, `[{"b":1,"a":2}]`, `[{"a":2,"b":1}]`, ``},
		{2, `[{"b":1,"a":{"z":0,"y":1}},{},[{"q":{}}],{"c":"\u0061"}]`, `[{"b":1,"a":{"y":1,"z":0}},{},[{"q":{}}],{"c":"a"}]`, `"b":1 "a":{"y":1,"z":0} "c":"a" `},
		{2, `{"b":{"d":{"f":1,"e":2},"c":3},"a":4}`, `{"b":{"d":{"e":2,"f":1},"c":3},"a":4}`, `"b":{"d":{"e":2,"f":1},"c":3} "d":{"e":2,"f":1} "c":3 "a":4 `},
		{9, `{"b":{"d":[{"f":1},{"e":2}]}}`, `{"b":{"d":[{"f":1},{"e":2}]}}`, `"b":{"d":[{"f":1},{"e":2}]} "d":[{"f":1},{"e":2}] "f":1 "e":2 `},
	} {
		for piece := 1; piece <= len(c.in); piece++ {
			j := JSON{Keep: c.keep}
			if n := write(&j, c.in, piece); n != len(c.in) || !j.End() {
				t.Fatalf("%s by %d: %d bytes", c.in, piece, n)
			}
			var got string
			for _, m := range j.Members() {
				got += string(j.Bytes()[m.Key:m.KeyEnd]) + ":" + string(j.Bytes()[m.Value:m.ValueEnd]) + " "
			}
			if string(j.Bytes()) != c.out || got != c.want {
				t.Errorf("%s by %d, kept %d: %s, %s", c.in, piece, c.keep, j.Bytes(), got)
			}
		}
	}
}

// A string is taken by words where it can be: its end and each special byte may be at
// every place of one.
func TestWords(t *testing.T) {
	for _, s := range []string{`\"`, `\\`, `\n`, `\u0041`, `\/`, "é", "\x7f", "", `"`, "\x1f"} {
		for before := range 20 {
			for after := range 20 {
				text := strings.Repeat("<", before) + s + strings.Repeat(">", after)
				checkJSON(t, `["`+text+`"]`)
			}
		}
	}
}

// A text knows at each of its bytes whether it is in a string.
func TestInString(t *testing.T) {
	const text = `{"k\n":["\u00e9x\"",1,true]}`
	const want = `--####---##########---------`
	var j JSON
	for i := range text {
		if got := j.InString(); got != (want[i] == '#') {
			t.Errorf("in a string in front of %q: %v", text[i:], got)
		}
		j.Write([]byte{text[i]})
	}
	if j.InString() || !j.End() {
		t.Error("the text is not whole")
	}
}

// A text that grows is copied a few times, and has at most twice the memory it needs.
func TestMemory(t *testing.T) {
	var j JSON
	n := j.Write([]byte{'"'})
	grown, memory := 0, j.MemoryBytes()
	for ; n < 1<<20; n += 64 {
		j.Write(bytes.Repeat([]byte{'x'}, 64))
		if m := j.MemoryBytes(); m != memory {
			grown, memory = grown+1, m
		}
		if memory > 2*n+2<<10 {
			t.Fatalf("%d bytes of memory for %d of text", memory, n)
		}
	}
	if grown > 12 {
		t.Errorf("%d times larger memory", grown)
	}
	j.Reset()
	if j.MemoryBytes() != memory {
		t.Error("a reset lets go of memory")
	}
}

func TestBlank(t *testing.T) {
	var j JSON
	for _, s := range []string{"", " \t\r\n", "<", "x"} {
		j.Reset()
		if j.Write([]byte(s)); !j.Blank() || j.End() {
			t.Errorf("%q is not blank", s)
		}
	}
	for _, s := range []string{"{", " 1", "\"", "-", "t"} {
		j.Reset()
		if j.Write([]byte(s)); j.Blank() {
			t.Errorf("%q is blank", s)
		}
	}
}

// checkJSON compares with the standard library, and the normal form of a text with
// RFC 8785's where its numbers are canonical.
func checkJSON(t testing.TB, s string) {
	t.Helper()
	s = strings.ToValidUTF8(s, "\ufffd")
	normal, taken, valid := read(t, s)
	var v any
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	err := json.Unmarshal([]byte(s), &v)
	var syntax *json.SyntaxError
	deep := depthOf(s) > MaxJSONDepth
	if !deep {
		want := len(s)
		// At the end it is fed a space, and may complain of that.
		atEnd := err != nil && (err.Error() == "unexpected end of JSON input" ||
			strings.HasPrefix(err.Error(), "invalid character ' '") && !strings.HasSuffix(s, " "))
		if errors.As(err, &syntax) && (!atEnd || int(syntax.Offset) < len(s)) {
			want = int(syntax.Offset) - 1
		}
		if taken != want {
			t.Fatalf("%q: %d bytes, the standard library says %d: %v", s, taken, want, err)
		}
		if valid != (err == nil && !lone(s)) && !errors.As(err, new(*json.UnmarshalTypeError)) {
			t.Fatalf("%q: valid %v, the standard library says %v", s, valid, err)
		}
	}
	if !valid {
		return
	}
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	var again any
	dec = json.NewDecoder(strings.NewReader(normal))
	dec.UseNumber()
	if err := dec.Decode(&again); err != nil || fmt.Sprint(v) != fmt.Sprint(again) {
		t.Fatalf("%q became %q: %v", s, normal, err)
	}
	if twice, _, ok := read(t, normal); !ok || twice != normal {
		t.Fatalf("%q became %q and then %q", s, normal, twice)
	}
	if canonical, err := jcs.Transform([]byte(normal)); err == nil && len(normal) > 0 && canonicalNumbers(normal) && string(canonical) != normal {
		t.Fatalf("%q became %q, RFC 8785 has %q", s, normal, canonical)
	}
}

// canonicalNumbers tells texts without a number that RFC 8785 would write otherwise:
// small integers alone.
func canonicalNumbers(s string) bool {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	for {
		tok, err := dec.Token()
		if err != nil {
			return true
		}
		if n, ok := tok.(json.Number); ok && (len(n) > 15 || strings.ContainsAny(string(n), ".eE") || n == "-0") {
			return false
		}
	}
}

func depthOf(s string) (most int) {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			most = max(most, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return most
}

// lone looks for a lone surrogate escape.
func lone(s string) bool {
	var waiting bool
	for i := 0; i < len(s); i++ {
		var unit rune
		if s[i] == '\\' && i+1 < len(s) {
			if i++; s[i] == 'u' && i+4 < len(s) {
				fmt.Sscanf(s[i+1:i+5], "%04x", &unit)
				i += 4
			}
		}
		low := utf16.IsSurrogate(unit) && unit >= 0xdc00
		if waiting != low {
			return true
		}
		waiting = utf16.IsSurrogate(unit) && unit < 0xdc00
	}
	return false
}

var pieces = []string{
	"{", "}", "[", "]", ",", ":", `"`, `"a"`, `"b":`, `"a":1`, `"\u00e9":`, `"é":[`, `"\ud83d\ude80":`, `"\ufb33":2`, `"\n"`, `"\\":`, `"\"":{`, "\\", "1", "-0", "1.50", "1e2", "12345678901234567890", "true", "false", "null", " ", "\n", "x", "\x01", `\ud800`, `\udc00`,
	`{"z":1,"y":{"b":1,"a":2},"z":[2]}`, `{"a":{},"a":[],"":"x"}`, `,"a":`, `,"c":"<"`, "é", "\U0001f680",
}

func TestRandomJSON(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		var b strings.Builder
		for range r.IntN(14) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		checkJSON(t, b.String())
	}
	for range 400 {
		checkJSON(t, value(r, 5))
	}
}

// value writes a valid value by chance.
func value(r *rand.Rand, depth int) string {
	text := func() string {
		return []string{`""`, `"a"`, `"b"`, `"ab"`, `"\u0061"`, `"é"`, `"\ue000"`, `"\ud800\udc00"`, `"\n"`, `"\u000b"`, `"\\"`, `"\""`, `"/"`, `"\/"`}[r.IntN(14)]
	}
	switch k := r.IntN(6); {
	case k == 0 && depth > 0:
		var items []string
		for range r.IntN(4) {
			items = append(items, value(r, depth-1))
		}
		return "[ " + strings.Join(items, " ,") + "]"
	case k <= 3 && depth > 0:
		var items []string
		for range r.IntN(6) {
			items = append(items, text()+" :"+value(r, depth-1))
		}
		return "{" + strings.Join(items, ",\n") + " }"
	case k == 4:
		return text()
	}
	return []string{"0", "-1", "1.0", "true", "null", "1e9", "123456789012345678901234567890"}[r.IntN(7)]
}

func FuzzJSON(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		f.Add(value(r, 4))
	}
	f.Fuzz(func(t *testing.T, s string) { checkJSON(t, s) })
}

// Nested objects that come in the worst order move their bytes once a level: the
// work is bounded by the depth, and nothing recurses.
func TestWorstOrder(t *testing.T) {
	const depth = MaxJSONDepth - 1
	deep := strings.Repeat(`{"b":`, depth) + `"` + strings.Repeat("x", 200<<10) + `"` + strings.Repeat(`,"a":0}`, depth)
	var j JSON
	if j.Write([]byte(deep)) != len(deep) || !j.End() {
		t.Fatal("refused")
	}
	if want := strings.Repeat(`{"a":0,"b":`, depth) + `"x`; !bytes.HasPrefix(j.Bytes(), []byte(want)) {
		t.Errorf("%.300q", j.Bytes())
	}
	if len(j.Bytes()) != len(deep) {
		t.Errorf("%d bytes of %d", len(j.Bytes()), len(deep))
	}
	var many strings.Builder
	many.WriteByte('{')
	for i := range 20000 {
		fmt.Fprintf(&many, `"%05d":0,`, (i*7919)%20000)
	}
	many.WriteString(`"x":1,"x":2}`)
	j.Reset()
	if j.Write([]byte(many.String())); !j.End() || len(j.Members()) != 20001 || !bytes.HasSuffix(j.Bytes(), []byte(`"19999":0,"x":2}`)) {
		t.Errorf("%d members", len(j.Members()))
	}
}

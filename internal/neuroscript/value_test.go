package neuroscript

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"
)

func TestValueIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Value{}); n > 24 {
		t.Errorf("a value has %d bytes", n)
	}
	if n := testing.AllocsPerRun(100, func() { _ = Number(1.5).Truthy() && String("x").Truthy() && Bool(true).Truthy() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAccessors(t *testing.T) {
	if math.Signbit(Number(math.Copysign(0, -1)).num()) {
		t.Error("−0 stayed")
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 7200))
	m := MapOf([]Entry{{"b", Number(1)}, {"a", Number(2)}, {"b", Number(3)}})
	if keys := m.MapKeys(); !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("keys %q", keys)
	}
	if v, ok := m.MapGet("b"); !ok || v != Number(3) {
		t.Error("the last of equal keys wins")
	}
	if _, ok := m.MapGet("c"); ok {
		t.Error("a missing key was found")
	}
	if v, ok := TimeDate(now).AsTime(); !ok || !v.Equal(now) || v.Location() != time.UTC {
		t.Error("timedate")
	}
	if code, message, details, ok := NewErrorValue(7, "m", String("d")).AsError(); code != 7 || message != "m" || details != String("d") || !ok {
		t.Error("error")
	}
	if i, ok := Number(1 << 53).AsInt(); !ok || i != 1<<53 {
		t.Error("2^53")
	}
	for _, f := range []float64{1.5, 1 << 54, math.Inf(1), math.NaN()} {
		if _, ok := Number(f).AsInt(); ok {
			t.Errorf("%v is no exact integer", f)
		}
	}
	for _, c := range []struct {
		v     Value
		kind  string
		size  int64
		depth int
		truth bool
	}{
		{Value{}, "nil", 0, 0, false},
		{Bool(true), "boolean", 0, 0, true},
		{Bool(false), "boolean", 0, 0, false},
		{Number(0), "number", 0, 0, false},
		{Number(-1), "number", 0, 0, true},
		{String(""), "string", 16, 0, false},
		{String("0"), "string", 17, 0, true},
		{List(nil), "list", 24, 1, false},
		{List([]Value{String("ab"), List(nil)}), "list", 24 + 32 + 18 + 24, 2, true},
		{Map(nil), "map", 48, 1, false},
		{Map(map[string]Value{"k": String("v")}), "map", 48 + 33 + 17, 1, true},
		{NewErrorValue(1, "abc", Value{}), "error", 67, 1, false},
		{NewErrorValue(1, "", List(nil)), "error", 88, 2, false},
		{TimeDate(now), "timedate", 0, 0, true},
		{TimeDate(time.Time{}), "timedate", 0, 0, false},
	} {
		if c.v.Kind().String() != c.kind || c.v.Size() != c.size || c.v.Depth() != c.depth || c.v.Truthy() != c.truth {
			t.Errorf("%s: %s size %d depth %d %v", c.kind, c.v.Kind(), c.v.Size(), c.v.Depth(), c.v.Truthy())
		}
	}
	// The wrong accessor says so.
	for _, v := range []Value{{}, List(nil)} {
		_, a := v.AsString()
		_, b := v.AsNumber()
		_, c := v.AsBool()
		_, d := v.AsMap()
		_, e := v.AsTime()
		_, _, _, f := v.AsError()
		_, g := v.AsInt()
		if a || b || c || d || e || f || g || v.MapKeys() != nil {
			t.Errorf("%s", v.Kind())
		}
	}
	if Kind(200).String() != "unknown" {
		t.Error("an unknown kind")
	}
	// Shared members count once per place, without overflow.
	v := Value{}
	for range 100 {
		v = List([]Value{v, v})
	}
	if v.Size() != math.MaxInt64 || v.Depth() != 100 {
		t.Errorf("size %d, depth %d", v.Size(), v.Depth())
	}
}

func hasCode(err error, code int) bool {
	var e *ScriptError
	return errors.As(err, &e) && e.Code == code
}

func TestParseNumber(t *testing.T) {
	for s, want := range map[string]float64{"1": 1, "+1": 1, "-1.50": -1.5, " \t\n\v\f\r1e3\r ": 1000, "1E-2": .01, "007": 7, "-0": 0, "1e-999": 0} {
		if f, ok := ParseNumber(s); !ok || f != want || math.Signbit(f) != math.Signbit(want) {
			t.Errorf("%q: %v %v", s, f, ok)
		}
	}
	for _, s := range []string{"", " ", "+", ".5", "5.", "1e", "1e+", "0x1", "1_0", "inf", "NaN", "1e999", "1 2", "--1", "\u00a01", "1,5", "1e5.5"} {
		if f, ok := ParseNumber(s); ok {
			t.Errorf("%q: %v", s, f)
		}
	}
}

func TestNumberText(t *testing.T) {
	seed := rand.Int63()
	r := rand.New(rand.NewSource(seed))
	for i := range 20_000 {
		f := math.Float64frombits(r.Uint64())
		if i%2 == 0 {
			f = float64(r.Int63n(1<<54)-1<<53) / float64(int64(1)<<r.Intn(12))
		}
		if !isFinite(f) {
			continue
		}
		text := string(appendNumber(nil, f))
		if want := strconv.FormatFloat(f, 'f', -1, 64); text != want && f != 0 {
			t.Fatalf("seed %d: %v is %s, want %s", seed, f, text, want)
		}
		if len(text) > maxNumberBytes {
			t.Fatalf("%s is longer than thought", text)
		}
		if n := textLen(Number(f), math.MaxInt64); n != int64(len(text)) {
			t.Fatalf("seed %d: %s has length %d", seed, text, n)
		}
	}
}

func TestJSON(t *testing.T) {
	for _, c := range [][2]string{
		{` {"b": [1, 2.50, -0, 1e2], "a": null, "é": "\u00e9\ud83d\ude00\/\n"} `, `{"a":null,"b":[1,2.5,0,100],"é":"é😀/\n"}`},
		{`{"a":1,"a":{"x":true}}`, `{"a":{"x":true}}`},
		{`[]`, `[]`},
		{`{}`, `{}`},
		{`"\"\\\b\f\n\r\t\u0001\u007f"`, "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f\""},
		{"1e21", "1e+21"},
		{"1e-7", "1e-7"},
		{"123456789012345680000", "123456789012345680000"},
		{"0.000001", "0.000001"},
		{"1.5e300", "1.5e+300"},
		{"false", "false"},
		{"-1E+2", "-100"},
		{strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
	} {
		v, err := FromJSON([]byte(c[0]))
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		if out, err := AppendJSON(nil, v); err != nil || string(out) != c[1] {
			t.Errorf("%s: %s %v", c[0], out, err)
		}
	}
	for _, s := range []string{
		"", " ", "nul", "nulll", "tru", "1 2", "01", "-", "+1", ".5", "1.", "1e", "0x1", "NaN", "Infinity", "1e999", `"`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12G4"`, `"\ud800"`, `"\udc00"`, `"\ud800\u0041"`, `"\ud800x"`, "\"\n\"", "\"\x00\"", "'a'",
		"[", "[1", "[1,", "[1,]", "[,]", "[1 2]", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `{1:1}`, `{"a" 1}`, `{"a":1 "b":2}`, "]", "}", "[}", "\"\xff\"", "\xef\xbb\xbf1", "\u00a01", "// c\n1",
	} {
		if v, err := FromJSON([]byte(s)); !hasCode(err, CodeInvalid) || !strings.HasPrefix(err.Error(), "code 41: not JSON") || !v.IsNil() {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := FromJSON([]byte(strings.Repeat("[", 65) + strings.Repeat("]", 65))); !hasCode(err, CodeEvaluation) {
		t.Errorf("depth 65: %v", err)
	}
	if _, err := FromJSON([]byte(strings.Repeat(`{"a":`, 1_000_000))); !hasCode(err, CodeEvaluation) {
		t.Errorf("depth 10^6: %v", err)
	}
	e := NewErrorValue(7, "m", Value{})
	if out, err := AppendJSON(nil, List([]Value{e, NewErrorValue(8, "n", Number(1)), TimeDate(time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC))})); err != nil || string(out) != `[{"code":7,"message":"m"},{"code":8,"details":1,"message":"n"},"2026-01-02T03:04:05.0000006Z"]` {
		t.Errorf("%s %v", out, err)
	}
	deep := Value{}
	for range 65 {
		deep = Map(map[string]Value{"k": deep})
	}
	for v, code := range map[Value]int{Number(math.Inf(1)): CodeEvaluation, String("\xff"): CodeInvalid, deep: CodeEvaluation, Map(map[string]Value{"\xff": {}}): CodeInvalid, NewErrorValue(1, "\xff", Value{}): CodeInvalid} {
		if out, err := AppendJSON([]byte("x"), List([]Value{v})); !hasCode(err, code) || string(out) != "x" {
			t.Errorf("%s: %q %v", v.Kind(), out, err)
		}
	}
}

// randomValue makes a value of any kind.
func randomValue(r *rand.Rand, depth int) Value {
	switch n := r.Intn(10); {
	case n == 0:
		return Value{}
	case n == 1:
		return Bool(r.Intn(2) == 0)
	case n < 4:
		return Number(float64(r.Intn(2000)-1000) / 8)
	case n < 7 || depth > 4:
		return String([]string{"", "a", "é\"\\", "\n\x01", "5", strings.Repeat("x", r.Intn(100))}[r.Intn(6)])
	case n == 7:
		return NewErrorValue(r.Intn(50), "m\"", randomValue(r, depth+1))
	case n == 8:
		elems := make([]Value, r.Intn(4))
		for i := range elems {
			elems[i] = randomValue(r, depth+1)
		}
		return List(elems)
	default:
		entries := make([]Entry, r.Intn(4))
		for i := range entries {
			entries[i] = Entry{string(rune('a' + r.Intn(5))), randomValue(r, depth+1)}
		}
		return MapOf(entries)
	}
}

// TestRandomValues: the measured length is the rendered one, sizes and depths that
// writes keep up to date are those a fresh walk finds, and JSON comes back.
func TestRandomValues(t *testing.T) {
	seed := rand.Int63()
	r := rand.New(rand.NewSource(seed))
	for range 5000 {
		v := randomValue(r, 0)
		text := string(v.AppendText(nil))
		if int64(len(text)) != textLen(v, math.MaxInt64) {
			t.Fatalf("seed %d: %q has length %d", seed, text, textLen(v, math.MaxInt64))
		}
		if most := int64(r.Intn(50)); int64(len(text)) > most && textLen(v, most) <= most {
			t.Fatalf("seed %d: %q is above %d", seed, text, most)
		}
		out, err := AppendJSON(nil, v)
		if err != nil || !json.Valid(out) {
			t.Fatalf("seed %d: %s %v", seed, out, err)
		}
		back, err := FromJSON(out)
		if err != nil {
			t.Fatalf("seed %d: %s %v", seed, out, err)
		}
		if again, _ := AppendJSON(nil, back); string(again) != string(out) {
			t.Fatalf("seed %d: %s became %s", seed, out, again)
		}
	}
}

// TestRandomWrites compares writes with a fresh construction of the result.
func TestRandomWrites(t *testing.T) {
	seed := rand.Int63()
	r := rand.New(rand.NewSource(seed))
	tools := testTools{
		"r.any": {Name: "r.any", Func: func(*Call, []Value) (Value, error) { return randomValue(r, 0), nil }},
		"r.check": {Name: "r.check", Params: []Param{{Name: "v", Type: "any", Optional: true}}, Func: func(_ *Call, a []Value) (Value, error) {
			if fresh := rebuilt(a[0]); fresh.Size() != a[0].Size() || fresh.Depth() != a[0].Depth() {
				return Value{}, &Breach{Code: "DIFFERS", Meter: "SIZE"}
			}
			return Value{}, nil
		}},
	}
	steps := []string{".a", ".b", "[0]", "[1]", "[5]", `["1"]`, `["k"]`, ".c"}
	for range 300 {
		var b strings.Builder
		b.WriteString("on error do / clear_error / endon")
		for range 20 {
			b.WriteString(" / set v")
			for range 1 + r.Intn(4) {
				b.WriteString(steps[r.Intn(len(steps))])
			}
			b.WriteString([]string{" = tool.r.any()", " = v", " = 1", " = [v]"}[r.Intn(4)])
			b.WriteString(" / call tool.r.check(v)")
		}
		out := runProgram(t, program(b.String()), Env{Tools: tools, Limits: Limits{Value: 100_000, Tools: 1000}})
		if out.Breach != nil && out.Breach.Meter == "SIZE" {
			t.Fatalf("seed %d: %s", seed, b.String())
		}
	}
}

// rebuilt makes a copy of v from nothing.
func rebuilt(v Value) Value {
	if elems, ok := v.AsList(); ok {
		out := make([]Value, len(elems))
		for i, e := range elems {
			out[i] = rebuilt(e)
		}
		return List(out)
	}
	if entries, ok := v.AsMap(); ok {
		m := map[string]Value{}
		for _, e := range entries {
			m[e.Key] = rebuilt(e.Value)
		}
		return Map(m)
	}
	return v
}

func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{"", `{"a":[1,2.5,null,"\u00e9"]}`, `[1,]`, `"\ud800"`, "1e999", strings.Repeat("[", 70)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := FromJSON(b)
		if err != nil {
			if !hasCode(err, CodeInvalid) && !hasCode(err, CodeEvaluation) {
				t.Fatalf("%v", err)
			}
			return
		}
		if !json.Valid(b) {
			t.Fatalf("%q is no JSON", b)
		}
		out, err := AppendJSON(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := FromJSON(out)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := AppendJSON(nil, back); string(again) != string(out) {
			t.Fatalf("%s became %s", out, again)
		}
	})
}

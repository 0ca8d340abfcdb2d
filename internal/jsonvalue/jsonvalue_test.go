package jsonvalue

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

func normal(t testing.TB, text string) string {
	t.Helper()
	v, ok := Normal(text)
	if !ok {
		t.Fatalf("%s is refused", text)
	}
	return v
}

func TestParts(t *testing.T) {
	v := normal(t, ` {"b": [1, "x\"]", {"k": null}, []], "a\"": {"": -2e3}, "é": true, "b": [7, "x\"],{", {"k\\": null}, [[]]]}`)
	for _, c := range []struct{ path, want string }{
		{"b", `[7,"x\"],{",{"k\\":null},[[]]]`},
		{"b/0", "7"},
		{"b/1", `"x\"],{"`},
		{"b/2/k\\", "null"},
		{"b/3/0", "[]"},
		{"b/3/0/0", ""},
		{"b/4", ""},
		{"b/00", ""},
		{"b/x", ""},
		{"b/1234567890", ""},
		{`a"/`, "-2e3"},
		{"é", "true"},
		{"é/x", ""},
		{"c", ""},
	} {
		got, ok := v, true
		for segment := range strings.SplitSeq(c.path, "/") {
			if got, ok = Child(got, segment); !ok {
				got = ""
				break
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	if n := Count(v); n != 3 {
		t.Errorf("%d members", n)
	}
	if got := Text(normal(t, `{"b":1.0,"a":"\u00e9\n"}`)); got != `{"a":"é\n","b":1}` {
		t.Error(got)
	}
	if got := Text(`"\u000b\"x"`); got != "\v\"x" {
		t.Errorf("%q", got)
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{"", " ", "{", "[1,]", `"\ud83e"`, "01", "1 2", "nul", strings.Repeat("[", 65) + strings.Repeat("]", 65)} {
		if v, ok := Normal(text); ok {
			t.Errorf("%q is %q", text, v)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1", "1.0", 0},
		{"10e-1", "1", 0},
		{"-0", "0.0e5", 0},
		{"9007199254740993", "9007199254740992", 1},
		{"1e400", "1e399", 1},
		{"-1e400", "-1e399", -1},
		{"1e99999999999999999999", "1e99999999999999999998", 1},
		{"10e99999999999999999998", "1e99999999999999999999", 0},
		{"1e-99999999999999999999", "0", 1},
		{"0.001", "1e-3", 0},
		{"0.1", "0.09", 1},
		{"-1", "1", -1},
		{"123", "1230", -1},
		{"5", "-6e2", 1},
	} {
		if got := Compare(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Compare(c.b, c.a); got != -c.want {
			t.Errorf("%s and %s: %d, want %d", c.b, c.a, got, -c.want)
		}
		if got := Key(c.a) == Key(c.b); got != (c.want == 0) {
			t.Errorf("keys of %s and %s are equal: %v", c.a, c.b, got)
		}
	}
	for _, c := range []struct {
		text string
		n    int
		ok   bool
	}{{"0", 0, true}, {"2.0", 2, true}, {"2.5", 0, false}, {"-1", 0, false}, {"1e2", 100, true}, {"120e-1", 12, true}, {"1e30", 1000, true}, {"1e-1", 0, false}, {"1e99999999999999999999", 1000, true}} {
		if n, ok := DecimalOf(c.text).Int(1000); n != c.n || ok != c.ok {
			t.Errorf("%s: %d %v", c.text, n, ok)
		}
	}
}

// Numbers compare as rationals do.
func TestAgainstRationals(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	number := func() string {
		s := strconv.Itoa(r.IntN(2000) - 1000)
		if r.IntN(2) == 0 {
			s += "." + strconv.Itoa(r.IntN(1000))
		}
		if r.IntN(2) == 0 {
			s += "e" + strconv.Itoa(r.IntN(9)-4)
		}
		return s
	}
	for range 5000 {
		a, b := number(), number()
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if got := Compare(a, b); got != x.Cmp(y) {
			t.Fatalf("%s and %s: %d", a, b, got)
		}
		if got := DecimalOf(a).Integer(); got != x.IsInt() {
			t.Fatalf("%s is an integer: %v", a, got)
		}
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`[1,"b",[2]]`, `[1.0,"b",[2]]`, true},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `["1"]`, false},
		{`{"a":1,"b":2}`, `{"b":2.0,"a":1}`, true},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`[12]`, `[1,2]`, false},
		{`[1]`, `[1,1]`, false},
		{`"1.0"`, `"1"`, false},
		{`[[],{}]`, `[[],[]]`, false},
		{`true`, `"true"`, false},
	} {
		a, b := normal(t, c.a), normal(t, c.b)
		if Equal(a, b) != c.want || Equal(b, a) != c.want || (Key(a) == Key(b)) != c.want {
			t.Errorf("%s and %s: want %v", a, b, c.want)
		}
	}
}

// A value taken apart and put together again is what another reader makes of it.
func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"b":[1,"x\"]",{"k":null}],"a\"":-2e3}`, `["\\","\\\"",[[]],{"":{}}]`, `"x"`, "1e400", "[1,]", "7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, ok := Normal(text)
		if !ok {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is no JSON", text)
		}
		if again, ok := Normal(v); !ok || again != v {
			t.Fatalf("%q becomes %q", v, again)
		}
		if !Equal(v, v) {
			t.Fatalf("%q is not equal to itself", v)
		}
		var want any
		decoder := json.NewDecoder(strings.NewReader(v))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if got := tree(v); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %v, want %v", v, got, want)
		}
	})
}

// tree makes of a value what package encoding/json makes of it.
func tree(v string) any {
	switch Kind(v) {
	case Null:
		return nil
	case Bool:
		return v == "true"
	case Number:
		return json.Number(v)
	case String:
		return Meant(v)
	case Array:
		all := []any{}
		for item := range Items(v) {
			all = append(all, tree(item))
		}
		return all
	}
	all := map[string]any{}
	for name, value := range Members(v) {
		all[Meant(name)] = tree(value)
	}
	return all
}

package standard

import (
	"math"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
)

func read(t *testing.T, text string) neuroscript.Value {
	t.Helper()
	v, err := neuroscript.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestReservedIsResult holds what each tool reserves against what it makes.
func TestReservedIsResult(t *testing.T) {
	s, i, n := neuroscript.String, func(f float64) neuroscript.Value { return neuroscript.Number(f) }, neuroscript.Value{}
	l := func(v ...neuroscript.Value) neuroscript.Value { return neuroscript.List(v) }
	m := neuroscript.Map
	nested := l(s("ab"), l(s("c"), i(1)), m(map[string]neuroscript.Value{"k": s("v")}))
	ab := m(map[string]neuroscript.Value{"aa": s("1"), "b": l(i(1))})
	bc := m(map[string]neuroscript.Value{"b": s("22"), "ccc": nested})
	for name, c := range map[string]struct {
		do   function
		args []neuroscript.Value
	}{
		"ToUpper":     {strToUpper, []neuroscript.Value{s("aßⱥżǆ")}},
		"ToLower":     {strToLower, []neuroscript.Value{s("AȺİŻK")}},
		"TrimSpace":   {strTrimSpace, []neuroscript.Value{s(" a ")}},
		"TrimPrefix":  {trim(strings.TrimPrefix), []neuroscript.Value{s("abc"), s("a")}},
		"TrimSuffix":  {trim(strings.TrimSuffix), []neuroscript.Value{s("abc"), s("c")}},
		"Split":       {strSplit, []neuroscript.Value{s("a--b----c"), s("--")}},
		"Split runes": {strSplit, []neuroscript.Value{s("żaź"), s("")}},
		"Split none":  {strSplit, []neuroscript.Value{s(""), s("")}},
		"SplitWords":  {strSplitWords, []neuroscript.Value{s(" ab  c ")}},
		"Join":        {strJoin, []neuroscript.Value{l(s("a"), s(""), s("bc")), s(", ")}},
		"Join none":   {strJoin, []neuroscript.Value{l(), s(", ")}},
		"Replace":     {strReplace, []neuroscript.Value{s("abab"), s("b"), s("ccc"), n}},
		"Replace 1":   {strReplace, []neuroscript.Value{s("abab"), s("b"), s(""), i(1)}},
		"Substring":   {strSubstring, []neuroscript.Value{s("żółw"), i(1), i(2)}},
		"Append":      {listAppend, []neuroscript.Value{nested, nested}},
		"Prepend":     {listPrepend, []neuroscript.Value{nested, s("x")}},
		"Slice":       {listSlice, []neuroscript.Value{nested, i(1), i(3)}},
		"Reverse":     {listReverse, []neuroscript.Value{nested}},
		"Sort":        {listSort, []neuroscript.Value{l(s("b"), s("a"))}},
		"Rest":        {listRest, []neuroscript.Value{nested}},
		"Tail":        {listTail, []neuroscript.Value{nested, i(2)}},
		"keys":        {mapKeys, []neuroscript.Value{bc}},
		"values":      {mapValues, []neuroscript.Value{bc}},
		"remove":      {mapRemove, []neuroscript.Value{bc, s("ccc")}},
		"remove none": {mapRemove, []neuroscript.Value{bc, s("x")}},
		"merge":       {mapMerge, []neuroscript.Value{ab, bc}},
		"New":         {errorNew, []neuroscript.Value{i(5), s("msg")}},
	} {
		b := &looseBudget{}
		v, err := c.do(b, c.args)
		if err != nil || b.calls != 1 || b.checked != v.Size() {
			t.Errorf("%s: reserved %d in %d calls for a result of %d (%v)", name, b.checked, b.calls, v.Size(), err)
		}
	}
}

func TestToJSONIsTheLanguagesJSON(t *testing.T) {
	v := read(t, `{"s":"a\u0001\u001f\"\\\b\f\n\r\t\u007fż😀/","n":[0,-1,1.5,1e300,5e-324,123456789012345680000,1e21],"b":[true,false,null],"m":{"":{}, "z":[]}}`)
	want, err := neuroscript.AppendJSON(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	for _, pretty := range []bool{false, true} {
		m := &looseBudget{}
		got, err := strToJSON(m, []neuroscript.Value{v, neuroscript.Bool(pretty)})
		if err != nil {
			t.Fatal(err)
		}
		if m.checked != got.Size() {
			t.Errorf("pretty %v: reserved %d for a result of %d", pretty, m.checked, got.Size())
		}
		if !pretty && str(got) != string(want) {
			t.Errorf("got  %s\nwant %s", str(got), want)
		}
		if back := read(t, str(got)); true {
			again, err := neuroscript.AppendJSON(nil, back)
			if err != nil || string(again) != string(want) {
				t.Errorf("pretty %v does not read back: %s (%v)", pretty, again, err)
			}
		}
	}
}

func TestToJSONOfOtherKinds(t *testing.T) {
	details := neuroscript.NewErrorValue(1, "in", neuroscript.Value{})
	v := neuroscript.List([]neuroscript.Value{neuroscript.NewErrorValue(7, "m", details)})
	m := &looseBudget{}
	got, err := strToJSON(m, []neuroscript.Value{v, {}})
	if err != nil || str(got) != `[{"code":7,"details":{"code":1,"message":"in"},"message":"m"}]` || m.checked != got.Size() {
		t.Fatalf("got %s, reserved %d, %v", str(got), m.checked, err)
	}
	deep := neuroscript.Value{}
	for range neuroscript.MaxValueDepth + 1 {
		deep = neuroscript.List([]neuroscript.Value{deep})
	}
	if _, err := strToJSON(m, []neuroscript.Value{deep, {}}); err == nil {
		t.Error("a value nested too deeply was written")
	}
}

func TestSizesDoNotOverflow(t *testing.T) {
	for _, c := range []struct{ got, want int64 }{
		{sum(), 0},
		{sum(1, 2), 3},
		{sum(math.MaxInt64, 1), math.MaxInt64},
		{sum(math.MaxInt64, math.MaxInt64, math.MaxInt64), math.MaxInt64},
		{product(0, 5), 0},
		{product(5, 0), 0},
		{product(3, 4), 12},
		{product(1<<40, 1<<40), math.MaxInt64},
		{product(math.MaxInt64, 1), math.MaxInt64},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}

func FuzzReplace(f *testing.F) {
	f.Add("aaa", "a", "bb", int64(-1))
	f.Add("żab", "", "-", int64(2))
	f.Add("abab", "ab", "", int64(1))
	f.Add("", "", "x", int64(9))
	f.Fuzz(func(t *testing.T, s, old, fresh string, count int64) {
		s, old, fresh = strings.ToValidUTF8(s, "?"), strings.ToValidUTF8(old, "?"), strings.ToValidUTF8(fresh, "?")
		b := &looseBudget{}
		v, err := strReplace(b, []neuroscript.Value{neuroscript.String(s), neuroscript.String(old), neuroscript.String(fresh), neuroscript.Number(float64(count))})
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(s, old, fresh, int(max(-1, min(count, 1<<53))))
		if str(v) != want || b.checked != v.Size() {
			t.Fatalf("got %q, want %q; reserved %d of %d", str(v), want, b.checked, v.Size())
		}
	})
}

// looseBudget lets everything through and keeps what was asked.
type looseBudget struct {
	checked int64 // last
	calls   int
	gas     int64
}

func (m *looseBudget) CheckValue(n int64) error { m.checked = n; m.calls++; return nil }
func (m *looseBudget) ChargeGas(n int64) error  { m.gas += n; return nil }
func (m *looseBudget) Equal(a, b neuroscript.Value) (bool, error) {
	x, err := neuroscript.AppendJSON(nil, a)
	if err != nil {
		return false, err
	}
	y, err := neuroscript.AppendJSON(nil, b)
	return string(x) == string(y), err
}

func (m *looseBudget) ParseJSON(s string) (neuroscript.Value, error) {
	return neuroscript.FromJSON([]byte(s))
}

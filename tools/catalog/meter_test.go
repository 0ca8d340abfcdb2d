package catalog

import (
	"context"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/neuroscript"
)

// TestMetersCutExactly runs each program at the limits it needs, and one below.
func TestMetersCutExactly(t *testing.T) {
	set := standardSet(t)
	data := userdata(t, `{"s":"`+strings.Repeat("ab ", 400)+`","l":["b","a","c","d","e"]}`)
	for _, call := range []string{
		`str.ToUpper(userdata.s)`, `str.Split(userdata.s, "a")`, `str.Split(userdata.s, "")`, `str.SplitWords(userdata.s)`, `str.Join(userdata.l, ", ")`,
		`str.Replace(userdata.s, "a", "xyz")`, `str.Substring(userdata.s, 3, 300)`, `str.ToJsonString(userdata)`, `str.ToJsonString(userdata, true)`,
		`str.ParseJsonString("[[1, {\"a\": \"b\"}], \"c\"]")`, `list.Append(userdata.l, userdata.l)`, `list.Sort(userdata.l)`, `list.Slice(userdata.l, 1, 3)`,
		`map.merge(userdata, {"x": 1})`, `map.remove(userdata, "l")`, `map.keys(userdata)`, `map.values(userdata)`, `error.New(1, "mm")`, `meta.listTools()`,
	} {
		line := "set x = tool." + call
		do := func(l neuroscript.Limits) neuroscript.Result {
			_, res := run(t, set.Bind(Binding{}), line, neuroscript.Env{Userdata: data, Limits: l})
			return res
		}
		free := do(neuroscript.Limits{})
		if free.Err != nil || free.Breach != nil || free.Alloc == 0 {
			t.Fatalf("%s: %v %v, alloc %d", call, free.Err, free.Breach, free.Alloc)
		}
		if res := do(neuroscript.Limits{Gas: free.Gas, Alloc: free.Alloc}); res.Breach != nil || res.Err != nil {
			t.Errorf("%s: fails at exactly what it needs: %v %v", call, res.Breach, res.Err)
		}
		if res := do(neuroscript.Limits{Gas: free.Gas - 1}); res.Breach == nil || res.Breach.Meter != neuroscript.MeterGas || res.Gas != free.Gas-1 {
			t.Errorf("%s: one gas less gives %v", call, res.Breach)
		}
		if res := do(neuroscript.Limits{Alloc: free.Alloc - 1}); res.Breach == nil || res.Breach.Meter != neuroscript.MeterAlloc {
			t.Errorf("%s: one byte less gives %v", call, res.Breach)
		}
	}
}

func TestValueLimitCutsExactly(t *testing.T) {
	set := standardSet(t)
	line := `set x = tool.str.Replace("aaaa", "a", "bbbb")` // 16 + 16 bytes
	for limit, want := range map[int64]string{32: "", 31: "ERR_QUOTA/VALUE"} {
		out, res := run(t, set.Bind(Binding{}), line, neuroscript.Env{Limits: neuroscript.Limits{Value: limit}})
		if got := outcome(out, res); got != want {
			t.Errorf("limit %d: got %q", limit, got)
		}
	}
}

func TestSortPaysForItself(t *testing.T) {
	set := standardSet(t)
	gas := func(call string) int64 {
		_, res := run(t, set.Bind(Binding{}), "set l = [1,2,3,4,5,6,7,8]\nset x = tool."+call, neuroscript.Env{})
		if res.Err != nil || res.Breach != nil {
			t.Fatal(res.Err, res.Breach)
		}
		return res.Gas
	}
	// 8 elements: 8·⌈log2 9⌉ = 32 above a tool of the same arguments and result.
	if d := gas("list.Sort(l)") - gas("list.Reverse(l)"); d != 32 {
		t.Errorf("sorting 8 elements costs %d more than reversing them", d)
	}
}

// TestHugeResultsAreNotMade asks for results between gigabytes and exabytes and
// looks at what was allocated meanwhile.
func TestHugeResultsAreNotMade(t *testing.T) {
	set := standardSet(t)
	big := strings.Repeat("a", 4<<20)
	parts := make([]neuroscript.Value, 1000)
	for i := range parts {
		parts[i] = neuroscript.String("x")
	}
	data := neuroscript.Map(map[string]neuroscript.Value{
		"big":   neuroscript.String(big),
		"parts": neuroscript.List(parts),
		"brack": neuroscript.String("[" + strings.Repeat("[],", 1<<20) + "0]"),
		"ctl":   neuroscript.String(strings.Repeat("\x01", 4<<20)),
	})
	wide := neuroscript.Limits{Gas: math.MaxInt64, Alloc: math.MaxInt64}
	for _, c := range []struct {
		call, want string
		limits     neuroscript.Limits
	}{
		{`str.Replace(userdata.big, "a", userdata.big)`, "ERR_QUOTA/GAS", neuroscript.Limits{}},
		{`str.Replace(userdata.big, "a", userdata.big)`, "ERR_QUOTA/VALUE", wide},
		{`str.Replace(userdata.big, "", userdata.big)`, "ERR_QUOTA/ALLOC", neuroscript.Limits{Gas: math.MaxInt64}},
		{`str.Join(userdata.parts, userdata.big)`, "ERR_QUOTA/GAS", neuroscript.Limits{}},
		{`str.Join(userdata.parts, userdata.big)`, "ERR_QUOTA/VALUE", wide},
		{`str.Split(userdata.big, "")`, "ERR_QUOTA/VALUE", wide},
		{`str.Split(userdata.big, "a")`, "ERR_QUOTA/ALLOC", neuroscript.Limits{Gas: math.MaxInt64, Alloc: 1 << 20}},
		{`str.ToJsonString(userdata.ctl)`, "ERR_QUOTA/VALUE", wide},
		{`str.ParseJsonString(userdata.brack)`, "ERR_QUOTA/ALLOC", neuroscript.Limits{Gas: math.MaxInt64, Alloc: 1 << 20}},
		{`list.Sort(userdata.parts)`, "ERR_QUOTA/GAS", neuroscript.Limits{Gas: 1000}},
		{`list.Append(userdata.parts, 1)`, "ERR_QUOTA/ALLOC", neuroscript.Limits{Alloc: 1000}},
		{`str.ToUpper(userdata.big)`, "ERR_QUOTA/ALLOC", neuroscript.Limits{Alloc: 1000}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, res := run(t, set.Bind(Binding{}), "set x = tool."+c.call, neuroscript.Env{Userdata: data, Limits: c.limits})
		runtime.ReadMemStats(&after)
		if got := outcome(out, res); got != c.want {
			t.Errorf("%s: got %s, want %s", c.call, got, c.want)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
			t.Errorf("%s: %d bytes were allocated", c.call, grown)
		}
	}
}

// FuzzParseJson compares the tool with another strict parser, and its results
// with what is written back.
func FuzzParseJson(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,null,true,false,"\u017c\ud83d\ude00"]}`, `[[[]]]`, ` 0 `, `"\ud800"`, `1e999`, `{"a":1,"a":2}`, `[1,]`, "[" + strings.Repeat("[", 70)} {
		f.Add(s)
	}
	set := standardSet(f)
	p, err := neuroscript.Compile([]byte("command\nset v = tool.str.ParseJsonString(userdata.s)\nset t = tool.str.ToJsonString([v])\nemit t\nemit tool.str.ToJsonString(tool.str.ParseJsonString(t)) == t\nendcommand\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 2000 {
			return // emitted lines end at 8 KiB
		}
		s = strings.ToValidUTF8(s, "?")
		var out []string
		res := p.Run(context.Background(), &neuroscript.Env{
			Userdata: neuroscript.MapOf([]neuroscript.Entry{{Key: "s", Value: neuroscript.String(s)}}),
			Tools:    set.Bind(Binding{}), Emit: func(s string) { out = append(out, s) },
		})
		valid := jsontext.Value(s).IsValid(jsontext.AllowDuplicateNames(true))
		switch {
		case res.Breach != nil:
			t.Fatal(res.Breach)
		case res.Err == nil && (!valid || len(out) != 2 || out[1] != "true"):
			t.Fatalf("%q: accepted, gives %q", s, out)
		case res.Err != nil && res.Err.Code == neuroscript.CodeInvalid:
			if valid && !strings.Contains(res.Err.Message, "out of range") {
				t.Fatalf("%q: refused: %v", s, res.Err)
			}
		case res.Err != nil && res.Err.Code != neuroscript.CodeEvaluation:
			t.Fatalf("%q: %v", s, res.Err)
		}
	})
}

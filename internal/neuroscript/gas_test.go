package neuroscript

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// TestGas holds the meters to §13.2 and §13.3 to the unit. The sum explains the
// gas: s statement, n node, and then the work of each row; alloc is in bytes.
func TestGas(t *testing.T) {
	lib, err := CompileLibrary(Source{"lib", []byte("func id(needs x returns r) means\nreturn x\nendfunc\nfunc two() means\nreturn 1, 2\nendfunc\nfunc none() means\nendfunc\n")})
	if err != nil {
		t.Fatal(err)
	}
	tools := newTestTools()
	tools["test.extra"] = &Tool{Name: "test.Extra", Gas: 1000, Func: func(*Call, []Value) (Value, error) { return String(strings.Repeat("x", 112)), nil }}
	s100 := `"` + strings.Repeat("x", 100) + `"`
	for _, c := range []struct {
		lines string
		sum   string
		gas   int64
		alloc int64
	}{
		{"", "nothing", 0, 0},
		{"set x = 1", "s1 n1", 2, 0},
		{"emit 1", "s1 n1, render 1+⌈1/64⌉", 4, 0},
		{"emit nil", "s1 n1, render 1+0", 3, 0},
		{"emit \"abc\"", "s1 n1, strings are paid too: 1+⌈3/64⌉", 4, 0},
		{"emit " + s100, "s1 n1, 1+⌈100/64⌉", 5, 0},
		{"whisper self, 12", "s1 n2, 1+⌈2/64⌉", 5, 0},
		{"set x = 1 + 2 * 3", "s1 n5", 6, 0},
		{"set x = (1 + 2)", "parentheses are no node: s1 n3", 4, 0},
		{"set x = 1 + 2 + 3 + 4", "s1 n7", 8, 0},
		{"set x = a and b", "short: s1, operator and left operand 2", 3, 0},
		{"set x = 1 and 2 and 0 and 4", "s1, 3 operators, 3 operands", 7, 0},
		{"set x = not -1", "s1 n3", 4, 0},
		{`set x = "a" + 1`, "s1 n3, concat once 1+⌈2/64⌉; alloc 16+2", 6, 18},
		{`set x = "a" + "b" + "c"`, "s1 n5, two concats of 2; alloc 18+19", 10, 37},
		{"set x = " + s100 + " + " + s100, "s1 n3, 1+⌈200/64⌉; alloc 216", 9, 216},
		{`set x = "ab" * 100`, "s1 n3, repeat 1+⌈200/64⌉", 9, 216},
		{`set x = "ab" * 0`, "s1 n3, repeat 1+0", 5, 16},
		{`set x = "5" - 1`, "s1 n3, numeric parse 1+1", 6, 0},
		{`set x = "5" * "6"`, "s1 n3, two numeric parses", 8, 0},
		{`set x = -"5"`, "s1 n2, numeric parse 2", 5, 0},
		{`set x = "a" == "b"`, "s1 n3, compare of 1 byte 2", 6, 0},
		{`set x = "a" < ` + s100, "s1 n3, compare of the shorter length 2", 6, 0},
		{`set x = "5" == 5`, "s1 n3, numeric parse 2", 6, 0},
		{"set x = 1 == nil", "s1 n3", 4, 0},
		{"set x = []", "s1 n1; alloc 24", 2, 24},
		{"set x = [1, 2, 3]", "s1 n4, 3 elements; alloc 24+48", 8, 72},
		{`set x = {"k": 1, "l": 2}`, "s1 n5, 2 elements; alloc 48+2·33", 8, 114},
		{"set x = {1: 2}", "s1 n3, key rendered 1+1, 1 element; alloc 17 for the key, 48+33", 7, 98},
		{"set x = [1, 2] == [1, 2]", "s1 n7, 2+2 elements of literals, 2 compared; alloc 2·56", 14, 112},
		{"set x = [1, 2] == [3, 2]", "the first pair decides: 1 less", 13, 112},
		{`set x = ["a"] == ["a"]`, "s1 n5, 1+1 elements, 1 compared, its text 2; alloc 2·40", 11, 80},
		{"set x = m[0]", "error: s1 n3", 4, -1},
		{"set x = [7][0]", "s1 n4, 1 element; alloc 40", 6, 40},
		{`set x = [7]["0"]`, "s1 n4, 1 element, numeric parse 2", 8, 40},
		{"set x = [[7]][0][0]", "s1, 2 accesses, 2 lists, 7, 2 indices, 1+1 elements; alloc 40+40", 10, 80},
		{`set x = {"k": 1}.k`, "s1, access, map, 2 nodes, 1 element; alloc 81", 6, 81},
		{`set x = {"k": 1}[1]`, "s1, access, map, 3 nodes, 1 element, key rendered 2; alloc 81+17", 9, 98},
		{"set x = len(1)", "s1, call 1+2, argument 1", 5, 0},
		{`set x = len("abc")`, "s1, call 1+2, argument 1", 5, 0},
		{"set x = len(" + s100 + ")", "s1, call 1+2, argument 1, scan of more than 64 bytes 1+⌈100/64⌉", 8, 0},
		{"set x = char(65)", "s1, call 3, argument 1, string of 1 byte 2; alloc 17", 7, 17},
		{"set x = sin(0)", "s1, call 3, argument 1", 5, 0},
		{"set x = typeof 1", "s1 n2", 3, 0},
		{"call is_nil(nil)", "s1, call 3, argument 1", 5, 0},
		{"set x = last", "s1 n1", 2, 0},
		{"set x = ```ab```", "a literal: s1 n1", 2, 0},
		{"set x = ```a{{b}}```", "s1 n1, interpolation 1+⌈1/64⌉; alloc 17", 4, 17},
		{`set x = eval("ab")`, "s1 n2, interpolation 1+1; alloc 18", 5, 18},
		{"set x = " + s100 + " / set x = eval(\"{{x}}\")", "s1 n1, s1 n2, 1+⌈100/64⌉ by the result; alloc 116", 8, 116},
		{"set x = eval(\"{{" + strings.Repeat(" ", 100) + "y}}\")", "s1 n2, 1+⌈105/64⌉ by the text, which is longer; alloc 16", 6, 16},
		{"if 1 / endif", "s1 n1", 2, 0},
		{"if 0 / else if 0 / else / set x = 1 / endif", "s1 n1, else if s1 n1, s1 n1", 6, 0},
		{"while 0 / endwhile", "s1, test 1, n1", 3, 0},
		{"set i = 0 / while i < 3 / set i = i + 1 / endwhile", "2, s1, 4 tests of 1+n3, 3 bodies of s1 n3", 31, 0},
		{"for each x in [1, 2] / endfor", "s1, list n3 +2, snapshot 2, iterations 2; alloc 56", 10, 56},
		{"for each x in [1, 2] / set y = x / endfor", "as before, 2 bodies of 2", 14, 56},
		{`for each x in "ab" / endfor`, "s1 n1, snapshot 2, iterations 2; alloc 2·17", 6, 34},
		{"for each x in nil / endfor", "s1 n1", 2, 0},
		{"set l[0] = 1", "s1 n2, clone at new length 1+⌈1/16⌉; alloc 24+16", 5, 40},
		{"set l[2] = 1", "s1 n2, clone 1+⌈3/16⌉, padding 2; alloc 24+48", 7, 72},
		{"set m.k = 1", "s1 n1, clone 1+⌈1/16⌉; alloc 48+33", 4, 81},
		{"set m.k[0] = 1", "s1 n2, two clones of 2; alloc 81+40", 7, 121},
		{"set l[19] = 1 / set l[3] = 2", "s1 n2, clone 1+2, padding 19; s1 n2, clone 1+2 whatever is copied; alloc 2·(24+320)", 31, 688},
		{"set a, b = [1, 2]", "s1 n3, 2 elements; alloc 56", 6, 56},
		{"set x = must 1", "s1 n1", 2, 0},
		{"call id(1)", "s1, call 1+10, argument 1; return s1 n1", 15, 0},
		{"call two()", "s1, call 11; return s1, n2, 2 elements; alloc 56", 17, 56},
		{"call none()", "s1, call 11", 12, 0},
		{"call tool.test.none()", "s1, call 1+50", 52, 0},
		{"call tool.test.echo(5)", "s1, call 51, argument 1", 53, 0},
		{`call tool.test.echo("abc")`, "s1, call 51, argument 1, (19+19)/64 rounded up 1; result 16+3", 54, 19},
		{"call tool.test.echo(" + s100 + ")", "s1, call 51, argument 1, ⌈232/64⌉; result 116", 57, 116},
		{`call tool.test.add("1", 2)`, "s1, call 51, arguments 2, numeric parse 2", 56, 0},
		{"call tool.test.extra()", "s1, call 51, extra 1000, ⌈128/64⌉; result 128", 1054, 128},
		{"on error do / clear_error / endon / fail \"x\"", "the line on error nothing; s1 n1, handler 1, clear_error s1; alloc 16+1", 4, 17},
		{"on error as e do / clear_error / endon / fail \"x\"", "alloc 17, error 64+1", 4, 82},
		{"on error do / clear_error / endon / set x = 1/0 + 5", "s1, nodes entered: + / 1 0; handler 1, s1; alloc 16+16", 7, 32},
	} {
		p, err := Compile([]byte(program(c.lines)))
		if err != nil {
			t.Errorf("%s: %v", c.lines, err)
			continue
		}
		env := &Env{Library: lib, Tools: tools}
		r := p.Run(context.Background(), env)
		if r.Gas != c.gas || c.alloc >= 0 && r.Alloc != c.alloc {
			t.Errorf("%s\n gas %d, want %d (%s); alloc %d, want %d", c.lines, r.Gas, c.gas, c.sum, r.Alloc, c.alloc)
		}
		checkCutOff(t, p, *env, r)
	}
}

// checkCutOff runs a program that used r again with every smaller limit of gas,
// and with the limits of allocation around its use: it must stop exactly when the
// limit is below the use, and show the limit as used.
func checkCutOff(t *testing.T, p *Program, env Env, r Result) {
	t.Helper()
	run := func(l Limits) Result {
		e := env
		e.Limits = l
		return p.Run(context.Background(), &e)
	}
	for gas := max(1, r.Gas-200); gas <= r.Gas+1; gas++ {
		got := run(Limits{Gas: gas})
		if gas >= r.Gas {
			if got.Breach != nil || got.Gas != r.Gas {
				t.Errorf("gas limit %d of %d: %+v", gas, r.Gas, got)
			}
			continue
		}
		b := got.Breach
		if b == nil || b.Code != messages.ErrQuota || b.Meter != MeterGas || b.Limit != gas || got.Gas != gas || got.Err != nil || b.Line < 1 {
			t.Errorf("gas limit %d of %d: %+v, %v", gas, r.Gas, got, b)
		}
	}
	if r.Alloc > 1 {
		if got := run(Limits{Alloc: r.Alloc}); got.Breach != nil {
			t.Errorf("alloc limit %d: %v", r.Alloc, got.Breach)
		}
		if got := run(Limits{Alloc: r.Alloc - 1}); got.Breach == nil || got.Breach.Meter != MeterAlloc || got.Alloc != r.Alloc-1 {
			t.Errorf("alloc limit %d: %+v", r.Alloc-1, got)
		}
	}
}

// TestGasIsLinear: n times the work costs n times the gas.
func TestGasIsLinear(t *testing.T) {
	use := func(n int) Result {
		return runProgram(t, program(fmt.Sprintf("set i = 0 / while i < %d / set i = i + 1 / set s = \"x\" + i %% 10 / set m.k = s / endwhile", n)), Env{}).Result
	}
	base := use(0)
	one := use(1)
	for _, n := range []int64{10, 100, 1000} {
		r := use(int(n))
		// The map is created in the first round and cloned at the same length later.
		if r.Gas-base.Gas != n*(one.Gas-base.Gas) || r.Alloc != n*one.Alloc {
			t.Errorf("%d rounds: gas %d, alloc %d; one round: %d, %d", n, r.Gas-base.Gas, r.Alloc, one.Gas-base.Gas, one.Alloc)
		}
	}
}

// TestNothingAllocated: what cannot be paid for is not made.
func TestNothingAllocated(t *testing.T) {
	huge := Env{Limits: Limits{Gas: 1 << 50, Alloc: 1 << 50, Value: 1 << 30}}
	for _, c := range []struct {
		lines string
		env   Env
		want  string
	}{
		{`emit "a" * 1e9`, Env{}, "!GAS"},
		{`emit "a" * 1e300`, Env{}, "!GAS"},
		{`emit "a" * 1e300`, huge, "!GAS"},
		{`emit "abc" * 9007199254740992`, huge, "!ALLOC"},
		{`emit "abc" * 1e13`, huge, "!VALUE"},
		{`emit "" * 1e300`, Env{}, ""},
		{"set l[99999] = 1", Env{Limits: Limits{Gas: 1000}}, "!GAS"},
		{"set l[99999] = 1", Env{Limits: Limits{Alloc: 1000}}, "!ALLOC"},
		{"set l[99999] = 1", Env{Limits: Limits{Value: 1000}}, "!VALUE"},
		{`set s = "a" * 30000000`, Env{Limits: Limits{Alloc: 30_000_015}}, "!ALLOC"},
	} {
		p, err := Compile([]byte(program(c.lines)))
		if err != nil {
			t.Fatal(err)
		}
		var r Result
		env := c.env
		bytes := allocatedBy(func() { r = p.Run(context.Background(), &env) })
		if got := brief(outcome{Result: r}); got != c.want || bytes > 16<<10 {
			t.Errorf("%s: %s, want %s; %d bytes", c.lines, got, c.want, bytes)
		}
	}
}

// allocatedBy returns the bytes allocated while f runs, by everyone: an upper bound.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestMeters(t *testing.T) {
	lib, err := CompileLibrary(Source{"lib", []byte("func down(needs n) means\nif n > 0\nreturn down(n - 1)\nendif\nreturn \"bottom\"\nendfunc\n")})
	if err != nil {
		t.Fatal(err)
	}
	tools := newTestTools()
	h := "on error do / clear_error / emit \"handler\" / endon / "
	for _, c := range []struct {
		lines  string
		limits Limits
		want   string
		code   messages.Code
	}{
		{"emit down(63)", Limits{}, "bottom", ""},
		{h + "emit down(64)", Limits{}, "!DEPTH", messages.ErrQuota},
		{"emit down(2)", Limits{Depth: 2}, "!DEPTH", messages.ErrQuota},
		{"emit down(1)", Limits{Depth: 2}, "bottom", ""},
		{"emit down(1)", Limits{Depth: -1}, "!DEPTH", messages.ErrQuota},
		{h + "for each i in [1,2,3] / call tool.test.none() / endfor / emit 1", Limits{Tools: 3}, "1", ""},
		{h + "for each i in [1,2,3] / call tool.test.none() / endfor", Limits{Tools: 2}, "!TOOLS", messages.ErrQuota},
		{"set i = 0 / while i < 256 / set i = i + 1 / call tool.test.none() / endwhile / emit 1 / call tool.test.none()", Limits{}, "1|!TOOLS", messages.ErrQuota},
		{"call tool.test.nope()", Limits{Tools: -1}, "!3", ""},
		{h + "emit 1 / whisper self, 2 / emit 3", Limits{Emits: 3}, "1|3", ""},
		{h + "emit 1 / whisper self, 2 / emit 3", Limits{Emits: 2}, "1|!EMITS", messages.ErrQuota},
		{h + "emit 1 / whisper self, 2", Limits{Emits: 1}, "1|!EMITS", messages.ErrQuota},
		{"emit \"abc\" / emit \"d\"", Limits{Output: 6}, "abc|d", ""},
		{h + "emit \"abc\" / emit \"d\"", Limits{Output: 5}, "abc|!OUTPUT", messages.ErrEnvSize},
		{"whisper self, \"abc\"", Limits{Scratch: 3}, "!OUTPUT", messages.ErrEnvSize},
		{"whisper self, \"abc\" / emit 1", Limits{Scratch: 4, Output: 2}, "1", ""},
		{"emit \"x\" * 8192", Limits{}, strings.Repeat("x", 8192), ""},
		{h + "emit \"x\" * 8193", Limits{}, "!LINE", messages.ErrEnvSize},
		{"emit \"x\" * 5 + \"\\n\" + \"y\" * 5", Limits{Line: 5}, "xxxxx\nyyyyy", ""},
		{"emit \"x\" * 5 + \"\\n\" + \"y\" * 6", Limits{Line: 5}, "!LINE", messages.ErrEnvSize},
		{"emit \"x\\n\" + \"y\" * 9000", Limits{Line: 1 << 30}, "!LINE", messages.ErrEnvSize},
		{"whisper self, \"x\" * 9000 / emit 1", Limits{}, "1", ""},
		{"set s = \"x\" * 524287 / whisper self, s / emit 1", Limits{}, "1", ""},
		{"set s = \"x\" * 524288 / whisper self, s", Limits{Scratch: 1 << 30}, "!OUTPUT", messages.ErrEnvSize},
		{"set s = \"x\" * 84", Limits{Value: 100}, "", ""},
		{"set s = \"x\" * 85", Limits{Value: 100}, "!VALUE", messages.ErrQuota},
		{"set l = [\"xxxxx\", 1]", Limits{Value: 77}, "", ""},
		{"set l = [\"xxxxx\", 1]", Limits{Value: 76}, "!VALUE", messages.ErrQuota},
		{"set m.k = \"xxxxx\"", Limits{Value: 102}, "", ""},
		{"set m.k = \"xxxxx\"", Limits{Value: 101}, "!VALUE", messages.ErrQuota},
		{"set a = [1, 2, 3] / set a[0] = a", Limits{Value: 144}, "", ""},
		{"set a = [1, 2, 3] / set a[0] = a", Limits{Value: 143}, "!VALUE", messages.ErrQuota},
		// One charge that would trip several: gas, alloc, value (§13.6).
		{"set s = \"x\" * 1000", Limits{Gas: 10, Alloc: 10, Value: 10}, "!GAS", messages.ErrQuota},
		{"set s = \"x\" * 1000", Limits{Alloc: 10, Value: 10}, "!ALLOC", messages.ErrQuota},
		// Nothing happens after a breach.
		{h + "emit 1 / set s = \"x\" * 1000 / emit 2", Limits{Alloc: 10}, "1|!ALLOC", messages.ErrQuota},
		{"on error do / set s = \"x\" * 1000 / emit 2 / endon / emit 1 / fail", Limits{Alloc: 100}, "1|!ALLOC", messages.ErrQuota},
	} {
		out := runProgram(t, program(c.lines), Env{Limits: c.limits, Tools: tools, Library: lib})
		if got := brief(out); got != c.want {
			t.Errorf("%s %+v\n got %.60s\nwant %.60s", c.lines, c.limits, got, c.want)
		}
		if c.code != "" && (out.Breach == nil || out.Breach.Code != c.code || out.Breach.Line < 2) {
			t.Errorf("%s: %v", c.lines, out.Breach)
		}
		if out.OutputBytes != int64(len(strings.Join(out.Emits, "\n")))+min(1, int64(len(out.Emits))) {
			t.Errorf("%s: %d bytes of output", c.lines, out.OutputBytes)
		}
	}
}

// TestBreachPlace: also from inside a library function, the place is the program's.
func TestBreachPlace(t *testing.T) {
	lib, err := CompileLibrary(Source{"lib", []byte("\n\n\n\n\nfunc spin() means\nwhile true\nendwhile\nendfunc\nfunc bad() means\nfail \"x\"\nendfunc")})
	if err != nil {
		t.Fatal(err)
	}
	out := runProgram(t, program("emit 1 /   call spin()"), Env{Library: lib})
	if b := out.Breach; b == nil || b.Line != 3 || b.Col != 8 || b.Error() != "line 3:8: ERR_QUOTA/GAS: limit 1000000" {
		t.Errorf("%v", out.Breach)
	}
	out = runProgram(t, program("emit 1 /   emit 2 + bad()"), Env{Library: lib})
	if e := out.Err; e == nil || e.Line != 3 || e.Col != 12 || e.Error() != "line 3:12: code 1: x" {
		t.Errorf("%v", out.Err)
	}
}

// TestDeepest runs the deepest recursion the limits allow: library calls, each
// inside blocks, brackets and operators nested to the limit.
func TestDeepest(t *testing.T) {
	var b strings.Builder
	b.WriteString("func f(needs n) means\nif n < 1\nreturn 0\nendif\n")
	b.WriteString(strings.Repeat("if true\n", 99))
	b.WriteString("return " + strings.Repeat("1 + 1 * (", 99) + "f(n - 1)" + strings.Repeat(")", 99) + "\n")
	b.WriteString(strings.Repeat("endif\n", 99) + "endfunc\n")
	lib, err := CompileLibrary(Source{"deep", []byte(b.String())})
	if err != nil {
		t.Fatal(err)
	}
	out := runProgram(t, program("emit f(255)"), Env{Library: lib, Limits: Limits{Depth: 1 << 40}})
	if brief(out) != "25245" {
		t.Errorf("%s", brief(out))
	}
	out = runProgram(t, program("emit f(256)"), Env{Library: lib, Limits: Limits{Depth: 1 << 40}})
	if brief(out) != "!DEPTH" {
		t.Errorf("%s", brief(out))
	}
}

// TestLongChains: length is not depth.
func TestLongChains(t *testing.T) {
	checkAll(t, Env{}, []example{
		{"emit 0" + strings.Repeat(" + 1", 40_000), "40000"},
		{"emit 0" + strings.Repeat(" or 0", 40_000), "false"},
		{"set x = 0 / if 0" + strings.Repeat(" / else if 0", 20_000) + " / else / emit 1 / endif", "1"},
		{"emit x" + strings.Repeat(".a", 30_000), "!7"},
		{"set x" + strings.Repeat(".a", 30_000) + " = 1", "!17"},
		{"set v = 0 / set i = 0 / while i < 64 / set v = [v] / set i = i + 1 / endwhile / emit len(v) / set v = [v]", "1|!17"},
		{"set v = 0 / set i = 0 / while i < 64 / set v = {\"k\": v} / set i = i + 1 / endwhile / emit len(v) / set w = [1, v]", "1|!17"},
		// The depth of a container falls again when its deepest member goes.
		{"set d = 0 / set i = 0 / while i < 63 / set d = [d] / set i = i + 1 / endwhile / set v = [d, 1] / set v[0] = 2 / set v = [v] / emit v", "[[2, 1]]"},
		{"set d = 0 / set i = 0 / while i < 63 / set d = [d] / set i = i + 1 / endwhile / set m.a = d / set m.b = 1 / set m.a = 2 / set v = [m] / emit v", `[{"a": 2, "b": 1}]`},
		{"set d = 0 / set i = 0 / while i < 63 / set d = [d] / set i = i + 1 / endwhile / set v = [d, d] / set v[0] = 2 / set v = [v]", "!17"},
		{"on error as e do / clear_error / endon / set i = 0 / fail 0 / while i < 64 / set i = i + 1 / set x = must e / endwhile / emit e.code", "17"},
	})
}

// TestSharedMembers: lists that share their members can be far larger as text than
// in memory. Measuring and comparing them stops when the gas is used up.
func TestSharedMembers(t *testing.T) {
	list, dict := List([]Value{Number(1)}), MapOf(nil)
	for range 60 {
		list = List([]Value{list, list})
		dict = MapOf([]Entry{{"a", dict}, {"b", dict}})
	}
	for _, v := range []Value{list, dict} {
		for _, lines := range []string{"emit userdata", "set x = \"\" + userdata", "set x = ```{{userdata}}```", "set x = eval(\"{{userdata}}\")", "set x = userdata == userdata", "set x = {userdata: 1}"} {
			if got := brief(runProgram(t, program(lines), Env{Userdata: v, Limits: Limits{Gas: 20_000}})); got != "!GAS" {
				t.Errorf("%s: %s", lines, got)
			}
		}
		if got := brief(runProgram(t, program("set x = [userdata]"), Env{Userdata: v})); got != "!VALUE" {
			t.Error(got)
		}
	}
}

func TestCancellation(t *testing.T) {
	spin, err := Compile([]byte(program("on error do / clear_error / endon / while true / endwhile")))
	if err != nil {
		t.Fatal(err)
	}
	past, cancelPast := context.WithTimeout(context.Background(), -1)
	defer cancelPast()
	stopped, stop := context.WithCancel(context.Background())
	stop()
	ours, cancelOurs := context.WithCancelCause(context.Background())
	cancelOurs(fmt.Errorf("session: %w", &messages.Error{Code: messages.ErrTimeout}))
	for ctx, want := range map[context.Context]messages.Code{past: messages.ErrTimeout, stopped: messages.ErrCancelled, ours: messages.ErrTimeout} {
		r := spin.Run(ctx, &Env{})
		if r.Breach == nil || r.Breach.Code != want || r.Breach.Meter != "" || r.Err != nil || r.Gas != 0 {
			t.Errorf("got %+v, want %s", r, want)
		}
	}
	// A context that ends while the program runs is seen within 1,024 units, and
	// directly after the tool that ended it.
	for _, c := range []struct {
		lines string
		most  int64
	}{
		{"call tool.stop() / emit 1", 52},
		{"emit 1 / while true / endwhile", 4 + pollEvery},
		{"call tool.stop() / on error do / emit 2 / clear_error / endon", 52},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		tools := testTools{"stop": {Name: "stop", Func: func(*Call, []Value) (Value, error) { cancel(); return Value{}, ctx.Err() }}}
		env := &Env{Tools: tools, Emit: func(string) { cancel() }}
		p, err := Compile([]byte(program(c.lines)))
		if err != nil {
			t.Fatal(err)
		}
		r := p.Run(ctx, env)
		if r.Breach == nil || r.Breach.Code != messages.ErrCancelled || r.Gas > c.most {
			t.Errorf("%s: %+v", c.lines, r)
		}
	}
	// A tool that charges for its steps is told, too.
	late, cancelLate := context.WithCancel(context.Background())
	charges := 0
	endless := testTools{"endless": {Name: "endless", Func: func(c *Call, _ []Value) (Value, error) {
		cancelLate()
		for {
			charges++
			if err := c.ChargeGas(100); err != nil {
				return Value{}, err
			}
		}
	}}}
	loop, err := Compile([]byte(program("call tool.endless()")))
	if err != nil {
		t.Fatal(err)
	}
	if r := loop.Run(late, &Env{Tools: endless}); r.Breach == nil || r.Breach.Code != messages.ErrCancelled || charges != 11 {
		t.Errorf("%+v after %d charges", r, charges)
	}
	// The program has ended: a late deadline is ignored.
	ctx, cancel := context.WithCancel(context.Background())
	p, err := Compile([]byte(program("emit 1")))
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Run(ctx, &Env{Emit: func(string) { cancel() }}); r.Breach != nil || r.Emits != 1 {
		t.Errorf("%+v", r)
	}
}

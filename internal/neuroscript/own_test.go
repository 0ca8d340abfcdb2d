package neuroscript

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// second is the meters of version 2.
var second = Limits{Rendering: 2}

// TestGasInPlace holds the meters of version 2 to §13.2: what a variable alone holds is
// changed in place, and what another may hold is cloned as in version 1.
func TestGasInPlace(t *testing.T) {
	for _, c := range []struct {
		lines string
		sum   string
		gas   int64
		alloc int64
	}{
		{"set l[0] = 1", "as in version 1: s1 n2, clone 1+1; alloc 24+16", 5, 40},
		{"set l[0] = 1 / set l[0] = 2", "5, s1 n2, in place 1", 9, 40},
		{"set l[0] = 1 / set l[1] = 2", "5, s1 n2, 1, room for 8 1; alloc 40 + 24+8·16", 10, 192},
		{"set l[0] = 1 / set l[1] = 2 / set l[4] = 3", "10, s1 n2, 1, padding 2", 16, 192},
		{"set l[0] = 1 / set l[8] = 2", "5, s1 n2, 1, padding 7, room for 13 1; alloc 40 + 24+13·16", 17, 272},
		{"set m.k = 1 / set m.k = 2", "s1 n1 2, s1 n1 1; alloc 48+33", 7, 81},
		{"set m.k = 1 / set m.a = 2", "4, s1 n1, 1, room for 8 1; alloc 81 + 1 + 48+8·32", 8, 386},
		{"set m.k[0] = 1 / set m.k[0] = 2", "s1 n2 2·2, s1 n2 2·1; alloc 81+40", 12, 121},
		{"set l[0] = 1 / set n = len(l) / set l[0] = 2", "looked into: 5, s1 call 3 n1, 4", 14, 40},
		{"set l[0] = 1 / set n = l[0] / set l[0] = 2", "looked into: 5, s1 n3, 4", 13, 40},
		{"set l[0] = 1 / set n = l / set l[0] = 2", "read as a whole: 5, s1 n1, 5", 12, 80},
		{"set l[0][0] = 1 / set n = l[0] / set l[0][0] = 2", "taken out: s1 n3 4, s1 n3, s1 n3 4; alloc 2·80", 20, 160},
		{"set l[0] = 1 / if l == l / endif / set l[0] = 2", "compared: 5, s1 n3 1, 4", 14, 40},
		// A shallower member in the place of the deepest: the others are looked at.
		{"set l[0] = [1] / set l[0] = 2", "s1 n3 +1 2, s1 n2 1 1; alloc 40+40", 12, 80},
	} {
		p, err := Compile([]byte(program(c.lines)))
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Run(context.Background(), &Env{Limits: second}); r.Gas != c.gas || r.Alloc != c.alloc || r.Err != nil || r.Breach != nil {
			t.Errorf("%s (%s)\n gas %d, want %d; alloc %d, want %d; %v %v", c.lines, c.sum, r.Gas, c.gas, r.Alloc, c.alloc, r.Err, r.Breach)
		}
	}
}

// TestGrows: with the default limits, a list and a map of 10,000 are built in a loop,
// and what an element costs stays the same.
func TestGrows(t *testing.T) {
	for _, c := range []struct {
		name, set string
		limits    Limits
		want      string
		begin     string
	}{
		{"list", "set c[i] = i", second, "10000", ""},
		{"list at its length", "set c[len(c)] = \"row \" + i", second, "10000", ""},
		{"list in a map", "set c.rows[i] = i", second, "1", ""},
		{"map", "set c[\"k\" + i] = i", second, "10000", ""},
		{"map, each key in front", "set c[\"k\" + (20000 - i)] = i", second, "10000", ""},
		{"list by a tool", "set c = tool.append(c, i)", second, "10000", "set c = [] / "},
		{"list by a tool, version 1", "set c = tool.append(c, i)", Limits{Tools: 20000}, "!GAS", "set c = [] / "},
		{"list, version 1", "set c[i] = i", Limits{}, "!ALLOC", ""},
		{"map, version 1", "set c[\"k\" + i] = i", Limits{}, "!ALLOC", ""},
	} {
		out := runProgram(t, program("set i = 0 / "+c.begin+"while i < 10000 / "+c.set+" / set i = i + 1 / endwhile / emit len(c)"), Env{Limits: c.limits, Tools: appendTools})
		if got := brief(out); got != c.want {
			t.Errorf("%s: %s, want %s; gas %d, alloc %d", c.name, got, c.want, out.Gas, out.Alloc)
		}
	}
	use := func(n int) Result {
		return runProgram(t, program(fmt.Sprintf("set i = 0 / while i < %d / set l[i] = i / set i = i + 1 / endwhile", n)), Env{Limits: second}).Result
	}
	if a, b := use(1000), use(10000); b.Gas > 11*a.Gas || b.Alloc > 16*a.Alloc {
		t.Errorf("1,000 elements: gas %d, alloc %d; 10,000: gas %d, alloc %d", a.Gas, a.Alloc, b.Gas, b.Alloc)
	}
}

// appendTools has a tool that appends; its function counts as version 1 does.
var appendTools = testTools{"append": {
	Name: "append", Params: []Param{{Name: "list", Type: "list"}, {Name: "x", Type: "any"}}, Uncounted: true, Appends: true,
	Func: func(_ *Call, a []Value) (Value, error) {
		l, _ := a[0].AsList()
		return List(append(append([]Value(nil), l...), a[1])), nil
	},
}}

// TestAppended: a list that was appended to stays what it was, whatever becomes of the
// longer ones.
func TestAppended(t *testing.T) {
	for _, x := range []example{
		{"set a = tool.append([], 1) / set b = tool.append(a, 2) / set c = tool.append(a, 3) / emit a / emit b / emit c", "[1]|[1, 2]|[1, 3]"},
		{"set a = tool.append([], 1) / set b = tool.append(a, 2) / set b[0] = 9 / set a = tool.append(a, 3) / emit a / emit b", "[1, 3]|[9, 2]"},
		{"set a[0] = 1 / set b = tool.append(a, 2) / set a[1] = 7 / emit a / emit b / emit last", "[1, 7]|[1, 2]|[1, 2]"},
		{"set a = tool.append([], 1) / set a = tool.append(a, a) / set a = tool.append(a, a) / emit a", "[1, [1], [1, [1]]]"},
		{"set a = tool.append([], 1) / set a[1] = 2 / set a = tool.append(a, 3) / set a[3] = 4 / emit a", "[1, 2, 3, 4]"},
		{"set v = 0 / set i = 0 / while i < 64 / set v = [v] / set i = i + 1 / endwhile / set a = tool.append([], v)", "!17"},
		{"set a = tool.append(1, 2)", "!4"},
	} {
		for _, l := range []Limits{second, {}} {
			if got := brief(runProgram(t, program(x.lines), Env{Tools: appendTools, Limits: l})); got != x.want {
				t.Errorf("%s, version %d: %s, want %s", x.lines, l.Rendering, got, x.want)
			}
		}
	}
	p, err := Compile([]byte(program("set a = tool.append([], 1) / set a = tool.append(a, 2)")))
	if err != nil {
		t.Fatal(err)
	}
	// s1, call 1+50, nodes 2, room for 8 1+1; s1, call 1+50, nodes 2, 1. Alloc: [] 24, 24+8·16, 24.
	if r := p.Run(context.Background(), &Env{Tools: appendTools, Limits: second}); r.Gas != 111 || r.Alloc != 200 || r.ToolCalls != 2 {
		t.Errorf("%+v", r)
	}
	// A list that a tool keeps belongs to no run.
	kept := Value{}
	keep := testTools{
		"append": appendTools["append"], "keep": {Name: "keep", Params: []Param{{Name: "l", Type: "list"}}, Func: func(_ *Call, a []Value) (Value, error) { kept = a[0]; return a[0], nil }},
		"kept": {Name: "kept", Func: func(*Call, []Value) (Value, error) { return kept, nil }},
	}
	runProgram(t, program("set a = tool.append([], 1) / call tool.keep(a)"), Env{Tools: keep, Limits: second})
	for _, n := range []string{"2", "3"} {
		if got := brief(runProgram(t, program("emit tool.append(tool.kept(), "+n+")"), Env{Tools: keep, Limits: second})); got != "[1, "+n+"]" {
			t.Error(got)
		}
	}
}

// TestHeldTwice: no other holder of a container sees it change.
func TestHeldTwice(t *testing.T) {
	lib, err := CompileLibrary(Source{"lib", []byte("func put(needs l) means\nset l[0] = 9\nreturn l\nendfunc\nfunc same(needs l) means\nreturn l\nendfunc\n")})
	if err != nil {
		t.Fatal(err)
	}
	env := Env{Limits: second, Library: lib, Tools: newTestTools()}
	const begin = "set a[0] = 1 / set a[1] = 2 / "
	checkAll(t, env, []example{
		{begin + "set b = a / set b[0] = 9 / set a[1] = 8 / emit a / emit b", "[1, 8]|[9, 2]"},
		{begin + "set b = a / set a[0] = 9 / emit a / emit b", "[9, 2]|[1, 2]"},
		{begin + "set b = [a, a] / set b[0][0] = 9 / set a[1] = 8 / emit a / emit b", "[1, 8]|[[9, 2], [1, 2]]"},
		{begin + "set a[2] = a / set a[2][0] = 9 / set a[0] = 7 / emit a", "[7, 2, [9, 2]]"},
		{begin + "set b.x = a / set c = b.x / set b.x[0] = 9 / emit c / emit a / emit b", "[1, 2]|[1, 2]|{\"x\": [9, 2]}"},
		{"set b.x[0] = 1 / set c = b.x / set b.x[0] = 9 / emit c / emit b", "[1]|{\"x\": [9]}"},
		{"set b.x[0] = 1 / set c = b[\"x\"] / set c[0] = 9 / emit c / emit b", "[9]|{\"x\": [1]}"},
		{"set b.x.y[0] = 1 / set c = b.x.y / set b.x.y[0] = 9 / emit c / emit b", "[1]|{\"x\": {\"y\": [9]}}"},
		{begin + "for each x in a / set a[len(a)] = x / endfor / emit a", "[1, 2, 1, 2]"},
		{"set a[0][0] = 1 / for each x in a / set x[0] = 9 / emit x / endfor / emit a", "[9]|[[1]]"},
		{begin + "set b = put(a) / set a[1] = 8 / emit a / emit b", "[1, 8]|[9, 2]"},
		{begin + "set b = same(a) / set a[0] = 8 / emit b", "[1, 2]"},
		{begin + "set b = tool.test.echo(a) / set a[0] = 8 / emit b / emit last", "[1, 2]|[1, 2]"},
		{begin + "set b, c = [a, a] / set b[0] = 9 / set a[0] = 8 / emit a / emit b / emit c", "[8, 2]|[9, 2]|[1, 2]"},
		{begin + "on error as e do / set a[0] = 9 / emit e.details / clear_error / endon / fail {\"code\": 5, \"message\": \"m\", \"details\": a}", "[1, 2]"},
		{"set m.b = 2 / set m.a = 1 / set n = m / set m.c = 3 / set n.d = 4 / emit m / emit n", `{"a": 1, "b": 2, "c": 3}|{"a": 1, "b": 2, "d": 4}`},
		// What could not be paid for was not done.
		{"set a[0] = 1 / on error do / clear_error / endon / set a[200000] = 1 / emit a", "[1]"},
	})
}

// TestVersionsAgree runs random programs under the meters of both versions: what they
// say is the same, whatever they share and change.
func TestVersionsAgree(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	g := &generator{r: rand.New(rand.NewSource(seed))}
	same := 0
	for range 4000 {
		var b strings.Builder
		b.WriteString("command\nset a[0] = [1]\nset b.k = a\nset c = b\n")
		for range 4 {
			g.block(&b, 0, false, true)
		}
		b.WriteString("emit a\nemit b\nemit c\nemit x\nendcommand\n")
		p, err := Compile([]byte(strings.ReplaceAll(b.String(), "clear_error\n", "")))
		if err != nil {
			continue // a second handler in a block
		}
		run := func(rendering int64) (Result, []string) {
			var texts []string
			l := Limits{Gas: 50_000, Rendering: rendering}
			r := p.Run(context.Background(), &Env{
				Limits: l, Tools: newTestTools(), Library: fuzzLibrary, Emit: func(s string) { texts = append(texts, s) },
			})
			return r, texts
		}
		one, said := run(1)
		two, again := run(2)
		if one.Breach != nil || two.Breach != nil {
			continue
		}
		same++
		if !slices.Equal(said, again) || fmt.Sprint(one.Err) != fmt.Sprint(two.Err) {
			t.Fatalf("seed %d: version 1 says %q, %v; version 2 says %q, %v\n%s", seed, said, one.Err, again, two.Err, b.String())
		}
	}
	if same < 100 {
		t.Errorf("%d programs compared", same)
	}
}

// TestCallsOf2: pure tools do not count any more, and the others may be called 4,096 times.
func TestCallsOf2(t *testing.T) {
	free := newTestTools()["test.none"]
	pure := *free
	pure.Uncounted = true
	tools := testTools{"free": &pure, "paid": free}
	loop := func(n int, call string) string {
		return fmt.Sprintf("set i = 0 / while i < %d / set i = i + 1 / call tool.%s() / endwhile / emit 1", n, call)
	}
	for _, c := range []struct {
		lines  string
		limits Limits
		want   string
	}{
		{loop(5000, "free"), second, "1"},
		{loop(5000, "free"), Limits{}, "!TOOLS"},
		{loop(4096, "paid"), second, "1"},
		{loop(4097, "paid"), second, "!TOOLS"},
		{loop(3, "paid"), Limits{Rendering: 2, Tools: 2}, "!TOOLS"},
		{loop(300, "free") + " / call tool.paid()", Limits{Rendering: 2, Tools: 1}, "1"},
		{"while true / call tool.free() / endwhile", second, "!GAS"},
	} {
		if got := brief(runProgram(t, program(c.lines), Env{Tools: tools, Limits: c.limits})); got != c.want {
			t.Errorf("%s %+v: %s, want %s", c.lines, c.limits, got, c.want)
		}
	}
}

package neuroscript

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// fuzzLimits are small, so that every meter is met.
var fuzzLimits = Limits{Gas: 5000, Alloc: 50_000, Value: 5000, Depth: 8, Tools: 10, Emits: 20, Output: 500, Scratch: 200, Line: 100}

var fuzzLibrary = func() *Library {
	lib, err := CompileLibrary(Source{"fuzz", []byte("func f(needs x optional y) means\non error as e do\nclear_error\nendon\nif x\nreturn f(x - 1, y)\nendif\nset z[x] = y\nreturn z\nendfunc\nfunc g(needs x) means\non error do\nreturn 1\nendon\nmust x\nreturn x, last\nendfunc\n")})
	if err != nil {
		panic(err)
	}
	return lib
}()

// checkRun runs a program twice under small limits: no panic, no meter above its
// limit, both runs alike.
func checkRun(t *testing.T, src []byte) {
	p, err := Compile(src)
	if err != nil {
		if messages.CodeOf(err) != messages.ErrActionsParse {
			t.Fatal(err)
		}
		return
	}
	run := func() (Result, []string) {
		var texts []string
		r := p.Run(context.Background(), &Env{
			SID: "t:u:s", TurnIndex: 2, Limits: fuzzLimits, Tools: newTestTools(), Library: fuzzLibrary,
			Userdata: Map(map[string]Value{"fields": Map(map[string]Value{"l": List([]Value{Number(1), String("a")})})}),
			Emit:     func(s string) { texts = append(texts, s) }, Whisper: func(to, s string) { texts = append(texts, to, s) },
		})
		return r, texts
	}
	a, texts := run()
	l := fuzzLimits
	if a.Gas < 0 || a.Gas > l.Gas || a.Alloc > l.Alloc || a.ToolCalls > l.Tools || a.Emits > l.Emits || a.OutputBytes > l.Output || a.ScratchBytes > l.Scratch {
		t.Fatalf("a meter is above its limit: %+v", a)
	}
	if a.Err != nil && (a.Breach != nil || a.Err.Line < 1) || a.Breach != nil && (a.Breach.Line < 1 || a.Breach.Code == messages.ErrQuota == (a.Breach.Meter == MeterLine || a.Breach.Meter == MeterOutput)) {
		t.Fatalf("%+v %v %v", a, a.Err, a.Breach)
	}
	if a.Breach != nil && (a.Breach.Meter == MeterGas && a.Gas != l.Gas || a.Breach.Meter == MeterAlloc && a.Alloc != l.Alloc) {
		t.Fatalf("a breach that does not show its limit as used: %+v", a)
	}
	b, again := run()
	if !slices.Equal(texts, again) || fmt.Sprint(a.Err, a.Breach) != fmt.Sprint(b.Err, b.Breach) || a.Gas != b.Gas || a.Alloc != b.Alloc {
		t.Fatalf("two runs differ: %+v %q, %+v %q", a, texts, b, again)
	}
}

func FuzzRun(f *testing.F) {
	for _, s := range []string{
		"emit 1", "while 1 / set s = s + \"ab\" / endwhile", "on error as e do / emit e / clear_error / endon / set a.b[2] = 1/0 / emit f(3, self)", "for each x in userdata.fields.l / emit x * 3 / endfor",
		"emit tool.test.echo({\"a\": [1, nil]}) / emit ```{{last}} {{x}}``` / emit eval(\"{{sid}}\")", "set m = {1: [2]} / set m[1][5] = m / emit m == m / whisper self, len(m)", "emit \"a\" * 1e9",
	} {
		f.Add([]byte(program(s)))
	}
	f.Fuzz(checkRun)
}

// TestRandomPrograms makes programs that parse, which random bytes seldom do.
func TestRandomPrograms(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	g := &generator{r: rand.New(rand.NewSource(seed))}
	for range 4000 {
		var b strings.Builder
		b.WriteString("command\n")
		g.block(&b, 0, false, false)
		b.WriteString("endcommand\n")
		if _, err := Compile([]byte(b.String())); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, b.String())
		}
		checkRun(t, []byte(b.String()))
	}
}

// generator writes random programs without syntax errors.
type generator struct{ r *rand.Rand }

func (g *generator) pick(s ...string) string { return s[g.r.Intn(len(s))] }

func (g *generator) block(b *strings.Builder, depth int, loop, handler bool) {
	if g.r.Intn(3) == 0 && depth < 4 {
		b.WriteString("on error as e do\n")
		g.block(b, depth+1, loop, true)
		if g.r.Intn(2) == 0 {
			b.WriteString("clear_error\n")
		}
		b.WriteString("endon\n")
	}
	for range g.r.Intn(5) {
		g.stmt(b, depth, loop, handler)
	}
}

func (g *generator) stmt(b *strings.Builder, depth int, loop, handler bool) {
	n := g.r.Intn(14)
	if depth > 3 && n < 3 {
		n = 5
	}
	switch n {
	case 0:
		b.WriteString("if " + g.expr(0) + "\n")
		g.block(b, depth+1, loop, handler)
		if g.r.Intn(2) == 0 {
			b.WriteString("else if " + g.expr(0) + "\n")
			g.block(b, depth+1, loop, handler)
			b.WriteString("else\n")
			g.block(b, depth+1, loop, handler)
		}
		b.WriteString("endif\n")
	case 1:
		b.WriteString("while " + g.expr(0) + "\n")
		g.block(b, depth+1, true, handler)
		b.WriteString("endwhile\n")
	case 2:
		b.WriteString("for each x in " + g.expr(0) + "\n")
		g.block(b, depth+1, true, handler)
		b.WriteString("endfor\n")
	case 3:
		b.WriteString("emit " + g.expr(0) + "\n")
	case 4:
		b.WriteString("whisper " + g.expr(2) + ", " + g.expr(0) + "\n")
	case 5, 6, 7:
		b.WriteString("set " + g.target() + " = " + g.pick("", "", "must ") + g.expr(0) + "\n")
	case 8:
		b.WriteString("set " + g.target() + ", " + g.target() + " = " + g.expr(0) + "\n")
	case 9:
		b.WriteString("must " + g.expr(0) + "\n")
	case 10:
		b.WriteString("fail " + g.expr(1) + "\n")
	case 11:
		b.WriteString("call " + g.call(0) + "\n")
	case 12:
		if loop {
			b.WriteString(g.pick("break\n", "continue\n"))
		}
	case 13:
		if handler {
			b.WriteString("clear_error\n")
		}
	}
}

func (g *generator) target() string {
	s := g.pick("a", "b", "c", "x")
	for g.r.Intn(3) == 0 {
		s += g.pick(".k", ".v", "[0]", "[2]", "["+g.expr(2)+"]")
	}
	return s
}

func (g *generator) call(depth int) string {
	return g.pick("len", "is_error", "char", "ord", "sin", "f", "g", "tool.test.echo", "tool.test.add", "tool.test.boom", "tool.test.pair", "tool.test.push", "tool.no.such") +
		"(" + g.pick("", g.expr(depth+1), g.expr(depth+1), g.expr(depth+1)+", "+g.expr(depth+1)) + ")"
}

func (g *generator) expr(depth int) string {
	n := g.r.Intn(16)
	if depth > 2 {
		n = g.r.Intn(6)
	}
	switch n {
	case 0, 1:
		return g.pick("a", "b", "c", "x", "last", "e", "userdata", "self", "system_error_message")
	case 2, 3:
		return g.pick("0", "1", "2", "3.5", "1e9", "1e308", "100")
	case 4:
		return g.pick(`"a"`, `"5"`, `""`, "```{{a}}{{last}}```", "'x y'", `"{{b}}"`)
	case 5:
		return g.pick("nil", "true", "false", "[]", "{}")
	case 6, 7, 8, 9:
		return "(" + g.expr(depth+1) + " " + g.pick("+", "-", "*", "/", "%", "**", "==", "!=", "<", ">=", "&", "|", "^", "and", "or", "+", "*") + " " + g.expr(depth+1) + ")"
	case 10:
		return "(" + g.pick("- ", "not ", "~", "some ", "typeof ") + g.expr(depth+1) + ")"
	case 11:
		return "[" + g.expr(depth+1) + ", " + g.expr(depth+1) + "]"
	case 12:
		return "{" + g.expr(depth+1) + ": " + g.expr(depth+1) + "}"
	case 13:
		return g.pick("a", "b", "("+g.expr(depth+1)+")") + g.pick("[0]", ".k", "["+g.expr(depth+1)+"]", ".code")
	case 14:
		return g.call(depth)
	default:
		return "eval(" + g.expr(depth+1) + ")"
	}
}

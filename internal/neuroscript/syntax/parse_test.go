package syntax

import (
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// in puts statement lines into a program; the first is line 2.
func in(lines ...string) string {
	return "command\n" + strings.Join(lines, "\n") + "\nendcommand\n"
}

func refusal(t testing.TB, src string) *messages.Error {
	t.Helper()
	_, err := Parse([]byte(src))
	if err == nil {
		return nil
	}
	var e *messages.Error
	if !errors.As(err, &e) || e.Code != messages.ErrActionsParse {
		t.Fatalf("not a parse error: %v", err)
	}
	if e.Line < 1 || e.Col < 1 || !e.HasOffset || e.Offset < 0 || e.Offset > int64(len(src)) || e.Detail == "" {
		t.Fatalf("place or words are missing: %+v", e)
	}
	return e
}

func TestAccepted(t *testing.T) {
	for _, src := range []string{
		"command\nendcommand",
		"\n# c\n-- c\n// c\n:: title: x\n\ncommand # c\n\n:: k\n# c\n emit 1 -- c\nendcommand # c\n# end",
		"command\r\nemit 1\r\nendcommand\r\n", "command\remit 1\rendcommand\r",
		in(`set a.b[1].if["x"] = 1`), in("set a, b.c, d[0] = [1, 2, 3]"), in("set x = must f(1)"),
		in("call f()"), in("call len(1,)"), in("call tool.error.new(1)"), in("call tool . str . ToUpper (1)"),
		in("call tool.x()"), in("mustbe is_nil(1)"), in("must 1"), in("fail"), in("fail 1"), in("whisper self, 1"),
		in("if 1", "else if 2", "", "else if 3", "emit 1", "else", "endif"),
		in("if 1", "else", "if 2", "endif", "endif"),
		in("while 1", "break", "continue", "endwhile"), in("for each x in y", "endfor"),
		in("on error do", "clear_error", "endon"), in("on error as e do", "on error do", "clear_error", "endon", "endon"),
		in("while 1", "on error do", "clear_error", "break", "endon", "endwhile"),
		in("if 1", "on error do", "endon", "else", "on error do", "endon", "endif"),
		in("emit (1 +", "# c", "2)"), in("emit [", "1,", "2,", "]"), in("emit {", `"a": 1,`, "}"), in("emit f(", "1", ")"),
		in("emit 1 + \\", "2"), in("emit []"), in("emit {}"), in("emit [[1,2],[3,4]]"), in("emit [1,]"), in(`emit {1: 2,}`),
		in("emit -2 ** -2 ** - -2"), in("emit not no some typeof ~ - 1"), in("emit typeof(x)"), in("emit eval(x)"),
		in("emit last[0]"), in("emit x.tool.command"), in("emit 5.e3"), in("emit 007"), in("emit 1e-999"), in("emit 1E+5"),
		in(`emit "\"\'\\\b\t\n\f\r\v\~` + "\\`" + `\x41\u00e9\uD83D\uDE00\101\377"`), in("emit \"a\\\nb\""), in("emit 'a\\\nb'"),
		in(`emit 'a\tb\'c'`), in("emit '''a'b''c\n\\'''"), in("emit ```a`b``c\n\\```"), in("emit ''"), in("emit ''''''"),
		in("emit \"\u0001\u00a0\uFEFF\""), in("emit 5 --3"), in("emit x // y"), in("set emitx = 1"),
		in("set LAST = 1", "set Nil = 2", "set is_nil = 3", "set char = 4"),
		in("emit (((1)))"), in("emit a and b or c | d ^ e & f == g < h + i * j"),
		"command\nemit 1\nendcommand\n\n# x\n\t \n",
		in("emit " + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200)),
		in("emit " + strings.Repeat("not ", 200) + "1"),
		in("emit 1" + strings.Repeat(" + 1", 20_000)), in("emit 1" + strings.Repeat(" ** 1", 200)),
		in("emit x" + strings.Repeat(".a", 20_000)), in("if 1" + strings.Repeat("\nelse if 1", 10_000) + "\nendif"),
		in("set " + strings.Repeat("a, ", 63) + "a = l"), in("emit [" + strings.Repeat("1,", 10_000) + "]"),
		in("emit {" + strings.Repeat("1:1,", 10_000) + "}"), in("set " + strings.Repeat("a", 128) + " = 1"),
		in(strings.Repeat("if 1\n", 200) + strings.Repeat("endif\n", 200)),
		in("emit { {1:2}: 3}"), in("emit {{1:2}: 3}"),
	} {
		if e := refusal(t, src); e != nil {
			t.Errorf("%.120q: %v", src, e)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		src    string
		place  string // line:col
		detail string // part of it
	}{
		// Places.
		{"", "1:1", "one command"},
		{"# only\n", "2:1", "one command"},
		{"emit 1\n", "1:1", "expected `command`"},
		{"COMMAND\nendcommand", "1:1", "lower-case"},
		{"command emit 1 endcommand", "1:9", "line end after command"},
		{"command\nemit 1", "2:7", "endcommand"},
		{"command\nemit 1\n", "3:1", "`endcommand` for the `command` of line 1"},
		{"command", "1:8", "line end"},
		{"command\nendcommand x", "2:12", "line end after endcommand"},
		{"command\nendcommand\nx", "3:1", "nothing after endcommand"},
		{"command\nendcommand\n:: a: b", "3:1", "nothing after endcommand"},
		{"command\nendcommand\ncommand\nendcommand\n", "3:1", "exactly one command block"},
		{"func f() means\nendfunc\n", "1:1", "`func` is not allowed"},
		{"command\nendcommand\nfunc f() means\nendfunc\n", "3:1", "`func` is not allowed"},
		{"on error do\nendon\n", "1:1", "outside the command block"},
		{"command\n\xffemit", "2:1", "UTF-8"},
		{"command\nemit 'a\x00'\nendcommand", "2:8", "NUL"},
		{"\uFEFFcommand\nendcommand", "1:1", "byte order mark"},
		{"command\r\nemit 1\r\nx\r\nendcommand", "3:1", "begins no statement"},
		{"command\remit 1\rx\rendcommand", "3:1", "begins no statement"},
		{in("emit '''a", "b''' x"), "3:6", "line end"},
		{in("emit \"a\\", "b\" x"), "3:4", "line end"},
		{in("emit 1 \\", " + x y"), "3:6", "line end"},
		{in("emit é"), "2:6", "unexpected character 'é'"},
		// Lexical rules.
		{in("emit 1\u00a0+ 1"), "2:7", "no-break space"},
		{in("emit \u0007"), "2:6", "control character"},
		{in("emit 1; emit 2"), "2:7", "no ;"},
		{in("emit “a”"), "2:6", "no quote"},
		{in("emit $x"), "2:6", "no $"},
		{in("emit \\ 1"), "2:6", "backslash"},
		{in("emit .5"), "2:6", "digit before the point"},
		{in("emit 5."), "2:8", "name after the point"},
		{in("emit 0x10"), "2:7", "decimal"},
		{in("emit 1_000"), "2:7", "decimal"},
		{in("emit 1e"), "2:7", "decimal"},
		{in("emit 1e999"), "2:6", "too large"},
		{in("emit `a`"), "2:6", "three backticks"},
		{in(`emit "a`), "2:6", "not closed"},
		{in(`emit 'a\\'`), "2:6", "not closed"},
		{in("emit '''a"), "2:6", "not closed"},
		{in("emit ```a"), "2:6", "not closed"},
		{in("emit 'a", "b'"), "2:6", "not closed"},
		{in(`emit "\q"`), "2:7", `unknown escape \q`},
		{in(`emit "\x4"`), "2:7", "two hexadecimal"},
		{in(`emit "\u12G4"`), "2:7", "four hexadecimal"},
		{in(`emit "\12"`), "2:7", "three digits"},
		{in(`emit "\400"`), "2:7", `\377`},
		{in(`emit "\8"`), "2:7", "unknown escape"},
		{in(`emit "\uD83D"`), "2:7", "lone surrogate"},
		{in(`emit "\uDE00"`), "2:7", "lone surrogate"},
		{in(`emit "\uD83D\u0041"`), "2:7", "lone surrogate"},
		{in(`emit "\` + "\u00e9" + `"`), "2:7", `unknown escape \é`},
		{in("emit 1", ":: a: b"), "3:1", "metadata"},
		{":: : x\ncommand\nendcommand", "1:1", "key is missing"},
		{in("emit 1 :: a: b"), "2:8", "line end"},
		// Words that are not NeuroScript.
		{in("let x = 1"), "2:1", "write `set "},
		{in("emit a && b"), "2:8", "`and`"},
		{in("emit a || b"), "2:8", "`or`"},
		{in("emit !x"), "2:6", "`not x`"},
		{in("if 1", "elif 2", "endif"), "3:1", "`else if`"},
		{in("if 1", "elseif 2", "endif"), "3:1", "`else if`"},
		{in("return 5"), "2:1", "let the block end"},
		{in("ask x"), "2:1", "asking"},
		{in("promptuser x"), "2:1", "asking"},
		{in("func f() means", "endfunc"), "2:1", "`func` is not allowed"},
		{in("on event x do", "endon"), "2:1", "events"},
		{in("clear event x"), "2:1", "events"},
		{in("emit {{x}}"), "2:6", "replaced only inside"},
		{in("emit timedate"), "2:6", "no literals"},
		{in("on error means", "endon"), "2:10", "`on error do"},
		{in(`must x as string`), "2:8", "no `as`"},
		{in("clear_event x"), "2:1", "events"},
		{in("x = 1"), "2:1", "`set x = "},
		{in("x += 1"), "2:1", "`set x = x + "},
		{in("f(1)"), "2:1", "call f"},
		{in("print x"), "2:1", "emit"},
		{in("tool.a.b()"), "2:1", "call alone"},
		{in("EMIT 1"), "2:1", "lower-case: write `emit`"},
		{in("1 + 1"), "2:1", "expression alone"},
		{in(`"a"`), "2:1", "expression alone"},
		{in("foreach x in y"), "2:1", "for each"},
		{in("for x in y", "endfor"), "2:5", "`each`"},
		{in("if x then", "endif"), "2:6", "without `then`"},
		{in("if x {", "}"), "2:6", "no braces"},
		{in("if x:", "endif"), "2:5", "without a colon"},
		{in("while x do", "endwhile"), "2:9", "without `do`"},
		{in("if x = 1", "endif"), "2:6", "write =="},
		{in("emit (x = 1)"), "2:9", "write =="},
		{in("try"), "2:1", "on error"},
		{in("throw 1"), "2:1", "fail"},
		{in("set x == 1"), "2:7", "one ="},
		{in("set x += 1"), "2:7", "no +="},
		{in("emit x.f(1)"), "2:9", "no methods"},
		// Grammar.
		{in("emit"), "2:5", "expression is missing"},
		{in("emit 1 2"), "2:8", "line end"},
		{in("emit + 1"), "2:6", "no unary +"},
		{in("emit 1 +"), "2:9", "missing"},
		{in("emit * 1"), "2:6", "missing before"},
		{in("emit 2 ** not 1"), "2:11", "expected an expression"},
		{in("emit 2 ** ~1"), "2:11", "expected an expression"},
		{in("emit (1"), "3:1", "`)`"},
		{in("emit [1 2]"), "2:9", "`]`"},
		{in("emit {1}"), "2:8", "`:`"},
		{in("emit {1:2 3:4}"), "2:11", "`}`"},
		{in("emit [,]"), "2:7", "expression"},
		{in("emit f(,)"), "2:8", "expression"},
		{in("emit f(1 2)"), "2:10", "`)`"},
		{in("emit x[]"), "2:8", "expression"},
		{in("emit typeof()"), "2:13", "expression"},
		{in("emit typeof(1, 2)"), "2:14", "`)`"},
		{in("emit eval()"), "2:11", "expression"},
		{in("emit eval(1,2)"), "2:12", "one argument"},
		{in("emit len"), "2:9", "`(` after len"},
		{in("emit tool"), "2:10", "tool.<group>"},
		{in("emit tool.a"), "2:12", "`(`"},
		{in("emit tool.1()"), "2:11", "name"},
		{in("emit last()"), "2:10", "line end"},
		{in("call x"), "2:7", "`(`"},
		{in("call 1"), "2:6", "a call"},
		{in("call f()[0]"), "2:9", "line end"},
		{in("mustbe x"), "2:9", "`(`"},
		{in("whisper 1"), "2:10", "`,`"},
		{in("set = 1"), "2:5", "name"},
		{in("set for = 1"), "2:5", "keyword"},
		{in("set 1 = 1"), "2:5", "name"},
		{in("set x 1"), "2:7", "`=`"},
		{in("set x = "), "2:9", "missing"},
		{in("set f() = 1"), "2:6", "`=`"},
		{in("set a, = [1]"), "2:8", "name"},
		{in("if 1 emit 1 endif"), "2:6", "line end"},
		{in("if 1", "emit 1"), "4:1", "`endif` for the `if` of line 2"},
		{in("endif"), "2:1", "unexpected `endif`"},
		{in("else"), "2:1", "unexpected `else`"},
		{in("if 1", "endwhile"), "3:1", "`endif`"},
		{in("if 1", "else", "else", "endif"), "4:1", "`endif`"},
		{in("while", "endwhile"), "2:6", "missing"},
		{in("for each 1 in x", "endfor"), "2:10", "name"},
		{in("for each x of y", "endfor"), "2:12", "`in`"},
		{in("on error", "endon"), "2:9", "`do`"},
		{in("on x"), "2:4", "`error`"},
		{in("on error as 1 do", "endon"), "2:13", "name"},
		{in("error"), "2:1", "on error"},
		// Static checks (§3.2).
		{in("break"), "2:1", "inside a loop"},
		{in("if 1", "continue", "endif"), "3:1", "inside a loop"},
		{in("on error do", "break", "endon"), "3:1", "inside a loop"},
		{in("clear_error"), "2:1", "inside an error handler"},
		{in("while 1", "endwhile", "break"), "4:1", "inside a loop"},
		{in("on error do", "endon", "emit 1", "on error do", "endon"), "5:1", "second on error"},
		{in("set self = 1"), "2:5", "predefined"},
		{in(`set userdata["x"] = 1`), "2:5", "predefined"},
		{in("set a, sid = [1,2]"), "2:8", "predefined"},
		{in("for each turn_index in x", "endfor"), "2:10", "predefined"},
		{in("on error as self do", "endon"), "2:13", "predefined"},
		// Limits (§13.5).
		{in("emit " + strings.Repeat("(", 201) + "1" + strings.Repeat(")", 201)), "2:206", "200 deep"},
		{in("emit " + strings.Repeat("- ", 201) + "1"), "2:406", "200 deep"},
		{in("emit 1" + strings.Repeat(" ** 1", 201)), "2:1008", "200 deep"},
		{in("emit " + strings.Repeat("f(", 201)), "2:407", "200 deep"},
		{in("emit " + strings.Repeat("x[", 201)), "2:407", "200 deep"},
		{in(strings.Repeat("if 1\n", 201)), "202:5", "200 deep"},
		{in(strings.Repeat("if 1\n", 100) + "emit " + strings.Repeat("[", 101)), "102:106", "200 deep"},
		{in("emit [" + strings.Repeat("1,", 10_001) + "]"), "2:20007", "10000 elements"},
		{in("emit {" + strings.Repeat("1:1,", 10_001) + "}"), "2:40007", "10000 elements"},
		{in("set " + strings.Repeat("a, ", 64) + "a = l"), "2:197", "64 targets"},
		{in("set " + strings.Repeat("a", 129) + " = 1"), "2:5", "128 bytes"},
		{in(strings.Repeat("fail 1\n", 34_000)), "33334:7", "100000 tokens"},
		{strings.Repeat(" ", MaxSourceBytes+1), fmt.Sprintf("1:%d", MaxSourceBytes+1), "524288 bytes"},
	} {
		e := refusal(t, c.src)
		if e == nil {
			t.Errorf("%.100q was accepted", c.src)
			continue
		}
		if place := fmt.Sprintf("%d:%d", e.Line, e.Col); place != c.place || !strings.Contains(e.Detail, c.detail) {
			t.Errorf("%.100q: got %s %q, want %s …%q…", c.src, place, e.Detail, c.place, c.detail)
		}
	}
}

func TestSourceLimitIsInclusive(t *testing.T) {
	src := in("emit 1")
	src += strings.Repeat(" ", MaxSourceBytes-len(src))
	if e := refusal(t, src); e != nil {
		t.Error(e)
	}
}

func TestTokenLimitIsInclusive(t *testing.T) {
	for _, c := range []struct {
		tokens int
		ok     bool
	}{{MaxTokens, true}, {MaxTokens + 1, false}} {
		// command NL … endcommand are 3 tokens, each "fail NL" is 2.
		rest := c.tokens - 3
		src := "command\n" + strings.Repeat("fail\n", rest/2)
		if rest%2 == 1 {
			src += "\n"
		}
		src += "endcommand"
		if e := refusal(t, src); (e == nil) != c.ok {
			t.Errorf("%d tokens: %v", c.tokens, e)
		}
	}
}

func TestMetadata(t *testing.T) {
	tree, err := Parse([]byte(":: title: a: b # cut\n::url: http://x/y--z\n\n\t:: flag\ncommand\n\n:: after : v -- c\nendcommand"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Meta{{"title", "a: b"}, {"url", "http://x/y"}, {"flag", ""}, {"after", "v"}}
	if fmt.Sprint(tree.Meta) != fmt.Sprint(want) {
		t.Errorf("got %q", tree.Meta)
	}
}

func TestStrings(t *testing.T) {
	for _, c := range [][2]string{
		{`"a\tb\n\"\'\\\~"`, "a\tb\n\"'\\~"},
		{`"\x41\xe9\xff"`, "Aéÿ"},
		{`"\101\377\000"`, "Aÿ\x00"},
		{`"\u00e9\uD83D\uDE00"`, "é😀"},
		{"\"a\\\nb\\\r\nc\\\rd\"", "abcd"},
		{"'a\\\nb'", "ab"},
		{`'a\tb\\c\'d'`, `a\tb\\c'd`},
		{`'\"'`, `\"`},
		{"'''a\r\nb\\n'''", "a\r\nb\\n"},
		{"```a\rb\\n```", "a\rb\\n"},
		{`""`, ""},
		{"''''x'''", "'x"},
		{"\"\x7f\u00a0\"", "\x7f\u00a0"},
		{`"\b\f\v\r` + "\\`\"", "\b\f\v\r`"},
		{"```{{2+2}} {{ }} {{if}} {{@zap}} {{open```", "{{2+2}} {{ }} {{if}} {{@zap}} {{open"},
		{"'{{x}}'", "{{x}}"},
		{"'''{{x}}'''", "{{x}}"},
	} {
		tree, err := Parse([]byte(in("emit " + c[0])))
		if err != nil {
			t.Errorf("%q: %v", c[0], err)
			continue
		}
		if got := printTree(tree, tree.Command); got != fmt.Sprintf("{(emit %q)}", c[1]) {
			t.Errorf("%q: got %s", c[0], got)
		}
	}
}

// printTree writes a tree as nested lists: fully bracketed, so that precedence shows.
func printTree(t *Tree, ref Ref) string {
	n := &t.Nodes[ref]
	list := func(ref Ref) string {
		var parts []string
		for ; ref != 0; ref = t.Nodes[ref].Next {
			parts = append(parts, printTree(t, ref))
		}
		return strings.Join(parts, " ")
	}
	form := func(parts ...string) string {
		var have []string
		for _, p := range parts {
			if p != "" {
				have = append(have, p)
			}
		}
		return "(" + strings.Join(have, " ") + ")"
	}
	opt := func(ref Ref) string {
		if ref == 0 {
			return ""
		}
		return printTree(t, ref)
	}
	switch n.Kind {
	case Nil:
		return "nil"
	case True:
		return "true"
	case False:
		return "false"
	case Last, TemplateLast:
		return "last"
	case Number:
		return fmt.Sprint(t.Numbers[n.A])
	case String, TemplateText:
		return fmt.Sprintf("%q", t.Strings[n.A])
	case Var, TemplateVar:
		return t.Symbols[n.A]
	case Template:
		return form("template", list(n.A))
	case List:
		return "[" + list(n.A) + "]"
	case Map:
		return "{" + list(n.A) + "}"
	case Call:
		return form("call", t.Strings[n.A], list(n.B))
	case ToolCall:
		return form("tool", t.Strings[n.A], list(n.B))
	case Eval:
		return form("eval", printTree(t, n.A))
	case Unary:
		return form(n.Op.String(), printTree(t, n.A))
	case Binary:
		return form(n.Op.String(), printTree(t, n.A), printTree(t, n.B))
	case Chain:
		s := printTree(t, n.A)
		for l := n.B; l != 0; l = t.Nodes[l].Next {
			s = form(t.Nodes[l].Op.String(), s, printTree(t, t.Nodes[l].A))
		}
		return s
	case Access:
		return form("get", printTree(t, n.A), list(n.B))
	case StepIndex:
		return "[" + printTree(t, n.A) + "]"
	case StepField:
		return "." + t.Strings[n.A]
	case Set:
		must := ""
		if n.Flag {
			must = "must"
		}
		return form("set", list(n.A), must, printTree(t, n.B))
	case Target:
		return t.Symbols[n.A] + list(n.B)
	case CallStmt:
		return form("do", printTree(t, n.A))
	case Emit:
		return form("emit", printTree(t, n.A))
	case Whisper:
		return form("whisper", printTree(t, n.A), printTree(t, n.B))
	case Must:
		return form("must", printTree(t, n.A))
	case Fail:
		return form("fail", opt(n.A))
	case ClearError:
		return "clear_error"
	case Break:
		return "break"
	case Continue:
		return "continue"
	case If:
		return form("if", printTree(t, n.A), printTree(t, n.B), opt(n.C))
	case While:
		return form("while", printTree(t, n.A), printTree(t, n.B))
	case For:
		return form("for", t.Symbols[n.A], printTree(t, n.B), printTree(t, n.C))
	case Return:
		return form("return", list(n.A))
	case Block:
		return "{" + list(n.A) + opt(n.B) + "}"
	case Handler:
		name := ""
		if n.A >= 0 {
			name = t.Symbols[n.A]
		}
		return form("on", name, printTree(t, n.B))
	case KindNone, Link:
	}
	return fmt.Sprintf("?%d", n.Kind)
}

func TestTree(t *testing.T) {
	for _, c := range [][2]string{
		{"emit 1 + 2 * 3 - 4", "(emit (- (+ 1 (* 2 3)) 4))"},
		{"emit a or b and c or d", "(emit (or (or a (and b c)) d))"},
		{"emit 1 | 2 == 2", "(emit (| 1 (== 2 2)))"},
		{"emit 1 | 2 ^ 3 & 4", "(emit (| 1 (^ 2 (& 3 4))))"},
		{"emit not a == b", "(emit (== (not a) b))"},
		{"emit no a and some b", "(emit (and (not a) (some b)))"},
		{"emit -2 ** 2", "(emit (- (** 2 2)))"},
		{"emit 2 ** 3 ** 2", "(emit (** 2 (** 3 2)))"},
		{"emit 2 ** -3 ** 2", "(emit (** 2 (- (** 3 2))))"},
		{"emit 1 < 2 == true", "(emit (== (< 1 2) true))"},
		{"emit 1 < 2 <= 3", "(emit (<= (< 1 2) 3))"},
		{"emit typeof x[0] + 1", "(emit (+ (typeof (get x [0])) 1))"},
		{"emit f(x).y[1].z", "(emit (get (call f x) .y [1] .z))"},
		{"emit tool.A . b.if(1)", `(emit (tool A.b.if 1))`},
		{"emit (1 + 2) * 3", "(emit (* (+ 1 2) 3))"},
		{"emit [1, [2]][0]", "(emit (get [1 [2]] [0]))"},
		{"emit {a: 1, \"b\": {}}", `(emit {a 1 "b" {}})`},
		{"set a.b[c], d = must e", "(set a.b [c] d must e)"},
		{"emit ```{{{x}}} {{ last }}{{LAST}}{{@nl}}{{@tbt}}.```", `(emit (template "{" x "} " last last "\n" "` + "```" + `" "."))`},
		{"emit - -3 - -x", "(emit (- (- (- 3)) (- x)))"},
		{"emit ~5 % 2", "(emit (% (~ 5) 2))"},
		{"emit x --y", "(emit x)"},
		{"if a\nelse if b\nemit 1\nelse\nemit 2\nendif", "(if a {} (if b {(emit 1)} {(emit 2)}))"},
		{"emit 1\non error as e do\nclear_error\nendon\nemit 2", "(emit 1) (emit 2)(on e {clear_error})"},
		{"mustbe f()", "(must (call f))"},
		{"fail", "(fail)"},
		{"emit eval(\"x\")", `(emit (eval "x"))`},
		{"emit last + len(x)", "(emit (+ last (call len x)))"},
	} {
		tree, err := Parse([]byte(in(c[0])))
		if err != nil {
			t.Errorf("%q: %v", c[0], err)
		} else if got := printTree(tree, tree.Command); got != "{"+c[1]+"}" {
			t.Errorf("%q:\n got %s\nwant {%s}", c[0], got, c[1])
		}
	}
}

func TestLibrarySyntax(t *testing.T) {
	ok := []string{
		"", "# nothing", "func f() means\nendfunc", "func f means\nreturn\nendfunc\n\nfunc g(needs a, b optional c returns r, s) means\n:: k: v\nreturn a, b, c\nendfunc",
		":: lib: x\n\nfunc f needs x returns y means\nwhile 1\nreturn 1\nendwhile\nendfunc", "func f(optional a) means\non error do\nreturn 1\nendon\nendfunc",
		"func f(returns r) means\nendfunc # c",
	}
	for _, src := range ok {
		if _, err := ParseLibrary([]byte(src)); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
	for _, c := range [][2]string{
		{"command\nendcommand", "never both"},
		{"func f() means\nendfunc\ncommand\nendcommand", "never both"},
		{"func if() means\nendfunc", "keyword"},
		{"func f(needs a needs b) means\nendfunc", "at most once"},
		{"func f(optional a needs b) means\nendfunc", "in this order"},
		{"func f needs a needs b means\nendfunc", "at most once"},
		{"func f(needs a, a) means\nendfunc", "twice"},
		{"func f(needs a optional a) means\nendfunc", "twice"},
		{"func f(needs self) means\nendfunc", "predefined"},
		{"func f()\nendfunc", "`means`"},
		{"func f(needs) means\nendfunc", "name"},
		{"func f() means emit 1\nendfunc", "line end"},
		{"func f() means\n", "`endfunc`"},
		{"func f() means\nbreak\nendfunc", "inside a loop"},
		{"func f() means\nclear_error\nendfunc", "error handler"},
		{"emit 1", "`func`"},
		{"func f() means\nfunc g() means\nendfunc\nendfunc", "`func`"},
		{"func f() means\nendfunc x", "line end"},
		{"func () means\nendfunc", "name"},
		{"func f(a) means\nendfunc", "`)`"},
	} {
		_, err := ParseLibrary([]byte(c[0]))
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || !strings.Contains(e.Detail, c[1]) || e.Line < 1 {
			t.Errorf("%q: got %v, want %q", c[0], err, c[1])
		}
	}
}

// TestEveryCut parses every prefix of a program that uses every form: none may
// panic, and errors lie inside the prefix.
func TestEveryCut(t *testing.T) {
	src := ":: k: v\ncommand\nset a.b[1], c = must [1, {2: \"\\u00e9\"}]\nif not x ** -2 == 'q\\''\nwhisper self, ```{{x}} {{@nl}}```\nelse if 1e5\nfail '''r\n'''\nendif\n" +
		"for each i in f(1, tool.a.b(2,),)\non error as e do\nclear_error\nbreak\nendon\nendfor\nendcommand\n"
	if e := refusal(t, src); e != nil {
		t.Fatal(e)
	}
	for i := range src {
		refusal(t, src[:i])
		if _, err := ParseLibrary([]byte(src[:i])); err == nil && strings.Contains(src[:i], "command") {
			t.Errorf("a library: %q", src[:i])
		}
	}
}

// TestTokenSoup parses random sequences of tokens.
func TestTokenSoup(t *testing.T) {
	words := strings.Split("command|endcommand|\n|\n|set|emit|x|y|=|==|1|\"s\"|'t'|```{{x}}```|(|)|[|]|{|}|,|:|.|+|-|**|not|and|if|else|endif|while|endwhile|for|each|in|endfor|on|error|do|as|endon|must|call|tool|f|break|clear_error|last|eval|::|\\\n|#c\n|fail|whisper|self", "|")
	seed := rand.Int63()
	r := rand.New(rand.NewSource(seed))
	for range 3000 {
		var b strings.Builder
		b.WriteString("command\n")
		for range r.Intn(40) {
			b.WriteString(words[r.Intn(len(words))])
			b.WriteByte(' ')
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("seed %d: %q: %v", seed, b.String(), p)
				}
			}()
			refusal(t, b.String())
			refusal(t, b.String()+"\nendcommand\n")
		}()
	}
}

func TestFewAllocations(t *testing.T) {
	src := []byte(in(strings.Repeat("set total = total + row[\"qty\"] * 2.5\n", 18)))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Parse(src); err != nil {
			t.Fatal(err)
		}
	}); n > 20 {
		t.Errorf("%v allocations for 20 lines", n)
	}
}

func TestManySymbols(t *testing.T) {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "set v%d = %d\n", i, i)
	}
	for i := range 3000 {
		fmt.Fprintf(&b, "emit v%d\n", i)
	}
	tree, err := Parse([]byte(in(b.String())))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Symbols) != 3005 {
		t.Errorf("%d symbols", len(tree.Symbols))
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "command\nemit 1\nendcommand\n", in("set a.b[1], c = must [1, {2: \"\\u00e9\"}]"), in("emit ```{{x}}```", "emit '''", "'''"),
		in("if 1", "else if 2", "endif"), in("on error as e do", "clear_error", "endon"), ":: a: b\r\ncommand\r\nendcommand", "func f(needs a) means\nreturn a\nendfunc\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, parse := range []func([]byte) (*Tree, error){Parse, ParseLibrary} {
			tree, err := parse(src)
			if err != nil {
				var e *messages.Error
				if !errors.As(err, &e) || e.Line < 1 || e.Col < 1 || e.Offset < 0 || e.Offset > int64(len(src)) || e.Detail == "" {
					t.Fatalf("%+v", err)
				}
				continue
			}
			for i := range tree.Nodes {
				if int(tree.Nodes[i].Pos) > len(src) {
					t.Fatalf("node %d lies outside", i)
				}
				if line, col := tree.Position(tree.Nodes[i].Pos); line < 1 || col < 1 {
					t.Fatalf("node %d is at %d:%d", i, line, col)
				}
			}
		}
	})
}

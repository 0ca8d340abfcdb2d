package neuroscript

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// guided are the tools of a test with a guide.
type guided struct{ testTools }

func (guided) Near(name string) []string {
	if strings.Contains(name, "no") {
		return []string{"tool.test.none()", "tool.test.boom()"}
	}
	return nil
}

func (guided) Signature(name string) string {
	if name == "test.add" {
		return "tool.test.add(a: int, b: int)"
	}
	return ""
}

// TestCures: what a failed program was told of, and that version 1 hears nothing of it.
func TestCures(t *testing.T) {
	tools := newTestTools()
	tools["aeiou.magic"] = &Tool{Name: "aeiou.magic", Params: []Param{{Name: "kind", Type: "any"}}, Func: func(*Call, []Value) (Value, error) {
		return Value{}, Errorf(CodeArgument, "magic: payload.action: is missing")
	}}
	for _, c := range []struct{ lines, want string }{
		{"call tool.test.nope()", "; near: tool.test.none(), tool.test.boom()"},
		{"call tool.what.ever()", ""},
		{"call nothing(1)", "; a tool is called by its whole name, as tool.<group>.<name>(…); near: tool.test.none(), tool.test.boom()"},
		{"call read(1)", "; a tool is called by its whole name, as tool.<group>.<name>(…)"},
		{"call tool.test.add(1)", "; it is called as tool.test.add(a: int, b: int)"},
		{"call tool.test.add(1, \"x\")", "; it is called as tool.test.add(a: int, b: int)"},
		{"emit tool.aeiou.magic(1)", `; the call is tool.aeiou.magic("LOOP", {"action": "done"}), with "done", "continue" or "abort", and with its keys in quotes`},
		{"emit x[\"k\"]", "; a name that was never set, and a key that is missing, are nil: test `some x` first"},
		{"emit nil + 1", "; a name that was never set, and a key that is missing, are nil: test `some x` first"},
		{"fail \"x\"", ""},
		{"on error do / clear_error / endon / call tool.test.nope()", ""},
		{"on error do / clear_error / endon / call tool.test.nope() / emit \"x\" * 9000", "; an emitted line has at most 8192 bytes: break the text into lines"},
		{"while true / endwhile", "; do less in one turn, and the rest in another"},
	} {
		env := Env{Tools: guided{tools}, Limits: second}
		if got := runProgram(t, program(c.lines), env); got.Cure != c.want {
			t.Errorf("%s: %q, want %q (%v %v)", c.lines, got.Cure, c.want, got.Err, got.Breach)
		}
		env.Limits = Limits{}
		if got := runProgram(t, program(c.lines), env); got.Cure != "" {
			t.Errorf("%s under version 1: %q", c.lines, got.Cure)
		}
	}
	// A handler reads the same error in both versions.
	const caught = "on error as e do / emit e.message / clear_error / endon / call tool.test.nope()"
	one, two := runProgram(t, program(caught), Env{Tools: guided{tools}}), runProgram(t, program(caught), Env{Tools: guided{tools}, Limits: second})
	if brief(one) != brief(two) {
		t.Errorf("version 1 emits %s, version 2 %s", brief(one), brief(two))
	}
}

func TestExplained(t *testing.T) {
	compile := Explained(second, guided{newTestTools()}, Compile)
	for _, c := range []struct{ src, want string }{
		{"command\n  let x = 1\nendcommand", "there is no `let`: write `set name = value`; the line is `let x = 1`"},
		{"command\n  emit 1\nend", "there is no `end`: blocks end with endif, endfor, endwhile, endon; the last line of a program is `endcommand`; the line is `end`"},
		{"command\n  emit 1", "unexpected end of the program: expected a statement or `endcommand` for the `command` of line 1; the last line of a program is `endcommand`; the line is `emit 1`"},
		{"command\n  set t = test.nope(\"x\")\nendcommand", "values have no methods: call tool.<group>.<name>(…) or a built-in function; near: tool.test.none(); the line is `set t = test.nope(\"x\")`"},
		{"command\n  tool.aeiou.magic(1)\nendcommand", "a call alone is no statement: write `call tool…`, or use its value; a token is emitted: `emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})`; the line is `tool.aeiou.magic(1)`"},
		{"command\n  return 1\nendcommand", "`return` is not allowed in ACTIONS: let the block end; what the user is to read is written `emit value`; the line is `return 1`"},
		{"command\n  if x == True\n  endif\n  emit False\nendcommand", "there is no `True`: write `true`; the line is `if x == True`"},
		{"command\n  set y = FALSE\nendcommand", "there is no `FALSE`: write `false`; the line is `set y = FALSE`"},
		{"command\n  emit \"" + strings.Repeat("é", 100) + "\nendcommand", "this string is not closed: \" is missing before the line end; text of several lines stands between ''' or three backticks; the line is `emit \"" + strings.Repeat("é", 57) + "…`"},
	} {
		_, err := compile([]byte(c.src))
		e := (*messages.Error)(nil)
		if !errors.As(err, &e) || e.Code != messages.ErrActionsParse || e.Detail != c.want {
			t.Errorf("%q:\n got %v\nwant %s", c.src, err, c.want)
		}
		old, _ := Compile([]byte(c.src))
		first, err := Explained(Limits{}, guided{}, Compile)([]byte(c.src))
		if (old == nil) != (first == nil) || errors.As(err, &e) && strings.Contains(e.Detail, "the line is") {
			t.Errorf("%q under version 1: %v", c.src, err)
		}
	}
	for _, src := range []string{"command\n  set True = 1\n  emit True\nendcommand", "command\n  for each False in [1]\n    emit False\n  endfor\nendcommand", "command\n  emit \"True\"\nendcommand"} {
		if _, err := compile([]byte(src)); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
}

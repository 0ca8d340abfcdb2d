package neuroscript

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// typedTools has one tool per parameter type that returns what it got.
func typedTools() testTools {
	tools := newTestTools()
	for _, typ := range []string{"string", "int", "float", "bool", "list", "map", "any", "list<int>", "list<string>", "list<list<bool>>", "error", "timedate"} {
		name := "t." + strings.NewReplacer("<", "", ">", "").Replace(typ)
		tools[name] = &Tool{
			Name: name, Params: []Param{{Name: "v", Type: typ}, {Name: "o", Type: typ, Optional: true}},
			Func: func(_ *Call, a []Value) (Value, error) {
				if len(a) != 2 {
					return Value{}, errors.New("two arguments are always passed")
				}
				return List(a), nil
			},
		}
	}
	return tools
}

func TestCoercion(t *testing.T) {
	checkAll(t, Env{Tools: typedTools()}, []example{
		{`emit tool.t.string("x")`, `["x", nil]`},
		{`emit tool.t.string("x", nil)`, `["x", nil]`},
		{`emit tool.t.string("x", "y")`, `["x", "y"]`},
		{"emit tool.t.string(1)", "!4"},
		{"emit tool.t.string(nil)", "!4"},
		{"emit tool.t.string()", "!4"},
		{`emit tool.t.string("x", "y", "z")`, "!4"},
		{`emit tool.t.string("x", 1)`, "!4"},
		{`emit tool.t.int(" 5 ", 1e3)`, "[5, 1000]"},
		{"emit tool.t.int(1.5)", "!4"},
		{`emit tool.t.int("1.5")`, "!4"},
		{`emit tool.t.int("x")`, "!4"},
		{"emit tool.t.int(true)", "!4"},
		{`emit tool.t.float("1.5", 2)`, "[1.5, 2]"},
		{"emit tool.t.float([])", "!4"},
		{`emit tool.t.bool(true, 0)`, "[true, false]"},
		{`emit tool.t.bool("TRUE", "0")`, "[true, false]"},
		{`emit tool.t.bool("1", "False")`, "[true, false]"},
		{`emit tool.t.bool(-1, 0.5)`, "[true, true]"},
		{`emit tool.t.bool("yes")`, "!4"},
		{`emit tool.t.bool("")`, "!4"},
		{"emit tool.t.bool([])", "!4"},
		{"emit tool.t.list([1])", "[[1], nil]"},
		{"emit tool.t.list({})", "!4"},
		{"emit tool.t.map({})", "[{}, nil]"},
		{"emit tool.t.map([])", "!4"},
		{"emit tool.t.any(false, [nil])", "[false, [nil]]"},
		{"emit tool.t.any(nil)", "!4"},
		{`set l = ["1", 2, " 3"] / emit tool.t.listint(l) / emit l`, `[[1, 2, 3], nil]|["1", 2, " 3"]`},
		{"emit tool.t.listint([])", "[[], nil]"},
		{"emit tool.t.listint([1, nil])", "!4"},
		{"emit tool.t.listint(1)", "!4"},
		{`emit tool.t.liststring(["a", 1])`, "!4"},
		{`emit tool.t.listlistbool([["true", 0], []])`, "[[[true, false], []], nil]"},
		{"emit tool.t.error(1)", "!4"},
		{"emit tool.t.timedate(1)", "!4"},
		{"on error as e do / emit e.message / clear_error / endon / call tool.t.int(1, \"x\")", "tool.t.int: o must be int, not the string \"x\""},
	})
}

// recorder is a tool set that notes what it is asked and may deny.
type recorder struct {
	log    []string
	tools  testTools
	denied map[string]error
}

func (r *recorder) Lookup(name string) (*Tool, error) {
	r.log = append(r.log, name)
	if err := r.denied[name]; err != nil {
		return nil, err
	}
	return r.tools[name], nil
}

func TestToolOrder(t *testing.T) {
	set := &recorder{tools: typedTools(), denied: map[string]error{
		"t.map": Errorf(CodeDenied, "not allowed"), "t.any": &Breach{Code: messages.ErrQuota, Meter: MeterMagic, Limit: 32}, "t.list": errors.New("broken"),
	}}
	checkAll(t, Env{Tools: set}, []example{
		// Arguments, then lookup, then policy, then coercion.
		{"call tool.t.nope(1/0)", "!14"},
		{"call tool.t.nope()", "!3"},
		{"call tool.t.map()", "!1003"},
		{"call tool.t.int()", "!4"},
		{"call tool.T.Any()", "!MAGIC"},
		{"call tool.t.list()", "!21"},
		{"on error as e do / emit e.message / clear_error / endon / call tool.t.map(1) / call tool.t.nope() / call tool.Test.Boom(\"b\")", "not allowed|there is no tool.t.nope|b"},
	})
	if want := "t.nope t.map t.int t.any t.list t.map t.nope test.boom"; strings.Join(set.log, " ") != want {
		t.Errorf("asked for %s", strings.Join(set.log, " "))
	}
	checkAll(t, Env{}, []example{{"call tool.a.b()", "!3"}})
}

func TestToolResults(t *testing.T) {
	when := time.Date(2026, 3, 4, 5, 6, 7, 120_000_000, time.FixedZone("", 3600))
	deep := Value{}
	for range 65 {
		deep = List([]Value{deep})
	}
	give := func(v Value, err error) *Tool {
		return &Tool{Name: "x.y", Func: func(*Call, []Value) (Value, error) { return v, err }}
	}
	shared := &ScriptError{Code: 2001, Message: "shared", Details: List([]Value{Number(1)})}
	tools := testTools{
		"r.time": give(TimeDate(when), nil), "r.zero": give(TimeDate(time.Time{}), nil), "r.error": give(NewErrorValue(2002, "expected", String("d")), nil), "r.nan": give(List([]Value{Number(math.NaN())}), nil),
		"r.bytes": give(String("\xff"), nil), "r.key": give(Map(map[string]Value{"\xff": {}}), nil), "r.deep": give(deep, nil), "r.raise": give(Value{}, fmt.Errorf("wrapped: %w", shared)), "r.plain": give(Value{}, errors.New("plain \xff")),
		"r.zerocode": give(Value{}, &ScriptError{Message: "z"}), "r.deepdetails": give(Value{}, &ScriptError{Code: 5000, Details: deep}), "r.baddetails": give(Value{}, &ScriptError{Code: 5000, Details: String("\xff")}), "r.breach": give(Value{}, fmt.Errorf("w: %w", &Breach{Code: messages.ErrQuota, Meter: MeterMagic, Limit: 32})),
		"r.big": give(String(strings.Repeat("x", 9<<20)), nil),
	}
	h := "on error as e do / emit \"[\" + e.code + \" \" + e.message + \"]\" / clear_error / endon / "
	checkAll(t, Env{Tools: tools}, []example{
		{"set x = tool.r.time() / emit x / emit [x] / emit typeof x / emit is_timedate(x) / emit some x / emit x == tool.r.time() / emit x < tool.r.zero() / emit len(x)", `2026-03-04T04:06:07.12Z|["2026-03-04T04:06:07.12Z"]|timedate|true|true|true|false|1`},
		{"emit some tool.r.zero() / emit tool.r.zero() == tool.r.time()", "false|false"},
		{"emit tool.r.time() < 1", "!7"},
		{"set x = tool.r.error() / emit x / emit typeof x / emit x.code / emit x.details / emit x.line == nil / emit is_error(x) / emit some x / emit {\"e\": x}", "error: expected|error|2002|d|true|true|false|{\"e\": error: expected}"},
		{h + "must tool.r.error() / emit e.details.code / set y = must tool.r.error() / fail tool.r.error()", "[5 must failed: expected]|2002|[5 must failed: expected]|[2002 expected]"},
		{"emit tool.r.nan()", "!17"},
		{"emit tool.r.deep()", "!17"},
		{"emit tool.r.bytes()", "!21"},
		{"emit tool.r.key()", "!21"},
		{h + "call tool.r.raise() / emit e.details / emit e.line", "[2001 shared]|[1]|6"},
		{h + "call tool.r.plain()", "[21 plain \uFFFD]"},
		{"call tool.r.zerocode()", "!21"},
		{"call tool.r.deepdetails()", "!17"},
		{"call tool.r.baddetails()", "!21"},
		{h + "call tool.r.breach()", "!MAGIC"},
		{h + "set x = tool.r.big()", "!VALUE"},
	})
	if shared.Line != 0 {
		t.Error("a tool's own error was changed")
	}
}

// TestCallMeters uses everything a Call offers, and ignores its errors: the run
// must end all the same.
func TestCallMeters(t *testing.T) {
	var steps []int64
	tool := func(f func(c *Call) error) *Tool {
		return &Tool{Name: "c", Func: func(c *Call, _ []Value) (Value, error) {
			steps = append(steps, c.Step())
			return Number(1), f(c)
		}}
	}
	tools := testTools{
		"gas":    tool(func(c *Call) error { return c.ChargeGas(500) }),
		"quiet":  tool(func(c *Call) error { _ = c.ChargeGas(math.MaxInt64); return c.ChargeGas(1) }),
		"silent": tool(func(c *Call) error { _ = c.ChargeGas(math.MaxInt64); return nil }),
		"bytes":  tool(func(c *Call) error { return c.ChargeBytes(100) }),
		"value":  tool(func(c *Call) error { return c.CheckValue(100) }),
		"most": tool(func(c *Call) error {
			if n := c.RemainingBytes(); c.CheckValue(n) != nil {
				return fmt.Errorf("%d remaining bytes are too many", n)
			}
			return nil
		}),
		"none": tool(func(c *Call) error { return c.CheckValue(c.RemainingBytes() + 64) }),
		"env": tool(func(c *Call) error {
			if c.SID() != "a:b:c" || c.TurnIndex() != 3 || c.Userdata().Kind() != KindMap || c.Context() == nil {
				return errors.New("the call does not know its run")
			}
			return nil
		}),
		"equal": tool(func(c *Call) error {
			eq, err := c.Equal(String("5"), Number(5))
			if !eq {
				return errors.New("not equal")
			}
			return err
		}),
		"late": tool(func(c *Call) error {
			_ = c.ChargeBytes(math.MaxInt64)
			if _, err := c.Equal(String("5"), Number(5)); err == nil {
				return errors.New("a charge after a breach")
			}
			if _, err := c.ParseJSON("1"); err == nil || c.RemainingBytes() != 0 || c.CheckValue(0) == nil {
				return errors.New("a charge after a breach")
			}
			return nil
		}),
		"json": tool(func(c *Call) error { _, err := c.ParseJSON("[1,2,3,4]"); return err }),
	}
	for _, c := range []struct {
		lines  string
		limits Limits
		want   string
		gas    int64
	}{
		{"call tool.gas()", Limits{}, "", 552},
		{"call tool.gas()", Limits{Gas: 551}, "!GAS", 551},
		{"call tool.quiet()", Limits{}, "!GAS", 1_000_000},
		{"call tool.silent() / emit 1", Limits{}, "!GAS", 1_000_000},
		{"call tool.bytes()", Limits{Alloc: 99}, "!ALLOC", 52},
		{"call tool.bytes()", Limits{}, "", 52},
		{"call tool.value()", Limits{Value: 99}, "!VALUE", 52},
		{"call tool.value()", Limits{Value: 100}, "", 52},
		{"call tool.value()", Limits{Alloc: 99}, "!ALLOC", 52},
		{"call tool.value()", Limits{Gas: 52}, "!GAS", 52},
		{"call tool.most()", Limits{Gas: 60}, "", 52},
		{"call tool.none()", Limits{Gas: 60}, "!GAS", 60},
		{"call tool.most()", Limits{Alloc: 10}, "", 52},
		{"call tool.most()", Limits{Value: 10}, "", 52},
		{"call tool.env()", Limits{}, "", 52},
		{"call tool.late()", Limits{}, "!ALLOC", 52},
		{"call tool.equal()", Limits{}, "", 54},
		{"call tool.json()", Limits{}, "", 54},
		{"call tool.json()", Limits{Value: 87}, "!VALUE", 54},
		{"call tool.json()", Limits{Value: 88}, "", 54},
		{"call tool.json()", Limits{Alloc: 50}, "!ALLOC", 54},
	} {
		out := runProgram(t, program(c.lines), Env{Tools: tools, Limits: c.limits, SID: "a:b:c", TurnIndex: 3})
		if brief(out) != c.want || out.Gas != c.gas {
			t.Errorf("%s %+v: %s with gas %d, want %s with %d", c.lines, c.limits, brief(out), out.Gas, c.want, c.gas)
		}
	}
	steps = nil
	runProgram(t, program("call tool.env() / call tool.gas() / call tool.env()"), Env{Tools: tools, SID: "a:b:c", TurnIndex: 3})
	if fmt.Sprint(steps) != "[1 2 3]" {
		t.Errorf("steps %v", steps)
	}
}

// TestToolPanics: a panic is the actor's, not the interpreter's.
func TestToolPanics(t *testing.T) {
	p, err := Compile([]byte(program("on error do / clear_error / endon / call tool.p()")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if got := recover(); got != "boom" {
			t.Errorf("recovered %v", got)
		}
	}()
	p.Run(context.Background(), &Env{Tools: testTools{"p": {Name: "p", Func: func(*Call, []Value) (Value, error) { panic("boom") }}}})
	t.Error("the panic was swallowed")
}

func TestLibrary(t *testing.T) {
	lib, err := CompileLibrary(
		Source{"a", []byte("func add(needs a, b optional c returns r) means\n:: doc: adds\nif is_nil(c)\nreturn a + b\nendif\nreturn a + b + c\nendfunc\nfunc even(needs n) means\nif n == 0\nreturn true\nendif\nreturn odd(n - 1)\nendfunc\n")},
		Source{"b", []byte("func odd(needs n) means\nif n == 0\nreturn false\nendif\nreturn even(n - 1)\nendfunc\nfunc many() means\nreturn 1, [2], nil\nendfunc\nfunc void() means\nset x = 1\nendfunc\nfunc bare() means\nreturn\nendfunc\nfunc scope() means\nreturn [x, last, sid, self]\nendfunc\nfunc tpl(needs who) means\nset m = \"local\"\nreturn eval(\"{{who}} {{m}} {{x}} {{sid}}\")\nendfunc\nfunc loop(needs l) means\nfor each x in l\nif x > 1\nreturn x\nendif\nendfor\nendfunc\n")})
	if err != nil || lib.Funcs() != 9 {
		t.Fatal(err)
	}
	checkAll(t, Env{Library: lib, SID: "S"}, []example{
		{"emit add(1, 2) / emit add(1, 2, 3) / emit add(1, 2, nil)", "3|6|3"},
		{"emit add(1)", "!4"},
		{"emit add(1, 2, 3, 4)", "!4"},
		{"emit ADD(1, 2)", "!2"},
		{"emit even(10) / emit odd(7)", "true|true"},
		{"emit many() / emit void() == nil / emit bare() == nil", "[1, [2], nil]|true|true"},
		{"set x = 9 / call len(\"ab\") / emit scope() / emit last", `[nil, nil, "S", "self"]|[nil, nil, "S", "self"]`},
		{"set x = 1 / emit tpl(\"me\")", "me local  S"},
		{"emit loop([1, 2, 3]) / emit loop([])", "2|"},
		{"call len(\"abc\") / on error do / clear_error / endon / call add() / emit last", "3"},
		{"call add(1, 2) / call void() / emit typeof last", "nil"},
		{"emit add(1/0)", "!14"},
	})
	for _, c := range []struct{ sources, detail string }{
		{"func len2() means\nendfunc\n|func len2() means\nendfunc\n", "already defined"}, {"func Is_Nil() means\nendfunc", "built-in"}, {"func CHAR() means\nendfunc", "built-in"}, {"func len() means\nendfunc", "keyword"}, {"func a() means\nendfunc\nfunc a() means\nendfunc", "already defined"}, {"emit 1", "expected `func`"},
	} {
		var sources []Source
		for i, s := range strings.Split(c.sources, "|") {
			sources = append(sources, Source{fmt.Sprintf("lib%d.ns", i), []byte(s)})
		}
		_, err := CompileLibrary(sources...)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || !strings.Contains(e.Detail, c.detail) || e.File != sources[len(sources)-1].Name || e.Line < 1 {
			t.Errorf("%q: %v", c.sources, err)
		}
	}
}

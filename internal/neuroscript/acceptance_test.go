package neuroscript

import (
	"strconv"
	"strings"
	"testing"
)

// program puts statement lines, separated by " / " or line ends, into a command.
func program(lines string) string {
	return "command\n" + strings.ReplaceAll(lines, " / ", "\n") + "\nendcommand\n"
}

// brief writes an outcome: emitted texts joined by | and then !code for an error,
// !METER or !ERR_… for a breach, !parse for a refused program.
func brief(o outcome) string {
	parts := append([]string(nil), o.Emits...)
	switch {
	case o.ParseErr != nil:
		parts = append(parts, "!parse")
	case o.Err != nil:
		parts = append(parts, "!"+strconv.Itoa(o.Err.Code))
	case o.Breach != nil && o.Breach.Meter != "":
		parts = append(parts, "!"+o.Breach.Meter)
	case o.Breach != nil:
		parts = append(parts, "!"+string(o.Breach.Code))
	}
	return strings.Join(parts, "|")
}

type example struct{ lines, want string }

func checkAll(t *testing.T, env Env, examples []example) {
	t.Helper()
	for _, x := range examples {
		if got := brief(runProgram(t, program(x.lines), env)); got != x.want {
			t.Errorf("%s\n got %s\nwant %s", x.lines, got, x.want)
		}
	}
}

// TestAcceptance holds the examples of §17.
func TestAcceptance(t *testing.T) {
	env := Env{Tools: acceptanceTools{}}
	checkAll(t, env, []example{
		{"emit 10/2", "5"},
		{"emit 1e21", "1000000000000000000000"},
		{"emit 0.1+0.2", "0.30000000000000004"},
		{"emit -2 ** 2", "-4"},
		{"emit 2 ** -1", "0.5"},
		{"emit 7 % -3", "1"},
		{"emit 5 % 0", "!14"},
		{`emit "1" + "2"`, "12"},
		{`emit "n=" + nil`, "n="},
		{`emit "ab" * 2`, "abab"},
		{`emit "x" - 1`, "!7"},
		{`emit "5" == 5`, "true"},
		{"emit true == 1", "false"},
		{`emit "b" < "c"`, "true"},
		{"emit not 1 == 2", "false"},
		{"emit false and (1/0)", "false"},
		{"emit nil + 1", "!7"},
		{`emit [1, 2.5, "a", nil, {"k": []}]`, `[1, 2.5, "a", nil, {"k": []}]`},
		{`emit {"b": 1, "a": 2}`, `{"a": 2, "b": 1}`},
		{"emit nil", ""},
		{"emit [[1,2],[3]][0][1]", "2"},
		{"emit [1][1]", "!8"},
		{"emit undefined_name == nil", "true"},
		{`emit nope["k"]`, "!7"},
		{"set q.r.s = 1 / emit q", `{"r": {"s": 1}}`},
		{"set a = [1] / set b = a / set b[0] = 9 / emit a[0]", "1"},
		{"set a, b = [1,2,3]", "!36"},
		{"set z[2] = 5 / emit z", "[nil, nil, 5]"},
		{`emit "x" -- y`, "x"},
		{`emit 'a\tb'`, `a\tb`},
		{"set n = \"Al\" / emit ```hi {{n}} {{2+2}} {{none}}.```", "hi Al {{2+2}} ."},
		{"must 0", "!5"},
		{`fail "boom"`, "!1"},
		{"set self = 1", "!parse"},
		{`emit tool.STR.toupper("a")`, "A"},
		{`emit tool.str.ToUpper("a","b")`, "!4"},
		{"emit tool.no.such()", "!3"},
		{"while true / set i = 1 / endwhile", "!GAS"},
		{"on error do / clear_error / endon / while true / set i = 1 / endwhile", "!GAS"},
		{`emit "a" * 1e9`, "!GAS"},
		{`set s = "a" * 9000000`, "!VALUE"},
		{
			"on error as e do / emit \"caught \" + e.message / clear_error / endon / for each x in [1, 2] / emit \"in \" + x / if x == 2 / fail \"bad\" / emit \"after\" / endif / emit \"tail \" + x / endfor / emit \"end\"",
			"in 1|tail 1|in 2|caught bad|after|tail 2|end",
		},
	})
	if out := runProgram(t, program("emit nil"), env); len(out.Emits) != 1 || out.Emits[0] != "" {
		t.Errorf("emit nil gave %q", out.Emits)
	}
}

type acceptanceTools struct{}

func (acceptanceTools) Lookup(name string) (*Tool, error) {
	if name != "str.toupper" {
		return nil, nil
	}
	return &Tool{Name: "str.ToUpper", Params: []Param{{Name: "s", Type: "string"}}, Func: func(_ *Call, a []Value) (Value, error) {
		s, _ := a[0].AsString()
		return String(strings.ToUpper(s)), nil
	}}, nil
}

func TestExpressions(t *testing.T) {
	checkAll(t, Env{}, []example{
		// Numbers (§§4, 6.2).
		{"emit 1 - 1 / emit 0 * -5 / emit -0 / emit -0.0 / emit 0/-3 / emit -4 % 2", "0|0|0|0|0|0"},
		{"emit 1e308 * 10", "!17"},
		{"emit 1e308 + 1e308", "!17"},
		{"emit -1e308 - 1e308", "!17"},
		{"emit 10 ** 400", "!17"},
		{"emit (-8) ** 0.5", "!17"},
		{"emit 0 ** -1", "!17"},
		{"emit 5.5 % 0", "!7"},
		{"emit \"x\"/0", "!7"},
		{"emit \"6\"/\"4\"", "1.5"},
		{"emit \" 7\t\" - 1", "6"},
		{"emit \"\u00a07\" - 1", "!7"},
		{`emit "+1e2" - 0`, "100"},
		{`emit "0x10" - 0`, "!7"},
		{`emit "inf" - 0`, "!7"},
		{`emit "1_0" - 0`, "!7"},
		{`emit "1e999" - 0`, "!7"},
		{`emit ".5" - 0`, "!7"},
		{`emit "5." - 0`, "!7"},
		{`emit "" - 0`, "!7"},
		{"emit true - 1", "!7"},
		{"emit nil * 2", "!7"},
		{"emit [1] * 2", "!7"},
		{"emit [1] + [2]", "!7"},
		{"emit true + true", "!7"},
		{"emit {} + 1", "!7"},
		{`emit "1" * 3 / emit "4" * 1.5 / emit 2 * "ab" / emit "ab" * 0 / emit "4" * -1 / emit "2" * "3"`, "111|6|abab||-4|6"},
		{`emit "ab" * 1.5`, "!7"},
		{`emit "ab" * -1`, "!7"},
		{`emit "ab" * "2"`, "!7"},
		{"emit 9007199254740991 % 10 / emit 1e300 % 7 / emit -7 % 3", "1|1|-1"},
		{"emit \"7\" % \"4\"", "3"},
		{`emit -"5" / emit - -3`, "-5|3"},
		{"emit -nil", "!7"},
		{"emit 6 & 3 / emit 6 | 3 / emit 6 ^ 3 / emit ~5 / emit \"6\" & 3 / emit -1 & 255", "2|7|5|-6|2|255"},
		{"emit 1.5 | 1", "!7"},
		{"emit 9007199254740993e1 & 1", "!7"},
		{"emit ~9007199254740992", "!17"},
		{"emit 9007199254740992 | 1", "!17"},
		{"emit 1 | 2 == 2", "!7"},
		{"emit true & 1", "!7"},
		// Concatenation.
		{`emit "a" + 1 + 2 / emit 1 + 2 + "a" / emit "" + true + [1, "x"] + {"k": nil} + nil`, `a12|3a|true[1, "x"]{"k": nil}`},
		{`emit 1 + "2"`, "12"},
		// Comparison (§6.3).
		{"emit nil == nil / emit nil == 0 / emit nil == \"\" / emit nil != 1", "true|false|false|true"},
		{`emit "1.0" == 1 / emit 1 == " 1 " / emit "x" == 1 / emit "1" == "1.0" / emit "5" == true`, "true|true|false|false|false"},
		{`emit [1, "a"] == [1, "a"] / emit ["1"] == [1] / emit [1] == [1, 2] / emit {"a": [1]} == {"a": [1]} / emit {"a": 1} == {"b": 1} / emit {} == []`, "true|false|false|true|false|false"},
		{`emit 2 < "10" / emit "2" < "10" / emit "a" <= "a" / emit "é" > "z" / emit "9" >= 9`, "true|false|true|true|true"},
		{"emit 1 < 2 < 3", "!7"},
		{`emit "x" < 1`, "!7"},
		{"emit nil < 1", "!7"},
		{"emit true < false", "!7"},
		{"emit [1] < [2]", "!7"},
		{"emit 1 < 2 == true", "true"},
		// Truth (§4).
		{`emit some "0" / emit some "false" / emit some "" / emit some 0 / emit some [] / emit some [0] / emit some {} / emit some {"a": nil} / emit some nil / emit no nil / emit not -1`, "true|true|false|false|false|true|false|true|false|true|false"},
		{"emit 1 and \"x\" / emit 0 or nil / emit 0 or 3 / emit true or (1/0) / emit 1 and 2 and 0 and (1/0) / emit 0 or 0 or 1 or (1/0)", "true|false|true|true|false|true"},
		{"emit true and (1/0)", "!14"},
		// Access (§6.4).
		{`set m = {1: "a", 2.5: "b", true: "c", nil: "d", [1]: "e"} / emit m[1] + m["2.5"] + m[true] + m[nil] + m[""] + m[[1]] + m["[1]"]`, "abcddee"},
		{`emit {"a": 1, "a": 2} / emit len({"a": 1, "a": 2})`, `{"a": 2}|1`},
		{`emit {"k": 1}["x"] == nil`, "true"},
		{`emit {"k": {}}.k.x == nil`, "true"},
		{`emit {"a": nil}.a.b`, "!7"},
		{`emit [1, 2]["1"] / emit [1, 2][" 0 "]`, "2|1"},
		{"emit [1][-1]", "!8"},
		{"emit [1][0.5]", "!7"},
		{`emit [1]["x"]`, "!7"},
		{"emit [1].x", "!7"},
		{"emit [1][1e300]", "!8"},
		{"emit [1][true]", "!7"},
		{`emit "abc"[0]`, "!7"},
		{"emit nil.x", "!7"},
		{"set n = 5 / emit n[0]", "!7"},
		{"emit true[0]", "!7"},
		{"emit userdata / emit self / emit sid / emit turn_index", "{}|self||0"},
		// Built-ins (§9).
		{`emit len("héllo") / emit len([1, 2]) / emit len({"a": 1}) / emit len(nil) / emit len(5) / emit len(true) / emit LEN("x")`, "5|2|1|0|1|1|1"},
		{"emit typeof nil / emit typeof true / emit typeof 1 / emit typeof \"\" / emit typeof [] / emit typeof {} / emit typeof(1 + 1)", "nil|boolean|number|string|list|map|number"},
		{"emit is_int(3) / emit is_int(3.5) / emit is_float(3.5) / emit is_float(3) / emit is_int(\"3\") / emit Is_Number(1)", "true|false|true|false|false|true"},
		{`emit is_error({"code": 1, "message": "m"}) / emit is_error({"code": 1}) / emit is_fuzzy(1) / emit is_event(1) / emit is_function(1) / emit is_tool(1) / emit is_timedate(1) / emit is_bool(false)`, "true|false|false|false|false|false|false|true"},
		{`emit char(233) / emit CHAR("65") / emit ord("é") / emit ord("ab")`, "é|A|233|97"},
		{"emit char(55296)", "!7"},
		{"emit char(1114112)", "!7"},
		{"emit char(-1)", "!7"},
		{"emit char(1.5)", "!7"},
		{`emit ord("")`, "!7"},
		{"emit ord(5)", "!7"},
		{"emit ln(1) / emit log(1000) / emit sin(0) / emit cos(0) / emit tan(0) / emit asin(0) / emit acos(1) / emit atan(0) / emit log(\"100\")", "0|3|0|1|0|0|0|0|2"},
		{"emit ln(0)", "!17"},
		{"emit ln(-1)", "!17"},
		{"emit asin(2)", "!17"},
		{"emit sin(nil)", "!7"},
		{"emit len()", "!4"},
		{"emit len(1, 2)", "!4"},
		{"emit is_nil()", "!4"},
		{"emit TYPEOF(1)", "!2"},
		{"emit f(1)", "!2"},
		{"emit f(1/0)", "!14"},
		{"emit len(1/0, 2)", "!14"},
		{"emit tool.a.b(1/0)", "!14"},
		// last and eval (§§5, 6.5).
		{"emit last / emit len(\"abc\") / emit last / emit typeof 1 / emit last", "|3|3|number|3"},
		{`call len("abcd") / emit eval("{{last}}") + last`, "44"},
		{"on error do / clear_error / endon / call len(\"ab\") / call ord(\"\") / emit last", "2"},
		{`set a = len("xyz") + last / emit a`, "6"},
		{"set x = \"{{y}}\" / set y = 1 / emit eval(x) / emit eval(\"{{x}}\") / emit eval(\"a{{@nl}}b{{ @tab }}{{zz}}{{@zap}}{{x\")", "1|{{y}}|a\nb\t{{@zap}}{{x"},
		{"emit eval(5)", "!7"},
		{"emit eval(nil)", "!7"},
		{"set x = [1, \"a\"] / emit ```{{{x}}} {{x}}{{X}} {{ x\t}} {{x y}} {{userdata}}{{self}}```", `{[1, "a"]} [1, "a"] [1, "a"] {{x y}} {}self`},
		{"set LAST = 5 / call len(\"a\") / emit ```{{LAST}}{{last}}{{Last}}```", "11"},
		// Rendering (§10).
		{`emit "a\"b\\\n" / emit ["a\"b\\\n\r\t\b\f\x01\x7fé", true, nil]`, "a\"b\\\n|[\"a\\\"b\\\\\\n\\r\\t\\b\\f\\u0001\x7fé\", true, nil]"},
		{"emit {} / emit [] / emit [[]]", "{}|[]|[[]]"},
		{"emit 0.1 / emit 1e-7 / emit 123456789012345680000 / emit -1.50 / emit 1e15 + 0.5", "0.1|0.0000001|123456789012345680000|-1.5|1000000000000000.5"},
		{`emit {"z": 1, "B": 2, "a": {"y": 1, "x": 2}, "é": 3}`, `{"B": 2, "a": {"x": 2, "y": 1}, "z": 1, "é": 3}`},
	})
}

func TestAssignment(t *testing.T) {
	checkAll(t, Env{}, []example{
		{"set a, b = [1, [2]] / emit a / emit b[0]", "1|2"},
		{"set a, b = 5", "!7"},
		{"set a, b = [1]", "!36"},
		{"set a, a = [1, 2] / emit a", "2"},
		{"set a = 1 / set b = 2 / set a, b = [b, a] / emit a / emit b", "2|1"},
		{"set l = [0, 0] / set i, l[i] = [1, 9] / emit l", "[0, 9]"},
		{"set m.k[2] = 1 / emit m", `{"k": [nil, nil, 1]}`},
		{`set m["0"] = 1 / emit m`, `{"0": 1}`},
		{"set m[0] = 1 / emit m", "[1]"},
		{"set m[0.5] = 1 / emit m", `{"0.5": 1}`},
		{"set m[true] = 1 / emit m", `{"true": 1}`},
		{"set m[\"\"] = 1 / set n[false] = 2 / set o[nil] = 3 / emit m / emit n / emit o", `{"": 1}|{"false": 2}|{"": 3}`},
		{"set m[-1] = 1", "!8"},
		{"set l = [1] / set l[-1] = 1", "!8"},
		{`set l = [1] / set l["x"] = 1`, "!7"},
		{"set l = [1] / set l.x = 1", "!7"},
		{"set l = [1] / set l[0.5] = 1", "!7"},
		{`set l = [1] / set l["1"] = 2 / emit l`, "[1, 2]"},
		{"set l = [1] / set l[nil] = 1", "!7"},
		{"set m = {} / set m[1] = 2 / set m[nil] = 3 / emit m", `{"": 3, "1": 2}`},
		{"set s = \"x\" / set s[0] = 1", "!7"},
		{"set n = 0 / set n.x = 1", "!7"},
		{"set m = {\"a\": 1} / set m.a.b = 2", "!7"},
		{"set m = {\"a\": nil} / set m.a.b = 2 / emit m", `{"a": {"b": 2}}`},
		{"set l[100000] = 1 / emit len(l)", "100001"},
		{"set l[100001] = 1", "!8"},
		{"set l[50000][50000] = 1 / emit len(l)", "50001"},
		{"set l[50000][50001] = 1", "!8"},
		{"set l[1e300] = 1", "!8"},
		{"set a = {\"x\": [1, 2]} / set b = a / set b.x[0] = 9 / emit a / emit b", `{"x": [1, 2]}|{"x": [9, 2]}`},
		{"set a = [1] / set a[1] = a / emit a", "[1, [1]]"},
		{"set a = [[1]] / set b = a[0] / set a[0][0] = 2 / emit b", "[1]"},
		{"set x = must 0 / emit x", "0"},
		{"set x = must \"\" / emit \"ok\"", "ok"},
		{"set x = must false / emit x", "false"},
		{"set x = must nil", "!5"},
		{`set x = must {"code": 3, "message": "m"}`, "!5"},
		{"set a, b = must [1, 2] / emit b", "2"},
		{"set x[1/0] = f()", "!2"},
		{"set m = {\"b\": 1} / set m.a = 1 / set m.c = 1 / set m.b = 7 / emit m", `{"a": 1, "b": 7, "c": 1}`},
		{"set m" + strings.Repeat("[0]", 64) + " = 1 / emit len(m)", "1"},
		{"set m" + strings.Repeat("[0]", 65) + " = 1", "!17"},
		{"set m" + strings.Repeat(".a", 63) + " = [1] / emit len(m)", "1"},
		{"set m" + strings.Repeat(".a", 64) + " = [1]", "!17"},
		{"set userdata.x = 1", "!parse"},
		{"set a, b, c[0].d = [1, 2, 3] / emit c", `[{"d": 3}]`},
	})
}

func TestStatements(t *testing.T) {
	env := Env{Userdata: Map(map[string]Value{"n": Number(2)}), SID: "t:u:s", TurnIndex: 7}
	checkAll(t, env, []example{
		{"emit sid + turn_index + userdata.n", "t:u:s72"},
		{"for each c in \"aé😀\" / emit c / endfor / emit c", "a|é|😀|😀"},
		{`for each v in {"b": 2, "a": 1} / emit v / endfor`, "1|2"},
		{"for each v in nil / emit v / endfor / emit v", ""},
		{"for each v in 5 / endfor", "!7"},
		{"for each v in true / endfor", "!7"},
		{"set l = [1, 2] / for each v in l / set l[len(l)] = v / emit v / endfor / emit l", "1|2|[1, 2, 1, 2]"},
		{"for each a in [1, 2] / for each b in [1, 2] / if b == 2 / break / endif / emit a + \"\" + b / endfor / if a == 1 / continue / endif / emit \"end\" / endfor", "11|21|end"},
		{"set i = 0 / while i < 3 / set i = i + 1 / if i == 2 / continue / endif / emit i / endwhile", "1|3"},
		{"if 0 / emit 1 / else if 0 / emit 2 / else if 1 / emit 3 / else / emit 4 / endif", "3"},
		{"if 0 / else if 0 / else / emit 4 / endif", "4"},
		{"if 1 / endif / while 0 / endwhile / for each x in [] / endfor", ""},
		{"must 1 / must \"x\" / emit 1 / must nil", "1|!5"},
		{"mustbe is_nil(nil) / emit 1 / mustbe is_nil(1)", "1|!5"},
		{"fail", "!1"},
		{"fail 42", "!1"},
		{`fail {"code": 77, "message": [1]}`, "!77"},
		{`fail {"code": 1.5, "message": ""}`, "!1"},
		{`fail {"code": "7", "message": ""}`, "!1"},
		{`fail {"code": 7}`, "!1"},
		{"fail 1/0", "!14"},
		{"whisper 1, 2", "!7"},
		{"whisper nil, 1/0", "!14"},
		{"whisper self, [1] / emit 1", "1"},
		{"set a = [1", "!parse"},
	})
	out := runProgram(t, program("whisper self, 1 / whisper \"to\", nil / fail \"x\""), env)
	if len(out.Whispers) != 2 || out.Whispers[0] != (whispered{"self", "1"}) || out.Whispers[1] != (whispered{"to", ""}) || out.ScratchBytes != 3 || out.Result.Emits != 2 {
		t.Errorf("whispers %v, %+v", out.Whispers, out.Result)
	}
	out = runProgram(t, program("fail / "), env)
	if out.Err.Message != "fail statement executed" || out.Err.Line != 2 || out.Err.Col != 1 {
		t.Errorf("%+v", out.Err)
	}
	out = runProgram(t, program("emit 1 / emit [1,\n 2][5]"), env)
	if out.Err.Line != 4 || out.Err.Col != 4 {
		t.Errorf("%+v", out.Err)
	}
}

// TestHandlers follows the rules of §8.1 by number.
func TestHandlers(t *testing.T) {
	lib, err := CompileLibrary(Source{"lib", []byte(`
func boom() means
  fail "deep"
endfunc
func safe(returns r) means
  on error do
    emit "in func"
    clear_error
  endon
  call boom()
  return "ok"
endfunc
func bad() means
  on error do
    return 1
  endon
  fail "x"
endfunc
func half() means
  on error do
    emit "not cleared"
  endon
  fail "y"
endfunc
func inloop() means
  on error as e do
    emit "f:" + e.message
    clear_error
    set n = 0
  endon
  for each x in [1, 2]
    fail x
    emit "next"
  endfor
endfunc
`)})
	if err != nil {
		t.Fatal(err)
	}
	h := "on error as e do / emit \"[\" + e.code + \" \" + e.message + \"]\" / clear_error / endon / "
	checkAll(t, Env{Library: lib, Tools: newTestTools()}, []example{
		// 1: active for the whole block, also above; not outside it; one per block.
		{"fail \"a\" / emit 1 / on error do / clear_error / endon", "1"},
		{"if 1 / " + h + "fail 1 / endif / fail 2", "[1 1]|!1"},
		{"if 0 / else / " + h + "fail 1 / emit 2 / endif", "[1 1]|2"},
		// A function starts with an empty context; the caller's handler sees the calling statement fail.
		{h + "call boom() / emit 1", "[1 deep]|1"},
		{"emit safe()", "in func|ok"},
		{h + "emit safe() / call inloop()", "in func|ok|f:1|next|f:2|next"},
		// 2: the nearest block with a handler; none: the command fails.
		{h + "for each x in [1] / on error do / emit \"inner\" / clear_error / endon / if 1 / fail 1 / emit 2 / endif / emit 3 / endfor", "inner|2|3"},
		{"emit 1 / fail \"x\" / emit 2", "1|!1"},
		// 3: system_error_message and the name stay set; the handler is outside the failed statement.
		{h + "fail \"m\" / emit system_error_message / emit e.line / emit e[\"details\"] == nil / emit e.nope == nil / emit typeof e / emit some e", "[1 m]|m|6|true|true|error|false"},
		{"on error do / clear_error / endon / fail \"q\" / emit ```{{system_error_message}}```", "q"},
		// 4: resumption after the innermost failing statement; headers count as the statement.
		{h + "if 1/0 / emit 1 / endif / emit 2", "[14 division by zero]|2"},
		{h + "while nil + 1 / emit 1 / endwhile / emit 2", "[7 + cannot take nil and number]|2"},
		{h + "for each x in 5 / emit 1 / endfor / emit 2", "[7 for each needs a list, map, string or nil, not number]|2"},
		{h + "if 0 / else if 1/0 / emit 1 / endif / emit 2", "[14 division by zero]|2"},
		{h + "emit 1 / emit 1/0 / emit 3", "1|[14 division by zero]|3"},
		{h + "set a, b = [1, 2, 3] / emit a == nil", "[36 a set of 2 names got a list of 3]|true"},
		{h + "set i = 0 / while i < 2 / set i = i + 1 / fail i / emit \"t\" + i / endwhile / emit \"end\"", "[1 1]|t1|[1 2]|t2|end"},
		// not cleared: goes on to the next enclosing handler, which resumes at the same place.
		{h + "if 1 / on error do / emit \"in\" / endon / fail 1 / emit 2 / endif / emit 3", "in|[1 1]|2|3"},
		{"on error do / emit \"seen\" / endon / fail 1 / emit 2", "seen|!1"},
		{h + "call half() / emit 1", "not cleared|[1 y]|1"},
		{"on error do / emit 1 / endon / if 1 / on error do / emit 2 / endon / if 1 / on error do / emit 3 / endon / fail \"f\" / endif / endif", "3|2|1|!1"},
		// 5: an error inside a handler replaces the first and goes outwards; resumption after the statement the handler ran for.
		{"on error do / emit 1 / fail \"new\" / endon / fail \"old\"", "1|!1"},
		{h + "if 1 / on error do / emit 1 / fail \"new\" / emit 2 / endon / fail \"old\" / emit 3 / endif / emit 4", "1|[1 new]|3|4"},
		{"on error as e do / on error as f do / emit \"f \" + f.message / clear_error / endon / emit \"e \" + e.message / fail \"in\" / emit \"on\" / clear_error / endon / fail \"out\" / emit \"end\"", "e out|f in|on|end"},
		{"on error do / emit 1 / endon / if 1 / on error do / clear_error / fail \"n\" / endon / fail \"o\" / emit 2 / endif", "1|!1"},
		{"on error as e do / on error do / emit 1 / endon / fail \"in\" / endon / fail \"out\"", "1|!1"},
		{"on error as e do / on error do / clear_error / endon / fail \"in\" / endon / fail \"out\" / emit 1", "!1"},
		{"on error do / clear_error / fail \"n\" / endon / fail \"o\"", "!1"},
		{h + "if 1 / on error do / clear_error / fail \"n\" / endon / fail \"o\" / emit 1 / endif", "[1 n]|1"},
		{h + "call bad()", "[12 return is not allowed inside a handler]"},
		{"call bad()", "!12"},
		{"on error do / for each x in [1, 2] / if x == 1 / continue / endif / emit x / break / endfor / clear_error / endon / fail 1 / emit \"on\"", "2|on"},
		{"for each a in [1, 2] / on error do / clear_error / break / endon / emit a / for each b in [1, 2] / fail 1 / endfor / emit \"no\" / endfor / emit \"end\"", "1|end"},
		{"for each a in [1, 2] / on error do / clear_error / continue / endon / emit a / for each b in [1, 2] / fail 1 / endfor / emit \"no\" / endfor / emit \"end\"", "1|2|end"},
		{"for each a in [1, 2] / on error do / break / endon / emit a / fail \"x\" / endfor", "1|!1"},
		{h + "for each a in [1, 2] / if 1 / on error do / continue / endon / emit a / fail \"x\" / emit \"r\" / endif / endfor", "1|[1 x]|r|2|[1 x]|r"},
		{"for each a in [1, 2] / if 1 / on error do / clear_error / break / endon / fail 1 / endif / emit \"no\" / endfor / for each z in [7, 8] / emit z / endfor", "7|8"},
		{"for each a in [1] / on error do / for each q in [1] / clear_error / break / endfor / endon / fail 1 / emit \"on\" / endfor", "on"},
		{h + "for each a in [1, 2] / while 1 / on error do / clear_error / break / endon / fail a / endwhile / emit a / endfor", "1|2"},
		// 6 and 7: breaches pass every handler.
		{h + "call tool.test.boom(\"b\") / emit 1", "[21 b]|1"},
		{h + "set s = \"a\" * 9000000 / emit 1", "!VALUE"},
		{"on error do / clear_error / while 1 / endwhile / endon / fail 1", "!GAS"},
		// must keeps the error.
		{h + "set x = must {\"code\": 7, \"message\": \"inner\"} / emit e.details.message", "[5 must failed: inner]|inner"},
		{h + "fail {\"code\": 9, \"message\": \"m\", \"details\": [1]} / emit e.details", "[9 m]|[1]"},
		{"on error as e do / fail e / endon / fail {\"code\": 2500, \"message\": \"m\"}", "!2500"},
		{h + "fail \"a\" / emit e == e / set f = e / fail \"a\" / emit e == f / fail \"b\" / emit e == f / emit e", "[1 a]|true|[1 a]|true|[1 b]|false|error: b"},
		{h + "fail 1 / set e.x = 1", "[1 1]|[7 an element of error cannot be set]"},
		{h + "fail \"q\" / emit [e] / emit {\"k\": e} / emit \"\" + e / emit len(e) / for each x in e / endfor", "[1 q]|[error: q]|{\"k\": error: q}|error: q|1|[7 for each needs a list, map, string or nil, not error]"},
	})
}

// TestDeterminedOrder runs one program with a wide map often: rendering and
// iteration never vary.
func TestDeterminedOrder(t *testing.T) {
	src := program("set m = {} / for each c in \"qwertyuiopasdfghjklzxcvbnm\" / set m[c] = ord(c) / endfor / emit m / for each v in m / emit v / endfor")
	first := runProgram(t, src, Env{})
	for range 50 {
		if again := runProgram(t, src, Env{}); brief(again) != brief(first) || again.Gas != first.Gas || again.Alloc != first.Alloc {
			t.Fatal("two runs differ")
		}
	}
}

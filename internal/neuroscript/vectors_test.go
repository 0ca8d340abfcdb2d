package neuroscript

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// testTools is the tool set of the vectors (their README), with NS-A's rule that
// surplus arguments are a mismatch.
type testTools map[string]*Tool

func (t testTools) Lookup(name string) (*Tool, error) { return t[name], nil }

func newTestTools() testTools {
	tools := testTools{}
	add := func(key string, tool *Tool) { tools[key] = tool }
	add("test.push", &Tool{
		Name: "test.push", Params: []Param{{Name: "list", Type: "list"}, {Name: "x", Type: "any"}}, Appends: true,
		Func: appendTools["append"].Func,
	})
	add("test.echo", &Tool{
		Name: "test.Echo", Params: []Param{{Name: "value", Type: "any"}},
		Func: func(_ *Call, a []Value) (Value, error) { return a[0], nil },
	})
	add("test.add", &Tool{
		Name: "test.Add", Params: []Param{{Name: "a", Type: "float"}, {Name: "b", Type: "float"}},
		Func: func(_ *Call, a []Value) (Value, error) {
			x, _ := a[0].AsNumber()
			y, _ := a[1].AsNumber()
			return Number(x + y), nil
		},
	})
	add("test.boom", &Tool{
		Name: "test.Boom", Params: []Param{{Name: "message", Type: "string"}},
		Func: func(_ *Call, a []Value) (Value, error) {
			s, _ := a[0].AsString()
			return Value{}, Errorf(CodeToolFailed, "%s", s)
		},
	})
	add("test.greet", &Tool{
		Name: "test.Greet", Params: []Param{{Name: "name", Type: "string"}, {Name: "greeting", Type: "string", Optional: true}},
		Func: func(_ *Call, a []Value) (Value, error) {
			name, _ := a[0].AsString()
			greeting, ok := a[1].AsString()
			if !ok {
				greeting = "hello"
			}
			return String(greeting + ", " + name), nil
		},
	})
	add("test.none", &Tool{Name: "test.None", Func: func(*Call, []Value) (Value, error) { return Value{}, nil }})
	add("test.pair", &Tool{Name: "test.Pair", Func: func(*Call, []Value) (Value, error) {
		return List([]Value{Number(1), String("two")}), nil
	}})
	add("test.record", &Tool{
		Name: "test.Record", Params: []Param{{Name: "id", Type: "int"}},
		Func: func(_ *Call, a []Value) (Value, error) {
			return Map(map[string]Value{"id": a[0], "tags": List([]Value{String("x"), String("y")})}), nil
		},
	})
	return tools
}

type whispered struct {
	Target string `json:"target"`
	Text   string `json:"text"`
}

// outcome is everything a run did.
type outcome struct {
	Emits    []string
	Whispers []whispered
	Result
	ParseErr *messages.Error
}

// runProgram compiles and runs, with env's sinks replaced.
func runProgram(t testing.TB, src string, env Env) outcome {
	t.Helper()
	out := outcome{Emits: []string{}, Whispers: []whispered{}}
	p, err := Compile([]byte(src))
	if err != nil {
		e, ok := errors.AsType[*messages.Error](err)
		if !ok || e.Code != messages.ErrActionsParse || e.Line < 1 || e.Col < 1 || e.Detail == "" {
			t.Fatalf("parse error without place or words: %#v", err)
		}
		out.ParseErr = e
		return out
	}
	env.Emit = func(s string) { out.Emits = append(out.Emits, s) }
	env.Whisper = func(to, s string) { out.Whispers = append(out.Whispers, whispered{to, s}) }
	out.Result = p.Run(context.Background(), &env)
	if out.Err != nil && out.Breach != nil {
		t.Fatalf("both an error and a breach: %v, %v", out.Err, out.Breach)
	}
	return out
}

type vector struct {
	Name      string      `json:"name"`
	Library   string      `json:"library"`
	Program   string      `json:"program"`
	Emits     []string    `json:"emits"`
	Whispers  []whispered `json:"whispers"`
	Outcome   string      `json:"outcome"`
	ErrorKind string      `json:"error_kind"`
	NSA       string      `json:"ns_a"`
	Note      string      `json:"ns_a_note"`
}

var kindCodes = map[string][]int{
	"type": {CodeType}, "bounds": {CodeBounds}, "division_by_zero": {CodeDivZero}, "count_mismatch": {CodeCount},
	"must_failed": {CodeMust}, "fail": {CodeFail}, "arg_mismatch": {CodeArgument}, "func_not_found": {CodeFuncNotFound},
	"tool_not_found": {CodeToolNotFound}, "tool_failed": {CodeToolFailed}, "return_violation": {CodeReturnViolation},
}

// differing is what NS-A does with the vectors that note a difference.
var differing = map[string]struct {
	emits []string
	code  int    // of a script error
	meter string // of a breach
	parse bool
}{
	"digit-chars-concat-adds":                {emits: []string{"123"}},
	"dot-read-syntax":                        {emits: []string{"1"}},
	"lvalue-overwrite-scalar-child":          {code: CodeType},
	"lvalue-string-number-key-vivifies-list": {emits: []string{"map"}},
	"list-in-list-index":                     {emits: []string{"[[1, 2], [3, 4]]"}},
	"if-empty-body-syntax":                   {emits: []string{}},
	"while-limit-resource":                   {meter: MeterGas},
	"else-if-syntax-error":                   {emits: []string{"2"}},
	"func-missing-required-is-nil":           {code: CodeArgument},
	"double-bracket-interpolates":            {parse: true},
	"double-bracket-missing-var-is-empty":    {parse: true},
	"double-bracket-unknown-symbol":          {parse: true},
	"double-bracket-unclosed":                {parse: true},
	"double-bracket-multiline":               {parse: true},
	"placeholder-cr-symbol":                  {parse: true},
	"two-command-blocks-share-vars":          {parse: true},
	"comment-only-source":                    {parse: true},
	"numeric-string-plus-number":             {emits: []string{"105"}},
	"compare-text-strings-error":             {emits: []string{"true"}},
	"equality-nested":                        {emits: []string{"false"}},
	"scientific-string-adds":                 {emits: []string{"1e21"}},
	"keyword-tool-name-syntax":               {code: CodeToolNotFound},
}

func TestVectors(t *testing.T) {
	files, err := filepath.Glob("../../tests/testdata/vectors/neuroscript/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var vectors []vector
		if err := json.Unmarshal(raw, &vectors); err != nil {
			t.Fatal(err)
		}
		for _, v := range vectors {
			t.Run(filepath.Base(file)+"/"+v.Name, func(t *testing.T) { checkVector(t, v) })
		}
	}
}

func checkVector(t *testing.T, v vector) {
	env := Env{Tools: newTestTools()}
	if v.Library != "" {
		lib, err := CompileLibrary(Source{Name: "library", Text: []byte(v.Library)})
		if err != nil {
			if v.ErrorKind != "syntax" || messages.CodeOf(err) != messages.ErrConfig {
				t.Fatalf("library: %v", err)
			}
			return
		}
		env.Library = lib
	}
	out := runProgram(t, v.Program, env)
	if v.NSA == "differs" {
		want, ok := differing[v.Name]
		if !ok {
			t.Fatalf("an unknown difference: %s\n%s\ngot %+v", v.Note, v.Program, out)
		}
		switch {
		case want.parse:
			if out.ParseErr == nil {
				t.Fatalf("no parse error: %+v", out)
			}
		case want.meter != "":
			if out.Breach == nil || out.Breach.Meter != want.meter {
				t.Fatalf("got %+v", out)
			}
		case want.code != 0:
			if out.Err == nil || out.Err.Code != want.code {
				t.Fatalf("got %+v, parse %v", out, out.ParseErr)
			}
		default:
			if out.ParseErr != nil || out.Err != nil || !slices.Equal(out.Emits, want.emits) {
				t.Fatalf("got %q %v %v", out.Emits, out.Err, out.ParseErr)
			}
		}
		return
	}
	if !slices.Equal(out.Emits, v.Emits) || !slices.Equal(out.Whispers, v.Whispers) {
		t.Errorf("emits %q, want %q; whispers %v, want %v", out.Emits, v.Emits, out.Whispers, v.Whispers)
	}
	switch {
	case out.Breach != nil:
		t.Errorf("breach %v", out.Breach)
	case v.Outcome == "ok":
		if out.ParseErr != nil || out.Err != nil {
			t.Errorf("failed: %v %v", out.ParseErr, out.Err)
		}
	case v.ErrorKind == "syntax":
		if out.ParseErr == nil {
			t.Errorf("no parse error, %v", out.Err)
		}
	default:
		if out.Err == nil || !slices.Contains(kindCodes[v.ErrorKind], out.Err.Code) {
			t.Errorf("error %v, parse error %v, want %s", out.Err, out.ParseErr, v.ErrorKind)
		}
	}
}

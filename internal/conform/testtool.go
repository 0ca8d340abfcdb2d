package conform

import "github.com/seed14be6753/stile/internal/neuroscript"

// toolSet is a fixed set of tools by lower-cased name.
type toolSet map[string]*neuroscript.Tool

// Lookup implements neuroscript.ToolSet.
func (t toolSet) Lookup(name string) (*neuroscript.Tool, error) { return t[name], nil }

// testTools is tool.test, the tools that the NeuroScript vectors call. They exist
// for vectors alone: no host registers them.
var testTools = toolSet{
	"test.echo": {Name: "test.echo", Params: []neuroscript.Param{{Name: "value", Type: "any"}}, Func: echo},
	"test.add":  {Name: "test.add", Params: []neuroscript.Param{{Name: "a", Type: "float"}, {Name: "b", Type: "float"}}, Func: add},
	"test.boom": {Name: "test.boom", Params: []neuroscript.Param{{Name: "message", Type: "string"}}, Func: boom},
	"test.greet": {Name: "test.greet", Params: []neuroscript.Param{
		{Name: "name", Type: "string"}, {Name: "greeting", Type: "string", Optional: true},
	}, Func: greet},
	"test.none":   {Name: "test.none", Func: none},
	"test.pair":   {Name: "test.pair", Func: pair},
	"test.record": {Name: "test.record", Params: []neuroscript.Param{{Name: "id", Type: "int"}}, Func: record},
}

func echo(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	return args[0], nil
}

func add(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	a, _ := args[0].AsNumber()
	b, _ := args[1].AsNumber()
	return neuroscript.Number(a + b), nil
}

func boom(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	message, _ := args[0].AsString()
	return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "%s", message)
}

func greet(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	name, _ := args[0].AsString()
	greeting, ok := args[1].AsString()
	if !ok {
		greeting = "hello"
	}
	return neuroscript.String(greeting + ", " + name), nil
}

func none(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
	return neuroscript.Value{}, nil
}

func pair(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
	return neuroscript.List([]neuroscript.Value{neuroscript.Number(1), neuroscript.String("two")}), nil
}

func record(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
	tags := neuroscript.List([]neuroscript.Value{neuroscript.String("x"), neuroscript.String("y")})
	return neuroscript.MapOf([]neuroscript.Entry{{Key: "id", Value: args[0]}, {Key: "tags", Value: tags}}), nil
}

package tools

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Define makes a tool of a Go function. The fields of the struct In are its parameters, in
// the order of their declaration and under their JSON names. A field that is a pointer or
// has omitempty or omitzero is optional; optional fields come last. A `jsonschema:"…"` tag
// describes a field to the model.
//
// A program calls the tool with arguments in that order, or with one map that names them; a
// map is the first argument only if the first parameter takes maps. Arguments are coerced
// as those of other tools are (docs/spec/neuroscript.md §11). A missing or unknown member
// of an argument, or one of another type, fails the call with code 4 and the names of the
// fields. Out becomes a value through its JSON form.
//
// The error of Define is ERR_CONFIG: In is no struct, a type has no JSON form, a required
// field follows an optional one, or the name is invalid. The host recovers panics of do.
func Define[In, Out any](name, description string, class messages.Class, do func(context.Context, In) (Out, error)) (Tool, error) {
	return define(name, description, class, func(ctx context.Context, _ *Call, in In) (Out, error) { return do(ctx, in) })
}

// DefineCall is Define for a function that needs its Call: the idempotency key, the session,
// the attempt, the budget. The function must not use the Call after it returns. Class pure
// is ERR_CONFIG, because pure tools have no Call.
func DefineCall[In, Out any](name, description string, class messages.Class, do func(context.Context, *Call, In) (Out, error)) (Tool, error) {
	if class == messages.Pure {
		return Tool{}, &messages.Error{Code: messages.ErrConfig, Field: "tools." + name, Detail: "a pure tool has no call; use Define, or another class"}
	}
	return define(name, description, class, do)
}

func define[In, Out any](name, description string, class messages.Class, do func(context.Context, *Call, In) (Out, error)) (Tool, error) {
	s, err := signatureOf(reflect.TypeFor[In]())
	if err == nil {
		_, err = jsonschema.For[Out](nil)
	}
	if err != nil {
		return Tool{}, &messages.Error{Code: messages.ErrConfig, Field: "tools." + name, Detail: err.Error()}
	}
	t := Tool{Name: name, Description: description, Class: class, Params: s.params}
	t.Form.Schema, t.Form.Prepare, t.Form.Name = s.text, s.prepare, s.name
	call := func(ctx context.Context, c *Call, args []neuroscript.Value) ([]byte, error) {
		var in In
		if err := s.decode(args, &in); err != nil {
			return nil, err
		}
		out, err := do(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out, json.Deterministic(true))
	}
	if class == messages.Pure {
		t.Pure = func(c *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
			b, err := call(c.Context(), nil, args)
			if err != nil {
				return neuroscript.Value{}, err
			}
			return c.ParseJSON(string(b))
		}
	} else {
		t.Run = func(ctx context.Context, c *Call) (neuroscript.Value, error) {
			// Calls that do not come from a program are not prepared yet; preparing
			// twice changes nothing.
			args, err := s.prepare(c.Args)
			if err != nil {
				return neuroscript.Value{}, err
			}
			b, err := call(ctx, c, args)
			if err != nil {
				return neuroscript.Value{}, err
			}
			return neuroscript.FromJSON(b)
		}
	}
	if err := t.Validate(); err != nil {
		return Tool{}, err
	}
	return t, nil
}

// signature is what Define knows of In.
type signature struct {
	schema *jsonschema.Schema
	text   string // schema as JSON
	params []neuroscript.Param
}

func signatureOf(in reflect.Type) (*signature, error) {
	if in.Kind() != reflect.Struct {
		return nil, errors.New("the argument type is " + in.String() + "; want a struct")
	}
	schema, err := jsonschema.ForType(in, nil)
	if err != nil {
		return nil, err
	}
	relax(schema, in)
	b, err := stdjson.Marshal(schema) // a Schema writes its properties in their order
	if err != nil {
		return nil, err
	}
	s := &signature{schema: schema, text: string(b)}
	for _, name := range schema.PropertyOrder {
		s.params = append(s.params, neuroscript.Param{
			Name: name, Type: paramType(schema.Properties[name]), Optional: !slices.Contains(schema.Required, name),
		})
	}
	return s, nil
}

// relax makes pointer fields optional, at every depth; the schema follows the
// types, which have no cycles.
func relax(schema *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if schema.Items != nil {
			relax(schema.Items, t.Elem())
		}
	case reflect.Map:
		if schema.AdditionalProperties != nil {
			relax(schema.AdditionalProperties, t.Elem())
		}
	case reflect.Struct:
		if schema.Properties == nil {
			return // a type with a JSON form of its own, such as time.Time
		}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			property := schema.Properties[name]
			if f.Anonymous || !f.IsExported() || property == nil {
				continue
			}
			if f.Type.Kind() == reflect.Pointer {
				schema.Required = slices.DeleteFunc(schema.Required, func(r string) bool { return r == name })
			}
			relax(property, f.Type)
		}
	}
}

// schemaType returns the one type of a schema that is not null, or "".
func schemaType(s *jsonschema.Schema) string {
	if s.Type != "" {
		return s.Type
	}
	for _, t := range s.Types {
		if t != "null" {
			return t
		}
	}
	return ""
}

// paramType returns the parameter type (docs/spec/neuroscript.md §11) of a schema.
func paramType(s *jsonschema.Schema) string {
	typ := seam.TypeOf(schemaType(s))
	if typ == "list" && s.Items != nil {
		if inner := paramType(s.Items); !strings.HasPrefix(inner, "list") && inner != "any" {
			return "list<" + inner + ">"
		}
	}
	return typ
}

// prepare returns one coerced value per parameter, nil for an absent optional one.
func (s *signature) prepare(args []neuroscript.Value) ([]neuroscript.Value, error) {
	if len(args) > len(s.params) {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "want %d arguments at most, not %d", len(s.params), len(args))
	}
	given := make([]neuroscript.Value, len(s.params))
	copy(given, args)
	if named, ok := s.named(given); ok {
		return s.name(named)
	}
	return s.fit(given, nil)
}

// name is prepare for named arguments.
func (s *signature) name(named []neuroscript.Entry) ([]neuroscript.Value, error) {
	given := make([]neuroscript.Value, len(s.params))
	var bad seam.Mistakes
	for _, e := range named {
		i := slices.IndexFunc(s.params, func(p neuroscript.Param) bool { return p.Name == e.Key })
		if i < 0 {
			bad.Add("argument %s: there is no such parameter", clip.Excerpt(e.Key))
			continue
		}
		given[i] = e.Value
	}
	return s.fit(given, bad)
}

// fit coerces one value per parameter, and returns one error for all that do not fit and
// for the mistakes in bad.
func (s *signature) fit(given []neuroscript.Value, bad seam.Mistakes) ([]neuroscript.Value, error) {
	for i, p := range s.params {
		if given[i].IsNil() {
			if !p.Optional {
				bad.Add("argument %s: missing", p.Name)
			}
			continue
		}
		v, ok := seam.Coerce(p.Type, given[i])
		if !ok {
			bad.Add("argument %s: want %s, not a %s", p.Name, p.Type, given[i].Kind())
			continue
		}
		if path, why := misfit(s.schema.Properties[p.Name], v, p.Name); path != "" {
			bad.Add("argument %s: %s", path, why)
		}
		given[i] = v
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return given, nil
}

// named reports whether the arguments are one map of options.
func (s *signature) named(given []neuroscript.Value) ([]neuroscript.Entry, bool) {
	if len(given) == 0 || given[0].Kind() != neuroscript.KindMap || s.params[0].Type == "map" || s.params[0].Type == "any" {
		return nil, false
	}
	for _, v := range given[1:] {
		if !v.IsNil() {
			return nil, false
		}
	}
	return given[0].AsMap()
}

// misfit finds a missing or unknown member. Its recursion follows the value, which nests at
// most MaxValueDepth deep.
func misfit(schema *jsonschema.Schema, v neuroscript.Value, path string) (where, why string) {
	if schema == nil {
		return "", ""
	}
	list, _ := v.AsList()
	for i, e := range list {
		if where, why = misfit(schema.Items, e, path+"."+strconv.Itoa(i)); where != "" {
			return where, why
		}
	}
	if v.Kind() != neuroscript.KindMap {
		return "", ""
	}
	for _, name := range schema.Required {
		if m, _ := v.MapGet(name); m.IsNil() {
			return path + "." + name, "missing"
		}
	}
	members, _ := v.AsMap()
	for _, e := range members {
		member := schema.Properties[e.Key]
		if member == nil && schema.Properties != nil {
			return path + "." + e.Key, "there is no such member"
		}
		if member == nil {
			member = schema.AdditionalProperties
		}
		if where, why = misfit(member, e.Value, path+"."+e.Key); where != "" {
			return where, why
		}
	}
	return "", ""
}

// decode fills the struct in points to from prepared arguments.
func (s *signature) decode(args []neuroscript.Value, in any) error {
	b := []byte{'{'}
	var err error
	for i, p := range s.params {
		if args[i].IsNil() {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, strconv.Quote(p.Name)...)
		b = append(b, ':')
		if b, err = neuroscript.AppendJSON(b, args[i]); err != nil {
			return neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: %s", p.Name, err)
		}
	}
	b = append(b, '}')
	err = json.Unmarshal(b, in, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	path, why := "", "does not fit"
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		path = strings.ReplaceAll(strings.TrimPrefix(string(semantic.JSONPointer), "/"), "/", ".")
		if semantic.GoType != nil {
			why = "does not fit " + semantic.GoType.String()
		}
		if semantic.Err != nil {
			why += ": " + semantic.Err.Error()
		}
	}
	return neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: %s", path, why)
}

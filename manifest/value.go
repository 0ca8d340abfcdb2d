package manifest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/seed14be6753/stile/internal/clip"
)

// value reads the value of a key into v, by the kind of v.
func (l *loader) value(path string, kn, n *yaml.Node, f *field, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		e, mistakes := reflect.New(v.Type().Elem()), len(l.found)
		if l.value(path, kn, n, f, e.Elem()); len(l.found) == mistakes {
			v.Set(e)
		}
		return
	}
	if _, ok := l.places[path]; ok {
		l.add(at(kn), path, ReasonDuplicate, "has been given already under its other name")
		return
	}
	l.places[path] = at(n)
	if f.raw {
		l.raw = true
		defer func() { l.raw = false }()
	}
	switch v.Kind() {
	case reflect.Interface:
		if x, ok := l.anything(path, n, 0); ok {
			v.Set(reflect.ValueOf(x))
		}
	case reflect.Struct:
		if f.text != "" && n.Kind == yaml.ScalarNode && !isNull(n) {
			fields := fieldsOf(v.Type())
			i := slices.IndexFunc(fields, func(own field) bool { return own.key == f.text })
			l.value(join(path, f.text), kn, n, &fields[i], v.Field(fields[i].index))
			return
		}
		l.structure(path, n, v)
	case reflect.Slice:
		l.slice(path, n, f, v)
	case reflect.Map:
		l.mapping(path, n, f, v)
	case reflect.Bool:
		var b bool
		if l.scalar(path, n, "true or false", "!!bool") {
			if n.Decode(&b) != nil {
				l.add(at(n), path, ReasonWrongType, "want true or false")
				return
			}
			v.SetBool(b)
		}
	case reflect.Int64:
		i, ok := l.integer(path, n, f, v.Type())
		switch {
		case ok && i < 0 && f.none && n.Value != none, ok && i == 0 && f.optional: // there 0 stands for a key that is not there
			l.add(at(n), path, ReasonBadValue, "%s is outside %s", clip.Quoted(n.Value), bounds(f, v.Type()))
		case ok:
			v.SetInt(i)
		}
	case reflect.Float64:
		var x float64
		if l.scalar(path, n, "a number", "!!int", "!!float") {
			if n.Decode(&x) != nil {
				l.add(at(n), path, ReasonWrongType, "want a number, not %s", clip.Quoted(n.Value))
				return
			}
			v.SetFloat(x)
		}
	case reflect.String:
		if s, ok := l.text(path, n, f); ok {
			v.SetString(s)
		}
	}
}

func (l *loader) slice(path string, n *yaml.Node, f *field, v reflect.Value) {
	if !l.kind(path, n, yaml.SequenceNode, "a list") {
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, en := range n.Content {
		en = resolve(en)
		here := index(path, i)
		l.places[here] = at(en)
		e := reflect.New(v.Type().Elem()).Elem()
		switch e.Kind() {
		case reflect.Struct:
			if isNull(en) {
				l.add(at(en), here, ReasonWrongType, "want a mapping of keys, not nothing")
				break
			}
			if m, ok := e.Addr().Interface().(*Manifest); ok {
				if l.agent(here, en, m); l.agents > MaxAgents {
					return
				}
				break
			}
			l.structure(here, en, e)
		case reflect.String:
			if s, ok := l.text(here, en, f); ok {
				e.SetString(s)
			}
		default:
			if x, ok := l.anything(here, en, 0); ok {
				e.Set(reflect.ValueOf(x))
			}
		}
		// Also what could not be read: items keep the numbers they have in the file.
		out = reflect.Append(out, e)
	}
	if out.Len() > 0 {
		v.Set(out)
	}
}

func (l *loader) mapping(path string, n *yaml.Node, f *field, v reflect.Value) {
	if !l.kind(path, n, yaml.MappingNode, "a mapping of keys") {
		return
	}
	variables := path == l.base+"environment.variables"
	if variables {
		// The second reading sees what the first did: the variables above alone.
		l.vars = map[string]string{}
	}
	out := reflect.MakeMap(v.Type())
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn, vn := n.Content[i], resolve(n.Content[i+1])
		key, ok := l.keyOf(path, kn, seen)
		if !ok {
			continue
		}
		here := join(path, key)
		l.places[here] = at(kn)
		if v.Type().Elem().Kind() == reflect.Interface {
			if x, ok := l.anything(here, vn, 0); ok {
				out.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(x))
			}
			continue
		}
		item := *f
		if f.enum == nil {
			item.shape = anyText // the shape is the key's
		}
		if s, ok := l.text(here, vn, &item); ok {
			out.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(s).Convert(v.Type().Elem()))
			if variables {
				l.vars[key] = s
			}
		}
	}
	if out.Len() > 0 {
		v.Set(out)
	}
}

// kind reports whether n is of a kind; null stands for an empty one, as people
// leave a key whose contents they commented out.
func (l *loader) kind(path string, n *yaml.Node, kind yaml.Kind, want string) bool {
	if n.Kind == kind {
		return true
	}
	if !isNull(n) {
		l.add(at(n), path, ReasonWrongType, "want %s, not %s", want, nodeName(n))
	}
	return false
}

func (l *loader) scalar(path string, n *yaml.Node, want string, tags ...string) bool {
	if n.Kind == yaml.ScalarNode && slices.Contains(tags, n.ShortTag()) {
		return true
	}
	l.add(at(n), path, ReasonWrongType, "want %s, not %s", want, nodeName(n))
	return false
}

func (l *loader) text(path string, n *yaml.Node, f *field) (string, bool) {
	if f.shape == anyText {
		if n.Kind != yaml.ScalarNode || isNull(n) {
			l.add(at(n), path, ReasonWrongType, "want text, not %s", nodeName(n))
			return "", false
		}
	} else if !l.scalar(path, n, "text", "!!str") {
		if n.Kind == yaml.ScalarNode && !isNull(n) {
			l.found[len(l.found)-1].Detail += "; put it in quotes"
		}
		return "", false
	}
	l.undefined = f.undefined
	s, err := l.expand(n.Value)
	l.undefined = false
	if err != nil {
		l.add(at(n), path, err.Reason, "%s", err.Detail)
		return "", false
	}
	if s == "" && (f.enum != nil || (f.shape != "" && f.shape != anyText)) {
		l.add(at(n), path, ReasonBadValue, "must not be empty")
		return "", false
	}
	return s, true
}

func (l *loader) integer(path string, n *yaml.Node, f *field, t reflect.Type) (int64, bool) {
	parse := func(want string, read func(string) (int64, error), tags ...string) (int64, bool) {
		if !l.scalar(path, n, want, tags...) {
			return 0, false
		}
		s, bad := l.expand(n.Value)
		if bad != nil {
			l.add(at(n), path, bad.Reason, "%s", bad.Detail)
			return 0, false
		}
		i, err := read(s)
		if err != nil {
			l.add(at(n), path, ReasonBadValue, "%s", err)
			return 0, false
		}
		return i, true
	}
	switch {
	case t == durationType:
		return parse("a duration such as 30s", func(s string) (int64, error) {
			d, err := time.ParseDuration(s)
			if err != nil {
				return 0, fmt.Errorf("%q is no duration; write it as 500ms, 30s, 5m or 1h", clip.Quoted(s))
			}
			return int64(d), nil
		}, "!!str")
	case f.unit == "usd":
		return parse("dollars such as \"1.00\"", ParseUSD, "!!str", "!!int", "!!float")
	case f.unit == "bytes" && n.ShortTag() == "!!str":
		return parse("a size such as 64MiB", ParseSize, "!!str")
	}
	want := "an integer"
	if f.none {
		if n.ShortTag() == "!!str" && n.Value == none {
			return NoHistory, true
		}
		want = "a count such as 20, none, or a size such as 32KiB"
	}
	if !l.scalar(path, n, want, "!!int", "!!float") {
		return 0, false
	}
	var i int64
	if n.ShortTag() == "!!int" && n.Decode(&i) == nil && i >= -maxInteger && i <= maxInteger {
		return i, true
	}
	// 1e6 is a float to YAML and an integer to people.
	var x float64
	if n.ShortTag() == "!!float" && n.Decode(&x) == nil && x == math.Trunc(x) && math.Abs(x) <= maxInteger {
		return int64(x), true
	}
	l.add(at(n), path, ReasonBadValue, "%q is no integer within 2^53", clip.Quoted(n.Value))
	return 0, false
}

// anything reads a value without a shape as JSON would have it.
func (l *loader) anything(path string, n *yaml.Node, depth int) (any, bool) {
	l.nodes++
	if depth > maxAnyDepth || l.nodes > maxAnyNodes {
		if l.nodes <= maxAnyNodes+1 {
			l.add(at(n), path, ReasonBadValue, "too deep or too big")
		}
		return nil, false
	}
	n = resolve(n)
	if depth > 0 {
		l.places[path] = at(n)
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, ok := l.keyOf(path, n.Content[i], seen)
			if !ok {
				continue
			}
			if x, ok := l.anything(join(path, key), n.Content[i+1], depth+1); ok {
				out[key] = x
			}
		}
		return out, true
	case yaml.SequenceNode:
		out := []any{}
		for i, e := range n.Content {
			if x, ok := l.anything(index(path, i), e, depth+1); ok {
				out = append(out, x)
			}
		}
		return out, true
	}
	var x any
	switch n.ShortTag() {
	case "!!str":
		s, err := l.expand(n.Value)
		if err != nil {
			l.add(at(n), path, err.Reason, "%s", err.Detail)
			return nil, false
		}
		return s, true
	case "!!int", "!!float", "!!bool":
		if n.Decode(&x) == nil {
			if f, ok := x.(float64); !ok || !math.IsNaN(f) && !math.IsInf(f, 0) {
				return x, true
			}
		}
	}
	l.add(at(n), path, ReasonWrongType, "want text, a number, true or false, a list or a mapping, not %s", nodeName(n))
	return nil, false
}

// none is what a file writes for NoHistory.
const none = "none"

// isSize reports whether a value is a number of bytes with its unit.
func isSize(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return false
	}
	_, err := ParseSize(n.Value)
	return err == nil && !digitsOnly(n.Value)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func nodeName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return "nothing"
		case "!!str":
			return fmt.Sprintf("the text %q", clip.Quoted(n.Value))
		case "!!int", "!!float":
			return "the number " + clip.Quoted(n.Value)
		case "!!bool":
			return n.Value
		case "!!timestamp":
			return "a date"
		}
	}
	return "this"
}

// suggest names the key that was probably meant.
func suggest(key string, fields []field) string {
	for _, f := range fields {
		if near(key, f.key) {
			return fmt.Sprintf("; %s is meant?", f.key)
		}
	}
	return ""
}

// near reports whether two keys differ by case, separators, or one byte changed,
// left out or added.
func near(a, b string) bool {
	fold := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	a, b = fold(a), fold(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 || len(a) < 3 {
		return a == b
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i == len(a) || a[i+1:] == b[i+1:]
	}
	return a[i:] == b[i+1:]
}

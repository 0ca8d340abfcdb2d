package expr

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/jsonvalue"
)

// Env is what an expression can look up.
type Env interface {
	// Value gives the JSON value that the name of a reference is bound to; ok is false for an
	// unknown one, and for a path that no expression may take.
	Value(ref Ref) (value string, ok bool)
	// Status gives the terminal state of an action or a block; ok is false for an unknown one.
	Status(id string) (state string, ok bool)
}

// Eval evaluates the expression. Its error is of WhyType or WhyUnknown, or of WhyLimit for a
// value that nests deeper than JSON may here.
func (e *Expr) Eval(env Env) (bool, *Error) {
	v := evaluator{env: env}
	result := v.condition(e.root, e.root.at)
	return result, v.err
}

// evaluator stops at the first error.
type evaluator struct {
	env Env
	err *Error
}

func (v *evaluator) fail(why string, at int, detail string) {
	if v.err == nil {
		v.err = &Error{why, at, detail}
	}
}

// condition evaluates what must be true or false; the error of anything else stands at a
// byte.
func (v *evaluator) condition(n *node, at int) bool {
	value := v.value(n)
	if v.err == nil && jsonvalue.Kind(value) != jsonvalue.Bool {
		v.fail(WhyType, at, "a condition is true or false, and this is "+shown(value)+" ("+jsonvalue.Word(value)+"): compare it, as in "+compared(n, value))
	}
	return v.err == nil && value == "true"
}

// compared shows how what a node gives becomes a condition.
func compared(n *node, value string) string {
	name := "$name"
	if n.op == "$" {
		name = shown(n.ref.String())
	}
	switch jsonvalue.Kind(value) {
	case jsonvalue.Array, jsonvalue.Object:
		return "length(" + name + ") > 0"
	case jsonvalue.Number:
		return name + " > 0"
	case jsonvalue.Null:
		return name + " != null"
	}
	return name + ` != ""`
}

func boolean(is bool) string {
	if is {
		return "true"
	}
	return "false"
}

func (v *evaluator) value(n *node) string {
	if v.err != nil {
		return "null"
	}
	switch n.op {
	case "=":
		return n.value
	case "$":
		return v.reference(n)
	case "!":
		return boolean(!v.condition(n.right, n.at))
	case "&&":
		return boolean(v.condition(n.left, n.at) && v.condition(n.right, n.at))
	case "||":
		return boolean(v.condition(n.left, n.at) || v.err == nil && v.condition(n.right, n.at))
	case fnExists, fnEmpty, fnLength, fnStatus:
		return v.call(n)
	}
	a := v.value(n.left)
	b := v.value(n.right)
	if v.err != nil {
		return "null"
	}
	return boolean(v.compare(n, a, b))
}

// reference returns the part that a reference leads to.
func (v *evaluator) reference(n *node) string {
	part, ok := v.find(n)
	if !ok {
		v.fail(WhyUnknown, n.refAt, n.ref.String()+" is unknown")
		return "null"
	}
	return part
}

func (v *evaluator) find(n *node) (part string, ok bool) {
	value, ok := v.env.Value(n.ref)
	if !ok {
		return "", false
	}
	part, ok = jsonvalue.Normal(value)
	if !ok {
		v.fail(WhyLimit, n.refAt, n.ref.String()+" is nested too deeply")
		return "", false
	}
	for _, segment := range n.ref.Path {
		if part, ok = jsonvalue.Child(part, segment); !ok {
			return "", false
		}
	}
	return part, true
}

func (v *evaluator) call(n *node) string {
	switch n.op {
	case fnExists:
		_, ok := v.find(n)
		return boolean(ok)
	case fnStatus:
		state, ok := v.env.Status(n.value)
		if !ok {
			v.fail(WhyUnknown, n.at, "no action or block has the id "+shown(jsonvalue.Quote(n.value)))
		}
		return jsonvalue.Quote(state)
	}
	value := v.reference(n)
	if v.err != nil {
		return "null"
	}
	size := -1
	switch kind := jsonvalue.Kind(value); {
	case kind == jsonvalue.String:
		size = utf8.RuneCountInString(jsonvalue.Meant(value))
	case kind == jsonvalue.Array, kind == jsonvalue.Object:
		size = jsonvalue.Count(value)
	case kind == jsonvalue.Null && n.op == fnEmpty:
		size = 0
	}
	if size < 0 {
		v.fail(WhyType, n.at, n.op+" takes a string, an array or an object, and no "+jsonvalue.Word(value))
		return "null"
	}
	if n.op == fnEmpty {
		return boolean(size == 0)
	}
	return strconv.Itoa(size)
}

// compare compares two values.
func (v *evaluator) compare(n *node, a, b string) bool {
	kind, other := jsonvalue.Kind(a), jsonvalue.Kind(b)
	if n.op == "==" || n.op == "!=" {
		if kind != other && kind != jsonvalue.Null && other != jsonvalue.Null {
			v.mismatch(n, a, b)
			return false
		}
		return jsonvalue.Equal(a, b) == (n.op == "==")
	}
	order := 0
	switch {
	case kind != other:
		v.mismatch(n, a, b)
	case kind == jsonvalue.Number:
		order = jsonvalue.Compare(a, b)
	case kind == jsonvalue.String:
		order = strings.Compare(jsonvalue.Meant(a), jsonvalue.Meant(b)) // bytes of UTF-8 are in the order of code points
	default:
		v.mismatch(n, a, b)
	}
	switch n.op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// mismatch says what two values that cannot be compared are.
func (v *evaluator) mismatch(n *node, a, b string) {
	v.fail(WhyType, n.at, shown(a)+" "+n.op+" "+shown(b)+": "+jsonvalue.Word(a)+" and "+jsonvalue.Word(b))
}

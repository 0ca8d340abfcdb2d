package feeds

import (
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// An object is a JSON object read member by member. Mistakes collect in found, their
// fields beginning with a dot. null is absent.
type object struct {
	members map[string]jsontext.Value
	order   []string
	found   []*messages.Error
	// open lets strings that hold a $ stand for any type: what they are is known
	// when the references in them are resolved.
	open bool
}

// readObject reads a JSON object of at most most bytes.
func readObject(src string, most int) (*object, *messages.Error) {
	if len(src) > most {
		return nil, refuse("", ReasonBadValue, "%d bytes, more than %d", len(src), most)
	}
	d := jsontext.NewDecoder(strings.NewReader(src))
	if k := d.PeekKind(); k != '{' {
		if _, err := d.ReadValue(); err != nil {
			e := refuse("", ReasonBadValue, "not JSON")
			e.Cause = err
			return nil, e
		}
		return nil, refuse("", ReasonWrongType, "want an object, not %s", kindName(k))
	}
	o := &object{members: map[string]jsontext.Value{}}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() == '"' {
		var key jsontext.Token
		if key, err = d.ReadToken(); err != nil {
			break
		}
		name := key.String()
		var v jsontext.Value
		if v, err = d.ReadValue(); err == nil {
			o.order = append(o.order, name)
			o.members[name] = v.Clone()
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	if err == nil && strings.Trim(src[d.InputOffset():], " \t\r\n") != "" {
		return nil, refuse("", ReasonBadValue, "more than one JSON value")
	}
	if err != nil {
		e := refuse("", ReasonBadValue, "not JSON")
		e.Cause = err
		return nil, e
	}
	return o, nil
}

func (o *object) add(key, reason, format string, args ...any) {
	o.found = append(o.found, refuse("."+key, reason, format, args...))
}

// take removes a member; ok is false when it is absent.
func (o *object) take(key string) (jsontext.Value, bool) {
	v, ok := o.members[key]
	delete(o.members, key)
	return v, ok && v.Kind() != 'n'
}

// has reports whether a member is there, null or not.
func (o *object) has(key string) bool {
	_, ok := o.members[key]
	return ok
}

// unquote returns the text of a JSON string.
func unquote(v jsontext.Value) string {
	b, _ := jsontext.AppendUnquote(nil, v) // read as valid
	return string(b)
}

// held reports whether the value is only known when references are resolved.
func (o *object) held(v jsontext.Value) bool {
	return o.open && v.Kind() == '"' && strings.Contains(unquote(v), "$")
}

func (o *object) text(key string) (string, bool) {
	v, ok := o.take(key)
	if !ok || o.held(v) {
		return "", false
	}
	if v.Kind() != '"' {
		o.add(key, ReasonWrongType, "want a string, not %s", kindName(v.Kind()))
		return "", false
	}
	return unquote(v), true
}

// integer reads a number without a fraction; 2.0 is one.
func (o *object) integer(key string) *int64 {
	v, ok := o.take(key)
	if !ok || o.held(v) {
		return nil
	}
	if v.Kind() != '0' {
		o.add(key, ReasonWrongType, "want an integer, not %s", kindName(v.Kind()))
		return nil
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(string(v), 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > float64(seedBound) {
			o.add(key, ReasonBadValue, "%s is no integer within 2^53", shortened(string(v)))
			return nil
		}
		n = int64(f)
	}
	if n > seedBound || n < -seedBound {
		o.add(key, ReasonBadValue, "%d is no integer within 2^53", n)
		return nil
	}
	return &n
}

// texts reads an array of at most most strings.
func (o *object) texts(key string, most int) ([]string, bool) {
	v, ok := o.take(key)
	if !ok || o.held(v) {
		return nil, false
	}
	if v.Kind() != '[' {
		o.add(key, ReasonWrongType, "want an array of strings, not %s", kindName(v.Kind()))
		return nil, false
	}
	d := jsontext.NewDecoder(strings.NewReader(string(v)))
	_, _ = d.ReadToken()
	out := []string{}
	for d.PeekKind() != ']' {
		e, err := d.ReadValue()
		at := key + "[" + strconv.Itoa(len(out)) + "]"
		switch {
		case err != nil:
			o.add(at, ReasonBadValue, "not JSON")
			return nil, false
		case len(out) == most:
			o.add(key, ReasonBadValue, "more than %d", most)
			return nil, false
		case e.Kind() != '"':
			o.add(at, ReasonWrongType, "want a string, not %s", kindName(e.Kind()))
			out = append(out, "")
		default:
			out = append(out, unquote(e))
		}
	}
	return out, true
}

// end refuses the members that were not taken.
func (o *object) end() []*messages.Error {
	for _, key := range o.order {
		if o.has(key) {
			o.add(shortened(key), ReasonUnknownKey, "unknown member")
			delete(o.members, key)
		}
	}
	return o.found
}

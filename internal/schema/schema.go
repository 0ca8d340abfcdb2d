// Package schema checks JSON against a JSON Schema that stands for itself: it refers to no
// other document, so that none makes the host read a file or an address.
//
// Invariants:
//   - a check depends on the schema and the text alone, so that a replay finds the same;
//   - all that is wrong is told at once, each with the place in the value.
//
// Formats and content keywords say nothing, as JSON Schema has it, and a pattern that RE2
// cannot read fits everything. It does not coerce, repair or fill in defaults.
package schema

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed14be6753/stile/internal/clip"
)

// Bounds of a schema, and of what is told of a value that does not fit it.
const (
	MaxBytes      = 64 << 10
	MaxDepth      = 64
	maxViolations = 8
	maxTold       = 1 << 10 // bytes
)

// Schema is a schema that is ready. It is immutable and safe for concurrent use.
type Schema struct {
	text  string
	ready *jsonschema.Schema
}

// Compile reads a schema: the JSON of an object, or true or false. The error says what is
// wrong with it, without a code.
func Compile(text string) (*Schema, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has %d bytes; it may have %d", len(text), MaxBytes)
	}
	if !shallow(text, MaxDepth) {
		return nil, fmt.Errorf("it is no JSON, or nests more than %d deep", MaxDepth)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New("it is no object")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(pattern)
	const at = "urn:schema" // no file: its address would be in errors
	if err := c.AddResource(at, doc); err != nil {
		return nil, plainly(err)
	}
	ready, err := c.Compile(at)
	if err != nil {
		return nil, plainly(err)
	}
	compact := jsontext.Value(text)
	if err := compact.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, err
	}
	return &Schema{text: string(compact), ready: ready}, nil
}

// Text is the schema as JSON on one line.
func (s *Schema) Text() string { return s.text }

// Check returns what of a JSON text does not fit: place and fault, parted by "; ", at most
// 1 KiB; "" for nothing. name says how a place is called, which is a JSON pointer, "" for
// the value itself.
func (s *Schema) Check(text string, name func(pointer string) string) string {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return name("") + ": no JSON: " + clip.Excerpt(err.Error())
	}
	err = s.ready.Validate(v)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &invalid):
		return clip.Excerpt(err.Error())
	}
	return told(invalid, name)
}

// plainly is an error of a schema without the address of the rules that it breaks.
func plainly(err error) error {
	var bad *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &invalid) {
		return errors.New(told(invalid, func(pointer string) string { return cmp.Or(pointer, "it") }))
	}
	return errors.New(clip.Excerpt(err.Error()))
}

// told lists what does not fit.
func told(invalid *jsonschema.ValidationError, name func(pointer string) string) string {
	var all []string
	for _, e := range leaves(nil, invalid) {
		at := e.BasicOutput()
		if len(at.Errors) > 0 {
			at = &at.Errors[0]
		}
		if at.Error == nil {
			continue
		}
		if line := name(pointer(e.InstanceLocation)) + ": " + at.Error.String(); !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	if more := len(all) - maxViolations; more > 0 {
		all = append(all[:maxViolations], fmt.Sprintf("and %d more", more))
	}
	return clip.Short(strings.Join(all, "; "), maxTold)
}

// leaves are the faults that no other explains, in order.
func leaves(all []*jsonschema.ValidationError, e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return append(all, e)
	}
	for _, cause := range e.Causes {
		all = leaves(all, cause)
	}
	return all
}

var pointed = strings.NewReplacer("~", "~0", "/", "~1")

// pointer is a place as a JSON pointer (RFC 6901).
func pointer(at []string) string {
	var b strings.Builder
	for _, name := range at {
		b.WriteString("/" + pointed.Replace(name))
	}
	return b.String()
}

// shallow reports whether a text is one JSON value of a depth.
func shallow(text string, depth int) bool {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	for {
		_, err := d.ReadToken()
		switch {
		case err != nil || d.StackDepth() > depth:
			return false
		case d.StackDepth() == 0:
			return strings.TrimSpace(text[d.InputOffset():]) == ""
		}
	}
}

// noLoader loads no document.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) { return nil, errors.New("it refers to another document") }

// pattern reads a pattern; one that RE2 has no words for fits everything.
func pattern(s string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return anything(s), nil
	}
	return re, nil
}

type anything string

// MatchString implements jsonschema.Regexp.
func (anything) MatchString(string) bool { return true }

// String implements jsonschema.Regexp.
func (p anything) String() string { return string(p) }

package schema

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Answer reads the final answer of a model: one JSON value that fits, in a code fence or
// not. value is its JSON on one line, with numbers as they were written; fault says what
// is wrong instead.
func (s *Schema) Answer(text string) (value, fault string) {
	text = unfenced(strings.TrimSpace(text))
	if text == "" {
		return "", "the answer is empty"
	}
	if fault = oneValue(text); fault != "" {
		return "", "the answer is not one JSON value: " + fault
	}
	if fault = s.Check(text, placed); fault != "" {
		return "", fault
	}
	compact := jsontext.Value(text)
	if err := compact.Compact(); err != nil {
		return "", "the answer: " + err.Error()
	}
	return string(compact), ""
}

// placed calls a place by its pointer.
func placed(pointer string) string { return cmp.Or(pointer, "the answer") }

// oneValue returns why a text is not one JSON value whose names are there once.
func oneValue(text string) (fault string) {
	d := jsontext.NewDecoder(strings.NewReader(text))
	switch err := d.SkipValue(); {
	case err != nil:
		return strings.TrimPrefix(err.Error(), "jsontext: ")
	case strings.TrimSpace(text[d.InputOffset():]) != "":
		return "text follows it"
	case !shallow(text, MaxDepth):
		return "it nests too deep"
	}
	return ""
}

// unfenced takes a code fence off that is around all of a text.
func unfenced(text string) string {
	open, rest, ok := strings.Cut(text, "\n")
	fence := "```"
	if !ok || !strings.HasPrefix(open, fence) || strings.Contains(open[len(fence):], "`") {
		return text
	}
	body, ok := strings.CutSuffix(rest, fence)
	if !ok || strings.Contains(body, "\n"+fence) {
		return text
	}
	return strings.TrimSpace(body)
}

// Of returns the schema of a value's Go type as JSON: what encoding/json writes of it.
func Of(v any) (string, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return "", errors.New("there is no type")
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s, err := jsonschema.ForType(t, nil)
	if err != nil {
		return "", err
	}
	b, err := stdjson.Marshal(s)
	return string(b), err
}

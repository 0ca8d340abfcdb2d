// Package eval judges the runs of agents on a set of cases, and makes a report of them.
//
// One idea: a case has conditions for one run, an attempt is one run of one agent, and a report
// is a function of the attempts alone. The same attempts give the same report.
//
// It runs nothing, reads no file and no clock; the command does (docs/eval.md).
package eval

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/schema"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of a set of cases.
const (
	MaxCases     = 100_000
	MaxLineBytes = 4 << 20
	maxIDBytes   = 64
	maxErrors    = 50 // reported at once
)

// Case is one input and the conditions for its run.
type Case struct {
	ID      string   `json:"id"`
	Input   string   `json:"input"`
	Expect  Expect   `json:"expect"`
	Tags    []string `json:"tags"`
	Results []Result `json:"results"`

	Line int `json:"-"` // in the file, from 1
}

// Expect has conditions for a run, all of which must hold.
type Expect struct {
	Equals   *string        `json:"equals"`   // the answer, but for white space around it
	Contains Texts          `json:"contains"` // each is in the answer
	RE2      *string        `json:"re2"`      // matches somewhere in the answer
	Schema   jsontext.Value `json:"schema"`   // the structured answer, else the answer as JSON, fits it
	Decision *string        `json:"decision"` // DONE, ABORT or HALT, or the code of a HALT
	Calls    []Call         `json:"calls"`    // are among those of the run, in this order
	// Unordered accepts the calls in any order.
	Unordered bool `json:"unordered"`

	re     *regexp.Regexp
	schema *schema.Schema
}

// Call is an expected call: its name, and members that its arguments must have.
type Call struct {
	Name string         `json:"name"`
	Args jsontext.Value `json:"args"`
}

// Result is a call and its answer, which replaces that of the tool.
type Result struct {
	Tool   string         `json:"tool"`
	Args   jsontext.Value `json:"args"`
	Result jsontext.Value `json:"result"`
}

// Texts is a text or a list of them.
type Texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Texts) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = Texts{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// Parse parses cases in JSON lines; name is the file name in errors. Blank lines and lines that
// begin with # or // are skipped. All mistakes are reported at once, as ERR_CONFIG with file,
// line and column.
func Parse(name string, b []byte) ([]Case, error) {
	var all []Case
	var wrong []error
	at := map[string]int{}
	bad := func(line, col int, field, detail string) {
		if len(wrong) < maxErrors {
			wrong = append(wrong, &messages.Error{Code: messages.ErrConfig, File: name, Line: line, Col: col, Field: field, Detail: detail})
		}
	}
	line := 0
	for text := range bytes.Lines(b) {
		line++
		text = bytes.TrimRight(text, "\r\n")
		lead := len(text) - len(bytes.TrimLeft(text, " \t"))
		trimmed := bytes.TrimSpace(text)
		if len(trimmed) == 0 || trimmed[0] == '#' || bytes.HasPrefix(trimmed, []byte("//")) {
			continue
		}
		if len(text) > MaxLineBytes {
			bad(line, 1, "", fmt.Sprintf("the line has more than %d bytes", MaxLineBytes))
			continue
		}
		c := Case{Line: line}
		if err := json.Unmarshal(trimmed, &c, json.RejectUnknownMembers(true)); err != nil {
			col, field, detail := placed(trimmed, err)
			bad(line, lead+col, field, detail)
			continue
		}
		field, detail := c.check()
		switch first := at[c.ID]; {
		case field != "":
			bad(line, 1, field, detail)
		case first > 0:
			bad(line, 1, "id", fmt.Sprintf("%s is that of line %d", c.ID, first))
		case len(all) == MaxCases:
			bad(line, 1, "", fmt.Sprintf("there are more than %d cases", MaxCases))
			return nil, errors.Join(wrong...)
		default:
			at[c.ID] = line
			all = append(all, c)
		}
	}
	if len(wrong) == 0 && len(all) == 0 {
		bad(max(line, 1), 1, "", "there is no case")
	}
	return all, errors.Join(wrong...)
}

// placed returns the place of a mistake in a line: the column from 1, the member, and a
// description.
func placed(text []byte, err error) (col int, field, detail string) {
	col, detail = 1, err.Error()
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		col = int(semantic.ByteOffset) + 1
		field = strings.ReplaceAll(strings.TrimPrefix(string(semantic.JSONPointer), "/"), "/", ".")
		switch {
		case errors.Is(err, json.ErrUnknownName):
			detail = "unknown key; there are " + known(field)
		case semantic.Err != nil:
			detail = semantic.Err.Error()
		default:
			detail = fmt.Sprintf("a JSON %s does not fit", semantic.JSONKind)
		}
	case errors.As(err, &syntactic):
		col, detail = int(syntactic.ByteOffset)+1, "this is no JSON: "+syntactic.Err.Error()
	}
	return min(col, len(text)+1), field, detail
}

// known returns the valid keys beside an unknown one.
func known(field string) string {
	switch {
	case strings.HasPrefix(field, "expect.calls."):
		return "name, args"
	case strings.HasPrefix(field, "expect."):
		return "equals, contains, re2, schema, decision, calls, unordered"
	case strings.HasPrefix(field, "results."):
		return "tool, args, result"
	}
	return "id, input, expect, tags, results"
}

// check returns what is wrong with a case; field is "" for nothing.
func (c *Case) check() (field, detail string) {
	e := &c.Expect
	switch {
	case c.ID == "":
		return "id", "is missing"
	case len(c.ID) > maxIDBytes || !idForm.MatchString(c.ID):
		return "id", fmt.Sprintf("want at most %d letters, digits, '.', '_' and '-', the first a letter or digit", maxIDBytes)
	case c.Input == "":
		return "input", "is missing"
	case e.Calls == nil && e.Unordered:
		return "expect.unordered", "is about calls, and there are none"
	}
	if e.RE2 != nil {
		var err error
		if e.re, err = regexp.Compile(*e.RE2); err != nil {
			return "expect.re2", err.Error()
		}
	}
	if len(e.Schema) > 0 {
		var err error
		if e.schema, err = schema.Compile(string(e.Schema)); err != nil {
			return "expect.schema", err.Error()
		}
	}
	if e.Decision != nil && !slices.Contains([]string{"DONE", "ABORT", "HALT"}, *e.Decision) && !strings.HasPrefix(*e.Decision, "ERR_") {
		return "expect.decision", "want DONE, ABORT, HALT or the code of a HALT, such as ERR_QUOTA"
	}
	for i, w := range e.Calls {
		switch {
		case w.Name == "":
			return fmt.Sprintf("expect.calls.%d.name", i), "is missing"
		case len(w.Args) > 0 && w.Args.Kind() != '{':
			return fmt.Sprintf("expect.calls.%d.args", i), "want an object, with members that the arguments have"
		}
	}
	for i := range c.Results {
		r := &c.Results[i]
		switch {
		case r.Tool == "":
			return fmt.Sprintf("results.%d.tool", i), "is missing"
		case len(r.Result) == 0:
			return fmt.Sprintf("results.%d.result", i), "is missing"
		}
		if len(r.Args) == 0 {
			r.Args = jsontext.Value("{}")
		}
		if err := r.Args.Canonicalize(); err != nil {
			return fmt.Sprintf("results.%d.args", i), err.Error()
		}
	}
	return "", ""
}

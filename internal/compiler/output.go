package compiler

import (
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/schema"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
)

func badOutput(field, file, detail string, cause error) error {
	return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: field, File: file, Detail: detail, Cause: cause}
}

// shapeAnswer puts the schema of the file that a manifest names into the manifest, so that
// its digest is that of the schema. read reads a file of the agent's folder.
func shapeAnswer(m *manifest.Manifest, read func(name string) ([]byte, error)) error {
	file := m.OutputFile()
	data, err := read(file)
	if err != nil {
		return badOutput("output.schema.file", file, "cannot read the schema", files.Cause(err))
	}
	return adoptSchema(m, string(data), "output.schema.file", file)
}

// adoptSchema makes a schema that is JSON the manifest's.
func adoptSchema(m *manifest.Manifest, text, field, file string) error {
	if _, err := schema.Compile(text); err != nil {
		return badOutput(field, file, "the schema cannot be used", err)
	}
	m.Output.Schema = nil
	if err := json.Unmarshal([]byte(text), &m.Output.Schema); err != nil {
		return badOutput(field, file, "the schema cannot be used", err)
	}
	return nil
}

// typedAnswer puts the schema of an agent's Output into its manifest: a text is a schema as
// JSON, anything else stands for its type.
func typedAnswer(m *manifest.Manifest, output any) error {
	if output == nil || m.Output.Schema != nil {
		return nil
	}
	text, ok := output.(string)
	if !ok {
		var err error
		if text, err = schema.Of(output); err != nil {
			return badOutput("output", "", "its type has no schema", err)
		}
	}
	return adoptSchema(m, text, "output", "")
}

// answerSchema is what the final answer must fit; nil for anything.
func answerSchema(m *manifest.Manifest) (*schema.Schema, error) {
	text, err := m.OutputSchema()
	if err != nil || text == "" {
		return nil, err
	}
	s, err := schema.Compile(text)
	if err != nil {
		return nil, badOutput("output.schema", "", "the schema cannot be used", err)
	}
	return s, nil
}

// answerForm tells the model what its answer must be.
func answerForm(d parse.Dialect, s *schema.Schema) string {
	var b strings.Builder
	b.WriteString("# The answer\n\n")
	switch d.Name() {
	case aeiou.Name:
		b.WriteString("What a program emits in the turn that ends with done, but for the control token, must be")
	case "cortex":
		b.WriteString("The text of the final <response> must be")
	default:
		b.WriteString("Your final answer must be")
	}
	b.WriteString(" one JSON value that fits this JSON Schema, and nothing else: no words around it.\n")
	b.WriteString(s.Text())
	return b.String()
}

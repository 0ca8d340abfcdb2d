package manifest

import (
	"github.com/go-json-experiment/json"

	jsonschema "github.com/seed14be6753/stile/internal/schema"
)

// OutputFile is the file that output.schema names; "" for a schema that is in place.
func (m *Manifest) OutputFile() string {
	of, _ := m.Output.Schema.(map[string]any)
	if file, ok := of["file"].(string); ok && len(of) == 1 {
		return file
	}
	return ""
}

// OutputSchema is output.schema as JSON; "" for none.
func (m *Manifest) OutputSchema() (string, error) {
	if m.Output.Schema == nil {
		return "", nil
	}
	b, err := json.Marshal(m.Output.Schema, json.Deterministic(true))
	return string(b), err
}

// output checks the schema of the answer.
func (c *checker) output(m *Manifest) {
	if m.OutputFile() != "" {
		return // the compiler reads it
	}
	text, err := m.OutputSchema()
	if err == nil && text != "" {
		_, err = jsonschema.Compile(text)
	}
	if err != nil {
		c.add("output.schema", ReasonBadValue, "the schema cannot be used: %s", err)
	}
}

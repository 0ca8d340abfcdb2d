package openai

// schemaFormat asks for a reply that a JSON schema holds. Chat Completions nests what
// Responses has side by side.
type schemaFormat struct {
	Type   string         `json:"type,omitempty"`
	Name   string         `json:"name"`
	Schema map[string]any `json:"schema"`
	Strict bool           `json:"strict"`
}

// function is a tool as both interfaces describe it.
type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parameters"`
}

// no is the false of a member that is written also when it is false.
var no = new(bool)

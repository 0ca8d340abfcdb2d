package wire

import "slices"

// Answer is the JSON schema that the provider shall hold a reply to; nil for none. strict
// tells that the schema is one that every provider enforces: all objects are closed and
// have all their members.
//
// It is sent where the reply is the answer and nothing else: in plain, and where calls
// are the provider's own. Elsewhere it would forbid the words of the dialect.
func (a *Ask) Answer() (schema map[string]any, strict bool) {
	if a.Schema == "" || a.Dialect != "plain" && (a.Dialect != "cogency" || len(a.Tools) == 0) {
		return nil, false
	}
	schema, err := Object(a.Schema)
	if err != nil || schema["type"] != "object" {
		return nil, false // the host checks it all the same
	}
	return schema, strictly(schema)
}

// strictWords are the words of a schema that providers enforce.
var strictWords = []string{"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "description", "title"}

// strictly reports whether a schema has nothing else, and its objects nothing open. The
// recursion is as deep as the schema, which the manifest bounds.
func strictly(schema map[string]any) bool {
	for word := range schema {
		if !slices.Contains(strictWords, word) {
			return false
		}
	}
	members, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	if schema["type"] == "object" && (schema["additionalProperties"] != false || len(required) != len(members)) {
		return false
	}
	var inner []any
	for _, m := range members {
		inner = append(inner, m)
	}
	if items, ok := schema["items"]; ok {
		inner = append(inner, items)
	}
	choice, _ := schema["anyOf"].([]any)
	for _, m := range append(inner, choice...) {
		if s, ok := m.(map[string]any); !ok || !strictly(s) {
			return false
		}
	}
	return true
}

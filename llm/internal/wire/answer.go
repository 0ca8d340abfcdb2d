package wire

import "slices"

// Answer returns the JSON schema that the provider should enforce for the reply, or nil. strict
// reports whether every provider can enforce it: all objects are closed and require all
// members.
//
// A schema is sent only if the whole reply is the answer: in dialect plain, and when calls are
// in the provider's own form. In other dialects it would forbid the dialect's own syntax.
func (a *Ask) Answer() (schema map[string]any, strict bool) {
	if a.Schema == "" || a.Dialect != "plain" && (a.Dialect != "cogency" || len(a.Tools) == 0) {
		return nil, false
	}
	schema, err := Object(a.Schema)
	if err != nil || schema["type"] != "object" {
		return nil, false // the host still checks the answer
	}
	return schema, strictly(schema)
}

// strictWords are the words of a schema that providers enforce.
var strictWords = []string{"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "description", "title"}

// strictly reports whether a schema has only strictWords, and all its objects are closed. The
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

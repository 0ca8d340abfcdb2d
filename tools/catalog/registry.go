package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/standard"
)

// Registry holds the tools of a host. It never changes after New and is safe for
// concurrent use.
type Registry struct {
	tools  []*tools.Tool  // ascending by lower-cased name
	index  map[string]int // lower-cased name → place in tools
	digest messages.Digest
}

// Override returns a registry with further tools, which replace tools of the same name.
// Errors are those of New.
func (r *Registry) Override(more ...tools.Tool) (*Registry, error) {
	all := make([]tools.Tool, 0, len(r.tools)+len(more))
	for _, t := range r.tools {
		if !slices.ContainsFunc(more, func(m tools.Tool) bool { return strings.EqualFold(m.Name, t.Name) }) {
			all = append(all, *t)
		}
	}
	return New(append(all, more...)...)
}

// New returns a registry. The first mistake is ERR_CONFIG with Field "tools.<name>": a
// duplicate or invalid name, an unknown class, a function that is missing or does not fit the
// class, an invalid parameter.
func New(declared ...tools.Tool) (*Registry, error) {
	r := &Registry{index: make(map[string]int, len(declared))}
	for i := range declared {
		t := declared[i]
		if err := t.Validate(); err != nil {
			var bad *messages.Error
			if errors.As(err, &bad) && t.Name == "" {
				bad.Field += strconv.Itoa(i)
			}
			return nil, err
		}
		t.Class = cmp.Or(t.Class, messages.Effectful)
		t.Params = append([]neuroscript.Param(nil), t.Params...)
		if t.Form.Schema == "" {
			t.Form.Schema = paramSchema(t.Params)
		}
		key := strings.ToLower(t.Name)
		if _, dup := r.index[key]; dup {
			return nil, invalid("tools."+t.Name, "two tools have this name; names are compared without regard to case")
		}
		r.index[key] = 0
		r.tools = append(r.tools, &t)
	}
	sort.Slice(r.tools, func(i, j int) bool {
		return strings.ToLower(r.tools[i].Name) < strings.ToLower(r.tools[j].Name)
	})
	for i, t := range r.tools {
		r.index[strings.ToLower(t.Name)] = i
	}
	r.digest = digestOf(r.tools)
	return r, nil
}

// Lookup returns a tool by its name, in any case and without "tool.". The tool is shared and
// must not be changed.
func (r *Registry) Lookup(name string) (*tools.Tool, bool) {
	i, ok := r.index[strings.ToLower(name)]
	if !ok {
		return nil, false
	}
	return r.tools[i], true
}

// Digest identifies the declarations of the tools, in any order: two registries with the same
// digest look the same to programs, models and policies. It does not cover the functions. It
// is recorded at every turn.begin.
func (r *Registry) Digest() messages.Digest { return r.digest }

// Specs describes the tools for which allowed is true, in the order of their lower-cased
// names; a nil allowed means all of them.
func (r *Registry) Specs(allowed func(name string) bool) []messages.ToolSpec {
	var specs []messages.ToolSpec
	for _, t := range r.tools {
		if allowed == nil || allowed(t.Name) {
			specs = append(specs, spec(t))
		}
	}
	return specs
}

func spec(t *tools.Tool) messages.ToolSpec {
	return messages.ToolSpec{Name: t.Name, Signature: Signature(t), Description: t.Description, Schema: t.Form.Schema, Class: t.Class}
}

// digestOf hashes one JSON object for each tool, in a fixed member order.
func digestOf(sorted []*tools.Tool) messages.Digest {
	type param struct {
		Name     string `json:"name"`
		Optional bool   `json:"optional"`
		Type     string `json:"type"`
	}
	type tool struct {
		Class       messages.Class `json:"class"`
		Description string         `json:"description"`
		Gas         int64          `json:"gas"`
		MaxCalls    int64          `json:"max_calls"`
		Name        string         `json:"name"`
		Params      []param        `json:"params"`
		Returns     string         `json:"returns"`
		Schema      string         `json:"schema"`
		TimeoutNS   int64          `json:"timeout_ns"`
	}
	h := sha256.New()
	h.Write([]byte("stile/tools/1\n"))
	enc := json.NewEncoder(h) // ends each object with LF, which JSON text itself never holds
	for _, t := range sorted {
		d := tool{
			Class: t.Class, Description: t.Description, Gas: t.Gas, MaxCalls: t.MaxCalls, Name: t.Name,
			Params: []param{}, Returns: t.Returns, Schema: t.Form.Schema, TimeoutNS: int64(t.Timeout),
		}
		for _, p := range t.Params {
			d.Params = append(d.Params, param{Name: p.Name, Optional: p.Optional, Type: p.Type})
		}
		if err := enc.Encode(d); err != nil {
			panic("tools: a description of strings and integers does not encode: " + err.Error())
		}
	}
	var sum messages.Digest
	h.Sum(sum[:0])
	return sum
}

// paramSchema returns the JSON schema of the object whose members are the parameters, in
// their order.
func paramSchema(params []neuroscript.Param) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	var required []string
	for i, p := range params {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(p.Name))
		b.WriteByte(':')
		b.WriteString(typeSchema(p.Type))
		if !p.Optional {
			required = append(required, strconv.Quote(p.Name))
		}
	}
	b.WriteByte('}')
	if len(required) > 0 {
		b.WriteString(`,"required":[` + strings.Join(required, ",") + `]`)
	}
	b.WriteString(`,"additionalProperties":false}`)
	return b.String()
}

func typeSchema(t string) string {
	if inner, ok := strings.CutPrefix(t, "list<"); ok {
		return `{"type":"array","items":` + typeSchema(strings.TrimSuffix(inner, ">")) + `}`
	}
	switch t {
	case "string":
		return `{"type":"string"}`
	case "int":
		return `{"type":"integer"}`
	case "float":
		return `{"type":"number"}`
	case "bool":
		return `{"type":"boolean"}`
	case "list":
		return `{"type":"array"}`
	case "timedate":
		return `{"type":"string","format":"date-time"}`
	case "map", "error":
		return `{"type":"object"}`
	}
	return `{}`
}

// Standard returns the default set of NS-A (docs/spec/neuroscript.md §11), all of it pure:
// the groups str, list, map, math, error, userdata and meta.
func Standard() []tools.Tool { return standard.Tools() }

// AllowStandard returns the policy entries of the default set.
func AllowStandard() []string {
	return []string{"str.*", "list.*", "map.*", "math.*", "error.*", "userdata.*", "meta.*"}
}

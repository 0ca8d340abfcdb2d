package native

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/messages"
)

// maxName is how long a function's name may be at every provider.
const maxName = 64

// Function is a tool as providers are sent it.
type Function struct {
	Name        string // letters, digits, '_' and '-', begins with a letter or '_'
	Description string
	Schema      string // JSON schema of an object
}

// Functions are the tools of a prompt under the names that providers allow.
type Functions struct {
	All  []Function
	spec map[string]*messages.ToolSpec // by function
}

// NewFunctions names tools: a name that fits stays, in others what does not fit becomes
// '_', and of two that would be the same the later one gets a number.
func NewFunctions(specs []messages.ToolSpec) *Functions {
	f := &Functions{spec: make(map[string]*messages.ToolSpec, len(specs))}
	names := make([]string, len(specs))
	for i := range specs { // valid names come first, so that no made name takes one
		if name := specs[i].Name; fit(name) == name && f.spec[name] == nil {
			f.spec[name], names[i] = &specs[i], name
		}
	}
	for i := range specs {
		if names[i] == "" {
			names[i] = f.free(fit(specs[i].Name))
			f.spec[names[i]] = &specs[i]
		}
		f.All = append(f.All, Function{Name: names[i], Description: describe(&specs[i]), Schema: schema(specs[i].Schema)})
	}
	return f
}

// fit writes a name in the alphabet that all providers share.
func fit(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if (c < '0' || c > '9') && c != '_' && c != '-' {
				b[i] = '_'
			}
		}
	}
	if len(b) == 0 || b[0] == '-' || b[0] >= '0' && b[0] <= '9' {
		b = append([]byte{'_'}, b...)
	}
	return string(b[:min(len(b), maxName)])
}

// free is a name that no tool has, as near to name as can be.
func (f *Functions) free(name string) string {
	for n, own := 2, name; ; n++ {
		if f.spec[own] == nil {
			return own
		}
		end := "_" + strconv.Itoa(n)
		own = name[:min(len(name), maxName-len(end))] + end
	}
}

func describe(t *messages.ToolSpec) string {
	text := strings.TrimSpace(t.Description)
	if t.Schema == "" && t.Signature != "" {
		text = strings.TrimSpace(t.Name + t.Signature + " " + text)
	}
	return text
}

// schema is that of an object, whatever a tool has.
func schema(own string) string {
	var s struct {
		Type string `json:"type"`
	}
	if json.Unmarshal([]byte(own), &s) != nil || s.Type != "object" {
		return `{"type":"object","properties":{}}`
	}
	return own
}

// tool returns the target of a function; a function that was not offered is a tool of its name,
// which the host will not find.
func (f *Functions) tool(function string) (name string, typ messages.ActionType) {
	if t := f.spec[function]; t != nil {
		return t.Name, t.Type
	}
	return function, ""
}

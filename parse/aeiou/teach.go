package aeiou

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// The primers of version 2. Their call is one of the agent's own tools.
var (
	//go:embed full.txt
	fullText string
	//go:embed short.txt
	shortText string
)

// groups are those of the default set (docs/spec/neuroscript.md §11). Models know what they
// do by their names: a line a group is enough.
var groups = []string{"str", "list", "map", "math", "error", "userdata", "meta"}

// primer2 is the primer of version 2: the rules with examples made of the agent's tools,
// then the tools.
func (d Dialect) primer2(tools []messages.ToolSpec) string {
	own, standard := sorted(tools)
	text := fullText
	if d.Short {
		text = shortText
	}
	name, call := "str.ToUpper", `tool.str.ToUpper("abc")`
	if len(own) > 0 {
		name = oneLine(own[0].Name)
		call = "tool." + name + "(" + strings.Join(samples(&own[0]), ", ") + ")"
	}
	var b strings.Builder
	_, _ = strings.NewReplacer(
		"%call%", call, "%name%", name,
		"%calls%", strconv.FormatInt(or(d.Calls, DefaultCalls), 10),
		"%emits%", strconv.FormatInt(or(d.Emits, DefaultEmits), 10),
		"%gas%", strconv.FormatInt(or(d.Gas, DefaultGas), 10),
	).WriteString(&b, text) // a strings.Builder refuses nothing
	b.WriteString("\n## Tools\n\n")
	for i := range own {
		t := &own[i]
		line, ok := parse.Signature(t)
		if !ok {
			line = oneLine(t.Name) + oneLine(t.Signature)
		}
		b.WriteString("- tool." + line)
		if about := oneLine(t.Description); about != "" {
			b.WriteString(": " + about)
		}
		b.WriteByte('\n')
	}
	if len(standard) > 0 {
		b.WriteString("- Pure ones, called as `tool.str.Contains(s, sub)`:\n")
	}
	for _, g := range groups {
		if calls := standard[g]; len(calls) > 0 {
			b.WriteString("  - tool." + g + ": " + strings.Join(calls, " ") + "\n")
		}
	}
	return b.String()
}

// sorted parts the default set, by group and without its descriptions, from an agent's own
// tools.
func sorted(tools []messages.ToolSpec) (own []messages.ToolSpec, standard map[string][]string) {
	standard = map[string][]string{}
	for i := range tools {
		t := &tools[i]
		group, name, ok := strings.Cut(t.Name, ".")
		if ok && t.Class == messages.Pure && slices.Contains(groups, group) {
			standard[group] = append(standard[group], oneLine(name)+strings.ReplaceAll(oneLine(t.Signature), ", ", ","))
			continue
		}
		own = append(own, *t)
	}
	return own, standard
}

// samples are arguments of an example: one for each parameter that must be given.
func samples(t *messages.ToolSpec) (args []string) {
	var schema struct {
		Properties map[string]struct {
			Type string   `json:"type"`
			Enum []string `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal([]byte(t.Schema), &schema) != nil {
		return nil
	}
	for _, name := range schema.Required {
		p := schema.Properties[name]
		switch {
		case len(p.Enum) > 0:
			args = append(args, strconv.Quote(oneLine(p.Enum[0])))
		case p.Type == "integer", p.Type == "number":
			args = append(args, "1")
		case p.Type == "boolean":
			args = append(args, "true")
		case p.Type == "array":
			args = append(args, "[]")
		case p.Type == "object":
			args = append(args, "{}")
		default:
			args = append(args, strconv.Quote("the "+oneLine(name)))
		}
	}
	return args
}

// or is n, or a default for 0.
func or(n, otherwise int64) int64 {
	if n > 0 {
		return n
	}
	return otherwise
}

package manifest

import (
	"strings"
	"testing"
)

// Templates of actions are checked as the model's are, each mistake at its place.
func TestActionTemplates(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"  fetch: {name: t, params: [url], parameters: {u: \"%{url}\"}}", ""},
		{"  a.b-c: {type: llm, name: t, timeout: 2.5, retry: 3, on_error: skip, params: {n: {type: integer, default: 3}}}", ""},
		{"  1x: {name: t}", "m.yaml:4:3: action_templates.1x: ERR_CONFIG/BAD_VALUE: \"1x\" is not"},
		{"  f: 3", "m.yaml:4:3: action_templates.f: ERR_CONFIG/BAD_VALUE: a template is an object"},
		{"  f: {}", "m.yaml:4:3: action_templates.f.name: ERR_CONFIG/MISSING: a template names what its actions call"},
		{"  f: {name: t}\n  g: {name: t, id: a}", "m.yaml:5:20: action_templates.g.id: ERR_CONFIG/UNKNOWN_KEY: no member of a template"},
		{"  f: {name: t, type: robot}", "m.yaml:4:22: action_templates.f.type: ERR_CONFIG/BAD_VALUE: "},
		{"  f: {name: t, params: {url: {type: uri}}}", "m.yaml:4:30: action_templates.f.params.url: ERR_CONFIG/BAD_VALUE: "},
		{"  f: {name: t, params: {n: {type: integer, default: x}}}", "action_templates.f.params.n: ERR_CONFIG/BAD_VALUE: the default is no integer"},
		{"  f: {name: t, parameters: {u: \"%{url}\"}}", "m.yaml:4:28: action_templates.f.parameters: ERR_CONFIG/BAD_VALUE: %{url} names no param"},
		{"  f: {name: t, timeout: 0}", "m.yaml:4:25: action_templates.f.timeout: ERR_CONFIG/BAD_VALUE: "},
		{"  f: {name: t, group: g}", "m.yaml:4:23: action_templates.f.group: ERR_CONFIG/UNKNOWN_KEY: "},
	} {
		_, err := Parse("m.yaml", []byte("dialect: cortex\nextensions: [templates]\naction_templates:\n"+c.text+"\n"))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	_, err := Parse("m.yaml", []byte("dialect: cortex\naction_templates: {f: {name: t}}\n"))
	if want := "m.yaml:2:19: action_templates: ERR_CONFIG/BAD_VALUE: needs the extension: write extensions: [templates]"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// An alias names a template, and is no other tool.
func TestAliases(t *testing.T) {
	const head = "dialect: cogency\nextensions: [templates]\naction_templates: {f: {name: t}}\n"
	for text, want := range map[string]string{
		"import: {tools: [a]}\ndefine: {aliases: [{name: a, template: f, summary: x}]}":                                             "",
		"define: {aliases: [{name: a}]}":                                                                                            "m.yaml:4:20: define.aliases[0].template: ERR_CONFIG/MISSING",
		"define: {aliases: [{name: a, template: g}]}":                                                                               `m.yaml:4:40: define.aliases[0].template: ERR_CONFIG/BAD_VALUE: there is no template "g" in action_templates`,
		"define: {aliases: [{name: a, template: f}, {name: a, template: f}]}":                                                       `define.aliases[1].name: ERR_CONFIG/DUPLICATE: "a" is an alias already`,
		"define: {aliases: [{name: a, template: f}], tools: [{name: a, implementation: {type: command, entrypoint: [/bin/true]}}]}": `define.aliases[0].name: ERR_CONFIG/DUPLICATE: "a" is a tool already`,
	} {
		m, err := Parse("m.yaml", []byte(head+text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err == nil && len(m.Wants()) != 0 {
			t.Errorf("an alias has a file: %v", m.Wants())
		}
	}
}

// A manifest has its templates in its digest, and reads back with them.
func TestActionTemplatesAreInTheDigest(t *testing.T) {
	var digests [2]string
	for i, timeout := range []string{"2", "3"} {
		m, err := Parse("m.yaml", []byte("dialect: cortex\nextensions: [templates]\naction_templates: {f: {name: t, timeout: "+timeout+", params: [a], parameters: {x: \"${NO} %{a}\"}}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("kept", m.Canonical())
		if err != nil || back.Digest() != m.Digest() {
			t.Fatalf("%v: %s", err, m.Canonical())
		}
		digests[i] = m.Digest().String()
	}
	if digests[0] == digests[1] {
		t.Error("a template changes no digest")
	}
}

package manifest

import (
	"errors"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

func TestServers(t *testing.T) {
	const good = `dialect: cogency
environment: {variables: {WHERE: /srv/notes}}
import:
  mcp:
    - name: notes
      command: [npx, -y, notes-server, "${WHERE}"]
      env: {NOTES_MODE: "read ${WHERE}"}
      secrets: [NOTES_KEY]
      resources: {memory: 1GiB, cpu: 60s, files: 64}
      connect_timeout: 5s
      timeout: 10s
      max_bytes: 64KiB
      tools: [{name: find-note, as: find, class: read_only, gate: approve, timeout: 1s}, {name: write, description: "Costs ${5}.", schema: '{"type":"object"}'}]
    - {name: site, url: "https://example.com/mcp", secrets: [SITE_KEY], header: X-Key}
`
	m, err := Parse("m.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	s := m.Import.MCP[0]
	if s.Command[3] != "/srv/notes" || s.Env["NOTES_MODE"] != "read /srv/notes" || s.Resources.Memory != 1<<30 || s.MaxBytes != 64<<10 {
		t.Errorf("%+v", s)
	}
	if s.Tools[0].Class != messages.ReadOnly || s.Tools[0].Gate != messages.GateApprove || s.Tools[1].Description != "Costs ${5}." {
		t.Errorf("%+v", s.Tools)
	}
	again, err := Parse("canonical", m.Canonical())
	if err != nil || again.Digest() != m.Digest() {
		t.Errorf("the canonical form reads as another manifest: %v", err)
	}
	for _, c := range []struct{ servers, want string }{
		{"[{name: a}]", "import.mcp[0] MISSING"},
		{"[{url: http://a.b}]", "import.mcp[0].name MISSING"},
		{"[{name: a-b, url: http://a.b}]", "import.mcp[0].name BAD_VALUE"},
		{"[{name: a, url: http://a.b, command: [x]}]", "import.mcp[0].url BAD_VALUE"},
		{"[{name: a, url: 'http://u:p@a.b'}]", "import.mcp[0].url BAD_VALUE"},
		{"[{name: a, url: 'http://a.b?key=1'}]", "import.mcp[0].url BAD_VALUE"},
		{"[{name: a, url: http://a.b}, {name: a, url: http://c.d}]", "import.mcp[1].name DUPLICATE"},
		{"[{name: a, url: http://a.b, secrets: [A, B]}]", "import.mcp[0].secrets BAD_VALUE"},
		{"[{name: a, url: http://a.b, secrets: [sk-123]}]", "import.mcp[0].secrets[0] BAD_VALUE"},
		{"[{name: a, url: http://a.b, header: X}]", "import.mcp[0].header BAD_VALUE"},
		{"[{name: a, url: http://a.b, env: {A: b}}]", "import.mcp[0].url BAD_VALUE"},
		{"[{name: a, command: [x], env: {A: b}, secrets: [A]}]", "import.mcp[0].env.A DUPLICATE"},
		{"[{name: a, url: http://a.b, confine: {network: true}}]", "import.mcp[0].url BAD_VALUE"},
		{"[{name: a, command: [x], confine: {isolation: none, write: [b]}}]", "import.mcp[0].confine.isolation BAD_VALUE"},
		{"[{name: a, command: [x], confine: {isolation: bubblewrap}}]", "import.mcp[0].confine.isolation BAD_VALUE"},
		{"[{name: a, command: ['']}]", "import.mcp[0].command MISSING"},
		{`[{name: a, command: [x, "a\0b"]}]`, "import.mcp[0].command BAD_VALUE"},
		{"[{name: a, command: [x], tools: [{as: b}]}]", "import.mcp[0].tools[0].name MISSING"},
		{"[{name: a, command: [x], tools: [{name: b}, {name: b}]}]", "import.mcp[0].tools[1].name DUPLICATE"},
		{"[{name: a, command: [x], tools: [{name: b, class: pure}]}]", "import.mcp[0].tools[0].class BAD_VALUE"},
		{"[{name: a, command: [x], tools: [{name: b, gate: maybe}]}]", "import.mcp[0].tools[0].gate BAD_VALUE"},
		{"[{name: a, command: [x], tools: [{name: b, as: c-d}]}]", "import.mcp[0].tools[0].as BAD_VALUE"},
	} {
		_, err := Parse("m.yaml", []byte("dialect: cogency\nimport:\n  mcp: "+c.servers+"\n"))
		if !mentions(err, c.want) {
			t.Errorf("%s: got %v, want %s", c.servers, err, c.want)
		}
	}
}

// mentions tells whether one of joined errors is at a field for a reason.
func mentions(err error, want string) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		e, ok := errors.AsType[*messages.Error](err)
		return ok && e.Field+" "+e.Reason == want
	}
	for _, e := range joined.Unwrap() {
		if mentions(e, want) {
			return true
		}
	}
	return false
}

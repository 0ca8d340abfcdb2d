package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/pagetest"
	"github.com/seed14be6753/stile/manifest"
)

// TestUpgradePage: docs/upgrade.md has a row for each changed default.
func TestUpgradePage(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("\n| key | was | is | to have it back |\n| --- | --- | --- | --- |\n")
	for _, c := range changes {
		fmt.Fprintf(&rows, "| `%s` | %s | %s | `%s` |\n", c.Key, c.Was, c.Is, c.Line)
	}
	pagetest.Table(t, "../../docs/upgrade.md", "changes: go test ./cmd/stile -run TestUpgradePage -update", rows.String(), *update)
}

// TestUpgradeLines: what restores a default can be read, and silences the row.
func TestUpgradeLines(t *testing.T) {
	for _, c := range changes {
		concerned := 0
		for _, dialect := range []string{"plain", "aeiou", "cortex", "cogency", "kitsu"} {
			m, err := manifest.Parse("agent.yaml", []byte("dialect: "+dialect+"\nmodel: {provider: openai, model: some}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if !c.concerns(m) {
				continue
			}
			concerned++
			text := "dialect: " + dialect + "\nmodel: {provider: openai, model: some}\n" + c.Line + "\n"
			if more, ok := strings.CutPrefix(c.Line, "model: {"); ok {
				text = "dialect: " + dialect + "\nmodel: {provider: openai, model: some, " + more + "\n"
			}
			m, err = manifest.Parse("agent.yaml", []byte(text))
			if err != nil {
				t.Errorf("%s: %s: %v", c.Key, c.Line, err)
			} else if c.concerns(m) {
				t.Errorf("%s: %s is there, and still it is named for %s", c.Key, c.Line, dialect)
			}
		}
		if concerned == 0 {
			t.Errorf("%s concerns no dialect", c.Key)
		}
	}
}

// TestDoctorUpgrade: the command names what concerns the agent, and refuses a probe of a
// script.
func TestDoctorUpgrade(t *testing.T) {
	agent := write(t, t.TempDir(), "agent.yaml", "dialect: cortex\nloop: {strict: [all]}\n")
	out := must(t, "doctor", "--upgrade", "--json", agent)
	keys := map[string]bool{}
	for line := range strings.Lines(out) {
		var c changed
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Line == "" {
			t.Fatalf("%s: %v", line, err)
		}
		keys[c.Key] = true
	}
	if !keys["import.tools"] || keys["loop.strict"] {
		t.Errorf("named %v", keys)
	}
	if a := stileDo(t, "doctor", "--probe", agent); a.status == 0 || !strings.Contains(a.err, "model.provider") {
		t.Errorf("status %d: %s", a.status, a.err)
	}
}

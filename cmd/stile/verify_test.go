package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Sessions are checked side by side and told of in their order; quietly, only those with problems. An
// interrupt sums up what it came to.
func TestVerifyAll(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	const n = 10
	for i := range n {
		must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", fmt.Sprintf("s%02d", i))
	}
	alter(t, data, `UPDATE records SET ts = ts + 1 WHERE type = 'input' AND pos >> 32 IN (SELECT id FROM sessions WHERE sid IN ('local:local:s03', 'local:local:s08'))`)
	named := func(text string) (names []string) {
		for line := range strings.Lines(text) {
			if _, rest, ok := strings.Cut(line, "local:local:"); ok {
				names = append(names, rest[:3])
			}
		}
		return names
	}
	loud := stileDo(t, "verify", "--dir", data)
	if all := named(loud.out); loud.status != int(exitDifference) || len(all) != n || !slices.IsSorted(all) {
		t.Errorf("status %d, %v", loud.status, all)
	}
	quiet := stileDo(t, "verify", "--dir", data, "--quiet")
	if bad := named(quiet.out); quiet.status != int(exitDifference) || !slices.Equal(bad, []string{"s03", "s08"}) || quiet.err != "" {
		t.Errorf("status %d\n%s%s", quiet.status, quiet.out, quiet.err)
	}
	holds(t, quiet.out, "10 sessions, 2 with problems")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, told strings.Builder
	status := execute(ctx, []string{"verify", "--dir", data}, console{in: strings.NewReader(""), out: &out, err: &told, env: func(string) string { return "" }})
	if status != int(exitInterrupted) || !strings.Contains(told.String(), "interrupted") {
		t.Errorf("status %d\n%s%s", status, &out, &told)
	}
}

//go:build !lite

package host_test

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/seed14be6753/stile"
)

// The frameworks that most chat programs are made of, unchanged: what they send, what they
// read, and how often they ask for one call.
func TestFrameworks(t *testing.T) {
	node, packages, ok := installed(t, "@langchain/openai")
	if !ok {
		return
	}
	more := []*stile.Agent{asksFirst(t, "asks", "")}
	for i := range 12 {
		more = append(more, agentOf("lost"+strconv.Itoa(i), echo))
	}
	d := talkers(t, more...)
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "testdata/frameworks.test.mjs")
	cmd.Env = append(os.Environ(), "STILE_URL="+d.url, nodePackages+"="+packages)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

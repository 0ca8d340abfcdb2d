//go:build !lite

package host_test

import (
	"os"
	"os/exec"
	"testing"
)

// The frameworks that most chat programs are made of, unchanged: what they send, what they
// read, and how often they ask for one call.
func TestFrameworks(t *testing.T) {
	node, packages, ok := installed(t, "@langchain/openai")
	if !ok {
		return
	}
	d := talkers(t, asksFirst(t, "asks", ""))
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "testdata/frameworks.test.mjs")
	cmd.Env = append(os.Environ(), "STILE_URL="+d.url, nodePackages+"="+packages)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

package page_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"github.com/seed14be6753/stile/internal/visible"
)

// The page hides no more than a terminal does: of characters, and of texts with many
// marks or spaces, it makes the same.
func TestPlain(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("STILE_REQUIRE_NODE") != "" {
			t.Fatalf("node is required: %v", err)
		}
		t.Log("ran without node")
		return
	}
	texts := []string{
		"", "print(1) # list files\u200b\u202e\U000e0065", "e" + strings.Repeat("\u0301", 9) + "x" + strings.Repeat("\u0301", 4),
		"a" + strings.Repeat(" ", 99) + "b" + strings.Repeat(" ", visible.MaxSpaces), "line\n\t\r\x1b[2J",
	}
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if p := r >> 16; r >= 0x3400 && r < 0xA000 && r&0xFF != 0 || p > 1 && p != 14 && r&0xFF00 != 0 {
			continue // of ideographs and the large planes a part
		}
		// What Go's tables know nothing of may be a letter by now, or the other way round.
		if known := unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf); known || r == 0xE000 {
			texts = append(texts, string(r))
		}
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", `
		import { readFileSync } from "node:fs";
		const source = readFileSync("app/plain.js", "utf8");
		const { plainly } = await import("data:text/javascript;base64," + Buffer.from(source).toString("base64"));
		process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(plainly)));`)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	var got []string
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil || len(got) != len(texts) {
		t.Fatalf("%v: %d of %d texts", err, len(got), len(texts))
	}
	for i, text := range texts {
		if want := visible.Exact(text); got[i] != want {
			t.Errorf("%+q: the page shows %q, a terminal %q", text, got[i], want)
		}
	}
}

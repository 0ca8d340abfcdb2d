package workspace

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/tools/internal/toolstest"
)

// One user's folder is full, and another's is not. What makes a file smaller is done, also in a
// full one, and what is removed makes room at once.
func TestFullFolder(t *testing.T) {
	const most = 64 << 10
	b := newWorkbench(t, AccessSandbox)
	b.w.Bound(most)
	part := func(user string) *Workspace {
		w, err := b.w.Below(UsersDir, "user", "acme", user)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	ann, eve := part("ann"), part("eve")
	do := func(w *Workspace, name string, args ...string) string {
		t.Helper()
		var b strings.Builder
		for i := 0; i < len(args); i += 2 {
			b.WriteString(map[bool]string{true: "{", false: ", "}[i == 0] + strconv.Quote(args[i]) + ": " + toolstest.Quote(t, args[i+1]))
		}
		return toolstest.Do(t, w.Tools(), name, b.String()+"}")
	}
	full := "code 21: the folder is full: its files may take 65536 bytes (workspace.max_bytes); remove some first"
	large := strings.Repeat("many words ", 2000) // 22 KB
	for i, want := range []string{"Wrote", "Wrote", full} {
		if got := do(eve, "write", "file", "f"+strconv.Itoa(i), "content", large); !strings.HasPrefix(got, want) {
			t.Errorf("file %d: %.200q", i, got)
		}
	}
	if _, err := os.Stat(filepath.Join(eve.Dir(), "f2")); err == nil {
		t.Error("what has no room is there")
	}
	if got := do(ann, "write", "file", "f", "content", large); !strings.HasPrefix(got, "Wrote") {
		t.Errorf("another user: %q", got)
	}
	if got := do(b.w, "write", "file", "f", "content", large); !strings.HasPrefix(got, "Wrote") {
		t.Errorf("the folder above, which counts no users: %q", got)
	}
	if err := os.WriteFile(filepath.Join(eve.Dir(), "g"), []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"edit": {"file", "g", "old", "short", "new", large}, "replace": {"pattern", "g", "old", "short", "new", large},
	} {
		if got := do(eve, name, args...); got != full {
			t.Errorf("%s: %.200q", name, got)
		}
	}
	if b, err := os.ReadFile(filepath.Join(eve.Dir(), "g")); err != nil || string(b) != "short\n" {
		t.Errorf("%q, %v", b, err)
	}
	if got := do(eve, "replace", "pattern", "f0", "old", large, "new", "few"); !strings.HasPrefix(got, "Replaced 1") {
		t.Errorf("%q", got)
	}
	if got := do(eve, "write", "file", "f2", "content", large); !strings.HasPrefix(got, "Wrote") {
		t.Errorf("with room again: %q", got)
	}
	for i := range 200 { // names without content
		if err := os.WriteFile(filepath.Join(ann.Dir(), "n"+strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ann.room.at = time.Time{} // as if some time had passed
	if got := do(ann, "write", "file", "f2", "content", large); got != full {
		t.Errorf("among many names: %q", got)
	}
}

// A folder too deep for any tool is not taken for an empty one.
func TestDeepFolder(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	b.w.Bound(1 << 20)
	if err := os.MkdirAll(b.dir+strings.Repeat("/d", maxMeasureDepth+2), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := b.do(t, "write", `{"file": "f", "content": "x"}`); !strings.Contains(got, "cannot be measured for workspace.max_bytes: folders are more than 128 levels deep") {
		t.Errorf("%q", got)
	}
}

package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program writes files until its folder is full: one file beyond the bound is refused by the
// kernel, many small ones end it. In a full folder programs remove files and write none.
func TestProgramsFillTheirFolder(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	const most = 1 << 20
	b.w.Bound(most)
	b.w.room.every = 5 * time.Millisecond
	b.script(t, "large.sh", "#!/bin/sh\nhead -c 4000000 /dev/zero > large || echo refused\n")
	b.script(t, "many.sh", "#!/bin/sh\ni=0; while :; do i=$((i+1)); head -c 8192 /dev/zero > f$i; done\n")
	b.script(t, "one.sh", "#!/bin/sh\necho x > one || echo refused\n")
	all := newShell(t, b, nil)
	if got := sh(t, all, "./large.sh"); !strings.Contains(got, "refused") {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "large")); err != nil || info.Size() > most {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Remove(filepath.Join(b.dir, "large")); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, all, "./many.sh"); !strings.Contains(got, "the folder is full: its files may take 1048576 bytes (workspace.max_bytes); remove some first; the program was ended") {
		t.Errorf("%q", got)
	}
	got := sh(t, all, "./one.sh")
	if strings.HasPrefix(got, "Success") || !strings.Contains(got, "until then programs write no files") {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "one")); err == nil && info.Size() > 0 {
		t.Error("a full folder took more")
	}
	b.script(t, "tidy.sh", "#!/bin/sh\nsleep 0.1\nrm -f f*\n") // it is measured meanwhile, and goes on
	if got := sh(t, all, "./tidy.sh"); !strings.HasPrefix(got, "Success|") {
		t.Errorf("%q", got)
	}
	if got := sh(t, all, "./one.sh"); got != "Success|" {
		t.Errorf("after the files were removed: %q", got)
	}
}

//go:build unix

package confine

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// What was left running may swap links for folders while they are removed: nothing outside
// changes its mode, and what could not be entered is gone.
func TestRemovalFollowsNoLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(filepath.Join(outside, "deeper"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "left")
	folder, link := filepath.Join(dir, "x"), filepath.Join(dir, "link")
	for _, err := range []error{os.MkdirAll(filepath.Join(folder, "y"), 0o755), os.Symlink(outside, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer above.Close()
	var stop atomic.Bool
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		aside := filepath.Join(dir, "aside")
		for !stop.Load() {
			_ = os.Rename(folder, aside)
			_ = os.Rename(link, folder)
			_ = os.Rename(folder, link)
			_ = os.Rename(aside, folder)
		}
	}()
	for range 700 {
		enterable(above, filepath.Base(dir), maxEntered)
	}
	stop.Store(true)
	<-swapped
	for _, d := range []string{outside, filepath.Join(outside, "deeper")} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s has mode %v: %v", d, info.Mode(), err)
		}
	}
	for _, d := range []string{filepath.Join(folder, "y"), folder} {
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
	}
	if removeAll(dir); !gone(dir) || gone(outside) {
		t.Error("the folder is there, or what a link in it led to is not")
	}
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}

package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Comments of the code are in the English of docs/style.md: a sentence names the
// caller, the operator or the process, and what is invalid is called so.
func TestCodeEnglish(t *testing.T) {
	vague := []string{"hoever ", "omebody", "ells whether", "that is none", "cannot be meant", "is not to come"}
	n := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "sim" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir // the simulator's comments speak of what happens in a world
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		n++
		b, err := os.ReadFile(path)
		for _, words := range vague {
			for text, line := string(b), 1; ; {
				before, rest, found := strings.Cut(text, words)
				if !found {
					break
				}
				line += strings.Count(before, "\n")
				if strings.Contains(before[strings.LastIndexByte(before, '\n')+1:], "//") {
					t.Errorf("%s:%d: %q: see docs/style.md", path, line, words)
				}
				text = rest
			}
		}
		return err
	})
	if err != nil || n < 700 {
		t.Errorf("%d files were read, %v", n, err)
	}
}

package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Program finds an executable file by its absolute path, or by a path inside the folder dir.
// The error is for the author of the name, and shows nothing else of the host.
func Program(dir, name string) (string, error) {
	path := name
	if !filepath.IsAbs(name) {
		if dir == "" || !filepath.IsLocal(name) {
			return "", fmt.Errorf("%s is not in the agent's folder; name what is elsewhere by its whole path", strconv.Quote(name))
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", errors.New("the agent's folder cannot be opened")
		}
		defer root.Close()
		if _, err := root.Stat(name); err != nil { // also a link that leads out
			return "", fmt.Errorf("%s is not in the agent's folder", strconv.Quote(name))
		}
		if path, err = filepath.Abs(filepath.Join(dir, name)); err != nil {
			return "", errors.New("the agent's folder has no whole path")
		}
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is no executable file", strconv.Quote(name))
	}
	return path, nil
}

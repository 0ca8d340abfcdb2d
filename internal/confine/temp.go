package confine

import (
	"os"
	"path/filepath"
)

// Temp makes a temporary folder of a program. The path has no symbolic links. clean removes
// the folder.
func Temp() (dir string, clean func(), err error) {
	if dir, err = os.MkdirTemp("", "stile-program-"); err != nil {
		return "", nil, err
	}
	made := dir
	if dir, err = filepath.EvalSymlinks(made); err != nil {
		removeAll(made)
		return "", nil, err
	}
	return dir, func() { removeAll(made) }, nil
}

// removeAll removes a folder, even if a command left folders without the right to enter.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return
	}
	defer above.Close()
	Enterable(above, filepath.Base(dir))
	_ = above.RemoveAll(filepath.Base(dir))
}

// Enterable gives a folder of programs, and those below it, the modes to enter and remove them.
func Enterable(in *os.Root, name string) { enterable(in, name, maxEntered) }

// maxEntered bounds the levels of folders that are made enterable: each needs a descriptor.
const maxEntered = 128

// enterable gives a folder and those below it the modes to enter them. It goes from handle to
// handle, because a surviving process may replace folders by links meanwhile: the mode of
// nothing outside of in may change.
func enterable(in *os.Root, name string, levels int) {
	was, err := in.Lstat(name)
	if err != nil || !was.IsDir() || levels == 0 || in.Chmod(name, 0o700) != nil {
		return
	}
	own, err := in.OpenRoot(name)
	if err != nil {
		return
	}
	defer own.Close()
	if is, err := own.Stat("."); err != nil || !os.SameFile(was, is) {
		return // a link leads to another folder
	}
	list, err := own.Open(".")
	if err != nil {
		return
	}
	entries, _ := list.ReadDir(-1)
	_ = list.Close()
	for _, e := range entries {
		if e.IsDir() {
			enterable(own, e.Name(), levels-1)
		}
	}
}

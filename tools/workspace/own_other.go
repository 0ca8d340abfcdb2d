//go:build !unix

package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
)

// lineage returns a folder and those above it, by the path that it resolves to.
func lineage(dir *os.File) (all []ancestor, err error) {
	at, err := filepath.EvalSymlinks(dir.Name())
	if err == nil {
		at, err = filepath.Abs(at)
	}
	for err == nil {
		step := ancestor{name: filepath.Base(at)}
		if step.info, err = os.Stat(at); err != nil {
			break
		}
		all = append(all, step)
		if at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	return all, err
}

// unnamed is always false here: a file keeps its name while it is open.
func unnamed(*os.File) bool { return false }

// onDisc returns the bytes that a file takes on the disc, about.
func onDisc(info fs.FileInfo) int64 { return info.Size() }

package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
)

// Folders of tenants, users and sessions below the one of an agent.

// UsersDir is the folder in an agent's folder that has the folders of tenants, users and
// sessions. File tools of the agent's folder cannot enter it.
const UsersDir = ".stile-users"

// maxPart leaves room in the 255 bytes that file systems allow for a name.
const maxPart = 100

// Part returns the name of the folder for a part of a SID. Different parts have different
// names, also on a file system that ignores case, and no name has a meaning, such as "..". A
// long part becomes its hash.
func Part(part string) string {
	const plain = "abcdefghijklmnopqrstuvwxyz0123456789-"
	var b strings.Builder
	for i := range len(part) {
		if strings.IndexByte(plain, part[i]) >= 0 {
			b.WriteByte(part[i])
			continue
		}
		b.WriteByte('_')
		b.WriteString(hex.EncodeToString([]byte{part[i]}))
	}
	if b.Len() > maxPart || b.Len() == 0 {
		sum := sha256.Sum256([]byte(part))
		return "_x" + hex.EncodeToString(sum[:]) // no byte is written so
	}
	return b.String()
}

// Below opens a folder inside this one, and creates a missing one. Its tools reach that folder
// alone, and are denied the same files as those of w. Names are results of Part. The error is
// ERR_CONFIG, also for a link on the path, which a program may have put there.
func (w *Workspace) Below(names ...string) (*Workspace, error) {
	bad := func(detail string, err error) (*Workspace, error) {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "workspace.root", Detail: detail, Cause: pathless(err)}
	}
	at := "."
	for i, name := range names {
		at = path.Join(at, name)
		mode := fs.FileMode(0o711) // the names inside cannot be listed
		if i == len(names)-1 {
			mode = 0o700
		}
		if err := w.root.Mkdir(at, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return bad("a folder cannot be made in it", err)
		}
		info, err := w.root.Lstat(at)
		if err != nil {
			return bad("a folder in it cannot be opened", err)
		}
		if !info.IsDir() {
			return bad("a folder in it is something else", nil)
		}
	}
	root, err := w.root.OpenRoot(at)
	if err != nil {
		return bad("a folder in it cannot be opened", err)
	}
	return &Workspace{root: root, access: w.access, dir: filepath.Join(w.dir, filepath.FromSlash(at)), denied: w.denied, own: w.own, room: room{most: w.room.most}}, nil
}

// Forget removes a folder that Below made inside the folder of a path, with all that is in it.
// A missing one is no error. A link in the place of a folder on the way is one; other links
// are removed, and what they lead to stays.
func Forget(dir string, names ...string) error {
	bad := func(detail string, err error) error {
		return &messages.Error{Code: messages.ErrConfig, Field: "workspace.root", Detail: detail, Cause: pathless(err)}
	}
	at, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return bad("it cannot be opened", err)
	}
	defer func() { at.Close() }() // nothing was written through it
	last := len(names) - 1
	for _, name := range names[:last] {
		info, err := at.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !info.IsDir() {
			return bad("a folder in it is something else", nil)
		}
		if err != nil {
			return bad("a folder in it cannot be opened", err)
		}
		next, err := at.OpenRoot(name)
		if err != nil {
			return bad("a folder in it cannot be opened", err)
		}
		at.Close()
		at = next
		if is, err := at.Stat("."); err != nil || !os.SameFile(is, info) {
			return bad("a folder in it was replaced meanwhile", err)
		}
	}
	if at.RemoveAll(names[last]) == nil {
		return nil
	}
	confine.Enterable(at, names[last])
	if err := at.RemoveAll(names[last]); err != nil {
		return bad("the folder of a user cannot be removed", err)
	}
	return nil
}

// Stays reports whether the folder is still the one that its path names, and was not removed
// or replaced.
func (w *Workspace) Stays() bool {
	open, err := w.root.Stat(".")
	if err != nil {
		return false
	}
	named, err := os.Lstat(w.dir)
	return err == nil && os.SameFile(open, named)
}

// ofUsers reports whether a path goes through UsersDir, in any spelling that a file system may
// accept for it.
func ofUsers(p string) bool {
	for name := range strings.FieldsFuncSeq(p, isSeparator) {
		name = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Cf, r) {
				return -1
			}
			return r
		}, name)
		if strings.EqualFold(name, UsersDir) {
			return true
		}
	}
	return false
}

// Apart returns files, a folder of the operator that for example feeds read, without UsersDir:
// the files of users must not be shown to others.
func Apart(files fs.FS) fs.FS { return apart{files} }

type apart struct{ files fs.FS }

func hidden(op, name string) error {
	if ofUsers(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return nil
}

// Open implements fs.FS.
func (a apart) Open(name string) (fs.File, error) {
	if err := hidden("open", name); err != nil {
		return nil, err
	}
	return a.files.Open(name)
}

// Stat implements fs.StatFS.
func (a apart) Stat(name string) (fs.FileInfo, error) {
	if err := hidden("stat", name); err != nil {
		return nil, err
	}
	return fs.Stat(a.files, name)
}

// ReadDir implements fs.ReadDirFS.
func (a apart) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := hidden("open", name); err != nil {
		return nil, err
	}
	return fs.ReadDir(a.files, name)
}

// ReadFile implements fs.ReadFileFS.
func (a apart) ReadFile(name string) ([]byte, error) {
	if err := hidden("open", name); err != nil {
		return nil, err
	}
	return fs.ReadFile(a.files, name)
}

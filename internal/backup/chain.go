package backup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/messages"
)

// maxChain bounds the increments behind a whole backup.
const maxChain = 10_000

// maxDescription bounds the description of a backup, in bytes.
const maxDescription = 1 << 20

// member is a backup in its folder.
type member struct {
	Backup
	folder string
	digest string // of the description
}

// journal is the name of the member's file with the journal, or with what is new in it.
func (m *member) journal() string {
	if m.Base != nil {
		return incrementFile
	}
	return JournalFile
}

// at returns the folder that a file of the member is in.
func (m *member) at(e Entry) string {
	if e.In == "" {
		return m.folder
	}
	return filepath.Join(filepath.Dir(m.folder), e.In)
}

// has returns the name of the folder with the same file; "" if the member, which may be nil, has none.
func (m *member) has(e Entry) string {
	if m == nil {
		return ""
	}
	for _, f := range m.Files {
		if f.Name == e.Name && f.SHA256 == e.SHA256 {
			return cmp.Or(f.In, filepath.Base(m.folder))
		}
	}
	return ""
}

// memberOf reads the description of the backup in a folder. With keys, one of them must have
// signed it.
func memberOf(folder string, keys proof.Keys) (m member, err error) {
	if folder, err = filepath.Abs(folder); err != nil {
		return m, wrong("cannot be found", files.Cause(err))
	}
	m.folder = folder
	f, err := os.Open(filepath.Join(folder, File))
	if err != nil {
		return m, &messages.Error{Code: messages.ErrConfig, File: folder, Detail: "there is no backup in this folder", Cause: files.Cause(err)}
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, maxDescription+1))
	if err != nil || len(doc) > maxDescription {
		return m, wrong("cannot be read, or is too long", files.Cause(err))
	}
	sum := sha256.Sum256(doc)
	m.digest = hex.EncodeToString(sum[:])
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m.Backup); err != nil {
		return m, wrong("is not what a backup says of itself", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return m, wrong("has text behind what a backup says of itself", err)
	}
	if want := map[bool]int{false: format, true: incrementFormat}[m.Base != nil]; m.Format != want {
		return m, wrong("is of another format", nil)
	}
	if keys != nil {
		if err := m.signedBy(keys); err != nil {
			return m, err
		}
	}
	if m.Base != nil && !plain(m.Base.Folder) {
		return m, wrong("names a base elsewhere", nil)
	}
	journaled := false
	for _, e := range m.Files {
		if !plain(e.Name) || e.In != "" && (m.Base == nil || !plain(e.In)) {
			return m, wrong("names a file elsewhere", nil)
		}
		journaled = journaled || e.Name == m.journal() && e.In == ""
	}
	if !journaled {
		return m, wrong("names no journal", nil)
	}
	return m, nil
}

// plain reports whether a name is of a file or folder in the folder that it is used in.
func plain(name string) bool {
	return name == filepath.Base(name) && !strings.HasPrefix(name, ".") && name != string(filepath.Separator)
}

// chainTo reads the descriptions from the whole backup to the one in a folder.
func chainTo(folder string, keys proof.Keys) (chain []member, err error) {
	m, err := memberOf(folder, keys)
	for ; err == nil; m, err = memberOf(folder, keys) {
		if n := len(chain); n > 0 && chain[n-1].Base.SHA256 != m.digest {
			return nil, wrong("of "+filepath.Base(m.folder)+" is not the one that "+filepath.Base(chain[n-1].folder)+" continues", nil)
		}
		chain = append(chain, m)
		if m.Base == nil {
			slices.Reverse(chain)
			return chain, nil
		}
		if len(chain) > maxChain {
			return nil, wrong("is behind too many increments", nil)
		}
		folder = filepath.Join(filepath.Dir(m.folder), m.Base.Folder)
	}
	return nil, err
}

// membersIn reads the descriptions of all backups in a folder, the oldest first. Folders without a
// description, which were not made to their end, are passed over.
func membersIn(folder string) (all []member, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, File: folder, Detail: "cannot be read", Cause: files.Cause(err)}
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, e.Name(), File)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		m, err := memberOf(filepath.Join(folder, e.Name()), nil)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(a.Made.Compare(b.Made), strings.Compare(a.folder, b.folder))
	})
	return all, nil
}

// whole checks that the journals of members, and all files of the last one, are those that were made.
func whole(members []member) error {
	for i := range members {
		m := &members[i]
		for _, want := range m.Files {
			if i < len(members)-1 && want.Name != m.journal() {
				continue
			}
			got, err := entryOf(m.at(want), want.Name)
			if err != nil {
				return unusable(want.Name, err)
			}
			if got.In = want.In; got != want {
				return &messages.Error{Code: messages.ErrConfig, File: want.Name, Detail: "is not the file that was backed up"}
			}
		}
	}
	return nil
}

func journals(members []member) (paths []string) {
	for i := range members {
		paths = append(paths, filepath.Join(members[i].folder, members[i].journal()))
	}
	return paths
}

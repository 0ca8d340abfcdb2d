package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// add appends lines numbered from..to.
func add(t *testing.T, l audit.File, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if err := l.Append(func(prev string) ([]byte, error) { return fmt.Appendf(nil, `{"n":%d,"prev":%q}`, i, prev), nil }); err != nil {
			t.Fatal(err)
		}
	}
}

func verify(t *testing.T, path string, known audit.Expect) *audit.Report {
	t.Helper()
	r, err := audit.Verify(t.Context(), path, known)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines reads a file in lines, with their ends.
func lines(t *testing.T, path string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.SplitAfter(b, []byte("\n"))[:bytes.Count(b, []byte("\n"))]
}

func write(t *testing.T, path string, all [][]byte) {
	t.Helper()
	if err := os.WriteFile(path, bytes.Join(all, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newLog has 20 lines in four files: .000001 to .000003, and the log.
func newLog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), audit.Name)
	add(t, audit.File{Path: path, Max: 500}, 1, 20)
	r := verify(t, path, audit.Expect{})
	if r.Lines != 20 || r.Files != 4 || len(r.Problems) > 0 || r.Unchained+r.Torn > 0 {
		t.Fatalf("%+v", r)
	}
	if head, err := (audit.File{Path: path}).Head(); err != nil || head != r.Head {
		t.Fatalf("%s %v, want %s", head, err, r.Head)
	}
	return path
}

// Changes of a program that can write the log are found, with their places.
func TestTampering(t *testing.T) {
	// edit changes the lines of one file.
	edit := func(file string, change func([][]byte) [][]byte) func(*testing.T, string) {
		return func(t *testing.T, path string) { write(t, path+file, change(lines(t, path+file))) }
	}
	forged := []byte(`{"n":99,"prev":"` + audit.Zero + `"}` + "\n")
	for name, c := range map[string]struct {
		do   func(*testing.T, string)
		file string // behind the log's name, of a problem
		line int
		what string
	}{
		"changed":            {edit(".000002", func(l [][]byte) [][]byte { l[1] = bytes.Replace(l[1], []byte(`"n":`), []byte(`"n":1`), 1); return l }), ".000002", 3, "does not follow"},
		"changed to no JSON": {edit(".000002", func(l [][]byte) [][]byte { l[1] = []byte("torn\n"); return l }), ".000002", 3, "does not follow"},
		"changed, the last": {edit("", func(l [][]byte) [][]byte {
			l[len(l)-1] = bytes.Replace(l[len(l)-1], []byte("20"), []byte("21"), 1)
			return l
		}), "", 0, "written last"},
		"removed":                   {edit(".000001", func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) }), ".000001", 3, "does not follow"},
		"removed, the first of all": {edit(".000001", func(l [][]byte) [][]byte { return l[1:] }), ".000001", 1, "not here"},
		"removed, the last of a file that was put aside": {edit(".000001", func(l [][]byte) [][]byte { return l[:len(l)-1] }), ".000002", 1, "not here"},
		"inserted":           {edit(".000003", func(l [][]byte) [][]byte { return slices.Insert(l, 2, forged) }), ".000003", 3, "does not follow"},
		"inserted, in front": {edit(".000001", func(l [][]byte) [][]byte { return slices.Insert(l, 0, forged) }), ".000001", 2, "does not follow"},
		"inserted, unchained": {edit(".000003", func(l [][]byte) [][]byte {
			return slices.Insert(l, 2, []byte(`{"n":99}`+"\n"))
		}), ".000003", 3, "carries no hash"},
		"inserted, at the end":  {edit("", func(l [][]byte) [][]byte { return append(l, forged) }), "", 0, "does not follow"},
		"moved":                 {edit(".000001", func(l [][]byte) [][]byte { l[1], l[2] = l[2], l[1]; return l }), ".000001", 2, "does not follow"},
		"cut":                   {edit("", func(l [][]byte) [][]byte { return l[:1] }), "", 0, "cut off"},
		"a file removed":        {func(t *testing.T, path string) { os.Remove(path + ".000002") }, ".000003", 1, "not here"},
		"the first file":        {func(t *testing.T, path string) { os.Remove(path + ".000001") }, ".000002", 1, "not here"},
		"the last file emptied": {func(t *testing.T, path string) { write(t, path, nil) }, "", 0, "cut off"},
		"a file from elsewhere": {func(t *testing.T, path string) { write(t, path+".999999", [][]byte{forged}) }, "", 0, "begins more than once"},
		"hashes taken away": {func(t *testing.T, path string) {
			for _, file := range []string{".000001", ".000002", ".000003", ""} {
				all := lines(t, path+file)
				for i := range all {
					all[i] = fmt.Appendf(nil, "{\"n\":%d}\n", i)
				}
				write(t, path+file, all)
			}
		}, "", 0, "no line carries a hash"},
	} {
		t.Run(name, func(t *testing.T) {
			path := newLog(t)
			c.do(t, path)
			r := verify(t, path, audit.Expect{})
			if !slices.ContainsFunc(r.Problems, func(p audit.Problem) bool {
				return (c.line == 0 || p.File == audit.Name+c.file && p.Line == c.line) && strings.Contains(p.What, c.what)
			}) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Who writes all of it anew, or cuts it and what is kept beside it, is found by a head
// that was kept elsewhere.
func TestHeadKeptElsewhere(t *testing.T) {
	path := newLog(t)
	head := verify(t, path, audit.Expect{}).Head
	add(t, audit.File{Path: path}, 21, 25)
	if r := verify(t, path, audit.Expect{Head: head}); len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	dir := t.TempDir()
	anew := filepath.Join(dir, audit.Name)
	add(t, audit.File{Path: anew}, 1, 19)
	for name, known := range map[string]int{"": 0, head: 1} {
		if r := verify(t, anew, audit.Expect{Head: name}); len(r.Problems) != known {
			t.Errorf("%+v", r)
		}
	}
}

// Files that are moved by others, under names of their own, stay in the chain; those that
// are kept elsewhere are named by the hash they end with.
func TestMovedAway(t *testing.T) {
	path := newLog(t)
	for from, to := range map[string]string{".000001": ".4", ".000002": ".3", ".000003": ".2", "": ".1"} {
		if err := os.Rename(path+from, path+to); err != nil {
			t.Fatal(err)
		}
	}
	add(t, audit.File{Path: path}, 21, 22)
	if r := verify(t, path, audit.Expect{}); r.Lines != 22 || r.Files != 5 || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	write(t, path, nil) // as copytruncate does
	add(t, audit.File{Path: path}, 23, 24)
	if r := verify(t, path, audit.Expect{}); len(r.Problems) == 0 { // 21 and 22 were copied nowhere
		t.Errorf("%+v", r)
	}
	var entry struct{ Prev string }
	if err := json.Unmarshal(lines(t, path+".3")[0], &entry); err != nil {
		t.Fatal(err)
	}
	path = newLog(t)
	if err := json.Unmarshal(lines(t, path+".000002")[0], &entry); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".000001"); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path, audit.Expect{From: entry.Prev}); len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
}

// A log of an earlier version goes on as a chain, and says what it does not prove; a part
// of a line, which a crash of the machine left, is covered.
func TestOlderAndTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), audit.Name)
	write(t, path, [][]byte{[]byte("{\"n\":1}\n{\"n\":2}\n{\"n\"")})
	add(t, audit.File{Path: path}, 4, 5)
	if r := verify(t, path, audit.Expect{}); r.Lines != 5 || r.Unchained != 2 || r.Torn != 1 || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"n":6,"prev":"00`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	add(t, audit.File{Path: path}, 7, 7)
	if r := verify(t, path, audit.Expect{}); r.Lines != 7 || r.Torn != 2 || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	all := lines(t, path)
	all[2] = []byte("{\"x\"\n")
	write(t, path, all)
	if r := verify(t, path, audit.Expect{}); len(r.Problems) != 1 {
		t.Errorf("%+v", r)
	}
}

// A copy has all files, in good order, and goes on as the log would.
func TestCopy(t *testing.T) {
	path, dest := newLog(t), t.TempDir()
	names, err := audit.Copy(filepath.Dir(path), dest)
	slices.Sort(names)
	if want := []string{audit.Name, audit.Name + ".000001", audit.Name + ".000002", audit.Name + ".000003", audit.Name + ".head"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("%q %v", names, err)
	}
	there := filepath.Join(dest, audit.Name)
	add(t, audit.File{Path: there, Max: 500}, 21, 40)
	if r := verify(t, there, audit.Expect{Head: verify(t, path, audit.Expect{}).Head}); r.Lines != 40 || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	if names, err := audit.Copy(t.TempDir(), t.TempDir()); err != nil || len(names) > 0 {
		t.Errorf("of nothing: %q %v", names, err)
	}
}

// What cannot be a line is refused, and leaves the log as it was.
func TestRefused(t *testing.T) {
	path := newLog(t)
	no := errors.New("no")
	for name, entry := range map[string]func(string) ([]byte, error){
		"an error":  func(string) ([]byte, error) { return nil, no },
		"two lines": func(string) ([]byte, error) { return []byte("{}\n{}"), nil },
		"too long":  func(string) ([]byte, error) { return make([]byte, 2<<20), nil },
	} {
		if err := (audit.File{Path: path}).Append(entry); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if r := verify(t, path, audit.Expect{}); r.Lines != 20 || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	gone := audit.File{Path: filepath.Join(t.TempDir(), "gone", audit.Name)}
	if err := errors.Join(gone.Check(), gone.Append(func(string) ([]byte, error) { return []byte("{}"), nil })); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := audit.Verify(t.Context(), filepath.Join(t.TempDir(), audit.Name), audit.Expect{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

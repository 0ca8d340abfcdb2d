//go:build unix

package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func init() {
	if dir := os.Getenv(readEnv); dir != "" {
		readAndSay(dir)
	}
}

// readEnv names the journal that a process without rights is to read.
const readEnv = "STILE_JOURNAL_TEST_READ"

// reading is what that process found.
type reading struct {
	Reason  string
	Error   string
	Mode    string
	Records int
	Head    string
}

// readAndSay is the child: it reads everything, tries to write, and says what came of
// it.
func readAndSay(path string) {
	var out reading
	fail := func(err error) {
		out.Reason, out.Error = journal.ReasonOf(err), err.Error()
	}
	s, err := openStore(Options{Path: path, ReadOnly: true})
	if err == nil {
		out.Mode = s.view.mode
		var heads []journal.Head
		if heads, err = s.Sessions(ctx, journal.Query{}); err == nil && len(heads) == 1 {
			var recs []*messages.Record
			if _, recs, err = journal.Load(ctx, s, heads[0].Inc); err == nil {
				out.Records, out.Head = len(recs), heads[0].Hash.String()
			}
		}
		if closed := s.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// unprivileged reads a directory in a process that mode bits bind, whichever user runs the
// test.
func unprivileged(t *testing.T, dir string) (out reading) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	if os.Getuid() == 0 {
		// The test's own binary lies in a directory that other users may not read.
		cmd.Path = filepath.Join(public(t), "reader")
		copyFile(t, self, cmd.Path, 0o755)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	tmp := public(t)
	if err := os.Chmod(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), readEnv+"="+dir, "TMPDIR="+tmp)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("it left %v behind, %v", left, err)
	}
	return out
}

// public is a folder that everybody may enter: the parents of t.TempDir are closed.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stile-public")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Chmod(dir, 0o700)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A journal is read where nothing can be written: after a clean end, and as a kill or
// a backup leaves it, with the log. Nothing is changed by it.
func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	s, c := open(t, Options{Path: dir}), copies{}
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(5))
	s.settle()
	specimen.Must(t, s, ses.Notes(4))
	head, err := s.HeadOf(ctx, ses.Inc)
	if err != nil {
		t.Fatal(err)
	}
	c.load(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	closed := copies{}
	closed.load(t, dir)
	for name, l := range map[string]struct {
		files   map[string][]byte
		mode    os.FileMode // of the directory
		way     string
		records int
		reason  string
	}{
		"closed":                      {map[string][]byte{FileName: closed.db}, 0o555, "mode=ro&immutable=1", 9, ""},
		"closed, empty log":           {map[string][]byte{FileName: closed.db, FileName + "-wal": nil}, 0o555, "mode=ro&immutable=1", 9, ""},
		"killed":                      {map[string][]byte{FileName: c.db, FileName + "-wal": c.wal}, 0o555, "mode=rw", 9, ""},
		"killed, and the log is torn": {map[string][]byte{FileName: c.db, FileName + "-wal": c.wal[:len(c.wal)-100]}, 0o555, "mode=rw", 5, ""},
		"closed, writable":            {map[string][]byte{FileName: closed.db}, 0o777, "mode=ro", 9, ""},
		"killed, writable":            {map[string][]byte{FileName: c.db, FileName + "-wal": c.wal}, 0o777, "mode=ro", 9, ""},
		"empty":                       {map[string][]byte{FileName: nil}, 0o555, "", 0, journal.ReasonFormat},
		"no database":                 {map[string][]byte{FileName: []byte(strings.Repeat("no database\n", 99))}, 0o555, "", 0, journal.ReasonFormat},
		"nothing":                     {nil, 0o555, "", 0, journal.ReasonNotFound},
		"cut in the first page":       {map[string][]byte{FileName: closed.db[:1000]}, 0o555, "", 0, journal.ReasonFormat},
	} {
		t.Run(name, func(t *testing.T) {
			dir := public(t)
			lay(t, dir, l.files)
			for name := range l.files {
				if err := os.Chmod(filepath.Join(dir, name), 0o444); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, l.mode); err != nil {
				t.Fatal(err)
			}
			out := unprivileged(t, dir)
			if out.Reason != l.reason || out.Records != l.records || out.Mode != l.way {
				t.Errorf("%+v", out)
			}
			if l.records == 9 && out.Head != head.Hash.String() {
				t.Errorf("the head is %s", out.Head)
			}
			for name, was := range l.files {
				if now, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(now) != string(was) {
					t.Errorf("%s has changed, %v", name, err)
				}
			}
			if l.mode == 0o555 {
				if left, err := os.ReadDir(dir); err != nil || len(left) != len(l.files) {
					t.Errorf("%v, %v", left, err)
				}
			}
			if strings.Contains(out.Error, dir) {
				t.Errorf("the error names a host path: %s", out.Error)
			}
		})
	}
}

// A file that may not be read at all, and a folder in its place.
func TestReadOnlyRefusals(t *testing.T) {
	dir := public(t)
	s := open(t, Options{Path: dir})
	s.Close()
	if err := os.Chmod(filepath.Join(dir, FileName), 0); err != nil {
		t.Fatal(err)
	}
	if out := unprivileged(t, dir); out.Reason != journal.ReasonIO {
		t.Errorf("%+v", out)
	}
	if err := os.Mkdir(filepath.Join(dir, "x.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := openStore(Options{Path: filepath.Join(dir, "x.db"), ReadOnly: true})
	wantReason(t, err, journal.ReasonNotFound) // x.db/journal.db
	_, err = openStore(Options{Path: dir, ReadOnly: true, Exclusive: true})
	if messages.CodeOf(err) != messages.ErrConfig {
		t.Error(err)
	}
}

// A store for reading refuses every write by name, sees what a host beside it writes,
// and leaves nothing behind.
func TestReadOnlyStore(t *testing.T) {
	dir := t.TempDir()
	host := open(t, Options{Path: dir})
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, host, ses.Notes(2))
	s := open(t, Options{Path: dir, ReadOnly: true})
	wantReason(t, s.Commit([]journal.Batch{ses.Notes(1)})[0], journal.ReasonReadOnly)
	_, err := s.Create(ctx, messages.SessionKey{Tenant: "local", User: "local", ID: "b"}, specimen.Inc(2))
	wantReason(t, err, journal.ReasonReadOnly)
	wantReason(t, s.PutMeta(ctx, "k", nil), journal.ReasonReadOnly)
	wantReason(t, s.PutSnapshot(ctx, ses.Inc, journal.Snapshot{}), journal.ReasonReadOnly)
	wantReason(t, s.DropSnapshot(ctx, ses.Inc), journal.ReasonReadOnly)
	wantReason(t, s.Delete(ctx, ses.Inc), journal.ReasonReadOnly)
	_, err = s.Erase(ctx, ses.Inc, 0, 0)
	wantReason(t, err, journal.ReasonReadOnly)
	head, err := s.HeadOf(ctx, ses.Inc)
	if err != nil || head.Seq != 2 {
		t.Fatal(head, err)
	}
	specimen.Must(t, host, specimen.Continue(t, head, nil).Notes(3))
	if head, err := s.HeadOf(ctx, ses.Inc); err != nil || head.Seq != 5 {
		t.Errorf("%+v, %v", head, err)
	}
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), host.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Path: dir, ReadOnly: true})
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 5 {
		t.Error(len(recs), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("after closing: %v, %v", left, err)
	}
	// A newer format, and one that is not finished.
	host = open(t, Options{Path: dir})
	for _, statement := range []string{"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)", "DELETE FROM goose_db_version"} {
		if _, err := host.w.conn.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
		_, err := openStore(Options{Path: dir, ReadOnly: true})
		wantReason(t, err, journal.ReasonFormat)
	}
}

// A journal of an older format is read from a copy in this version's format, with its log or
// without; it stays as it is, and the copy goes.
func TestReadOnlyOlderFormat(t *testing.T) {
	older, err := os.ReadFile("../../tests/testdata/journals/0.1.0/journal.db")
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, older, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Path: dir, ReadOnly: true})
	check := func() {
		t.Helper()
		heads, err := s.Sessions(ctx, journal.Query{})
		if err != nil || len(heads) < 5 {
			t.Fatal(len(heads), err)
		}
		for _, h := range heads {
			if _, recs, err := journal.Load(ctx, s, h.Inc); journal.ReasonOf(err) != journal.ReasonErased && (err != nil || int64(len(recs)) != h.Seq) {
				t.Errorf("%s has %d records, want %d: %v", h.SID, len(recs), h.Seq, err)
			}
		}
		if err := s.Check(ctx); err != nil {
			t.Error(err)
		}
	}
	check()
	wantReason(t, s.PutMeta(ctx, "k", nil), journal.ReasonReadOnly)
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, older) {
		t.Errorf("the file was changed: %v", err)
	}
	for _, folder := range []string{dir, temporary} {
		if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || folder == dir && len(left) != 1 || folder == temporary && len(left) != 0 {
			t.Errorf("after closing: %v, %v", left, err)
		}
	}
}

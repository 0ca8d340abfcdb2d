package feeds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// slowGlob is the matcher as one would say it.
func slowGlob(pattern, name string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") && pattern != "**" {
		ok, _ := path.Match(pattern, path.Base(name))
		return ok
	}
	var fits func(p, n []string) bool
	fits = func(p, n []string) bool {
		if len(p) == 0 {
			return len(n) == 0
		}
		if p[0] == "**" {
			return fits(p[1:], n) || len(n) > 0 && fits(p, n[1:])
		}
		if len(n) == 0 {
			return false
		}
		ok, _ := path.Match(p[0], n[0])
		return ok && fits(p[1:], n[1:])
	}
	return fits(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.go", "a/b/c.go", true},
		{"*.go", "c.gox", false},
		{"a/*.go", "a/c.go", true},
		{"a/*.go", "a/b/c.go", false},
		{"a/**/c.go", "a/b/b/c.go", true},
		{"a/**/c.go", "a/c.go", true},
		{"**/c/**", "a/c/x", true},
		{"**", "anything/at/all", true},
		{"vendor/", "a/vendor", true},
	} {
		if got := glob(c.pattern, c.name); got != c.want || got != slowGlob(c.pattern, c.name) {
			t.Errorf("%q on %q is %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func write(t testing.TB, dir, name, text string, at time.Time) {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(full, at, at); err != nil {
		t.Fatal(err)
	}
}

// counting counts what is opened of a file system.
type counting struct {
	fs.FS
	opened map[string]int
}

func (c *counting) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.FS.Open(name)
}

func fetched(t testing.TB, in *Ingester, params string) string {
	t.Helper()
	v, err := in.Fetch(context.Background(), Source{Kind: Ingest, Params: params})
	if err != nil {
		t.Fatalf("%s: %v", params, err)
	}
	return unquote(jsontext.Value(v))
}

func TestIngest(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	write(t, dir, "README.md", "# read\n\n```go\nx\n```\n", old)
	write(t, dir, "docs/a.txt", "alpha\n", old)
	write(t, dir, "docs/deep/b.txt", "beta", old)
	write(t, dir, "docs/deep/c.bin", "\x00\x01", old)
	write(t, dir, "docs/two\nlines", "x", old)
	write(t, dir, "secret/key", "s3cret", old)
	outside := t.TempDir()
	write(t, outside, "passwd", "root", old)
	for from, to := range map[string]string{"docs/link": filepath.Join(outside, "passwd"), "docs/out": outside, "docs/in": filepath.Join(dir, "secret")} {
		if err := os.Symlink(to, filepath.Join(dir, filepath.FromSlash(from))); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	in := &Ingester{Files: root.FS()}
	for name, c := range map[string]struct{ params, want string }{
		"text":     {`{"paths":["docs"],"exclude":["*.bin"]}`, "==> docs/a.txt <==\nalpha\n\n==> docs/deep/b.txt <==\nbeta\n"},
		"tree":     {`{"paths":["docs/","./README.md"],"format":"tree"}`, "README.md\ndocs/\n  a.txt\n  deep/\n    b.txt\n    c.bin"},
		"markdown": {`{"paths":["README.md"],"format":"markdown"}`, "## README.md\n\n````md\n# read\n\n```go\nx\n```\n````\n"},
		"include":  {`{"paths":["."],"include":["docs/**/b.*"]}`, "==> docs/deep/b.txt <==\nbeta\n"},
		"pruned":   {`{"paths":["."],"exclude":["deep","secret","*.md"],"format":"tree"}`, "docs/\n  a.txt"},
		"once":     {`{"paths":["docs/a.txt","docs"],"include":["a.txt"],"format":"text"}`, "==> docs/a.txt <==\nalpha\n"},
		"binary":   {`{"paths":["docs/deep/c.bin"]}`, "==> docs/deep/c.bin <==\n[not text: 2 bytes]\n"},
		"empty":    {`{"paths":["docs"],"include":["nothing"]}`, ""},
	} {
		if got := fetched(t, in, c.params); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for params, reason := range map[string]string{
		`{"paths":["nowhere"]}`:           ReasonUnreachable,
		`{"paths":["docs/link"]}`:         ReasonUnreachable,
		`{"paths":["docs/out/passwd"]}`:   ReasonUnreachable,
		`{"paths":["../x"]}`:              ReasonBadValue,
		`{"paths":["$x"]}`:                ReasonUnreachable, // resolved: a name like any other
		`{"git":"https://example.org/x"}`: ReasonNoFiles,
	} {
		v, err := in.Fetch(context.Background(), Source{Kind: Ingest, Params: params})
		if !isReason(err, reason) || strings.Contains(fmt.Sprint(err), dir) {
			t.Errorf("%s: %q, %v; want %s without a host path", params, v, err, reason)
		}
	}
}

// Only what changed is read again; what is so young that it may change unseen always.
func TestIngestReadsChanges(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	write(t, dir, "a", "alpha", old)
	write(t, dir, "b", "beta", old)
	write(t, dir, "young", "new", time.Now())
	cache, err := NewCache(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	files := &counting{os.DirFS(dir), map[string]int{}}
	in := &Ingester{Files: files, Cache: cache}
	read := func(want string, opened ...string) {
		t.Helper()
		clear(files.opened)
		if got := fetched(t, in, `{"paths":["a","b","young"]}`); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		cache.Wait()
		for _, name := range []string{"a", "b", "young"} {
			// WalkDir looks at what it starts from by Stat, which opens it once here.
			n := files.opened[name] - 1
			if want := strings.Count(strings.Join(opened, " "), name); n != want {
				t.Errorf("%s was read %d times, want %d", name, n, want)
			}
		}
	}
	const head, mid, tail = "==> a <==\n", "\n\n==> b <==\n", "\n\n==> young <==\nnew\n"
	read(head+"alpha"+mid+"beta"+tail, "a", "b", "young")
	read(head+"alpha"+mid+"beta"+tail, "young")
	write(t, dir, "b", "BETA", old.Add(time.Second))
	read(head+"alpha"+mid+"BETA"+tail, "b", "young")
	write(t, dir, "a", "alpha more", old)
	read(head+"alpha more"+mid+"BETA"+tail, "a", "young")
}

func TestIngestBounds(t *testing.T) {
	files := fstest.MapFS{}
	for i := range MaxIngestFiles + 3 {
		files[fmt.Sprintf("f/%05d", i)] = &fstest.MapFile{}
	}
	in := &Ingester{Files: files}
	got := fetched(t, in, `{"paths":["f"],"format":"tree"}`)
	if want := fmt.Sprintf("[truncated: %d of %d files]", MaxIngestFiles, MaxIngestFiles+3); !strings.HasSuffix(got, want) || strings.Count(got, "\n") != MaxIngestFiles+1 {
		t.Errorf("%d lines end with %q", strings.Count(got, "\n"), got[len(got)-60:])
	}

	big := fstest.MapFS{}
	for i := range 10 {
		big[fmt.Sprint(i)] = &fstest.MapFile{Data: []byte(strings.Repeat("é", MaxIngestFile/2) + "x")}
	}
	big["0"].Data = []byte("x" + strings.Repeat("é", MaxIngestFile))
	got = fetched(t, &Ingester{Files: big}, `{"paths":["."]}`)
	if len(got) > MaxIngestBytes+MaxIngestFile+1000 || !strings.HasSuffix(got, "[truncated: 4 of 10 files]") {
		t.Errorf("%d bytes end with %q", len(got), got[len(got)-60:])
	}
	if want := fmt.Sprintf("é\n[truncated: %d of %d bytes]", MaxIngestFile-1, 2*MaxIngestFile+1); !strings.Contains(got, want) {
		t.Errorf("no %q", want)
	}

	deep := fstest.MapFS{strings.Repeat("d/", MaxIngestDepth) + "in": &fstest.MapFile{}, strings.Repeat("e/", MaxIngestDepth+1) + "out": &fstest.MapFile{}}
	if got := fetched(t, &Ingester{Files: deep}, `{"paths":["."],"format":"tree"}`); !strings.Contains(got, "in") || strings.Contains(got, "out") {
		t.Errorf("depth: %q", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := in.Fetch(ctx, Source{Kind: Ingest, Params: `{"paths":["f"]}`}); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

// broken fails with a path of the host.
type broken struct{}

func (broken) Open(string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: "/home/owner/secret", Err: fs.ErrPermission}
}

func TestIngestTellsNoHostPath(t *testing.T) {
	_, err := (&Ingester{Files: broken{}}).Fetch(context.Background(), Source{Kind: Ingest, Params: `{"paths":["a"]}`})
	if !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "owner") {
		t.Error(err)
	}
}

// remote opens a map of files, and wants to be closed.
type remote struct {
	fstest.MapFS
	closed *int
}

func (r remote) Open(_ context.Context, how, location string) (fs.FS, error) {
	if location != "https://example.org/r.git" {
		return nil, errors.New("no such place")
	}
	r.MapFS = fstest.MapFS{"x/y": &fstest.MapFile{Data: []byte(how)}}
	return closing{r.MapFS, r.closed}, nil
}

type closing struct {
	fs.FS
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestIngestRemote(t *testing.T) {
	closed := 0
	in := &Ingester{Remote: remote{closed: &closed}}
	for _, how := range []string{RemoteGit, RemoteURL} {
		if got := fetched(t, in, `{"`+how+`":"https://example.org/r.git"}`); got != "==> x/y <==\n"+how+"\n" {
			t.Errorf("%s: %q", how, got)
		}
	}
	if closed != 2 {
		t.Errorf("closed %d times", closed)
	}
	if _, err := in.Fetch(context.Background(), Source{Kind: Ingest, Params: `{"git":"ssh://elsewhere"}`}); !isReason(err, ReasonUnreachable) {
		t.Error(err)
	}
	if _, err := in.Fetch(context.Background(), Source{Kind: Ingest, Params: `{"paths":["a"]}`}); !isReason(err, ReasonNoFiles) {
		t.Error(err)
	}
}

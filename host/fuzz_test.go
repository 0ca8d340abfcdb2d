package host

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// FuzzBeginning: what a client says of where it was is refused as its own mistake, or is
// the id of an update, spelt as the host spells it; a header goes before a parameter.
func FuzzBeginning(f *testing.F) {
	for _, s := range [][3]string{
		{"", "", "records"},
		{"7", "", "records"},
		{"7.1.0.5", "9", "records"},
		{"", "7-1", "simple"},
		{"7-1", "", "records"},
		{"7-3", "", "simple"},
		{"-1", "", "simple"},
		{"0", "", ""},
		{"9223372036854775807", "", ""},
		{"9223372036854775808", "", ""},
		{"1.0.0.0", "", ""},
		{"01", "", ""},
		{"1.1.18446744073709551616.1", "", ""},
		{"acme:ann:s", "", ""},
		{"７", "", ""},
		{"1 ", "", ""},
		{"1.1.1", "", ""},
		{"+1", "", ""},
		{"7-1-1", "", "simple"},
		{"1.1.4294967297.0", "", ""},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, after, last, format string) {
		got, err := beginning(after, last, format)
		said, field := last, "Last-Event-ID"
		if said == "" {
			said, field = after, "after"
		}
		if err != nil {
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.ErrInvalid || e.Field != field || said == "" {
				t.Fatalf("%q: %v", said, err)
			}
			return
		}
		if got.id != said {
			t.Fatalf("%q is taken for %q", said, got.id)
		}
		text, n, _ := strings.Cut(said, "-")
		if said != "" && (got.at.String() != text || n != "" && (format != formatSimple || n != "1" && n != "2") || got.at.Seq < 0 || got.at.Off < 0 || got.at.Unit.N < 0) {
			t.Fatalf("%q is %s", said, got.at)
		}
	})
}

// opened keeps which files of a system are read.
type opened struct {
	fs.FS
	names []string
}

func (a *opened) Open(name string) (fs.File, error) {
	a.names = append(a.names, name)
	return a.FS.Open(name)
}

// FuzzGroupLimit: whatever the kernel's files say, the limit is 0 or the smallest number
// that one of them has, and nothing but the groups' files is read.
func FuzzGroupLimit(f *testing.F) {
	for _, s := range [][2]string{
		{"0::/\n", "209715200\n"}, {"0::/a/b\n", "100"}, {"4:memory:/x\n", "300"}, {"0::/../../etc\n", "1"}, {"x\n0:\n\n0::\n", "max"}, {"0::/a:b\n", "-1"}, {"4:memory:/\n0::/\n", "9223372036854771712"}, {"0::/\x00\n", "0x10"}, {strings.Repeat("0::/a\n", 100), "7 8"}, {"0::" + strings.Repeat("/a", 500), "5"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, groups, limit string) {
		if len(groups) > 4<<10 {
			return // the kernel says no more, and all parents of each are read
		}
		file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
		files := &opened{FS: fstest.MapFS{
			"proc/self/cgroup": file(groups), "sys/fs/cgroup/memory.max": file(limit), "sys/fs/cgroup/a/memory.max": file("5000"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file(limit), "etc/memory.max": file("1"),
		}}
		got := groupLimit(files)
		n, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 64)
		if got < 0 || got > 1<<50 || got > 0 && got != 5000 && (err != nil || got != n) {
			t.Fatalf("%d of %q", got, limit)
		}
		for _, name := range files.names {
			if name != "proc/self/cgroup" && !strings.HasPrefix(name, "sys/fs/cgroup/") {
				t.Fatalf("%q is read", name)
			}
		}
	})
}

// FuzzName: a host that does not authenticate answers to its own names alone, however the
// name of a site is spelt.
func FuzzName(f *testing.F) {
	for _, s := range []string{"localhost", "LOCALHOST.:80", "127.0.0.1:8471", "[::1]:80", "[::1", "::1", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0x7f.1", "127.1", "", ":", "[localhost]", "stile.example", "stile.example.evil", "[::ffff:127.0.0.1]", "[fe80::1%lo]:1", "192.0.2.1"} {
		f.Add(s)
	}
	closed := &Server{}
	closed.offer.Store(&offer{hosts: map[string]bool{"stile.example": true}})
	f.Fuzz(func(t *testing.T, name string) {
		if !closed.mine(name) {
			return
		}
		bare := strings.ToLower(name)
		if i := strings.LastIndexByte(bare, ':'); i >= 0 && (strings.HasSuffix(bare[:i], "]") || strings.Count(bare, ":") == 1) {
			bare = bare[:i]
		}
		bare = strings.TrimSuffix(strings.Trim(bare, "[]"), ".")
		ip, err := netip.ParseAddr(bare)
		if bare != "localhost" && bare != "stile.example" && (err != nil || !ip.IsLoopback()) {
			t.Fatalf("%q is a name of this host", name)
		}
	})
}

// FuzzUsage: what is kept of tenants' use is read as it was written, or refused with an
// error that names the file and not where it lies.
func FuzzUsage(f *testing.F) {
	for _, s := range []string{`{}`, `{"acme":{"day":"2026-11-21","tokens":5,"cost_micro_usd":7,"bytes":9}}`, `{"acme":{"day":"2026-11-20","tokens":5}}`, `[]`, ``, `null`, `{"acme":null}`, `{"acme":{"tokens":-5,"day":"2026-11-21"}}`, `{"acme":{"tokens":1e400}}`, `{"":{"day":"2026-11-21","bytes":1}}`} {
		f.Add([]byte(s))
	}
	now := func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	path := filepath.Join(f.TempDir(), "usage.json")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		first := &meter{now: now, tenants: map[string]*usage{}, pending: map[string]*underway{}, file: path}
		if err := first.load(); err != nil {
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.File != "usage.json" || strings.Contains(err.Error(), filepath.Dir(path)) {
				t.Fatalf("%v", err)
			}
			return
		}
		if err := first.save(); err != nil {
			t.Fatal(err)
		}
		again := &meter{now: now, tenants: map[string]*usage{}, pending: map[string]*underway{}, file: path}
		if err := again.load(); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		for tenant, u := range first.tenants {
			if s := u.today; (s.Tokens > 0 || s.Cost > 0 || s.Bytes > 0) && again.of(tenant).today != s {
				t.Fatalf("%q: %+v, then %+v", tenant, s, again.of(tenant).today)
			}
		}
	})
}

package host

import (
	"errors"
	"math"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/fstest"
)

func TestGroupLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"no groups":           {fstest.MapFS{}, 0},
		"in a container":      {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("209715200\n")}, 209715200},
		"no limit":            {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n")}, 0},
		"the tightest around": {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("100\n"), "sys/fs/cgroup/memory.max": file("200\n")}, 100},
		"the first version":   {fstest.MapFS{"proc/self/cgroup": file("5:cpu:/x\n4:memory:/x\n"), "sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("300\n")}, 300},
		"none in it":          {fstest.MapFS{"proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
		"nonsense":            {fstest.MapFS{"proc/self/cgroup": file("x\n0:\n\n0::/../..\n"), "sys/fs/cgroup/memory.max": file("-1")}, 0},
	} {
		if got := groupLimit(c.files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// The collector is held to three quarters of the group's limit, less in a small group, and
// to what an operator says in place of it.
func TestMemoryLimit(t *testing.T) {
	group := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/memory.max": {Data: []byte("4000000000\n")}}
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	limit, undo := limitMemory(group)
	if got := debug.SetMemoryLimit(-1); limit != 3_000_000_000 || got != limit {
		t.Errorf("the limit is %d, said %d", got, limit)
	}
	undo()
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("%d stays", got)
	}
	for most, want := range map[int64]int64{200 << 20: 136 << 20, 100 << 20: 50 << 20, 256 << 20: 192 << 20} {
		group["sys/fs/cgroup/memory.max"].Data = strconv.AppendInt(nil, most, 10)
		limit, undo := limitMemory(group)
		undo()
		if limit != want {
			t.Errorf("of %d the collector has %d, want %d", most, limit, want)
		}
	}
	t.Setenv("GOMEMLIMIT", "off")
	if _, undo := limitMemory(group); debug.SetMemoryLimit(-1) != math.MaxInt64 {
		undo()
		t.Error("an operator's word does not win")
	}
}

// A host whose memory is taken refuses work, is not ready, and takes work again when some
// of it has gone. Where nobody limits it, it never does.
func TestWorkIsShedWhereMemoryIsTaken(t *testing.T) {
	s := serverOfTalker(t)
	if err := s.taking(); err != nil {
		t.Errorf("of a process without a limit: %v", err)
	}
	for _, c := range []struct {
		memory
		tight bool
	}{
		{memory{0, 1 << 40, 1 << 40}, false},
		{memory{math.MaxInt64, 1 << 40, 1 << 40}, false},
		{memory{1000, 700, 850}, false},
		{memory{1000, 751, 800}, true},
		{memory{1000, 400, 901}, true},
	} {
		s.used = func() memory { return c.memory }
		err := s.taking()
		var p *problem
		errors.As(err, &p)
		if (err != nil) != c.tight || c.tight && (p == nil || p.Reason != reasonMemory || p.Status != 503 || !p.Retryable) {
			t.Errorf("%+v: %v", c, err)
		}
		if _, err := s.room(t.Context(), "local"); (err != nil) != c.tight {
			t.Errorf("a session with %+v: %v", c, err)
		}
	}
}

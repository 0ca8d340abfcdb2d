package manifest

import (
	"strings"
	"testing"
)

// history_window is a count, none, or a size; each is read back from the canonical form, and
// what says nothing new leaves the digest as it was.
func TestHistoryWindow(t *testing.T) {
	for _, c := range []struct {
		written       string
		window, bytes int64
		canonical     string
	}{
		{"history_window: 0", 0, 0, `"history_window":0,"profile"`},
		{"history_window: 20", 20, 0, `"history_window":20,"profile"`},
		{"history_window: none", NoHistory, 0, `"history_window":"none","profile"`},
		{"history_window: 32KiB", 0, 32 << 10, `"history_bytes":32768,"history_window":0,"profile"`},
		{"history_bytes: 32 KiB", 0, 32 << 10, `"history_bytes":32768,"history_window":0,"profile"`},
		{"history_bytes: 500\n  history_window: 3", 3, 500, `"history_bytes":500,"history_window":3,"profile"`},
	} {
		m, err := Parse("a.yaml", []byte("dialect: plain\nmemory:\n  "+c.written+"\n"))
		if err != nil {
			t.Errorf("%s: %v", c.written, err)
			continue
		}
		if m.Memory.HistoryWindow != c.window || m.Memory.HistoryBytes != c.bytes {
			t.Errorf("%s: %d messages, %d bytes", c.written, m.Memory.HistoryWindow, m.Memory.HistoryBytes)
		}
		form := string(m.Canonical())
		again, err := Parse("b.yaml", []byte(form))
		if err != nil || again.Digest() != m.Digest() || !strings.Contains(form, c.canonical) {
			t.Errorf("%s: %v: canonical form %s", c.written, err, form)
		}
	}
}

func TestHistoryWindowMistakes(t *testing.T) {
	for _, c := range []struct{ written, want, detail string }{
		{"history_window: -1", "memory.history_window BAD_VALUE", "0 to 1000000"},
		{"history_window: 1000001", "memory.history_window BAD_VALUE", "0 to 1000000"},
		{"history_window: 1.5", "memory.history_window BAD_VALUE", "no integer"},
		{"history_window: None", "memory.history_window WRONG_TYPE", "want a count such as 20, none, or a size such as 32KiB"},
		{"history_window: 32KB", "memory.history_window WRONG_TYPE", "want a count such as 20, none, or a size such as 32KiB"},
		{`history_window: "20"`, "memory.history_window WRONG_TYPE", "want a count"},
		{"history_window: [none]", "memory.history_window WRONG_TYPE", "want a count"},
		{"history_window: 0B", "memory.history_bytes BAD_VALUE", "1 to 67108864"},
		{"history_window: 65MiB", "memory.history_bytes BAD_VALUE", "1 to 67108864"},
		{"history_bytes: none", "memory.history_bytes BAD_VALUE", "no size"},
		{"history_window: 1KiB\n  history_bytes: 1KiB", "memory.history_bytes DUPLICATE", "already"},
		{"history_window: none\n  history_bytes: 1KiB", "memory.history_bytes BAD_VALUE", "leave one of them out"},
	} {
		_, err := Parse("a.yaml", []byte("dialect: plain\nmemory:\n  "+c.written+"\n"))
		if got := reasons(err); len(got) != 1 || got[0] != c.want || !strings.Contains(err.Error(), c.detail) {
			t.Errorf("%s: %v, want %s with %q", c.written, err, c.want, c.detail)
		}
	}
}

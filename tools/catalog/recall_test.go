package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "<1min ago", 0: "<1min ago", 59 * time.Second: "<1min ago", time.Minute: "1min ago", 59*time.Minute + 59*time.Second: "59min ago",
		time.Hour: "1h ago", 23*time.Hour + 59*time.Minute: "23h ago", 24 * time.Hour: "1d ago", 1000 * 24 * time.Hour: "1000d ago",
	} {
		if got := age(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestRecallTool(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var asked string
	tool := Recall(func(_ context.Context, sid, query string, limit int) ([]Memory, error) {
		asked = sid + " " + query
		if query == "broken" {
			return nil, errors.New("the journal is gone")
		}
		return []Memory{{at.Add(-time.Hour), "one"}, {at, "two"}}[:min(2, limit)], nil
	}, func() time.Time { return at })
	v, err := tool.Run(t.Context(), &tools.Call{SID: "t:u:s", Args: []neuroscript.Value{neuroscript.String("what was it")}})
	raw, _ := neuroscript.AppendJSON(nil, v)
	if err != nil || string(raw) != `{"content":"1h ago: one\n<1min ago: two","outcome":"Found 2"}` || asked != "t:u:s what was it" {
		t.Errorf("%s, %v, asked %q", raw, err, asked)
	}
	for _, c := range []struct {
		sid, query, want string
	}{
		{"t:u:s", " \u3000\n", "no words"},
		{"t:u:s", strings.Repeat("日", 201), "201 characters"},
		{"", "a", "no user"},
		{"t:u:s", "broken", "gone"},
	} {
		_, err := tool.Run(t.Context(), &tools.Call{SID: c.sid, Args: []neuroscript.Value{neuroscript.String(c.query)}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.query, err)
		}
	}
}

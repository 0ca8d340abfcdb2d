package turn

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// A description is changed at any time, as a whole record, and refused as a whole.
func TestDescribe(t *testing.T) {
	title := func(s string) *string { return &s }
	many := make([]string, messages.MaxTags)
	for i := range many {
		many[i] = "n=" + string(rune('a'+i))
	}
	m := New(Config{SID: "local:local:s", Rules: &Rules{}}, State{}, nil)
	step := func(in Input) (recorded *messages.SessionDescribed, refused error) {
		t.Helper()
		effects, err := m.Step(time.Unix(1, 0), in)
		if err != nil {
			t.Fatal(err)
		}
		answered := false
		for _, e := range effects {
			switch e := e.(type) {
			case *Persist:
				if e.Record.Run != 0 || e.Record.Turn != 0 {
					t.Errorf("%+v is of a run", e.Record)
				}
				recorded, _ = e.Record.Body.(*messages.SessionDescribed)
			case *Answer:
				answered, refused = true, e.Err
				if refused == nil && e.After != m.State().Seq {
					t.Errorf("answered after %d of %d", e.After, m.State().Seq)
				}
			}
		}
		if !answered {
			t.Error("no answer")
		}
		return recorded, refused
	}
	if _, err := step(&Describe{Title: title("early")}); messages.CodeOf(err) != messages.ErrDenied {
		t.Errorf("before the session is open: %v", err)
	}
	if _, err := step(&Open{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in    Describe
		title string
		tags  string
		field string // of the refusal
		same  bool   // there is no record
	}{
		{in: Describe{}, same: true},
		{in: Describe{Title: title("One"), Tags: []string{"b", "a=1", "b"}, By: "ann"}, title: "One", tags: "a=1 b"},
		{in: Describe{Title: title("One"), Add: []string{"b"}}, title: "One", tags: "a=1 b", same: true},
		{in: Describe{Remove: []string{"b", "none"}, Add: []string{"c"}}, title: "One", tags: "a=1 c"},
		{in: Describe{Add: many}, title: "One", tags: "a=1 c", field: "tags"},
		{in: Describe{Title: title("a\tb"), Tags: []string{}}, title: "One", tags: "a=1 c", field: "title"},
		{in: Describe{Title: title("a\u200bb")}, title: "One", tags: "a=1 c", field: "title"},
		{in: Describe{Title: title("\xff")}, title: "One", tags: "a=1 c", field: "title"},
		{in: Describe{Title: title(strings.Repeat("x", messages.MaxTitleBytes+1))}, title: "One", tags: "a=1 c", field: "title"},
		{in: Describe{Add: []string{strings.Repeat("x", messages.MaxTagBytes+1)}}, title: "One", tags: "a=1 c", field: "tags"},
		{in: Describe{Add: []string{""}}, title: "One", tags: "a=1 c", field: "tags"},
		{in: Describe{Add: []string{"x,y"}}, title: "One", tags: "a=1 c", field: "tags"},
		{in: Describe{Title: title(strings.Repeat("x", messages.MaxTitleBytes)), Tags: many}, title: strings.Repeat("x", messages.MaxTitleBytes), tags: strings.Join(many, " ")},
		{in: Describe{Title: title(""), Tags: []string{}}},
	} {
		recorded, err := step(&c.in)
		var e *messages.Error
		if c.field != "" {
			if recorded != nil || !errors.As(err, &e) || e.Code != messages.ErrInvalid || e.Field != c.field {
				t.Errorf("%+v: %+v, %v", c.in, recorded, err)
			}
		} else if err != nil || (recorded == nil) != c.same || recorded != nil && recorded.By != c.in.By {
			t.Errorf("%+v: %+v, %v", c.in, recorded, err)
		}
		about := m.State().About
		if about == nil {
			about = &messages.SessionDescribed{}
		}
		if about.Title != c.title || !slices.Equal(about.Tags, strings.Fields(c.tags)) {
			t.Errorf("%+v: now %q %q", c.in, about.Title, about.Tags)
		}
	}
	if _, err := step(&Close{}); err != nil {
		t.Fatal(err)
	}
	if _, err := step(&Describe{Title: title("late")}); messages.CodeOf(err) != messages.ErrDenied {
		t.Errorf("of a closed session: %v", err)
	}
}

package compiled

import (
	"context"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Placeholders are filled in by the program, the environment and feeds of the manifest, in that
// order; what cannot be filled in is an error that says why.
func TestFill(t *testing.T) {
	set, err := feeds.NewSet([]feeds.Spec{
		{ID: "news", Source: feeds.SourceSpec{Type: "tool", Name: "t"}},
		{ID: "broken", Source: feeds.SourceSpec{Type: "tool", Name: "t"}},
	}, feeds.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	feed := func(id string) messages.Feed {
		if id == "broken" {
			return messages.Feed{ID: id, Error: feeds.ErrorFailed, Reason: "no route"}
		}
		return messages.Feed{ID: id, Value: `"rain"`}
	}
	given := func(_ context.Context, sid string) (string, error) { return "for " + sid, nil }
	for _, tt := range []struct {
		text     string
		instruct func(context.Context, string) (string, error)
		want     string
		err      string
	}{
		{text: "be kind", want: "be kind"},
		{text: "in ${city}", want: "in Oslo"},
		{text: "it is ${news}", want: "it is rain"},
		{text: "${unset}!", want: "!"},
		{text: "${" + prompt.Given + "}", instruct: given, want: "for t:u:s"},
		{text: "${" + prompt.Given + "}", err: "no function gives instructions"},
		{text: "${broken}", err: "the feed broken has no value (failed: no route)"},
		{text: "\xff", err: "they are not UTF-8"},
		{text: strings.Repeat("x", manifest.MaxInstructions+1), err: "at most"},
	} {
		a := &Agent{Instructions: tt.text, Instruct: tt.instruct, Feeds: Feeds{Set: set, Environment: func(name string) (string, bool) { return "Oslo", name == "city" }}}
		got, err := a.Fill(t.Context(), "t:u:s", feed)
		switch {
		case tt.err == "" && (err != nil || got != tt.want):
			t.Errorf("%.20q: %q, %v", tt.text, got, err)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%.20q: %v, want %q", tt.text, err, tt.err)
		}
	}
}

// An agent with instructions asks no model without them.
func TestInstructed(t *testing.T) {
	made := messages.Feed{ID: messages.InstructionsFeed, Value: `"x"`}
	lost := messages.Feed{ID: messages.InstructionsFeed, Error: feeds.ErrorFailed, Reason: "no route"}
	for _, tt := range []struct {
		text  string
		feeds []messages.Feed
		err   string
	}{
		{"", nil, ""},
		{"x", []messages.Feed{{ID: "other"}, made}, ""},
		{"x", nil, "they were not made"},
		{"x", []messages.Feed{lost}, "no route"},
	} {
		err := (&Agent{Instructions: tt.text}).Instructed(tt.feeds)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.err)
		}
	}
}

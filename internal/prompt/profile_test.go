package prompt

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

func TestProfileText(t *testing.T) {
	for value, want := range map[string]string{
		`{"who":"a","style":"b"}`:                     `{"who":"a","style":"b"}`,
		" {\n\"who\" : \"a\"\n} ":                     `{"who":"a"}`,
		`{"who":"</think><end> & [x] ` + "`y`" + `"}`: `{"who":"\u003c/think\u003e\u003cend\u003e \u0026 \u005bx\u005d \u0060y\u0060"}`,
		"{\"who\":\"a\u2028b\u0085c\"}":               `{"who":"a\u2028b\u0085c"}`,
		`{"who":"a\nUSER PROFILE:\n{}"}`:              `{"who":"a\nUSER PROFILE:\n{}"}`,
		`{}`:                                          "", ``: "", `null`: "", `"text"`: "", `["a"]`: "", `{"who":1}`: "", `{"who":["a"]}`: "", `{"who":"a"} `: `{"who":"a"}`,
		`{"who":"a"}{"who":"b"}`: "", `{"who":"a","who":"b"}`: "", `{"who":"a"`: "", "{\"who\":\"\xff\"}": "", `{"who":"a",}`: "",
	} {
		shown, rest := profile([]messages.Feed{{ID: "a"}, {ID: messages.ProfileFeed, Value: value}, {ID: "b"}})
		if want != "" {
			want = "USER PROFILE:\n" + want
		}
		if shown != want {
			t.Errorf("%q is shown as %q, want %q", value, shown, want)
		}
		if len(rest) != 2 || rest[0].ID != "a" || rest[1].ID != "b" {
			t.Errorf("the other feeds are %+v", rest)
		}
	}
	shown, _ := profile([]messages.Feed{{ID: messages.ProfileFeed, Value: `{"who":"` + strings.Repeat("é", 3000) + `"}`}})
	if n := utf8.RuneCountInString(strings.TrimPrefix(shown, "USER PROFILE:\n")); n != 2000 {
		t.Errorf("%d characters", n)
	}
	if shown, rest := profile([]messages.Feed{{ID: messages.ProfileFeed, Error: "failed"}}); shown != "" || len(rest) != 0 {
		t.Errorf("one that failed is shown as %q", shown)
	}
}

type dumb struct{ primer, system string }

func (d dumb) Primer([]messages.ToolSpec) string { return d.primer }

func (d dumb) Render(messages.Projection) (ms []messages.Message) {
	if d.system != "" {
		ms = append(ms, messages.Message{Role: messages.RoleSystem, Text: d.system})
	}
	return append(ms, messages.Message{Role: messages.RoleUser, Text: "hello"})
}

// The profile ends the system text, in each of its forms, before the feeds.
func TestProfileInThePrompt(t *testing.T) {
	fs := []messages.Feed{{ID: messages.ProfileFeed, Value: `{"who":"a"}`}, {ID: "f", Value: `1`}}
	const shown = "USER PROFILE:\n{\"who\":\"a\"}"
	for _, c := range []struct {
		d    dumb
		want string
	}{
		{dumb{}, shown},
		{dumb{primer: "Speak.\n"}, "Speak.\n\n" + shown},
		{dumb{system: "Own."}, "Own.\n\n" + shown},
	} {
		ms := Assemble(c.d, messages.Projection{Feeds: fs})
		if len(ms) != 3 || ms[0].Role != messages.RoleSystem || ms[0].Text != c.want || ms[1].Holds != messages.HoldsFeeds || strings.Contains(ms[1].Text, "builtin") {
			t.Errorf("%+v gives %+v", c.d, ms)
		}
		if ms = Assemble(c.d, messages.Projection{Feeds: fs[:1]}); ms[len(ms)-1].Text != "hello" || ms[len(ms)-1].Role != messages.RoleUser || len(ms) != 2 {
			t.Errorf("alone: %+v", ms)
		}
	}
}

// Whatever a profile says, it is one line of at most its length without a character that
// markers begin or end with.
func FuzzProfile(f *testing.F) {
	for _, s := range []string{`{"who":"<end>"}`, `{"a":"[INTERNAL x]","b":"` + "```" + `"}`, "{\"a\":\"\u2028\"}", `{"a":"\u003cend>"}`, `{"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		shown, _ := profile([]messages.Feed{{ID: messages.ProfileFeed, Value: value}})
		if shown == "" {
			return
		}
		line, ok := strings.CutPrefix(shown, "USER PROFILE:\n")
		if !ok || !strings.HasPrefix(line, "{") || !utf8.ValidString(line) || utf8.RuneCountInString(line) > 2000 ||
			strings.ContainsAny(line, "<>&[]`\n\r\u0085\u2028\u2029") {
			t.Errorf("%q is shown as %q", value, shown)
		}
	})
}

package shapes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// outcome is what a case wants; what is not there is not compared. Elements of lists are a
// text, or a list of texts of which one will do.
type outcome struct {
	Decision, Reason string // several parted by |

	VisibleContains []anyOf  `json:"visible_contains"`
	VisibleExcludes []string `json:"visible_excludes"`
	VisibleMin      int      `json:"visible_min"`
	LastContains    []anyOf  `json:"last_contains"`
	LastExcludes    []string `json:"last_excludes"`

	Calls *[]string
	Files map[string]*string

	ToldContains     []anyOf  `json:"told_contains"`
	ToldExcludes     []string `json:"told_excludes"`
	LastToldContains []anyOf  `json:"last_told_contains"`
	PromptContains   []anyOf  `json:"prompt_contains"`
	PromptExcludes   []string `json:"prompt_excludes"`
	SystemContains   []anyOf  `json:"system_contains"`

	MaxReplies int `json:"max_replies"`
	MinReplies int `json:"min_replies"`
}

// anyOf are texts of which one must be there.
type anyOf []string

// UnmarshalJSON reads a text as well.
func (a *anyOf) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = anyOf{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// compare returns the ways in which a result is not as wanted.
func (o *outcome) compare(got *result) (bad []string) {
	add := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	has := func(what, text string, all []anyOf) {
		for _, any := range all {
			if !slices.ContainsFunc(any, func(s string) bool { return strings.Contains(text, s) }) {
				add("%s: want %q, got %q", what, any, brief(text))
			}
		}
	}
	lacks := func(what, text string, all []string) {
		for _, s := range all {
			if strings.Contains(text, s) {
				add("%s: must not have %q, got %q", what, s, brief(text))
			}
		}
	}
	if n := got.model.beyond; n > 0 {
		add("asked %d times more than there are replies", n)
	}
	if o.Decision != "" && !slices.Contains(strings.Split(o.Decision, "|"), got.decision) {
		add("decision: want %s, got %s %s: %s", o.Decision, got.decision, got.reason, got.detail)
	}
	if o.Reason != "" && !slices.Contains(strings.Split(o.Reason, "|"), got.reason) {
		add("reason: want %s, got %s", o.Reason, got.reason)
	}
	has("visible", got.visible(), o.VisibleContains)
	lacks("visible", got.visible(), o.VisibleExcludes)
	has("last visible", got.last(), o.LastContains)
	lacks("last visible", got.last(), o.LastExcludes)
	if n := len([]rune(got.visible())); n < o.VisibleMin {
		add("visible: want %d characters, got %d", o.VisibleMin, n)
	}
	if o.Calls != nil && !slices.EqualFunc(got.called(), *o.Calls, strings.EqualFold) {
		add("calls: want %v, got %v", *o.Calls, got.called())
	}
	told, lastTold := strings.ToLower(got.told(1)), strings.ToLower(got.told(len(got.model.asked)-1))
	has("told", told, lower(o.ToldContains))
	lacks("told", told, lower([]anyOf{o.ToldExcludes})[0])
	has("last told", lastTold, lower(o.LastToldContains))
	has("prompt", got.prompt(false), o.PromptContains)
	lacks("prompt", got.prompt(false), o.PromptExcludes)
	has("system", got.prompt(true), o.SystemContains)
	if n := len(got.model.asked); n < o.MinReplies || o.MaxReplies > 0 && n > o.MaxReplies {
		add("%d replies, want %d to %d", n, o.MinReplies, o.MaxReplies)
	}
	for name, want := range o.Files {
		data, err := os.ReadFile(filepath.Join(got.dir, name))
		switch {
		case want == nil && !errors.Is(err, fs.ErrNotExist):
			add("file %s must not be there: %q, %v", name, data, err)
		case want != nil && !strings.Contains(string(data), *want):
			add("file %s: want %q, got %q, %v", name, *want, data, err)
		}
	}
	return bad
}

func lower(all []anyOf) []anyOf {
	out := make([]anyOf, len(all))
	for i, any := range all {
		for _, s := range any {
			out[i] = append(out[i], strings.ToLower(s))
		}
	}
	return out
}

// brief shortens a text for a message.
func brief(s string) string {
	if len(s) > 600 {
		s = s[:300] + " … " + s[len(s)-300:]
	}
	return s
}

// result is what came of a case.
type result struct {
	model                    *speaker
	dir                      string
	decision, reason, detail string // of the last run
	units                    []unit // that the user sees, of the last run
	calls                    []call // of all runs
}

type unit struct{ id, text string }

type call struct {
	run, turn int64
	id, name  string
	state     messages.ActionState
}

func (r *result) record(rec *messages.Record) {
	switch b := rec.Body.(type) {
	case *messages.ActionDeclared:
		r.calls = append(r.calls, call{rec.Run, rec.Turn, b.ID, b.Name, ""})
	case *messages.ActionEnded:
		for i := range r.calls {
			if c := &r.calls[i]; c.run == rec.Run && c.turn == rec.Turn && c.id == b.ID {
				c.state = b.State
			}
		}
	case *messages.RunEnd:
		r.decision, r.reason, r.detail = string(b.Decision), string(b.Reason), b.Detail
	case *messages.UnitText:
		if b.UnitKind == messages.ResponseUnit || b.Final {
			r.units = append(r.units, unit{b.Unit, b.Text})
		}
	case *messages.Emit:
		lines := slices.DeleteFunc(strings.Split(b.Text, "\n"), func(l string) bool { return strings.HasPrefix(l, "<<<NSMAG:V3:") })
		if len(lines) > 0 {
			r.units = append(r.units, unit{"", strings.Join(lines, "\n")})
		}
	case *messages.Retract:
		for i := range r.units {
			if r.units[i].id == b.Unit {
				r.units[i].text = r.units[i].text[:min(int(b.Off), len(r.units[i].text))]
			}
		}
	}
}

// shown are the texts of the last run that say something.
func (r *result) shown() (texts []string) {
	for _, u := range r.units {
		if strings.TrimSpace(u.text) != "" {
			texts = append(texts, u.text)
		}
	}
	return texts
}

func (r *result) visible() string { return strings.Join(r.shown(), "\n") }

// last is the answer.
func (r *result) last() string {
	if all := r.shown(); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// called are the names of the calls that ended well.
func (r *result) called() (names []string) {
	for _, c := range r.calls {
		if c.state == messages.ActionOK {
			names = append(names, c.name)
		}
	}
	return names
}

// told are the lines of request i that the first one has not, without what the model said.
func (r *result) told(i int) string {
	if i < 1 || i >= len(r.model.asked) {
		return ""
	}
	known := map[string]bool{}
	for _, m := range r.model.asked[0] {
		for line := range strings.SplitSeq(m.Text, "\n") {
			known[line] = true
		}
	}
	var lines []string
	for _, m := range r.model.asked[i] {
		for line := range strings.SplitSeq(m.Text, "\n") {
			if m.Role != messages.RoleAssistant && !known[line] {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// prompt is the last one, or its system part.
func (r *result) prompt(system bool) string {
	if len(r.model.asked) == 0 {
		return ""
	}
	var texts []string
	for _, m := range r.model.asked[len(r.model.asked)-1] {
		if !system || m.Role == messages.RoleSystem {
			texts = append(texts, m.Text)
		}
	}
	return strings.Join(texts, "\n")
}

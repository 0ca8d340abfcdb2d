package probe

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// speaker is a model that answers from what it is told last.
type speaker func(last string) string

func (s speaker) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		text := s(req.Messages[len(req.Messages)-1].Text)
		if words := coded.FindAllStringSubmatch(fmt.Sprint(req.Messages), -1); words != nil && strings.Contains(text, remembered) {
			text = strings.Replace(text, remembered, words[len(words)-1][1], 1)
		}
		yield(llm.Chunk{Text: []byte(text), Finish: messages.FinishStop}, nil)
	}
}

var (
	named = regexp.MustCompile(`the tool (\w+\.\w+)(?: with (\w+) = ("\w+"))?`)
	coded = regexp.MustCompile(`(?:code|error) word (?:is )?([a-z]+-\d+)`)
)

// able does what it is asked in cogency.
func able(last string) string {
	if words := coded.FindAllStringSubmatch(last, -1); words != nil {
		said := "It says"
		for _, w := range words {
			said += " " + w[1]
		}
		return said + ".<end>"
	}
	if asked := named.FindAllStringSubmatch(last, -1); asked != nil {
		var calls []string
		for _, a := range asked {
			args := "{}"
			if a[2] != "" {
				args = fmt.Sprintf(`{"%s": %s}`, a[2], a[3])
			}
			calls = append(calls, fmt.Sprintf(`{"name": "%s", "args": %s}`, a[1], args))
		}
		return "<execute>[" + strings.Join(calls, ", ") + "]</execute>"
	}
	return "Hello, here is {\"name\": 1, \"args\": {}} and " + remembered + ".<end>"
}

// remembered stands for the latest word that a model was told.
const remembered = "the latest"

// TestProbe: what a model does shows in the findings, and no tool runs.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		name   string
		model  speaker
		failed map[string]string // question to a part of why
		madeUp int
		errors string // a part of one of them
	}{
		{"able", able, map[string]string{}, 0, ""},
		{"makes results up", func(string) string { return "The word is falcon-1, with args.<end>" }, map[string]string{
			"one call": "called nothing", "second message": "called nothing", "two calls": "called nothing", "failing call": "nothing of the result",
		}, 4, ""},
		{"silent", func(string) string { return "" }, map[string]string{
			"greeting": "no answer|HALT", "markup": "no answer|HALT", "one call": "", "second message": "", "two calls": "", "failing call": "",
		}, 0, ""},
		{"misses the dialect", func(last string) string {
			return strings.Replace(able(last), `"args": {`, `'args': {`, 1)
		}, map[string]string{"one call": "", "second message": "", "two calls": "", "failing call": ""}, 0, "JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			p := Probe{
				Agent: &stile.Agent{Manifest: manifest.Default("cogency"), Model: c.model, Tools: []tools.Tool{never(t, "notes.find", "words"), never(t, "notes.all", "")}},
				Word:  func() string { n++; return "kestrel-" + strconv.Itoa(n) }, Timeout: time.Minute,
			}
			p.Agent.Manifest.Import.Tools = []string{"notes.find", "notes.all"}
			p.Agent.Manifest.Approval.Default = messages.GateConfirm // there is no person to ask
			madeUp, complaints, asked := 0, "", 0
			err := p.Run(t.Context(), func(f Finding) error {
				asked++
				why, bad := c.failed[f.Question]
				if f.OK == bad {
					t.Errorf("%s: ok %v: %s; said %q, errors %q", f.Question, f.OK, f.Why, f.Answer, f.Errors)
				}
				if parts := strings.Split(why, "|"); bad && !strings.Contains(f.Why, parts[0]) && !strings.Contains(f.Why, parts[len(parts)-1]) {
					t.Errorf("%s: %q, want %q", f.Question, f.Why, why)
				}
				if f.MadeUp {
					madeUp++
				}
				complaints += strings.Join(f.Errors, "\n")
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if asked != 6 || madeUp < c.madeUp || c.madeUp == 0 && madeUp > 0 && c.name == "able" || !strings.Contains(complaints, c.errors) {
				t.Errorf("%d asked, %d made up; errors %s", asked, madeUp, complaints)
			}
		})
	}
}

// never is a tool that must not run.
func never(t *testing.T, name, param string) tools.Tool {
	tool := tools.Tool{Name: name, Description: "Finds.", Class: messages.ReadOnly, Run: func(context.Context, *tools.Call) (tools.Value, error) {
		t.Errorf("%s ran", name)
		return tools.Value{}, nil
	}}
	if param != "" {
		tool.Params = []tools.Param{{Name: param, Type: "string"}}
	}
	return tool
}

// TestQuestions: what is asked fits what there is to call.
func TestQuestions(t *testing.T) {
	word := func() string { return "kestrel-1" }
	list := messages.ToolSpec{Name: "a.list", Schema: `{"properties":{"all":{"type":"array"}},"required":["all"]}`}
	unit := messages.ToolSpec{Name: "a.unit", Schema: `{"properties":{"unit":{"type":"string","enum":["C","F"]},"n":{"type":"integer"}},"required":["unit"]}`}
	for _, c := range []struct {
		dialect string
		specs   []messages.ToolSpec
		want    string
	}{
		{"plain", []messages.ToolSpec{unit}, "greeting, markup"},
		{"cortex", []messages.ToolSpec{list}, "greeting, markup"},
		{"cortex", []messages.ToolSpec{list, unit}, "greeting, markup, one call, second message, failing call"},
		{"kitsu", []messages.ToolSpec{{Name: "search"}, {Name: "get_time"}}, "greeting, markup, search, time"},
	} {
		var names []string
		for _, q := range Questions(c.dialect, c.specs, word) {
			names = append(names, q.Name)
			if q.Name == "one call" && !strings.Contains(q.Texts[0], "a.unit with unit = C") {
				t.Errorf("asked %q", q.Texts[0])
			}
		}
		if got := strings.Join(names, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.dialect, got, c.want)
		}
	}
}

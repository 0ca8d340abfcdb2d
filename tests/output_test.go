package tests

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

type bill struct {
	Total float64  `json:"total"`
	Lines []string `json:"lines"`
}

// An answer that does not fit the agent's schema is not shown; the model is told what is
// wrong with it, once, and the value of one that fits is in the outcome.
func TestOutput(t *testing.T) {
	const good, bad = "```json\n{\"total\": 2.50, \"lines\": [\"rope\"]}\n```", `{"total": "2", "lines": ["secret"]}`
	wrap := map[string]func(string) string{
		"plain": func(s string) string { return s }, "cogency": func(s string) string { return s }, "kitsu": func(s string) string { return s },
		"cortex": func(s string) string { return "<thought>hm</thought><response>" + s + "</response>" },
		"aeiou":  func(s string) string { return program("emit '''"+s+"'''", sayDone) },
	}
	for dialect, as := range wrap {
		for name, c := range map[string]struct {
			replies []string
			code    messages.Code
			turns   int64
		}{
			"at once":     {[]string{as(good)}, "", 1},
			"mended":      {[]string{as(bad), as(good)}, "", 2},
			"never":       {[]string{as(bad), as(bad), as(good)}, messages.ErrOutput, 2},
			"not repeats": {[]string{as("Here you are: 2.50"), as(bad)}, messages.ErrOutput, 2},
		} {
			t.Run(dialect+"/"+name, func(t *testing.T) {
				rt := start(t, stile.Config{})
				m := manifest.Default(dialect)
				m.Name = "biller"
				asked := &recorder{Model: once(c.replies...)}
				a := &stile.Agent{Manifest: m, Output: bill{}, Model: asked}
				s := open(t, rt, "s", a)
				run := submit(t, s, "the bill")
				o := decision(t, run)
				if o.Reason != c.code || o.Turns != c.turns {
					t.Fatalf("%s(%s) %s after %d turns", o.Decision, o.Reason, o.Detail, o.Turns)
				}
				reqs := asked.requests()
				if system := reqs[0].Messages[0]; system.Role != messages.RoleSystem || !strings.Contains(system.Text, `"total"`) || reqs[0].Schema == "" {
					t.Errorf("the model is not told the schema: %q, %q", system.Text, reqs[0].Schema)
				}
				if c.turns > 1 {
					last := reqs[1].Messages[len(reqs[1].Messages)-1]
					if last.Role != messages.RoleUser || name != "not repeats" && !strings.Contains(last.Text, "/total: ") {
						t.Errorf("told %q", last.Text)
					}
				}
				var got bill
				if c.code == "" {
					if err := json.Unmarshal(o.Output, &got); err != nil || string(o.Output) != `{"total":2.50,"lines":["rope"]}` {
						t.Errorf("%s: %v", o.Output, err)
					}
				} else if len(o.Output) > 0 || !strings.Contains(o.Detail, "answer") && !strings.Contains(o.Detail, "/total") {
					t.Errorf("%s, %q", o.Output, o.Detail)
				}
				seen := ""
				for u, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					switch {
					case u.Delta != nil && u.Delta.Kind == messages.ResponseUnit:
						t.Errorf("shown early: %q", u.Delta.Text)
					case u.Record != nil:
						switch b := u.Record.Body.(type) {
						case *messages.UnitText:
							if b.UnitKind != messages.ThoughtUnit {
								seen += b.Text
							}
						case *messages.Emit:
							if !b.Held {
								seen += b.Text
							}
						}
					}
				}
				if strings.Contains(seen, "secret") || strings.Contains(seen, "rope") != (c.code == "") {
					t.Errorf("the user sees %q", seen)
				}
				if _, err := rt.Replay(t.Context(), "s", a); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A schema that is none is refused where it stands.
func TestOutputSchemaRefused(t *testing.T) {
	for yaml, want := range map[string]string{
		"dialect: plain\noutput:\n  schema: {type: thing}\n":                       "3:11: output.schema",
		"dialect: plain\noutput: {schema: {$ref: \"https://example.com/a.json\"}}": "another document",
		"dialect: plain\noutput: {schema: [1]}":                                    "no object",
		"dialect: plain\noutput: {schema: {file: none.json}}":                      "none.json",
	} {
		_, err := stile.LoadAgent(filepath.Join(write(t, "agent.yaml", yaml), "agent.yaml"))
		if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", yaml, err, want)
		}
	}
	if err := stile.Check(&stile.Agent{Dialect: "plain", Output: make(chan int), Model: says("x")}, stile.Config{}); messages.CodeOf(err) != messages.ErrConfig {
		t.Error(err)
	}
}

package tests

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// write puts the files of an agent into a folder: name and text in turn.
func write(t *testing.T, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// load reads agent.yaml of a folder.
func load(t *testing.T, dir string) *stile.Agent {
	t.Helper()
	a, err := stile.LoadAgent(filepath.Join(dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ends are the ends of a session's actions, by id: state, reason and result.
func ends(t *testing.T, s *stile.Session) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range records(t, s) {
		if b, ok := r.Body.(*messages.ActionEnded); ok {
			all[b.ID] = strings.TrimSpace(strings.TrimSuffix(string(b.State)+" "+b.Reason, " ") + " " + b.Result)
		}
	}
	return all
}

const summarise = `kind: LLM
version: 1
name: summarise
summary: Says it in one line.
provider: scripted
script: small.jsonl
system: You pay $5 a line and ${NAME} is no variable.
template: "Summarise for ${reader.name}: $text"
allow_models: [small, tiny]
`

// An llm is asked with its template filled, in the model that is allowed, and what it
// used counts to the run.
func TestLLMAction(t *testing.T) {
	dir := write(t, "agent.yaml", "dialect: cortex\nloop: {strict: [unseen]}\nmodel: {script: main.jsonl}\nimport: {llms: [summarise]}\nquotas: {tokens: 100}\n",
		"llms/summarise.yaml", summarise,
		"small.jsonl", `{"match":{"equals":"Summarise for Ann: all of it"},"chunks":[{"text":"so"},{"text":" it is"}],"finish":"stop","usage":{"input":30,"output":10}}`+"\n",
		"main.jsonl", `{"chunks":[{"text":"<action id=\"a\" type=\"llm\">{\"name\":\"summarise\",\"parameters\":{\"text\":\"all of it\",\"reader\":{\"name\":\"Ann\"},\"model\":\"tiny\"}}</action>`+
			`<action id=\"b\" type=\"llm\">{\"name\":\"summarise\",\"parameters\":{\"text\":\"x\",\"reader\":{},\"model\":\"huge\"}}</action>`+
			`<action id=\"c\" type=\"llm\">{\"name\":\"summarise\",\"parameters\":{\"text\":\"x\"}}</action>`+
			`<action id=\"d\" type=\"tool\">{\"name\":\"summarise\"}</action><response>$a</response>"}],"finish":"stop"}`+"\n"+
			`{"chunks":[{"text":"<action id=\"e\" type=\"llm\">{\"name\":\"summarise\",\"parameters\":{\"text\":\"all of it\",\"reader\":{\"name\":\"Ann\"}}}</action><action id=\"f\" type=\"llm\">{\"name\":\"summarise\",\"parameters\":{\"text\":\"all of it\",\"reader\":{\"name\":\"Ann\"}}}</action><response>more</response>"}],"finish":"stop"}`+"\n")
	a := load(t, dir)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	got := ends(t, s)
	if got["a"] != `ok "so it is"` {
		t.Errorf("a: %s", got["a"])
	}
	for id, want := range map[string]string{"b": "argument model: want one of", "c": "argument reader: missing", "d": "unknown_target"} {
		if !strings.HasPrefix(got[id], "failed") || !strings.Contains(got[id], want) {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
	for _, r := range records(t, s) {
		if b, ok := r.Body.(*messages.ActionEnded); ok && b.ID == "a" && b.Tokens != 40 {
			t.Errorf("%d tokens are recorded", b.Tokens)
		}
	}
	replays(t, rt, a)
	replays(t, rt, nil)
	a2 := load(t, dir)
	a2.Manifest.Quotas.Tokens = 70
	s2 := open(t, rt, "dear", a2)
	ask(t, s2, "go")
	if o := ask(t, s2, "again"); o.Decision != stile.Halt || o.Reason != messages.ErrQuota {
		t.Errorf("over the budget: %+v", o)
	}
}

const fetchAll = `kind: Workflow
version: 1
name: both
summary: Two at once, then one.
inputs: [{name: n, type: integer, required: true}, {name: tail, default: "!"}]
steps:
  - {id: one, name: own.slow, parameters: {seconds: $n}}
  - {id: two, name: own.slow, parameters: {seconds: 4}}
  - {id: loud, name: str.ToUpper, parameters: {s: "${one}${tail}"}, depends_on: [two]}
output: {text: $loud, plain: $one}
`

// flow is an agent with workflows in its manifest.
func flow(t *testing.T, calls *atomic.Int64, keys *[]string, yaml string, replies ...string) *stile.Agent {
	t.Helper()
	a := streaming(calls, replies...)
	m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nloop: {strict: [unseen]}\nimport: {tools: [own.slow, own.fails, own.deaf, own.panics, own.pays, str.ToUpper], workflows: [both]}\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	a.Manifest = m
	a.Tools = append(a.Tools,
		tools.Tool{Name: "own.deaf", Description: "Hears nothing.", Class: messages.Effectful, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
			<-time.After(time.Hour)
			return neuroscript.Value{}, nil
		}},
		tools.Tool{Name: "own.panics", Description: "Panics.", Class: messages.ReadOnly, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
			panic("of a step")
		}},
		tools.Tool{Name: "own.pays", Description: "Pays.", Class: messages.Keyed, Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			if *keys = append(*keys, fmt.Sprint(c.ID, " ", c.Key)); c.Attempt == 1 {
				return neuroscript.Value{}, fmt.Errorf("no luck")
			}
			return neuroscript.Number(float64(c.Attempt)), nil
		}},
	)
	return a
}

func TestWorkflowAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls, `<action id="w" type="workflow">{"name":"both","parameters":{"n":3}}</action><response>${w.text}</response>`)
		a.Manifest.Import.Workflows = []string{"both"}
		w := slices.DeleteFunc(a.Manifest.Wants(), func(w manifest.Wanted) bool { return w.Host })
		if len(w) != 1 || w[0].File != "workflows/both.yaml" {
			t.Fatalf("%+v", w)
		}
		if err := a.Manifest.Adopt(w[0], w[0].File, []byte(fetchAll), os.LookupEnv); err != nil {
			t.Fatal(err)
		}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		began := time.Now()
		if o := ask(t, s, "go"); o.Decision != stile.Done {
			t.Fatalf("%+v", o)
		}
		if took := time.Since(began); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("took %s: the steps are not side by side", took)
		}
		if got := ends(t, s)["w"]; got != `ok {"plain":"slept 3 s","text":"SLEPT 3 S!"}` {
			t.Error(got)
		}
		replays(t, rt, a)
	})
}

// What steps do to the action, in order: failure and skip, on_error, retries under one
// key, denial, a step whose time is up, a panic, a cancel.
func TestWorkflowFailures(t *testing.T) {
	const run = `<action id="w" type="workflow">{"name":"both"}</action><response>end</response>`
	for _, c := range []struct{ name, yaml, want string }{
		{
			"failure", `steps: [{id: a, name: own.fails}, {id: b, name: str.ToUpper, parameters: {s: $a}}, {id: c, name: str.ToUpper, parameters: {s: on}}]`,
			`failed error "step a failed: error: no luck; step b skipped: dependency_failed:a"`,
		},
		{"skip", `steps: [{id: a, name: own.fails, on_error: skip}, {id: b, name: str.ToUpper, parameters: {s: "got $a"}}]`, `ok {"a":null,"b":"GOT NULL"}`},
		{"retry", `steps: [{id: a, name: own.pays, retry: 1}]`, `ok {"a":2}`},
		{"deny", "steps: [{id: a, name: own.fails}]\napproval: {tools: {own.fails: deny}}", `failed error "step a failed: denied: denied by policy"`},
		{"confirm", "steps: [{id: a, name: own.fails}]\napproval: {tools: {own.fails: confirm}}", `failed error "step a failed: denied: a step cannot wait for a confirmation"`},
		{"time", `steps: [{id: a, name: own.slow, parameters: {seconds: 60}, timeout: 2s}]`, `failed error "step a failed: timeout: ERR_TIMEOUT: the step's time is up"`},
		{"deaf", `steps: [{id: a, name: own.deaf, timeout: 2s}]`, `unknown lost "Outcome unknown: the host lost contact after this action began; it may have happened. Check before repeating. step a unknown: timeout: ERR_TIMEOUT: the step's time is up"`},
		{"its own time", "timeout: 2s, steps: [{id: a, name: own.slow, parameters: {seconds: 60}}]", `failed timeout "code 21: step a cancelled: cancelled: ERR_TIMEOUT: the action's time is up"`},
		{"unresolved", `steps: [{id: a, name: str.ToUpper, parameters: {s: x}}, {id: b, name: str.ToUpper, parameters: {s: "${a.deep}"}}]`, `failed error "step b failed: unresolved_variable:a.deep"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				var keys []string
				flowing, rest, _ := strings.Cut(c.yaml, "\n")
				a := flow(t, &calls, &keys, "define: {workflows: [{name: both, "+flowing+"}]}\n"+rest, run)
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				if o := ask(t, s, "go"); o.Decision != stile.Done {
					t.Errorf("%+v", o)
				}
				if got := ends(t, s)["w"]; got != c.want {
					t.Errorf("%s\nwant\n%s", got, c.want)
				}
				if c.name == "retry" && (len(keys) != 2 || keys[0] != keys[1] || !strings.HasPrefix(keys[0], "w/a ")) {
					t.Errorf("keys %q", keys)
				}
				replays(t, rt, a)
				if c.name == "deaf" {
					time.Sleep(2 * time.Hour)
				}
			})
		})
	}
}

// A cancel reaches the steps, and a panic of one is that of the action.
func TestWorkflowCancelAndPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var keys []string
		a := flow(t, &calls, &keys, "define: {workflows: [{name: both, steps: [{id: a, name: own.slow, parameters: {seconds: 600}}, {id: b, name: own.slow, parameters: {seconds: 600}}, {id: c, name: own.slow, parameters: {seconds: 1}, depends_on: [a]}]}]}",
			`<action id="w" type="workflow">{"name":"both"}</action><response>end</response>`)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		run, err := s.Submit(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		if err := run.Cancel(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		o, err := run.Decision(t.Context())
		if err != nil || o.Decision != stile.Halt || o.Reason != messages.ErrCancelled {
			t.Errorf("%+v %v", o, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the steps went on for %s", took)
		}
		if got := ends(t, s)["w"]; !strings.HasPrefix(got, "cancelled") || calls.Load() != 2 {
			t.Errorf("%s, %d calls", got, calls.Load())
		}
		replays(t, rt, a)

		b := flow(t, &calls, &keys, "define: {workflows: [{name: both, steps: [{id: a, name: own.panics}]}]}",
			`<action id="w" type="workflow">{"name":"both"}</action><response>end</response>`)
		if o := ask(t, open(t, rt, "panic", b), "go"); o.Decision != stile.Halt || o.Reason != messages.ErrCrash {
			t.Errorf("%+v", o)
		}
	})
}

// What cannot work is said before a session opens.
func TestDefinitionMistakes(t *testing.T) {
	const head = "dialect: cortex\nloop: {strict: [unseen]}\nimport: {tools: [file.read], workflows: [a, b], llms: [l]}\n"
	llm := "define: {llms: [{name: l, template: x}], workflows: [{name: a, steps: [%s]}, {name: b, steps: [%s]}]}\n"
	for _, c := range []struct{ name, yaml, want string }{
		{"no definition", head, "import.llms[0]: ERR_CONFIG/MISSING"},
		{"calls itself", head + fmt.Sprintf(llm, "{id: x, type: workflow, name: b}", "{id: x, type: workflow, name: a}"), "calls itself"},
		{"not imported", head + fmt.Sprintf(llm, "{id: x, name: file.write}", "{id: x, name: file.read}"), "define.workflows[0].steps[0].name: ERR_CONFIG"},
		{"not there", head + fmt.Sprintf(llm, "{id: x, name: file.read}", "{id: x, type: llm, name: m}"), "define.workflows[1].steps[0].name: ERR_CONFIG"},
		{"dialect", strings.Replace(head, "cortex", "plain", 1) + fmt.Sprintf(llm, "{id: x, name: file.read}", "{id: x, name: file.read}"), "can call tools alone"},
	} {
		m, err := manifest.Parse("agent.yaml", []byte(c.yaml))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		err = stile.Check(&stile.Agent{Manifest: m, Dir: t.TempDir(), Model: scripted.New()}, stile.Config{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	dir := write(t, "agent.yaml", "dialect: cortex\nloop: {strict: [unseen]}\nimport: {llms: [gone, bad], workflows: [bad]}\n", "llms/bad.yaml", "name: other\n", "workflows/bad.yaml", "name: other\nsteps: [{id: a, name: file.read}]\n")
	_, err := stile.LoadAgent(filepath.Join(dir, "agent.yaml"))
	for _, want := range []string{"llms/gone.yaml", "llms/bad.yaml:1:1: template: ERR_CONFIG/MISSING", "workflows/bad.yaml:1:7: name: ERR_CONFIG/BAD_VALUE"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwants %s", err, want)
		}
	}
}

// A relic is a service that a manifest describes: its answer is the result, its key is
// in no record, and a replay reaches nothing.
func TestRelicAction(t *testing.T) {
	t.Setenv("ISSUES_KEY", "very-secret")
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("X-Key") != "very-secret" {
			w.WriteHeader(http.StatusForbidden)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q,"key":%q}`, r.URL.Path, r.Header.Get("X-Key"))
	}))
	defer server.Close()
	dir := write(t, "agent.yaml", "dialect: cortex\nloop: {strict: [unseen]}\nmodel: {script: main.jsonl}\nimport: {relics: [issues, closed]}\n",
		"relics/issues.yaml", "kind: Relic\nname: issues\nservice_type: http\nconnection: {base_url: "+server.URL+", private: true, secret: ISSUES_KEY, header: X-Key}\n"+
			"interface: {endpoints: [{name: get, path: '/issues/{id}', parameters: [{name: id, type: integer, required: true}]}]}\n",
		"relics/closed.yaml", "kind: Relic\nname: closed\nservice_type: http\nconnection: {base_url: "+server.URL+"}\ninterface: {endpoints: [{name: get, path: /}]}\n",
		"main.jsonl", `{"chunks":[{"text":"<action id=\"a\" type=\"relic\">{\"name\":\"issues\",\"parameters\":{\"operation\":\"get\",\"id\":7}}</action>`+
			`<action id=\"b\" type=\"relic\">{\"name\":\"closed\",\"parameters\":{\"operation\":\"get\"}}</action><response>${a.body.path}</response>"}],"finish":"stop"}`+"\n")
	rt := start(t, stile.Config{})
	a := load(t, dir)
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	got := ends(t, s)
	if got["a"] != `ok {"body":{"path":"/issues/7","key":"[redacted]"},"status":200}` || !strings.Contains(got["b"], "private network") {
		t.Errorf("%q", got)
	}
	replays(t, rt, nil)
	if calls.Load() != 1 {
		t.Errorf("%d requests", calls.Load())
	}
}

// A command is a tool like any other: of a program's call and of an action.
func TestCommandTool(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, err := catalog.NewCommand(catalog.Command{Name: "a.b", Entrypoint: []string{"/bin/sh"}}); err == nil {
			t.Fatal("a command without limits")
		}
		return
	}
	dir := write(t, "agent.yaml", "dialect: cortex\nloop: {strict: [unseen]}\nmodel: {script: main.jsonl}\nimport: {tools: [text.count, web_scraper, str.ToUpper], workflows: [w]}\n"+
		"define: {workflows: [{name: w, steps: [{id: n, name: text.count, parameters: {text: four}}], output: \"${n.chars}\"}]}\n",
		"tools/text.count.yaml", "kind: Tool\nname: text.count\nsummary: Counts.\nclass: read_only\nparameters: [{name: more}, {name: text, type: string, required: true, enum: [four, three]}]\n"+
			"implementation: {type: command, entrypoint: [/bin/sh, bin/count.sh], resources: {timeout: 20s}}\n",
		"tools/web_scraper.yaml", "name: web_scraper\nclass: read_only\nimplementation: {type: command, entrypoint: [/bin/echo, '\"page\"']}\n",
		"bin/count.sh", `printf '{"chars":%d}' "$(wc -c)"`,
		"main.jsonl", `{"chunks":[{"text":"<action id=\"a\">{\"name\":\"text.count\",\"parameters\":{\"text\":\"three\"}}</action><action id=\"b\">{\"name\":\"text.count\",\"parameters\":{\"text\":\"five\"}}</action>`+
			`<action id=\"c\" type=\"workflow\">{\"name\":\"w\"}</action><action id=\"d\">{\"name\":\"web_scraper\"}</action><response>${a.chars} $web_scraper ${text_count.chars}</response>"}],"finish":"stop"}`+"\n")
	rt := start(t, stile.Config{})
	a := load(t, dir)
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	got := ends(t, s)
	if got["a"] != `ok {"chars":16}` || !strings.Contains(got["b"], `argument text: want one of`) || got["c"] != "ok 15" || got["d"] != `ok "page"` {
		t.Errorf("%q", got)
	}
	if got := said(t, s); got != "16 page 16" {
		t.Errorf("said %q", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	replays(t, rt, nil)
}

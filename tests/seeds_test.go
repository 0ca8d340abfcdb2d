package tests

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/tools"
)

var seedUpdate = flag.Bool("seeds", false, "write what came of the transcripts in testdata/seeds anew")

// standIns are the targets that an example names, by type and name, with their
// parameters.
type standIns map[messages.ActionType]map[string][]string

func (s standIns) add(typ messages.ActionType, name string, params ...string) {
	if s[typ] == nil {
		s[typ] = map[string][]string{}
	}
	for _, p := range append(s[typ][name], params...) {
		if !slices.Contains(s[typ][name], p) {
			s[typ][name] = append(s[typ][name], p)
		}
	}
	if s[typ][name] == nil {
		s[typ][name] = []string{}
	}
	slices.Sort(s[typ][name])
}

// manifest is what imports and defines them; address is where relics are.
func (s standIns) manifest(address string) string {
	var b strings.Builder
	list := func(typ messages.ActionType) (names []string) {
		for name := range s[typ] {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	fmt.Fprintf(&b, "import: {tools: [%s], relics: [%s], workflows: [%s], llms: [%s], agents: [%s]}\ndefine:\n", strings.Join(append(list("tool"), "str.ToUpper"), ", "),
		strings.Join(list("relic"), ", "), strings.Join(list("workflow"), ", "), strings.Join(list("llm"), ", "), strings.Join(list("agent"), ", "))
	b.WriteString("  relics:\n")
	for _, name := range list("relic") {
		fmt.Fprintf(&b, "    - {name: %s, service_type: http, connection: {base_url: %q, private: true}, interface: {endpoints: [{name: %s, method: PUT, path: /%s, parameters: [%s]}]}}\n",
			name, address, map[bool]string{true: "set", false: "ask"}[name == "redis_cache"], name, parameterList(s["relic"][name]))
	}
	b.WriteString("  workflows:\n")
	for _, name := range list("workflow") {
		fmt.Fprintf(&b, "    - {name: %s, inputs: [%s], steps: [{id: one, name: str.ToUpper, parameters: {s: did}}], output: $one}\n", name, parameterList(s["workflow"][name]))
	}
	b.WriteString("  llms:\n")
	for _, name := range list("llm") {
		template := "Do"
		for _, p := range s["llm"][name] {
			if p != "model" {
				template += " $" + p
			}
		}
		fmt.Fprintf(&b, "    - {name: %s, template: %q, allow_models: [gemini-1.5-flash]}\n", name, template)
	}
	return b.String()
}

func parameterList(names []string) string {
	var all []string
	for _, n := range names {
		if n != "operation" {
			all = append(all, "{name: "+n+"}")
		}
	}
	return strings.Join(all, ", ")
}

// agent makes one that knows the stand-ins. extra are further keys of its manifest.
func (s standIns) agent(t *testing.T, address, extra string, replies ...string) *stile.Agent {
	t.Helper()
	for _, name := range []string{"JOURNAL_ROOT", "REPO_ROOT"} {
		t.Setenv(name, "/data")
	}
	m, err := manifest.ParseEnv("seed.yaml", []byte("dialect: cortex\nname: seed\nenvironment: {allow: [JOURNAL_ROOT, REPO_ROOT, DEBUG_MODE]}\n"+extra+s.manifest(address)), os.LookupEnv)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.manifest(address))
	}
	a := &stile.Agent{Manifest: m, Model: scripted.New(replies...)}
	for name, params := range s["tool"] {
		own := tool(name, messages.ReadOnly, gives("what "+name+" gave"))
		for _, p := range params {
			own.Params = append(own.Params, neuroscript.Param{Name: p, Type: "any", Optional: true})
		}
		a.Tools = append(a.Tools, tools.Tool(own))
	}
	for name := range s["agent"] {
		a.Agents = append(a.Agents, worker(name, "cortex", "<response>what "+name+" found</response>"))
	}
	return a
}

// TestSeeds loads and runs every example of the protocol (testdata/seeds/README.md).
func TestSeeds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"from":%q}`, strings.TrimPrefix(r.URL.Path, "/"))
	}))
	t.Cleanup(server.Close)
	yamls, err := filepath.Glob("testdata/seeds/*.yaml")
	if err != nil || len(yamls) < 9 {
		t.Fatalf("%d examples in YAML: %v", len(yamls), err)
	}
	for _, file := range yamls {
		t.Run(filepath.Base(file), func(t *testing.T) { seedManifest(t, file, server.URL) })
	}
	texts, err := filepath.Glob("testdata/seeds/*.txt")
	if err != nil || len(texts) < 25 {
		t.Fatalf("%d transcripts: %v", len(texts), err)
	}
	for _, file := range texts {
		t.Run(filepath.Base(file), func(t *testing.T) { seedTranscript(t, file, server.URL) })
	}
}

var feedSource = regexp.MustCompile(`(?m)type: "?(tool|relic|workflow|llm)"?\s+name: "?([a-z_]+)"?((?:\n\s+params:(?:.*\n?)(?:\s+[a-z_]+: .*\n?)*)?)`)

var paramKey = regexp.MustCompile(`([a-z_]+): `)

// seedManifest runs a session with the feeds of an example: all of them have values.
func seedManifest(t *testing.T, file, address string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "debug_context", "agent_metadata")
	if strings.HasPrefix(text, "- ") {
		text = "context_feeds:\n" + text
	}
	s := standIns{}
	for _, m := range feedSource.FindAllStringSubmatch(text, -1) {
		var params []string
		for _, k := range paramKey.FindAllStringSubmatch(m[3], -1) {
			if k[1] != "params" {
				params = append(params, k[1])
			}
		}
		s.add(messages.ActionType(m[1]), m[2], params...)
	}
	if strings.Contains(text, "$repo_structure") { // of another example
		s.add("tool", "git_tree")
		text += "- id: repo_structure\n  source: {type: tool, name: git_tree}\n"
	}
	a := s.agent(t, address, text, "<response>seen</response>", "<response>seen</response>")
	rt := start(t, stile.Config{})
	sess := open(t, rt, "seed", a)
	wantDone(t, ask(t, sess, "go"))
	recs := records(t, sess)
	if got := injected(recs); slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, "failed") || strings.HasSuffix(s, "timeout") }) {
		t.Errorf("feeds %v", got)
	}
	if strings.Contains(text, "context_feeds") && len(injected(recs)) == 0 && !strings.Contains(text, "DEBUG_MODE") {
		t.Error("no feed is in the prompt")
	}
}

// seedTranscript has a model say an example, and then that it is done.
func seedTranscript(t *testing.T, file, address string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := standIns{}
	s.add("tool", "system_monitor_tool")
	s.add("relic", "log_service", "filter", "since")
	d := cortex.Dialect{}.NewDecoder(messages.TurnInfo{Turn: 1})
	take := func(ev messages.Event) {
		if ev.Kind != messages.EventAction || ev.Action.Type == messages.TypeInternal {
			return
		}
		var args map[string]json.RawMessage
		if err := json.Unmarshal([]byte(ev.Action.Args), &args); err != nil {
			t.Fatal(err)
		}
		var params []string
		for k := range args {
			params = append(params, k)
		}
		s.add(ev.Action.Type, ev.Action.Name, params...)
	}
	d.Push(data, take)
	d.End(messages.FinishComplete, take)
	a := s.agent(t, address, `context_feeds:
  - {id: system_metrics, type: periodic, interval: 30, source: {type: tool, name: system_monitor_tool}}
  - {id: current_datetime, source: {type: internal, action: system_clock}}
`, string(data), "<response>done</response>", "<response>done</response>")
	rt := start(t, stile.Config{})
	sess := open(t, rt, "seed", a)
	wantDone(t, ask(t, sess, "go"))
	var got strings.Builder
	quick := map[string]bool{} // detached, so whether they have ended is unknown
	for _, r := range records(t, sess) {
		switch b := r.Body.(type) {
		case *messages.ActionDeclared:
			if b.Mode == messages.ModeFireAndForget {
				quick[b.ID] = true
			}
			fmt.Fprintf(&got, "declared %s %s %s %s\n", b.ID, b.Type, b.Name, b.Mode)
		case *messages.ParseFault:
			fmt.Fprintf(&got, "%s\n", strings.TrimSpace("fault "+b.Reason+" "+b.ID+b.Tag))
		case *messages.TurnDecided:
			fmt.Fprintf(&got, "turn %d %s\n", r.Turn, b.Decision)
		}
	}
	all := fates(records(t, sess))
	var ids []string
	for id := range all {
		if quick[id] {
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		fmt.Fprintf(&got, "ended %s %s\n", id, all[id])
	}
	golden := strings.TrimSuffix(file, ".txt") + ".want"
	if *seedUpdate {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got.String() {
		t.Errorf("it came to\n%s\nwant\n%s%v", got.String(), want, err)
	}
	if _, err := rt.Replay(t.Context(), "seed", a); err != nil {
		t.Errorf("replay: %v", err)
	}
}

package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// secret is what no attacker may see: it stands in a session of ann, in files outside, and
// in the host's environment.
const secret = "the-launch-code-is-0000"

// world is one host on loopback that two tenants use, and what lies around it.
type world struct {
	t   *testing.T
	url string
	// agent is the folder of the agents' manifests, with the host's data directory in it, as
	// `cd agent && stile serve agent.yaml` makes it; outside is another's folder.
	agent, data, outside, programs string
	rt                             *stile.Runtime
	tokens                         *access.Tokens
	secrets                        map[string]string // of tokens, by holder
	ids                            map[string]string // of tokens, by holder
	client                         *http.Client
	model                          *puppet
	issuer                         *issuer // that the host believes beside its tokens

	mu    sync.Mutex
	files map[string]string // what is outside, by path, as it has to stay
}

// holders are the tokens: a holder's name is tenant/user/what for.
var holders = map[string][]string{
	"acme/ann/all":       {"admin", "users", "read", "submit", "approve"},
	"acme/ann/read":      {"read"},
	"acme/ann/submit":    {"submit"},
	"acme/ann/approve":   {"approve"},
	"acme/ann/metrics":   {"metrics"},
	"acme/bob/admin":     {"admin"},
	"acme/bob/read":      {"read"},
	"evil/eve/all":       {"admin", "users", "read", "submit", "approve", "metrics"},
	"evil/mallory/admin": {"admin"},
	"evil/mallory/read":  {"read"},
	"evil/trent/admin":   {"admin"}, // who has no session of ann's names
}

// puppet is a model that says what the attacker wants: the reply is named in the message,
// and what its calls give is kept.
type puppet struct {
	mu    sync.Mutex
	plays []string
	got   map[int]string // what the model was told of the calls of a play
}

var playing = regexp.MustCompile(`play-(\d+)-play`)

// play keeps a reply, and gives the message that asks for it.
func (p *puppet) play(reply string) (n int, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plays = append(p.plays, reply)
	n = len(p.plays) - 1
	return n, fmt.Sprintf("play-%d-play", n)
}

func (p *puppet) told(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got[n]
}

// Stream implements llm.Model.
func (p *puppet) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	reply := "I was not told what to say.<end>"
	last := req.Messages[len(req.Messages)-1].Text
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if all := playing.FindAllStringSubmatch(req.Messages[i].Text, -1); all != nil {
			n, _ := strconv.Atoi(all[len(all)-1][1])
			p.mu.Lock()
			reply = p.plays[n]
			if strings.HasPrefix(last, "<results>") {
				p.got[n], reply = last, "Done.<end>"
			}
			p.mu.Unlock()
			break
		}
	}
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: []byte(reply), Finish: messages.FinishComplete}, nil)
	}
}

// The agents of the host, by what their models may do.
const (
	filesAgent = `
kind: Agent
name: files
dialect: cogency
model: {provider: scripted, script: script.jsonl}
workspace: {access: project, per: agent}
quotas: {reply_actions: 1024, actions: 1024, parallel: 32}
approval: {default: approve}
import: {tools: [read, write, edit, list, find, replace, file.*, count, scrape]}
define:
  tools:
    - {name: count, class: read_only, implementation: {type: command, entrypoint: [./count.sh]}}
`
	systemAgent = `
kind: Agent
name: system
dialect: cogency
model: {provider: scripted, script: script.jsonl}
workspace: {access: system, per: agent}
quotas: {reply_actions: 1024, actions: 1024}
approval: {default: approve}
import: {tools: [read, write, edit, list, find, replace]}
`
	shellAgent = `
kind: Agent
name: shell
dialect: cogency
model: {provider: scripted, script: script.jsonl}
workspace: {access: sandbox, root: ../programs}
quotas: {result: 1MiB}
approval: {tools: {shell: approve}}
import: {tools: [shell, read, write]}
`
	scriptAgent = `
kind: Agent
name: script
dialect: aeiou
model: {provider: scripted, script: script.jsonl}
loop: {repairs: 0, max_turns: 2}
quotas: {gas: 200000, alloc: 8MiB, value: 1MiB, program_wall: 10s}
import: {tools: [session.output]}
`
	openAgent = `
kind: Agent
name: open
dialect: cogency
model: {provider: scripted, script: script.jsonl}
workspace: {access: sandbox, root: ../open}
approval: {default: approve}
import: {tools: [read, write, edit, list, find, replace]}
`
	onlineAgent = `
kind: Agent
name: online
dialect: cogency
model: {provider: scripted, script: script.jsonl}
workspace: {access: sandbox, root: ../online}
shell: {network: true}
approval: {tools: {shell: approve}}
import: {tools: [shell, read, write]}
`
	plainAgent = `
kind: Agent
name: talker
dialect: plain
model: {provider: scripted, script: script.jsonl}
`
	confirmAgent = `
kind: Agent
name: careful
dialect: cogency
model: {provider: scripted, script: script.jsonl}
workspace: {access: sandbox, root: ../careful}
approval: {default: confirm}
import: {tools: [write]}
`
)

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("STILE_TEST_SECRET", secret)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, agent: filepath.Join(root, "agent"), outside: filepath.Join(root, "outside"), programs: filepath.Join(root, "programs"),
		secrets: map[string]string{}, ids: map[string]string{}, files: map[string]string{},
		model:  &puppet{got: map[int]string{}},
		client: &http.Client{Transport: &http.Transport{}, Timeout: 90 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	w.data = filepath.Join(w.agent, "stile-data")
	for path, text := range map[string]string{
		w.agent + "/script.jsonl": `{"chunks": [{"text": "x"}]}` + "\n", w.agent + "/count.sh": "#!/bin/sh\necho 1\n", w.agent + "/tls.pem": secret,
		w.agent + "/.git/config": "[core]\n", w.agent + "/.env": "A=1\n", w.agent + "/.vscode/tasks.json": "{}\n", w.agent + "/mine.txt": "mine\n",
		w.outside + "/secret.txt": secret, w.outside + "/program": "#!/bin/sh\n", w.outside + "/folder/deep.txt": secret, w.programs + "/mine.txt": "mine\n", filepath.Join(root, "careful/mine.txt"): "mine\n", filepath.Join(root, "online/mine.txt"): "mine\n", filepath.Join(root, "open/mine.txt"): "mine\n",
	} {
		w.put(path, text)
	}
	manifests := map[string]string{"files": filesAgent, "system": systemAgent, "shell": shellAgent, "online": onlineAgent, "open": openAgent, "script": scriptAgent, "talker": plainAgent, "careful": confirmAgent}
	if jailMissing() == "" {
		for name, reach := range programAgents {
			manifests[name] = fmt.Sprintf(programAgent, name, reach, name)
			w.put(filepath.Join(w.agent, name+".txt"), "")
		}
		if err := errors.Join(prepare(w.agent, ""), os.Mkdir(filepath.Join(w.agent, "cell"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	var agents []*stile.Agent
	for name, text := range manifests {
		if name == "shell" && jailMissing() != "" || name == "online" && onlineMissing() != "" {
			continue // the host would not open it
		}
		path := filepath.Join(w.agent, name+".yaml")
		w.put(path, text)
		a, err := stile.LoadAgent(path)
		if err != nil {
			t.Fatal(err)
		}
		a.Model = w.model
		agents = append(agents, a)
	}
	if w.tokens, err = access.Open(filepath.Join(w.data, "tokens.json"), nil); err != nil {
		t.Fatal(err)
	}
	for holder, scopes := range holders {
		w.token(holder, scopes...)
	}
	if w.rt, err = stile.New(t.Context(), stile.Config{Dir: w.data, Agents: agents, Shared: true, Protect: []string{filepath.Join(w.agent, "tls.pem")}}); err != nil {
		t.Fatal(err)
	}
	w.issuer = newIssuer(t)
	srv, err := host.New(host.Config{Runtime: w.rt, Agents: agents, Access: access.First(w.tokens, w.issuer.trust(t)), Audit: host.AuditFile(filepath.Join(w.data, "audit.jsonl")), WrongTokens: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l, time.Second) }()
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		stop()
		var left *host.LeftError
		if err := <-ended; err != nil && !errors.As(err, &left) {
			t.Errorf("serving ended with %v", err)
		}
		if err := w.rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.must(201, "acme/ann/all", "POST", "/v1/sessions", `{"agent": "talker", "id": "secret"}`)
	_, say := w.model.play(secret)
	w.must(200, "acme/ann/all", "POST", "/v1/sessions/secret/runs?wait=60s", `{"input": "`+say+`"}`)
	for _, path := range []string{
		w.agent + "/files.yaml", w.agent + "/count.sh", w.agent + "/tls.pem", w.agent + "/.git/config", w.agent + "/.env", w.agent + "/.vscode/tasks.json",
		w.data + "/keys.json", w.data + "/tokens.json", w.outside + "/secret.txt", w.outside + "/program", w.outside + "/folder/deep.txt",
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w.files[path] = string(b)
	}
	return w
}

func (w *world) put(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// token makes one; holder is tenant/user/what for.
func (w *world) token(holder string, scopes ...string) {
	w.t.Helper()
	parts := strings.Split(holder, "/")
	s, tok, err := w.tokens.Create(access.Wish{Tenant: parts[0], User: parts[1], Scopes: scopes})
	if err != nil {
		w.t.Fatal(err)
	}
	w.secrets[holder], w.ids[holder] = s, tok.ID
}

// harmed returns which file outside is not what it was; "" for none.
func (w *world) harmed() error {
	for path, want := range w.files {
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			return errf("%s was changed: %q, %v", filepath.Base(path), b, err)
		}
	}
	if all, err := os.ReadDir(w.outside); err != nil || len(all) != 3 {
		return errf("outside there is %v, %v", all, err)
	}
	return nil
}

// leaks reports whether a text has something that the attacker may not know.
func (w *world) leaks(text string) error {
	for _, bad := range append([]string{secret, "goroutine "}, w.hidden()...) {
		if strings.Contains(text, bad) {
			return errf("it tells %q: %s", bad, text)
		}
	}
	return nil
}

// hidden are parts of the host's own files that are in no answer.
func (w *world) hidden() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys struct{ Keys []map[string]any }
	if json.Unmarshal([]byte(w.files[w.data+"/keys.json"]), &keys) == nil {
		for _, k := range keys.Keys {
			for _, member := range []string{"d", "k", "private", "seed", "secret"} {
				if s, ok := k[member].(string); ok {
					all = append(all, s)
				}
			}
		}
	}
	for _, m := range regexp.MustCompile(`"hash": ?"([0-9a-f]{64})"`).FindAllStringSubmatch(w.files[w.data+"/tokens.json"], -1) {
		all = append(all, m[1])
	}
	return all
}

// answer is what the host says.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return strconv.Itoa(a.status) + " " + a.body }

// ask sends a request with the token of a holder, "" for none. The path goes as it is
// written; headers are name, value. Of a stream the head is enough.
func (w *world) ask(holder, method, path, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+"/", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.URL.Opaque = path // as it is: no client's own idea of it
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if holder != "" {
		req.Header.Set("Authorization", "Bearer "+w.secrets[holder])
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := w.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, header: res.Header}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		a.body = "a stream"
		return a, nil
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	a.body = string(b)
	return a, err
}

// must is ask for what has to work, or nothing else is tried.
func (w *world) must(status int, holder, method, path, body string, headers ...string) answer {
	w.t.Helper()
	a, err := w.ask(holder, method, path, body, headers...)
	if err != nil || a.status != status {
		w.t.Fatalf("%s %s by %q: %v, %v; want %d", method, path, holder, a, err, status)
	}
	return a
}

// whole reports whether ann's session is as it was.
func (w *world) whole() error {
	a, err := w.ask("acme/ann/read", "GET", "/v1/sessions/secret", "")
	var s struct {
		Run   int64
		State string
	}
	if err == nil {
		err = json.Unmarshal([]byte(a.body), &s)
	}
	if err != nil || s.Run != 1 || s.State != "idle" {
		return errf("the owner's session is %s, %v", a.body, err)
	}
	return nil
}

// refused is a try over HTTP that has to be refused with a problem, tell nothing, and leave
// ann's session alone.
func (w *world) refused(holder, method, path, body string, headers ...string) func() error {
	return func() error {
		a, err := w.ask(holder, method, path, body, headers...)
		if err != nil {
			return err
		}
		if a.status < 400 || a.status >= 500 {
			return errf("%s %s: %s", method, path, a)
		}
		if err := w.leaks(a.body); err != nil {
			return err
		}
		return w.whole()
	}
}

// tool is a call of a model.
type tool struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// result is what the model is told of it.
type result struct {
	Tool, Status, Outcome, Content string
}

func (r result) String() string { return r.Status + " " + r.Outcome + " " + r.Content }

// calls has a model of the agent make calls in one batch, in a session of eve, and gives what
// it is told of each.
func (w *world) calls(agent string, all []tool) ([]result, error) {
	return w.callsOf("evil/eve/all", agent, all)
}

// callsOf is calls in a session of another.
func (w *world) callsOf(holder, agent string, all []tool) ([]result, error) {
	b, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	n, say := w.model.play("<execute>" + string(b) + "</execute>")
	id := fmt.Sprintf("play-%d", n)
	if a, err := w.ask(holder, "POST", "/v1/sessions", `{"agent": "`+agent+`", "id": "`+id+`"}`); err != nil || a.status != 201 {
		return nil, errf("no session: %s, %v", a, err)
	}
	if a, err := w.ask(holder, "POST", "/v1/sessions/"+id+"/runs?wait=60s", `{"input": "`+say+`"}`); err != nil || a.status != 200 || !strings.Contains(a.body, `"DONE"`) {
		return nil, errf("no run: %s, %v", a, err)
	}
	text := strings.TrimSuffix(strings.TrimPrefix(w.model.told(n), "<results>"), "</results>")
	var out []result
	if err := json.Unmarshal([]byte(text), &out); err != nil || len(out) != len(all) {
		return nil, errf("%d results of %d calls: %s, %v", len(out), len(all), text, err)
	}
	return out, nil
}

// batch makes calls together when the first of them is asked about.
type batch struct {
	w     *world
	agent string
	all   []tool
	got   func() ([]result, error)
}

func newBatch(w *world, agent string) *batch {
	b := &batch{w: w, agent: agent}
	b.got = sync.OnceValues(func() ([]result, error) { return w.calls(agent, b.all) })
	return b
}

// add is a call, and a judge of what the model is told.
func (b *batch) add(name string, args map[string]any, judge func(result) error) func() error {
	i := len(b.all)
	b.all = append(b.all, tool{name, args})
	return func() error {
		all, err := b.got()
		if err != nil {
			return err
		}
		if err := b.w.leaks(all[i].String()); err != nil {
			return err
		}
		return judge(all[i])
	}
}

// folder finds the workspace of a session of eve: its model leaves a file there.
func (w *world) folder(agent, below string) string {
	w.t.Helper()
	mark := "mark-of-" + agent + ".txt"
	if got, err := w.calls(agent, []tool{{"write", map[string]any{"file": mark, "content": "x"}}}); err != nil || got[0].Status != "success" {
		w.t.Fatalf("the workspace of %s: %v, %v", agent, got, err)
	}
	found := ""
	err := filepath.WalkDir(below, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == mark {
			found = filepath.Dir(path)
		}
		return err
	})
	if err != nil || found == "" {
		w.t.Fatalf("the workspace of %s is not below %s: %v", agent, below, err)
	}
	return found
}

// pretty is JSON of any value.
func pretty(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // of texts and numbers
	}
	return strings.TrimSpace(b.String())
}

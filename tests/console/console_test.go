// Package console has the tests of the console in a real browser, against hosts that it serves.
package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// hostileText is a model's wish to be more than text.
const hostileText = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script><a href="javascript:alert(1)">x</a>`

// nodePackages is where npm put what tests in Node use: a folder with node_modules.
const nodePackages = "STILE_TEST_NODE_PACKAGES"

// browser finds the browser, Node and its packages. Without one of them the tests say so, and
// fail if they are required.
func browser(t testing.TB) (browser, node, packages string, ok bool) {
	t.Helper()
	for _, name := range []string{os.Getenv("STILE_TEST_BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		if os.Getenv("STILE_REQUIRE_BROWSER") != "" {
			t.Fatal("a browser is required and there is none: install chromium")
		}
		t.Log("ran without a browser")
		return "", "", "", false
	}
	node, err := exec.LookPath("node")
	packages = os.Getenv(nodePackages)
	if err == nil && packages != "" {
		if packages, err = filepath.Abs(packages); err == nil {
			_, err = os.Stat(filepath.Join(packages, "node_modules", "axe-core"))
		}
	}
	if err != nil || packages == "" {
		if os.Getenv("STILE_REQUIRE_NODE") != "" {
			t.Fatalf("playwright-core and axe-core are required and not in %s=%q: %v", nodePackages, packages, err)
		}
		t.Log("ran without the packages of Node; make test installs them when there is npm")
		return "", "", "", false
	}
	return browser, node, packages, true
}

// model is a model as a function.
type model func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error]

func (m model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return m(ctx, req)
}

// says gives the pieces, and ends.
func says(pieces ...string) model {
	return func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			for _, p := range pieces {
				if !yield(llm.Chunk{Text: []byte(p)}, nil) {
					return
				}
			}
			yield(llm.Chunk{Finish: messages.FinishComplete, Usage: messages.Usage{Input: 120, Output: 12}}, nil)
		}
	}
}

// A world is a host on a journal of its own, which can go and come back at its address.
type world struct {
	t      *testing.T
	dir    string
	addr   string
	agents []*stile.Agent
	goOn   chan struct{}

	mu     sync.Mutex
	stop   func()
	before bool // it was started before
}

func (w *world) start() {
	w.t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", w.addr)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	rt, err := stile.New(ctx, stile.Config{Dir: w.dir, Agents: w.agents})
	if err != nil {
		w.t.Error(err)
		cancel()
		return
	}
	if !w.before {
		lived(rt.Metrics(), time.Now())
	}
	w.before = true
	srv, err := host.New(host.Config{Runtime: rt, Agents: w.agents, Audit: host.AuditFile(filepath.Join(w.dir, "audit.jsonl"))})
	if err != nil {
		w.t.Error(err)
		cancel()
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(ctx, l, 100*time.Millisecond) // runs that are left go on at the next start
	}()
	w.stop = func() {
		cancel()
		<-ended
		end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = rt.Close(end)
	}
}

// lived has a host's metrics look back on a week, with more work by day than by night.
func lived(m *stile.Metrics, now time.Time) {
	const week = 7 * 24 * time.Hour
	turn := messages.TurnDecided{Decision: messages.Done}
	for back := week; back > 0; {
		step := 10 * time.Second
		switch {
		case back > 24*time.Hour:
			step = 15 * time.Minute
		case back > time.Hour:
			step = 2 * time.Minute
		}
		back -= step
		load := 2 + math.Sin(2*math.Pi*back.Hours()/24) + math.Sin(back.Minutes())/3
		m.SessionAwake()
		for i := range int(load * step.Seconds() / 20) {
			turn.LatencyMS = int64(40*load) + int64(i%5)*70
			m.ObserveRecord("clerk", &messages.Record{Body: &turn})
			m.ModelCalled(telemetry.ModelCall{Provider: "scripted", Outcome: []string{telemetry.CallOK, telemetry.CallOK, "overloaded"}[i%3], First: time.Duration(load*30+float64(i%5)*20) * time.Millisecond})
			m.ObserveRecord("clerk", &messages.Record{Body: &messages.ModelReply{Usage: messages.Usage{Input: int64(load * 400), Output: int64(load * 90)}}})
			m.Committed(4, time.Duration(load*float64(time.Millisecond)))
		}
		if int(back.Minutes())%9 == 0 {
			m.Refused("ERR_BUSY", "RUNS")
			m.ObserveRecord("clerk", &messages.Record{Body: &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrQuota}})
		}
		m.Sample(now.Add(-back))
		m.SessionAsleep()
	}
}

// lever is what the tests in the browser move the world with.
func (w *world) lever() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/go", func(http.ResponseWriter, *http.Request) { w.goOn <- struct{}{} })
	mux.HandleFunc("/stop", func(http.ResponseWriter, *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stop()
	})
	mux.HandleFunc("/start", func(http.ResponseWriter, *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.start()
	})
	return mux
}

// talker says one word, and the rest when it is let.
func (w *world) talker() *stile.Agent {
	man := manifest.Default("plain")
	man.Name, man.Summary = "talker", hostileText
	return &stile.Agent{Manifest: man, Model: model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			if !yield(llm.Chunk{Text: []byte("one ")}, nil) {
				return
			}
			select {
			case <-w.goOn:
				if yield(llm.Chunk{Text: []byte(hostileText)}, nil) {
					yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
				}
			case <-ctx.Done():
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			}
		}
	})}
}

// plain answers in its first words.
func plain(name string, m llm.Model) *stile.Agent {
	man := manifest.Default("plain")
	man.Name = name
	return &stile.Agent{Manifest: man, Model: m}
}

// seer is a model that takes pictures and files.
type seer struct{ model }

func (seer) TakesPart(string) bool { return true }

// flood says a thousand pieces, some five hundred a second.
func flood() model {
	return func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			beat := time.NewTicker(2 * time.Millisecond)
			defer beat.Stop()
			for i := range 1000 {
				select {
				case <-beat.C:
				case <-ctx.Done():
					yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
					return
				}
				if !yield(llm.Chunk{Text: fmt.Appendf(nil, "piece %d ", i)}, nil) {
					return
				}
			}
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	}
}

// clerk pays when a person allows it; the names in its call are hostile.
func clerk(t *testing.T) *stile.Agent {
	t.Helper()
	type to struct {
		To string `json:"to"`
	}
	type paid struct {
		Paid string `json:"paid"`
	}
	pay, err := tools.Define("shop.pay", "Pays.", messages.Effectful, func(context.Context, to) (paid, error) { return paid{hostileText}, nil })
	if err != nil {
		t.Fatal(err)
	}
	man := manifest.Default("cortex")
	man.Name, man.Import.Tools = "clerk", []string{"shop.pay"}
	man.Approval.Tools = map[string]messages.GateAnswer{"shop.pay": messages.GateConfirm}
	call := `<thought>They want ` + hostileText + `</thought><action id="pay">{"name": "shop.pay", "parameters": {"to": "<img src=x onerror=alert(1)> \u202egnp"}}</action>`
	return &stile.Agent{
		Manifest: man,
		Model: model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
			if strings.Contains(req.Messages[len(req.Messages)-1].Text, `id="pay"`) {
				return says("<response>It is settled.</response>")(ctx, req)
			}
			return says(call)(ctx, req)
		}),
		Tools: []tools.Tool{pay},
	}
}

// keeper has a feed that counts how often it was fetched, and keeps a note for each message.
func keeper(t *testing.T) *stile.Agent {
	t.Helper()
	man, err := manifest.Parse("keeper.yaml", []byte(`dialect: cortex
name: keeper
import: {tools: [own.count], relics: [notes]}
define: {relics: [{name: notes, service_type: key_value}]}
context_feeds: [{id: count, source: {type: tool, name: own.count}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	var fetched atomic.Int64
	type none struct{}
	type count struct {
		N int64 `json:"n"`
	}
	counts, err := tools.Define("own.count", "Counts.", messages.ReadOnly, func(context.Context, none) (count, error) { return count{fetched.Add(1)}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return &stile.Agent{Manifest: man, Tools: []tools.Tool{counts}, Model: model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		if strings.Contains(req.Messages[len(req.Messages)-1].Text, `id="keep"`) {
			return says(`<response final="true">It is kept.</response>`)(ctx, req)
		}
		return says(fmt.Sprintf(`<action id="keep" type="relic">{"name": "notes", "parameters": {"operation": "set", "key": "n%d", "value": "<b>%d</b>"}}</action>`, len(req.Messages), len(req.Messages)))(ctx, req)
	})}
}

func example(t *testing.T, path string) *stile.Agent {
	t.Helper()
	a, err := stile.LoadAgent(filepath.Join("..", "..", "examples", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// guarded is a host that wants tokens; it gives its address and a token.
func guarded(t *testing.T, agents ...*stile.Agent) (url string, keys *access.Tokens) {
	t.Helper()
	keys, err := access.Open(filepath.Join(t.TempDir(), "tokens.json"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Shared: true, Agents: agents})
	if err != nil {
		t.Fatal(err)
	}
	return served(t, rt, host.Config{Runtime: rt, Agents: agents, Access: keys, Audit: host.AuditFile(filepath.Join(t.TempDir(), "audit.jsonl"))}), keys
}

// resting is the address of a host that only shows a journal, in which one session was spoken with
// and another waits for an answer.
func resting(t *testing.T) string {
	t.Helper()
	dir, clerk := t.TempDir(), clerk(t)
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for name, agent := range map[string]*stile.Agent{"spoke": plain("plain", says("Ahoy.")), "waits": clerk} {
		ses, err := rt.Open(t.Context(), name, agent)
		if err != nil {
			t.Fatal(err)
		}
		run, err := ses.Submit(t.Context(), hostileText)
		if err != nil {
			t.Fatal(err)
		}
		for u, err := range ses.Events(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if r := u.Record; r != nil && r.Run == run.Ordinal() && (r.Body.Kind() == messages.KindRunEnd || r.Body.Kind() == messages.KindTurnSuspended) {
				break
			}
		}
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rt, err = stile.New(t.Context(), stile.Config{Dir: dir, ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	return served(t, rt, host.Config{Runtime: rt})
}

// growing is the address of a host that only shows a journal which another process writes, and a
// function that has that process write.
func growing(t *testing.T) (url string, grow http.HandlerFunc) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriteBeside$", "-test.v=false")
	cmd.Env = append(os.Environ(), besideDir+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	say := func(text string) error {
		if _, err := fmt.Fprintln(in, text); err != nil {
			return err
		}
		if !lines.Scan() || lines.Text() != text {
			return fmt.Errorf("the other process said %q, %w", lines.Text(), lines.Err())
		}
		return nil
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends then
		_ = cmd.Wait()
	})
	if err := say("first"); err != nil {
		t.Fatal(err)
	}
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return served(t, rt, host.Config{Runtime: rt}), func(w http.ResponseWriter, r *http.Request) {
		if err := say(r.URL.Query().Get("say")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// besideDir names the journal that a process of this test binary writes.
const besideDir = "STILE_TEST_BESIDE"

// TestWriteBeside is the other process of growing: it submits each line that it reads, to a session
// of that name if there is none yet, and else to "grows".
func TestWriteBeside(t *testing.T) {
	dir := os.Getenv(besideDir)
	if dir == "" {
		return // it is no such process
	}
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	agent := plain("plain", says("Ahoy."))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		name := "grows"
		if strings.HasPrefix(lines.Text(), "new-") {
			name = lines.Text()
		}
		ses, err := rt.Open(t.Context(), name, agent)
		if err != nil {
			t.Fatal(err)
		}
		run, err := ses.Submit(t.Context(), lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Decision(t.Context()); err != nil {
			t.Fatal(err)
		}
		fmt.Println(lines.Text())
	}
	if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// served serves a runtime until the test ends.
func served(t testing.TB, rt *stile.Runtime, cfg host.Config) string {
	t.Helper()
	srv, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(srv.Handler())
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = rt.Close(end)
	})
	return s.URL
}

// The console in a real browser: the flows of a person, what it looks like, and what it holds
// against. Screenshots are kept in the folder of STILE_SCREENSHOTS, pictures of the
// documentation in that of STILE_PICTURES.
func TestConsole(t *testing.T) {
	path, node, packages, ok := browser(t)
	if !ok {
		return
	}
	w := &world{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", goOn: make(chan struct{}, 1)}
	w.agents = []*stile.Agent{
		w.talker(), clerk(t), keeper(t), plain("plain", says("Ahoy, ", "there.")), plain("seer", seer{says("I see.")}), plain("flood", flood()),
		example(t, "booking/agent.yaml"), example(t, "research/agent.yaml"), example(t, "newsroom/agent.yaml"), example(t, "gallery/endless-loop.yaml"),
	}
	w.start()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stop()
	}()
	grows, grow := growing(t)
	mux := http.NewServeMux()
	mux.Handle("/", w.lever())
	mux.HandleFunc("/grow", grow)
	lever := httptest.NewServer(mux)
	defer lever.Close()
	other, keys := guarded(t, plain("plain", says("Ahoy.")))
	admin, _, err := keys.Create(access.Wish{Tenant: "desk", User: "eve", Scopes: []string{"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	secret, tok, err := keys.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"read", "submit", "approve", "admin", "users", "metrics"}})
	if err != nil {
		t.Fatal(err)
	}
	setting, err := json.Marshal(map[string]string{
		"url": "http://" + w.addr, "lever": lever.URL, "guarded": other, "resting": resting(t), "growing": grows, "token": secret, "tokenID": tok.ID, "admin": admin, "browser": path, "packages": packages, "hostile": hostileText, "shots": os.Getenv("STILE_SCREENSHOTS"), "pictures": os.Getenv("STILE_PICTURES"),
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.test.mjs")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	args := append([]string{"--test", "--test-concurrency=1", "--test-reporter=spec"}, files...)
	cmd := exec.CommandContext(t.Context(), node, args...)
	cmd.Env = append(os.Environ(), "STILE_CONSOLE="+string(setting), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("ran in %s\n%s", path, out)
	if err != nil {
		t.Error(err)
	}
}

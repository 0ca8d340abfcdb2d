// Package cluster has three hosts in processes of their own, on one PostgreSQL, and asks any of
// them for any session, while they are killed, frozen and stopped.
//
// What models say comes from the test: a host's model asks the test for its reply, and so shows
// which host runs a turn.
package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/journal/postgres"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// childEnv holds what a child process is to do.
const childEnv = "STILE_CLUSTER_CHILD"

// patience bounds every wait of these tests: nothing takes so long unless it is broken.
const patience = time.Minute

// leaseTime is that of the hosts here: short, so that a test of its end is.
const leaseTime = time.Second

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := live(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(postgrestest.Main{M: m})
}

// job is what a host is to do.
type job struct {
	Name, Dir, URL, Schema, Model string

	Address string        // of the host's door, where it is not the listener's own
	IP      string        // where it listens, in a network of its own; loopback where it is ""
	Lease   time.Duration // leaseTime where it is 0
	Fleet   bool          // the agents of the campaign, in place of the test's
	Limits  host.Limits
	Tokens  bool     // callers show tokens
	Secrets []string // the first one signs; secret where there is none
	Boss    bool     // there is an agent that has another one talk, and one with a feed of that one
	Spread  bool     // sessions begin where there is less to do

	Ahead    time.Duration   // of the wall clock of the others
	Behind   time.Duration   // of this machine's clock, and of all programs here, behind that of the database
	Waits    []time.Duration // for each, an agent like the buyer whose questions expire after that time
	Spending stile.Spending
	Idle     time.Duration // after which a session is given up; as the product has it where it is 0
}

var secret = []byte(strings.Repeat("cluster ", 5))

// secrets are the secret of the cluster, and others that the host believes.
func (j job) secrets() (first []byte, others [][]byte) {
	if len(j.Secrets) == 0 {
		return secret, nil
	}
	for _, s := range j.Secrets[1:] {
		others = append(others, []byte(s))
	}
	return []byte(j.Secrets[0]), others
}

// live is a host: it tells its addresses on standard output.
func live(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, err := postgres.Open(ctx, postgres.Options{URL: j.URL, Schema: j.Schema, Readers: 2})
	if err != nil {
		return err
	}
	defer store.Close()
	public, private, err := j.listen()
	if err != nil {
		return err
	}
	agents, err := j.agents()
	if err != nil {
		return err
	}
	address, length := private.Addr().String(), leaseTime
	if j.Address != "" {
		address = j.Address
	}
	if j.Lease != 0 {
		length = j.Lease
	}
	secret, old := j.secrets()
	shared := at(store, j.Behind)
	rt, err := stile.New(ctx, stile.Config{
		Dir: j.Dir, Store: shared, Agents: agents, IdleTimeout: j.idle(), Log: j.log(), Shared: j.Tokens, Spending: j.Spending,
		Now:     func() time.Time { return time.Now().Add(j.Ahead) },
		Cluster: stile.Cluster{Address: address, Lease: length, Version: j.Name, Secret: secret, OldSecrets: old},
	})
	if err != nil {
		return err
	}
	door := host.Config{Runtime: rt, Agents: agents, Limits: j.Limits, ClusterSecret: secret, OldClusterSecrets: old, ClusterListener: private, ClusterSpread: j.Spread, Log: j.log()}
	if j.IP != "" {
		door.Hosts = []string{j.IP}
	}
	if j.Tokens {
		toks, err := tokensOf(ctx, shared, secret, old...)
		if err != nil {
			return err
		}
		defer toks.Close()
		door.Access = toks
	}
	srv, err := host.New(door)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n", public.Addr(), private.Addr())
	if j.IP != "" {
		public = loopback{public}
	}
	err = srv.Serve(ctx, public, patience)
	if closed := rt.Close(context.Background()); err == nil {
		err = closed
	}
	return err
}

// listen listens for clients and for other hosts.
func (j job) listen() (public, private net.Listener, err error) {
	at := [2]string{"127.0.0.1:0", "127.0.0.1:0"}
	if j.IP != "" {
		at = [2]string{j.IP + ":8471", j.IP + ":8472"}
	}
	if public, err = net.Listen("tcp", at[0]); err == nil {
		private, err = net.Listen("tcp", at[1])
	}
	return public, private, err
}

// agents are those of every host: one that talks, and one whose calls wait for approval.
func (j job) agents() ([]*stile.Agent, error) {
	if j.Fleet {
		return j.fleet(), nil
	}
	talker, buyer := manifest.Default("plain"), manifest.Default("cogency")
	talker.Name, buyer.Name = "talker", "buyer"
	pay, err := stile.DefineTool("shop.pay", "pays", stile.Effectful, func(_ context.Context, in struct {
		What string `json:"what"`
	},
	) (string, error) {
		return "paid for " + in.What + " at " + j.Name, nil
	})
	if err != nil {
		return nil, err
	}
	buyer.Import.Tools = []string{"shop.pay"}
	buyer.Approval.Tools = map[string]messages.GateAnswer{"shop.pay": messages.GateConfirm}
	buyer.ContextFeeds = []manifest.Feed{{ID: "now", Source: manifest.FeedSource{Type: "internal", Action: "system_clock"}}}
	all := []*stile.Agent{{Manifest: talker, Model: asking{j, "talker"}}, {Manifest: buyer, Tools: []stile.Tool{pay}, Model: asking{j, "buyer"}}}
	if j.Boss {
		boss := manifest.Default("cortex")
		boss.Name, boss.Import.Agents = "boss", []string{talker.Name}
		reader := manifest.Default("cortex")
		reader.Name, reader.Import.Agents, reader.Extensions = "reader", boss.Import.Agents, []string{"remote_feeds"}
		ttl := int64(3600)
		reader.ContextFeeds = []manifest.Feed{{ID: "news", CacheTTL: &ttl, Deadline: time.Minute, Source: manifest.FeedSource{
			Type: "agent", Name: talker.Name, Params: map[string]any{"message": "What is new?"},
		}}}
		all = append(all, &stile.Agent{Manifest: boss, Model: asking{j, "boss"}, Agents: all[:1:1]}, &stile.Agent{Manifest: reader, Model: asking{j, "reader"}, Agents: all[:1:1]})
	}
	for _, wait := range j.Waits {
		man := *buyer
		man.Name, man.Approval.Wait = waiting(wait), wait
		all = append(all, &stile.Agent{Manifest: &man, Tools: []stile.Tool{pay}, Model: asking{j, man.Name}})
	}
	return all, nil
}

// waiting names the buyer whose questions expire after that time.
func waiting(wait time.Duration) string { return "buyer-" + wait.String() }

// tokensOf opens the tokens of the cluster.
func tokensOf(ctx context.Context, store interface{ Board() (board.Port, error) }, secret []byte, old ...[]byte) (*access.Tokens, error) {
	b, err := store.Board()
	if err != nil {
		return nil, err
	}
	return access.OpenShared(ctx, b, secret, "", nil, nil, old...)
}

// asking is a model whose replies the test gives.
type asking struct {
	job
	agent string
}

// Stream implements llm.Model.
func (m asking) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		ask, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Model+"?"+url.Values{"host": {m.Name}, "session": {req.Session}, "agent": {m.agent}, "turn": {fmt.Sprint(req.Turn)}}.Encode(), nil)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		resp, err := http.DefaultClient.Do(ask)
		if err != nil {
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			return
		}
		defer resp.Body.Close()
		buf, all := make([]byte, 1024), int64(0)
		for {
			n, err := resp.Body.Read(buf)
			all += int64(n)
			if n > 0 && !yield(llm.Chunk{Text: append([]byte(nil), buf[:n]...)}, nil) {
				return
			}
			if err != nil {
				finish := messages.FinishComplete
				if ctx.Err() != nil {
					finish = messages.FinishCancelled
				}
				yield(llm.Chunk{Finish: finish, Usage: messages.Usage{Output: all}}, nil) // a byte is a token
				return
			}
		}
	}
}

// reply is a reply that a host's model waits for.
type reply struct {
	host, session string
	pieces        chan string
	gone          <-chan struct{} // closed when the model does not listen any more
}

func (r *reply) say(t *testing.T, text string) {
	t.Helper()
	select {
	case r.pieces <- text:
	case <-r.gone:
		t.Fatalf("the model of %s has gone", r.host)
	case <-time.After(patience):
		t.Fatalf("the model of %s does not listen", r.host)
	}
}

func (r *reply) end() { close(r.pieces) }

// world is a database with its hosts.
type world struct {
	t       *testing.T
	job     job
	dir     string // with a data directory for each host
	replies chan *reply
	hosts   map[string]*process
}

// process is a host.
type process struct {
	name, public, private string
	cmd                   *exec.Cmd
	ended                 chan struct{}
	once                  sync.Once
}

// begin starts hosts on a journal of their own; nil without a PostgreSQL.
func begin(t *testing.T, names ...string) *world {
	t.Helper()
	return beginWith(t, host.Limits{}, names...)
}

// beginWith starts hosts whose tenants have limits.
func beginWith(t *testing.T, l host.Limits, names ...string) *world {
	t.Helper()
	w := prepare(t)
	if w == nil {
		return nil
	}
	w.job.Limits = l
	for _, name := range names {
		w.start(name)
	}
	return w
}

// prepare makes a journal without hosts; nil without a PostgreSQL.
func prepare(t *testing.T) *world {
	t.Helper()
	u, ok := postgrestest.URL(t)
	if !ok {
		return nil
	}
	w := &world{t: t, replies: make(chan *reply, 16), hosts: map[string]*process{}}
	models := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		one := &reply{host: r.FormValue("host"), session: r.FormValue("session"), pieces: make(chan string), gone: r.Context().Done()}
		rw.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(rw).Flush()
		w.replies <- one
		for {
			select {
			case p, more := <-one.pieces:
				if !more {
					return
				}
				_, _ = io.WriteString(rw, p)
				_ = http.NewResponseController(rw).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(models.Close)
	w.job = job{URL: u, Schema: postgrestest.Schema(t, u), Model: models.URL}
	w.dir = t.TempDir()
	return w
}

// start starts a host, and waits until it listens.
func (w *world) start(name string) *process {
	w.t.Helper()
	j := w.job
	j.Name, j.Dir = name, filepath.Join(w.dir, name)
	if err := os.MkdirAll(j.Dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	b, err := json.Marshal(j)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{name: name, ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(b))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		w.t.Fatalf("%s: %v", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	w.t.Cleanup(p.kill)
	p.public, p.private, _ = strings.Cut(strings.TrimSpace(line), " ")
	w.hosts[name] = p
	return p
}

// table is that of the hosts, and of the sessions that they have.
func (w *world) table() lease.Table {
	w.t.Helper()
	store, err := postgres.Open(w.t.Context(), postgres.Options{URL: w.job.URL, Schema: w.job.Schema})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = store.Close() })
	table, err := store.Hosts()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(table.Close)
	return table
}

// kill ends a host without a word.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.ended
	})
}

// reply waits for a model to be asked.
func (w *world) reply() *reply {
	w.t.Helper()
	select {
	case r := <-w.replies:
		return r
	case <-time.After(patience):
		w.t.Fatal("no model is asked")
		return nil
	}
}

// ask asks a host, and checks the status of its answer.
func (w *world) ask(host, method, path, body string, want int, headers ...string) map[string]any {
	w.t.Helper()
	a := w.raw(host, method, path, body, headers...)
	if a.err != nil || a.status != want {
		w.t.Fatalf("%s %s at %s: %d, %s, %v", method, path, host, a.status, a.body, a.err)
	}
	var v map[string]any
	_ = json.Unmarshal(a.body, &v) // an answer may have no body
	return v
}

// answer is one of a host.
type answer struct {
	status int
	head   http.Header
	body   []byte
	err    error
}

// raw asks a host.
func (w *world) raw(host, method, path, body string, headers ...string) (a answer) {
	return w.do(context.Background(), host, method, path, body, headers...)
}

func (w *world) do(ctx context.Context, host, method, path, body string, headers ...string) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.hosts[host].public+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a = answer{status: resp.StatusCode, head: resp.Header}
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

// later asks a host that answers when a model has spoken. The request is sent when it returns.
func (w *world) later(host, method, path, body string, headers ...string) <-chan answer {
	out, sent := make(chan answer, 1), make(chan struct{})
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
	go func() { out <- w.do(ctx, host, method, path, body, headers...) }()
	select {
	case <-sent:
	case <-time.After(patience):
		w.t.Errorf("%s %s at %s cannot be sent", method, path, host)
	}
	return out
}

// speaks has a host's model give a reply.
func (w *world) speaks(host, text string) {
	w.t.Helper()
	r := w.reply()
	if r.host != host {
		w.t.Errorf("the model of %s is asked, not that of %s", r.host, host)
	}
	r.say(w.t, text)
	r.end()
}

// event is a server-sent event.
type event struct{ name, id, data string }

// follow reads a stream of events until it ends, and gives them as they come.
func (w *world) follow(host, method, path, body, last string) <-chan event {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.hosts[host].public+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		w.t.Fatalf("%s %s at %s: %v", method, path, host, err)
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		w.t.Fatalf("%s %s at %s: %s, %s", method, path, host, resp.Status, b)
	}
	events := make(chan event, 1024)
	var work sync.WaitGroup
	work.Go(func() {
		defer close(events)
		defer resp.Body.Close()
		var e event
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			switch line := lines.Text(); {
			case line == "":
				if e.name != "" {
					events <- e
				}
				e = event{}
			case strings.HasPrefix(line, "event: "):
				e.name = line[len("event: "):]
			case strings.HasPrefix(line, "id: "):
				e.id = line[len("id: "):]
			case strings.HasPrefix(line, "data: "):
				e.data = line[len("data: "):]
			}
		}
		if lines.Err() != nil && ctx.Err() == nil {
			events <- event{name: "broken", data: lines.Err().Error()}
		}
	})
	w.t.Cleanup(work.Wait)
	w.t.Cleanup(cancel)
	return events
}

// next waits for an event of that name, and returns it with those before.
func (w *world) next(events <-chan event, name string) (before []event, e event) {
	w.t.Helper()
	for {
		select {
		case e, more := <-events:
			switch {
			case !more:
				w.t.Fatalf("the stream ended before %s, behind %v", name, before)
			case e.name == "broken", e.name == "problem", e.name == "leaving":
				w.t.Fatalf("the stream says %+v before %s", e, name)
			}
			if before = append(before, e); e.name == name {
				return before, e
			}
		case <-time.After(patience):
			w.t.Fatalf("no %s comes, behind %v", name, before)
		}
	}
}

package cluster

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// idle is short in a campaign, so that sessions are given up and claimed all the time.
func (j *job) idle() time.Duration {
	if j.Fleet {
		return 300 * time.Millisecond
	}
	return j.Idle
}

func (j *job) log() *zap.Logger {
	if !j.Fleet {
		return nil
	}
	log, err := zap.NewDevelopment()
	if err != nil {
		return nil
	}
	return log
}

// fleet is the agents of a campaign: one whose streams are followed, and one whose sessions the
// checker of histories judges, and that does what it does at the witness.
func (j *job) fleet() []*stile.Agent {
	talker := manifest.Default("plain")
	talker.Name = "talker"
	man := manifest.Default("aeiou")
	man.Name = "worker"
	a := &stile.Agent{Manifest: man, Model: asking{*j, man.Name}}
	man.Approval.Tools = map[string]messages.GateAnswer{"fleet.asked": messages.GateConfirm}
	for name, class := range map[string]messages.Class{"effectful": messages.Effectful, "keyed": messages.Keyed, "asked": messages.Effectful} {
		name = "fleet." + name
		man.Import.Tools = append(man.Import.Tools, name)
		a.Tools = append(a.Tools, tools.Tool{
			Name: name, Class: class, Params: []neuroscript.Param{{Name: "turn", Type: "int"}},
			Run: func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				return neuroscript.Value{}, tell(ctx, strings.TrimSuffix(j.Model, "/model")+"/deed?"+url.Values{
					"host": {j.Name}, "session": {c.SID}, "turn": {fmt.Sprint(c.Turn)}, "id": {c.ID}, "key": {c.Key}, "epoch": {fmt.Sprint(c.Epoch)}, "called": {fmt.Sprint(time.Now().UnixNano())}, "class": {string(class)},
				}.Encode())
			},
		})
	}
	return []*stile.Agent{{Manifest: talker, Model: asking{*j, talker.Name}}, a}
}

// fleet is some hosts on one PostgreSQL, what is between them, and a load balancer in front.
type fleet struct {
	t       *testing.T
	job     job
	server  *postgrestest.Server
	network *network // nil: all is on loopback, and relays are between
	witness *witness
	berths  []*berth
	front   net.Listener
	through string // the address of another load balancer that clients ask
	next    atomic.Int64
	routes  sync.Map // names of lives, by address of the client whose connection they have
	work    sync.WaitGroup
	stop    context.CancelFunc
	ctx     context.Context
	logs    string // folder
	reader  *stile.Archive
}

// berth is the place of a host: its processes come and go, its address stays.
type berth struct {
	f         *fleet
	name      string
	dir       string
	door      *relay // the hosts' door
	database  *relay
	mu        sync.Mutex
	life      int
	process   *process
	healthy   bool
	conns     map[net.Conn]struct{} // of clients
	disturbed bool                  // a fault is on
}

// lifeName names a process of this host.
func (b *berth) lifeName() string { return fmt.Sprintf("%s%d", b.name, b.life) }

// launch starts a fleet; nil without a PostgreSQL.
func launch(t *testing.T, seed uint64, lease time.Duration, hosts int, logs string) *fleet {
	t.Helper()
	return launchIn(t, nil, seed, lease, hosts, logs)
}

// launchIn starts one in a network.
func launchIn(t *testing.T, n *network, seed uint64, lease time.Duration, hosts int, logs string) *fleet {
	t.Helper()
	server, ok := postgrestest.Private(t)
	if !ok {
		return nil
	}
	f := &fleet{t: t, server: server, network: n, logs: logs}
	if f.logs == "" {
		f.logs = t.TempDir()
	}
	f.witness = newWitness(seed, f.say)
	f.ctx, f.stop = context.WithCancel(context.Background())
	model := httptest.NewUnstartedServer(f.witness)
	if n != nil {
		model.Listener.Close()
		model.Listener = n.listen(t, outside)
		f.moveDatabase()
	}
	model.Start()
	t.Cleanup(model.Close)
	f.job = job{Schema: "fleet", Model: model.URL + "/model", Lease: lease, Fleet: true}
	dir := t.TempDir()
	for i := range hosts {
		b := &berth{f: f, name: string(rune('a' + i)), conns: map[net.Conn]struct{}{}}
		b.dir = filepath.Join(dir, b.name)
		if err := os.MkdirAll(b.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		b.database = newRelay(t, func() (net.Conn, error) { return net.Dial("unix", server.Socket()) })
		b.door = newRelay(t, func() (net.Conn, error) {
			b.mu.Lock()
			to := b.process
			b.mu.Unlock()
			if to == nil {
				return nil, errors.New("the host is down")
			}
			return net.Dial("tcp", to.private)
		})
		f.berths = append(f.berths, b)
		if err := b.start(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if f.front, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	f.work.Go(f.balance)
	for _, b := range f.berths {
		f.work.Go(b.look)
	}
	t.Cleanup(f.end)
	return f
}

// address is where clients ask.
func (f *fleet) address() string { return cmp.Or(f.through, f.front.Addr().String()) }

// moveDatabase has the database listen in the network.
func (f *fleet) moveDatabase() {
	f.t.Helper()
	f.server.Quit()
	err := f.server.Admit("10.77.0.0/16")
	if err == nil {
		err = f.restartDatabase()
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// restartDatabase starts the database where hosts reach it.
func (f *fleet) restartDatabase() error {
	if f.network == nil {
		return f.server.Restart()
	}
	return f.server.Restart("listen_addresses=" + f.network.address(database))
}

// end ends all that runs.
func (f *fleet) end() {
	f.stop()
	f.front.Close()
	for _, b := range f.berths {
		if p := b.running(); p != nil {
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			p.kill()
		}
		b.dropClients()
	}
	f.work.Wait()
}

func (b *berth) running() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.process
}

// start starts a process of the host, and waits until it listens.
func (b *berth) start() error {
	b.mu.Lock()
	b.life++
	j := b.f.job
	j.Name, j.Dir, j.Address, j.URL = b.lifeName(), b.dir, b.door.address(), b.f.server.Through(b.database.address())
	command := []string{os.Args[0]}
	if n := b.f.network; n != nil {
		j.IP, j.Address, j.URL = n.address(b.name), "", b.f.server.Through(n.address(database)+":5432")
		command = append([]string{"ip", "netns", "exec", n.namespace(b.name)}, command...)
	}
	b.mu.Unlock()
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	p := &process{name: j.Name, ended: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	log, err := os.OpenFile(filepath.Join(b.f.logs, b.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "---- %s begins\n", j.Name)
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	if err != nil {
		p.kill()
		return fmt.Errorf("%s does not start: %w", j.Name, err)
	}
	p.public, p.private, _ = strings.Cut(strings.TrimSpace(line), " ")
	b.mu.Lock()
	b.process = p
	b.mu.Unlock()
	return nil
}

// gone takes out the process that has ended.
func (b *berth) gone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.process, b.healthy = nil, false
}

// look asks the host for its health, as load balancers do.
func (b *berth) look() {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 500 * time.Millisecond}
	for b.f.ctx.Err() == nil {
		p, healthy, dead := b.running(), false, true
		if p != nil {
			if resp, err := client.Get("http://" + p.public + "/readyz"); err == nil {
				resp.Body.Close()
				healthy, dead = resp.StatusCode == http.StatusOK, false
			}
		}
		b.mu.Lock()
		b.healthy = healthy && b.process == p
		b.mu.Unlock()
		if dead {
			b.dropClients()
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-b.f.ctx.Done():
		}
	}
}

// ready is what the host says of its health now.
func (b *berth) ready() int {
	p := b.running()
	resp, err := http.Get("http://" + p.public + "/readyz")
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (b *berth) dropClients() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		c.Close()
	}
}

// balance gives each connection to the next healthy host.
func (f *fleet) balance() {
	for {
		c, err := f.front.Accept()
		if err != nil {
			return
		}
		f.work.Go(func() { f.serve(c) })
	}
}

func (f *fleet) serve(c net.Conn) {
	defer c.Close()
	for f.ctx.Err() == nil {
		for range f.berths {
			b := f.berths[f.next.Add(1)%int64(len(f.berths))]
			b.mu.Lock()
			p, healthy := b.process, b.healthy
			b.mu.Unlock()
			if p == nil || !healthy {
				continue
			}
			to, err := net.Dial("tcp", p.public)
			if err != nil {
				continue
			}
			b.mu.Lock()
			b.conns[to] = struct{}{}
			b.mu.Unlock()
			f.routes.Store(c.RemoteAddr().String(), p.name)
			var back sync.WaitGroup
			back.Go(func() {
				_, _ = io.Copy(c, to)
				c.Close()
			})
			_, _ = io.Copy(to, c)
			to.Close()
			back.Wait()
			b.mu.Lock()
			delete(b.conns, to)
			b.mu.Unlock()
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-f.ctx.Done():
		}
	}
}

// outcome is what came of a request.
type outcome struct {
	status int
	body   []byte
	err    error
	again  bool // an attempt before had no answer
}

// refusal is a problem document.
type refusal struct {
	Code, Reason, Detail string
}

func (a *outcome) refusal() (r refusal) {
	_ = json.Unmarshal(a.body, &r) // else it has no code
	return r
}

// plain reports whether the session itself has answered; else nothing is known, and it may be asked again.
func (a *outcome) plain() bool {
	if a.err != nil || a.status >= 500 {
		return false
	}
	switch r := a.refusal(); {
	case a.status < 300:
		return true
	case r.Reason == stile.ReasonElsewhere, r.Reason == stile.ReasonNoLease:
		return false
	}
	return true
}

func (a *outcome) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("%d %s", a.status, a.body)
}

// tryFor bounds one attempt of a client, beyond what it waits for.
const tryFor = 20 * time.Second

// request makes one attempt, through the load balancer.
func (f *fleet) request(method, path, body, key string) *outcome {
	ctx, cancel := context.WithTimeout(f.ctx, tryFor)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+f.address()+path, strings.NewReader(body))
	if err != nil {
		return &outcome{err: err}
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return &outcome{err: err}
	}
	defer resp.Body.Close()
	a := &outcome{status: resp.StatusCode}
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

// say writes into the logs of hosts what is done to them.
func (f *fleet) say(format string, args ...any) {
	line := fmt.Sprintf("%7.3f %s ---- "+format+"\n", append([]any{time.Since(f.witness.begun).Seconds(), time.Now().UTC().Format(time.RFC3339Nano)}, args...)...)
	log, err := os.OpenFile(filepath.Join(f.logs, "campaign.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = log.WriteString(line) // it is for reading alone
		log.Close()
	}
}

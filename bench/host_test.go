package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// The loads of a host: it is a process of its own, this binary run again, and its
// clients reach it over loopback. Its journal is SQLite with fsync.

// serverEnv tells a process that it is the host, and where its journal is.
const serverEnv = "STILE_BENCH_HOST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverEnv); dir != "" {
		telemetry.Muted = os.Getenv(observeEnv) == observeNot
		if err := hostProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	tokenGap   = 20 * time.Millisecond // 50 tokens a second
	tokensEach = 250
)

// stamps says the time, token by token, as nanoseconds of the wall clock, which client
// and host share.
type stamps struct{}

func (stamps) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		tick := time.NewTicker(tokenGap)
		defer tick.Stop()
		for range tokensEach {
			select {
			case <-tick.C:
			case <-ctx.Done():
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
				return
			}
			if !yield(llm.Chunk{Text: strconv.AppendInt(nil, time.Now().UnixNano(), 10)}, nil) {
				return
			}
		}
		yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
	}
}

// atOnce answers without delay.
type atOnce struct{}

func (atOnce) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if yield(llm.Chunk{Text: []byte("ok")}, nil) {
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	}
}

// hostProcess serves until its standard input ends.
func hostProcess(dir string) error {
	agentOf := func(name string, m llm.Model) *stile.Agent {
		man := manifest.Default("plain")
		man.Name = name
		return &stile.Agent{Manifest: man, Model: m}
	}
	agents := []*stile.Agent{agentOf("stamps", stamps{}), agentOf("atonce", atOnce{})}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := zap.NewNop()
	if os.Getenv(observeEnv) == observeAll { // as stile serve logs, to nowhere
		log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel))
	}
	cfg, door := stile.Config{Dir: dir, Agents: agents, Log: log}, host.Config{Agents: agents, Log: log}
	if url := os.Getenv(sharedEnv); url != "" {
		left, err := share(ctx, url, &cfg, &door)
		if err != nil {
			return err
		}
		defer left()
	}
	rt, err := stile.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer tuned()()
	door.Runtime = rt
	srv, err := host.New(door)
	if err != nil {
		return err
	}
	l, err := host.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err = srv.Serve(ctx, l, 10*time.Second)
	if closed := rt.Close(context.Background()); err == nil {
		err = closed
	}
	return err
}

// tuned sets up the process as stile serve does, with a journal on disk. A benchmark
// within another calls it itself: the test runner sets the processors before each.
func tuned() (undo func()) { return host.Tune(host.TuneOptions{Disk: true}) }

// hostOf is a host in a process of its own.
type hostOf struct {
	b      *testing.B
	addr   string
	pid    int
	client *http.Client
}

func startHost(b *testing.B, env ...string) *hostOf {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), serverEnv+"="+b.TempDir()), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	h := &hostOf{b: b, addr: strings.TrimSpace(addr), pid: cmd.Process.Pid, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}
	b.Cleanup(func() {
		h.client.CloseIdleConnections()
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the host ended with %v", err)
		}
	})
	return h
}

// rss is the memory of the host's process, in MB.
func (h *hostOf) rss() float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", h.pid))
	if err != nil {
		h.b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		h.b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / 1e6
}

// post posts JSON and gives the status, the body and what Retry-After says.
func (h *hostOf) post(path, body string) (int, []byte, string, error) {
	res, err := h.client.Post("http://"+h.addr+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, b, res.Header.Get("Retry-After"), err
}

func (h *hostOf) sessions(n int, agent string) {
	each(n, 64, func(i int) {
		if status, body, _, err := h.post("/v1/sessions", fmt.Sprintf(`{"agent":%q,"id":"s%d"}`, agent, i)); err != nil || status != http.StatusCreated {
			h.b.Errorf("%d %s, %v", status, body, err)
		}
	})
	if h.b.Failed() {
		h.b.FailNow()
	}
}

// each does n things, so many at once.
func each(n, atOnce int, do func(int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	wg.Wait()
}

// follow opens a stream of a session, and reads up to a mark.
func (h *hostOf) follow(i int, mark string) (net.Conn, error) {
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/sessions/s%d/events HTTP/1.1\r\nHost: localhost\r\n\r\n", i); err != nil {
		return conn, err
	}
	var got bytes.Buffer
	buf := make([]byte, 4096)
	for !bytes.Contains(got.Bytes(), []byte(mark)) {
		n, err := conn.Read(buf)
		if err != nil {
			return conn, fmt.Errorf("%w after %s", err, got.Bytes())
		}
		got.Write(buf[:n])
	}
	return conn, nil
}

// cpu is the processor time that the host and this process have used.
func (h *hostOf) cpu() (host, clients time.Duration) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.pid))
	if err != nil {
		h.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	for _, ticks := range strings.Fields(rest)[11:13] { // utime and stime
		n, err := strconv.Atoi(ticks)
		if err != nil {
			h.b.Fatal(err)
		}
		host += time.Duration(n) * (time.Second / 100) // a tick is that long on every machine of Linux
	}
	return host, cpuTime()
}

const idleSubscribers = 10_000

// BenchmarkHost_10000IdleSubscribers is the memory of a host whose 10,000 sessions have
// nothing to do and are followed each by a client: all of the process, at the end.
func BenchmarkHost_10000IdleSubscribers(b *testing.B) {
	for range b.N {
		h := startHost(b)
		h.sessions(idleSubscribers, "stamps")
		before := h.rss()
		conns := make([]net.Conn, idleSubscribers)
		each(idleSubscribers, 64, func(i int) {
			var err error
			if conns[i], err = h.follow(i, "event: session.opened"); err != nil {
				b.Error(err)
			}
		})
		b.ReportMetric(h.rss(), "MB")
		b.ReportMetric((h.rss()-before)*1e6/idleSubscribers, "B/subscriber")
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}
}

func report(b *testing.B, all []time.Duration) {
	slices.Sort(all)
	b.ReportMetric(milliseconds(all[len(all)/2]), "p50-ms")
	b.ReportMetric(milliseconds(all[len(all)*99/100]), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const (
	submitRate     = 1000 // a second
	submitSeconds  = 5
	submitSessions = 500
)

// BenchmarkHost_1000SubmitsASecond offers 1,000 submits a second, whether or not those
// before have been answered. Each is taken or refused with Retry-After; of what was taken
// every run is looked for at the end.
func BenchmarkHost_1000SubmitsASecond(b *testing.B) {
	for range b.N {
		h := startHost(b)
		h.sessions(submitSessions, "atonce")
		var wg sync.WaitGroup
		var mu sync.Mutex
		var took []time.Duration
		taken, refused, lost := map[string]bool{}, 0, 0
		began := time.Now()
		for i := range submitRate * submitSeconds {
			<-time.After(time.Until(began.Add(time.Duration(i) * time.Second / submitRate)))
			wg.Go(func() {
				at := time.Now()
				path := fmt.Sprintf("/v1/sessions/s%d/runs", i%submitSessions)
				status, body, wait, err := h.post(path, `{"input":"go"}`)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(at))
				var run struct{ Run int64 }
				switch {
				case err == nil && status == http.StatusAccepted && json.Unmarshal(body, &run) == nil:
					taken[fmt.Sprintf("%s/%d", path, run.Run)] = true
				case err == nil && wait != "":
					refused++
				default:
					b.Errorf("%s: %d %s, %v", path, status, body, err)
					lost++
				}
			})
		}
		wg.Wait()
		offered := time.Since(began)
		if len(taken)+refused+lost != submitRate*submitSeconds {
			b.Errorf("%d taken, %d refused, of %d", len(taken), refused, submitRate*submitSeconds)
		}
		var missing atomic.Int64
		all := make([]string, 0, len(taken))
		for path := range taken {
			all = append(all, path)
		}
		each(len(all), 32, func(i int) {
			// It waits for the run's end: the stream ends with it.
			res, err := h.client.Get("http://" + h.addr + all[i] + "/events?stream=event")
			if err != nil {
				missing.Add(1)
				return
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Contains(got, []byte(`"decision":"DONE"`)) {
				missing.Add(1)
			}
		})
		if missing.Load() > 0 {
			b.Errorf("%d runs that were taken did not end", missing.Load())
		}
		report(b, took)
		b.ReportMetric(float64(len(taken))/offered.Seconds(), "taken/s")
		b.ReportMetric(float64(refused), "refused")
		b.ReportMetric(float64(missing.Load())+float64(lost), "lost")
	}
}

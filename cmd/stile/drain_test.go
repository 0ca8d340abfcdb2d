package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
)

// process is stile serve in a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self, append([]string{"serve"}, args...)...)}
	p.cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if p.url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(line); p.url == "" {
		t.Fatalf("%q, %v, %s", line, err, log)
	}
	return p
}

// begin submits, and returns when the reply has begun to show; rest reads to the end.
func (p *process) begin(session string) (rest func() string) {
	p.t.Helper()
	if status, text := ask(p.t, "POST", p.url+"/v1/sessions", "", `{"agent": "slow", "id": "`+session+`"}`); status != 201 {
		p.t.Fatal(text)
	}
	res, err := http.Post(p.url+"/v1/sessions/"+session+"/runs?stream=token", "application/json", strings.NewReader(`{"input": "go"}`))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { res.Body.Close() })
	in := bufio.NewReader(res.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			p.t.Fatal(err)
		}
		if strings.Contains(line, `"text":"one`) {
			break
		}
	}
	return func() string {
		b, err := io.ReadAll(in)
		if err != nil {
			p.t.Errorf("the stream was cut: %v", err)
		}
		return string(b)
	}
}

func (p *process) end() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) status() int {
	http.DefaultClient.CloseIdleConnections()
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// SIGTERM lets a turn end that ends in time, and then all is settled; one that does not
// is left to the next start, and the exit status says so.
func TestSigterm(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	manifest := write(t, dir, "slow.yaml", "name: slow\ndialect: plain\nmodel: {provider: scripted, script: slow.jsonl}\n")
	script := func(ms string) {
		write(t, dir, "slow.jsonl", `{"match": {"contains": "go"}, "chunks": [{"at_ms": 0, "text": "one "}, {"at_ms": `+ms+`, "text": "two"}]}`+"\n")
	}
	script("700")
	p := startProcess(t, manifest, "--dir", data, "--listen", "127.0.0.1:0", "--grace", "1m")
	rest := p.begin("in-time")
	p.end()
	if text := rest(); !strings.Contains(text, "event: run.end") || !strings.Contains(text, `"decision":"DONE"`) {
		t.Errorf("who followed saw\n%s", text)
	}
	if got := p.status(); got != 0 {
		t.Errorf("all was settled, and the status is %d", got)
	}
	script("600000")
	p = startProcess(t, manifest, "--dir", data, "--listen", "127.0.0.1:0", "--grace", "50ms")
	rest = p.begin("too-late")
	p.end()
	if text := rest(); !strings.Contains(text, "event: leaving") || strings.Contains(text, "event: run.end") {
		t.Errorf("who followed saw\n%s", text)
	}
	if got := p.status(); got != int(exitUnsettled) {
		t.Errorf("a turn was left, and the status is %d", got)
	}
	must(t, "verify", "--dir", data)
	holds(t, must(t, "sessions", "list", "--dir", data), "too-late", "interrupted", "in-time", "idle")
	script("0")
	p = startProcess(t, manifest, "--dir", data, "--listen", "127.0.0.1:0")
	res, err := http.Get(p.url + "/v1/sessions/too-late/runs/1/events?stream=event")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), `"decision":"DONE"`) {
		t.Errorf("the next start: %s, %v", b, err)
	}
	p.signal(syscall.SIGHUP) // without a terminal it is no end
	p.end()
	if got := p.status(); got != 0 {
		t.Errorf("status %d", got)
	}
	must(t, "verify", "--dir", data)
}

// However a host that is told to stop comes to its end, its status is 0 or 8.
func TestStatusOfALateEnd(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"in time":        {nil, nil},
		"turns left":     {exitUnsettled, exitUnsettled},
		"late":           {context.DeadlineExceeded, exitUnsettled},
		"turns and late": {errors.Join(exitUnsettled, context.DeadlineExceeded), exitUnsettled},
	} {
		if got := settledBy(c.err, zap.NewNop()); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	failed := errors.New("no port")
	if got := settledBy(failed, zap.NewNop()); !errors.Is(got, failed) {
		t.Errorf("a failure is %v", got)
	}
}

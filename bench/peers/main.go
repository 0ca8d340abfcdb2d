// Command peers measures stile beside other runtimes with the same workloads and model, by turns, and
// writes the page and the plots of docs/benchmarks-peers.md. It prepares the peers itself.
//
//	go run ./bench/peers -rounds 5        measure, then write record, page and plots
//	go run ./bench/peers -page            write page and plots from the record that is there
//
// The rows of the first group run in one process with the load. The others are processes of their
// own behind chat completions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/report"
	"github.com/seed14be6753/stile/bench/target"
	"github.com/seed14be6753/stile/bench/workload"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each, by turns")
	dir := flag.String("docs", "docs", "folder of the record, the page and the plots")
	only := flag.String("only", "", "run only the rows whose name has this text, and write nothing")
	page := flag.Bool("page", false, "measure nothing: write page and plots from the record")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *dir, *only, *page); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, dir, only string, page bool) error {
	if page {
		r, err := readRecord(dir)
		if err != nil {
			return err
		}
		return r.writePage(dir)
	}
	bin, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(bin) }()
	r := newRecord(rounds)
	r.Unprepared = prepare(ctx, bin)
	r.Versions = versions(ctx)
	for n := range rounds {
		for _, name := range workloads {
			for _, row := range rows(bin) {
				if !strings.Contains(row.name, only) {
					continue
				}
				file, err := filepath.Abs(filepath.Join(folder, name+".yaml"))
				if err != nil {
					return err
				}
				round, err := one(ctx, row, file)
				if ctx.Err() != nil {
					return fmt.Errorf("stopped in round %d of %d: nothing is written", n+1, rounds)
				}
				r.add(row.name, name, round, err)
				fmt.Fprintf(os.Stderr, "round %d, %s, %s: %s\n", n+1, name, row.name, told(round, err))
			}
		}
	}
	if only != "" {
		return nil
	}
	if err := r.write(dir); err != nil {
		return err
	}
	return r.writePage(dir)
}

func told(r measure.Round, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d of %d ended, p50 %s", r.Fates[measure.Ended], r.Planned, report.Micros(r.Times[measure.End].P50))
}

// prepare builds the peers, and says what could not be.
func prepare(ctx context.Context, bin string) (failed []string) {
	do := func(what, dir string, args ...string) {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if b, err := cmd.CombinedOutput(); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v: %.400s", what, err, b))
		}
	}
	do("stile", ".", "go", "build", "-tags", "lite", "-o", filepath.Join(bin, "stile"), "./cmd/stile")
	do("floor", ".", "go", "build", "-tags", "lite", "-o", filepath.Join(bin, "floor"), "./"+folder+"/floor")
	for _, name := range []string{"eino", "adk"} {
		do(name, filepath.Join(folder, name), "go", "build", "-tags", "lite", "-o", filepath.Join(bin, name), ".")
	}
	do("runtimes in JavaScript", filepath.Join(folder, "node"), "npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock")
	return failed
}

func read(file string) *workload.Workload {
	doc, err := os.ReadFile(file)
	if err == nil {
		var w *workload.Workload
		if w, err = workload.Parse(file, doc); err == nil {
			return w
		}
	}
	fmt.Fprintln(os.Stderr, "peers:", err)
	os.Exit(1)
	return nil
}

// roundTime bounds one round.
const roundTime = 3 * time.Minute

// one runs one round of a row.
func one(ctx context.Context, r row, file string) (measure.Round, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "peer-")
	if err != nil {
		return measure.Round{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	port, err := freePort(ctx)
	if err != nil {
		return measure.Round{}, err
	}
	args := r.command(file, port)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "PEER_DB="+filepath.Join(dir, "saver.db"))
	if !r.serves {
		b, err := cmd.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return measure.Round{}, fmt.Errorf("%w: %.300s", err, exit.Stderr)
		}
		if err != nil {
			return measure.Round{}, err
		}
		res, err := measure.Read(r.name, b)
		if err != nil {
			return measure.Round{}, err
		}
		return res.Rounds[0], nil
	}
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		return measure.Round{}, err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := listens(ctx, port); err != nil {
		return measure.Round{}, fmt.Errorf("%w: %.300s", err, stderr)
	}
	t, err := target.NewOpenAI("http://127.0.0.1:"+strconv.Itoa(port)+"/v1", "", "", cmd.Process.Pid)
	if err != nil {
		return measure.Round{}, err
	}
	w := read(file)
	arrivals := w.Schedule()
	return load.Run(ctx, w, arrivals, t, measure.NewRecorder(len(arrivals)), load.Options{}), nil
}

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func listens(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return c.Close()
		}
		if ctx.Err() != nil {
			return errors.New("it took no connections in 30 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

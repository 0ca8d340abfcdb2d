// Command peers measures stile beside other runtimes with the same workloads and model, by turns,
// and prints the table of docs/benchmarks-peers.md. It prepares them itself: make peers runs it.
//
//	go run ./bench/peers -rounds 5 -out peers.json
//
// The first rows run in one process with the load, whose own share is then in their processor time.
// The others are processes of their own behind chat completions, and so is stile beside them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/report"
	"github.com/seed14be6753/stile/bench/target"
	"github.com/seed14be6753/stile/bench/workload"
)

// row is one runtime in one set-up.
type row struct {
	name  string
	lacks string // what it does not do that stile does
	// command is what runs a round in its own process, or serves chat completions if serves.
	command func(file string, port int) []string
	dir     string
	serves  bool
}

const folder = "bench/peers"

func rows(bin string) []row {
	peer := func(name, variant string) func(string, int) []string {
		return func(file string, _ int) []string {
			return []string{filepath.Join(bin, name), "-workload", file, "-variant", variant}
		}
	}
	server := func(command ...string) func(string, int) []string {
		return func(file string, port int) []string {
			a := read(file).Agents[0]
			return append(slices.Clone(command), strconv.Itoa(port), strconv.Itoa(a.Calls), strconv.Itoa(a.Tokens), strconv.Itoa(a.TokenBytes))
		}
	}
	node := func(kind string) func(string, int) []string { return server("node", "server.mjs", kind) }
	own := func(flags ...string) func(string, int) []string {
		return func(file string, _ int) []string {
			return append([]string{filepath.Join(bin, "stile"), "bench", file, "--no-own", "--json", "-"}, flags...)
		}
	}
	serve := func(flags ...string) func(string, int) []string {
		return func(file string, port int) []string {
			return append([]string{filepath.Join(bin, "stile"), "bench", "serve", file, "--listen", "127.0.0.1:" + strconv.Itoa(port)}, flags...)
		}
	}
	nodeDir := filepath.Join(folder, "node")
	return []row{
		{name: "a map of histories (floor)", lacks: "everything", command: peer("floor", "map")},
		{name: "eino, ReAct agent", lacks: "no store, one process's order is the program's", command: peer("eino", "react")},
		{name: "eino, ADK runner", lacks: "checkpoints in memory", command: peer("eino", "runner")},
		{name: "stile, memory", lacks: "", command: own("--memory")},
		{name: "stile, SQLite", lacks: "", command: own()},
		{name: "AI SDK", lacks: "no store", command: node("ai"), dir: nodeDir, serves: true},
		{name: "OpenAI Agents", lacks: "session in memory", command: node("agents"), dir: nodeDir, serves: true},
		{name: "LangGraph, memory", lacks: "no store", command: node("langgraph-memory"), dir: nodeDir, serves: true},
		{name: "ADK-Go, memory", lacks: "no store", command: server(filepath.Join(bin, "adk"), "memory"), serves: true},
		{name: "stile serve, memory", lacks: "", command: serve("--memory"), serves: true},
		{name: "LangGraph, SQLite", lacks: "no order of turns, no signature", command: node("langgraph-sqlite"), dir: nodeDir, serves: true},
		{name: "ADK-Go, SQLite", lacks: "no order of turns, no signature", command: server(filepath.Join(bin, "adk"), "sqlite"), serves: true},
		{name: "stile serve, SQLite", lacks: "", command: serve(), serves: true},
	}
}

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each, by turns")
	out := flag.String("out", "", "write all rounds as JSON to this file")
	only := flag.String("only", "", "run only the rows whose name has this text")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// found is what a row's rounds of a workload found.
type found struct {
	Row      string          `json:"row"`
	Workload string          `json:"workload"`
	Rounds   []measure.Round `json:"rounds"`
	Error    string          `json:"error,omitempty"` // of the last round that could not be run
}

func run(ctx context.Context, rounds int, out, only string) error {
	bin, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(bin) }()
	unprepared := prepare(ctx, bin)
	var all []*found
	for n := range rounds {
		for _, name := range []string{"call", "stream"} {
			for _, r := range rows(bin) {
				if !strings.Contains(r.name, only) || ctx.Err() != nil {
					continue
				}
				i := slices.IndexFunc(all, func(f *found) bool { return f.Row == r.name && f.Workload == name })
				if i < 0 {
					all = append(all, &found{Row: r.name, Workload: name})
					i = len(all) - 1
				}
				file, err := filepath.Abs(filepath.Join(folder, name+".yaml"))
				if err != nil {
					return err
				}
				round, err := one(ctx, r, file)
				if err != nil {
					all[i].Error = err.Error()
					fmt.Fprintf(os.Stderr, "round %d, %s, %s: %v\n", n+1, name, r.name, err)
					continue
				}
				all[i].Rounds = append(all[i].Rounds, round)
				fmt.Fprintf(os.Stderr, "round %d, %s, %s: %d of %d ended, p50 %s\n", n+1, name, r.name, round.Fates[measure.Ended], round.Planned, report.Micros(round.Times[measure.End].P50))
			}
		}
	}
	table(all, rows(bin))
	for _, u := range unprepared {
		fmt.Printf("\nNot prepared: %s\n", u)
	}
	if out == "" {
		return nil
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, b, 0o644)
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
	said := &strings.Builder{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		return measure.Round{}, err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := listens(ctx, port); err != nil {
		return measure.Round{}, fmt.Errorf("%w: %.300s", err, said)
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

// table prints the medians over the rounds, with the least and the most.
func table(all []*found, rows []row) {
	fmt.Printf("%s/%s, %d processors, %s.\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"))
	for _, name := range []string{"call", "stream"} {
		fmt.Printf("\n| %s | rounds | ended | processor time a run, µs | end p50 | end p99 | resident at most | what it does not do |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n", name)
		for _, r := range rows {
			for _, f := range all {
				if f.Row != r.name || f.Workload != name {
					continue
				}
				if len(f.Rounds) == 0 {
					fmt.Printf("| %s | 0 | %.100s | | | | | %s |\n", r.name, f.Error, r.lacks)
					continue
				}
				fmt.Printf("| %s | %d | %s | %s | %s | %s | %s | %s |\n", r.name, len(f.Rounds),
					spread(f, func(r measure.Round) float64 {
						return 100 * float64(r.Fates[measure.Ended]) / float64(max(r.Planned, 1))
					}, func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) + " %" }),
					spread(f, func(r measure.Round) float64 {
						return float64(r.Usage.CPUMicros) / float64(max(r.Fates[measure.Ended], 1))
					}, func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }),
					spread(f, func(r measure.Round) float64 { return float64(r.Times[measure.End].P50) }, micros),
					spread(f, func(r measure.Round) float64 { return float64(r.Times[measure.End].P99) }, micros),
					spread(f, func(r measure.Round) float64 { return float64(r.Usage.PeakRSS) }, func(v float64) string { return report.Bytes(int64(v)) }), r.lacks)
			}
		}
	}
}

func micros(v float64) string { return report.Micros(int64(v)) }

// spread is the median of the rounds, and in brackets the least and the most if they differ.
func spread(f *found, of func(measure.Round) float64, text func(float64) string) string {
	var all []float64
	for _, r := range f.Rounds {
		all = append(all, of(r))
	}
	slices.Sort(all)
	middle, least, most := text(all[len(all)/2]), text(all[0]), text(all[len(all)-1])
	if least == most {
		return middle
	}
	return fmt.Sprintf("%s (%s to %s)", middle, least, most)
}

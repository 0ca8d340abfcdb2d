package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/bench/measure"
)

const recordFile = "benchmarks-peers.json"

var workloads = []string{"call", "stream"}

// record is what the page and the plots are made of.
type record struct {
	Date       string            `json:"date"`
	OS         string            `json:"os"`
	Arch       string            `json:"arch"`
	CPUs       int               `json:"cpus"`
	Planned    int               `json:"rounds"`
	Versions   map[string]string `json:"versions"`
	Unprepared []string          `json:"unprepared,omitempty"` // peers that could not be built, and why
	Rows       []*measured       `json:"measured"`
}

// measured is a row under a workload.
type measured struct {
	Row      string    `json:"row"`
	Workload string    `json:"workload"`
	Rounds   []figures `json:"rounds"`
	Error    string    `json:"error,omitempty"` // of the last round that could not be run
}

// figures sum up a round.
type figures struct {
	Planned int64 `json:"planned"`
	Ended   int64 `json:"ended"`
	CPU     int64 `json:"cpu_us"` // a run
	P50     int64 `json:"end_p50_us"`
	P99     int64 `json:"end_p99_us"`
	RSS     int64 `json:"peak_rss_bytes"`
}

func newRecord(rounds int) *record {
	return &record{Date: time.Now().UTC().Format(time.DateOnly), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Planned: rounds}
}

func (r *record) of(row, workload string) *measured {
	i := slices.IndexFunc(r.Rows, func(m *measured) bool { return m.Row == row && m.Workload == workload })
	if i < 0 {
		return nil
	}
	return r.Rows[i]
}

func (r *record) add(row, workload string, round measure.Round, err error) {
	m := r.of(row, workload)
	if m == nil {
		m = &measured{Row: row, Workload: workload}
		r.Rows = append(r.Rows, m)
	}
	if err != nil {
		m.Error = err.Error()
		return
	}
	end := round.Times[measure.End]
	ended := round.Fates[measure.Ended]
	m.Rounds = append(m.Rounds, figures{
		Planned: round.Planned, Ended: ended, CPU: round.Usage.CPUMicros / max(ended, 1),
		P50: end.P50, P99: end.P99, RSS: round.Usage.PeakRSS,
	})
}

func (r *record) write(dir string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, recordFile), append(b, '\n'), 0o644)
}

func readRecord(dir string) (*record, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}
	return r, nil
}

// spread is a figure over the rounds.
type spread struct{ least, middle, most float64 }

func (m *measured) spread(of func(figures) int64) spread {
	var all []float64
	for _, f := range m.Rounds {
		all = append(all, float64(of(f)))
	}
	slices.Sort(all)
	return spread{all[0], all[len(all)/2], all[len(all)-1]}
}

// versions asks what was measured.
func versions(ctx context.Context) map[string]string {
	v := map[string]string{"go": runtime.Version()}
	ask := func(key, dir string, args ...string) {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = dir
		if b, err := cmd.Output(); err == nil {
			v[key] = strings.TrimSpace(string(b))
		}
	}
	ask("node", ".", "node", "--version")
	ask("stile", ".", "git", "rev-parse", "--short=9", "HEAD")
	for key, module := range map[string]string{"eino": "github.com/cloudwego/eino", "adk": "google.golang.org/adk/v2"} {
		ask(key, filepath.Join(folder, key), "go", "list", "-m", "-f", "{{.Version}}", module)
	}
	var p struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if b, err := os.ReadFile(filepath.Join(folder, "node", "package.json")); err == nil && json.Unmarshal(b, &p) == nil {
		for name, version := range p.Dependencies {
			v[name] = version
		}
	}
	return v
}

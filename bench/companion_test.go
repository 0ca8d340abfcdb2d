package bench

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkCompanion_OneProcessor is what a small model's chat costs: the command, built
// with the tag lite, runs one message of examples/companion in a fresh process with
// GOMAXPROCS=1, journal and keys on disk. It reports the time from the start of the
// process to the first line of the session (ms/start), the processor time of the whole
// process (cpu-ms), which says the same on a machine that has other things to do, and the
// most memory that was resident (MB-resident). The floor is the same process that prints
// its version.
func BenchmarkCompanion_OneProcessor(b *testing.B) {
	dir := b.TempDir()
	stile := filepath.Join(dir, "stile")
	build := exec.Command("go", "build", "-tags", "lite", "-o", stile, "../cmd/stile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make run compiled it already
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"one_message", []string{"run", "../examples/companion/agent.yaml", "Ask me a riddle.", "--dir"}, "It stands on a fence"},
		{"floor_version", []string{"version"}, "stile"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var start, cpu time.Duration
			var resident int64
			n := 0
			for b.Loop() {
				n++
				args := c.args
				if args[len(args)-1] == "--dir" {
					args = append(args[:len(args):len(args)], b.TempDir())
				}
				cmd := exec.Command(stile, args...)
				cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
				out, err := cmd.StdoutPipe()
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				r := bufio.NewReader(out)
				first, _ := r.ReadString('\n')
				start += time.Since(began)
				rest, _ := io.ReadAll(r)
				if err := cmd.Wait(); err != nil || !strings.Contains(first+string(rest), c.want) {
					b.Fatalf("%v\n%s%s", err, first, rest)
				}
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				resident = max(resident, residentBytes(cmd.ProcessState))
			}
			b.ReportMetric(float64(start.Milliseconds())/float64(n), "ms/start")
			b.ReportMetric(float64(cpu.Milliseconds())/float64(n), "cpu-ms")
			b.ReportMetric(float64(resident)/(1<<20), "MB-resident")
		})
	}
}

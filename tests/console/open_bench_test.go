package console

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/bench/process"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/manifest"
)

// The load that an open console is measured beside.
const (
	loadSessions = 200
	loadRate     = 200 // runs a second
	loadFor      = 10 * time.Second
	loadRounds   = 7
)

// BenchmarkOpenConsole_200RunsASecond measures what a console costs the host that it shows: processor
// time of host and load a run, without a console and with one that has the list and a session
// open, which is one of those that run. Rounds are by turns, and the medians are reported.
func BenchmarkOpenConsole_200RunsASecond(b *testing.B) {
	path, node, packages, ok := browser(b)
	if !ok {
		return // it says why
	}
	agent := plain("agent", says(strings.SplitAfter(strings.Repeat("It rains in the hills. ", 8), " ")...))
	agent.Manifest.Memory.HistoryWindow = manifest.NoHistory // a run costs the same in every round
	rt, err := stile.New(b.Context(), stile.Config{Dir: b.TempDir(), Agents: []*stile.Agent{agent}})
	if err != nil {
		b.Fatal(err)
	}
	url := served(b, rt, host.Config{Runtime: rt, Agents: []*stile.Agent{agent}})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	b.Cleanup(client.CloseIdleConnections)
	post := func(path, body string) {
		resp, err := client.Post(url+"/v1/sessions"+path, "application/json", strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		if resp.Body.Close(); resp.StatusCode >= 300 {
			b.Errorf("%s: %s", path, resp.Status)
		}
	}
	sids := []string{"watched"}
	for i := range loadSessions - 1 {
		sids = append(sids, fmt.Sprint("s", i))
	}
	for _, sid := range sids {
		post("", fmt.Sprintf(`{"agent":"agent","id":%q}`, sid))
		post("/"+sid+"/runs?wait=60s", `{"input":"What is the weather?"}`)
	}
	load := func() (micros float64) {
		before := process.Own().CPUMicros
		var work sync.WaitGroup
		tick := time.NewTicker(time.Second / loadRate)
		defer tick.Stop()
		n := int(loadFor.Seconds() * loadRate)
		for i := range n {
			<-tick.C
			work.Go(func() { post("/"+sids[i%len(sids)]+"/runs?wait=60s", `{"input":"What is the weather?"}`) })
		}
		work.Wait()
		return float64(process.Own().CPUMicros-before) / float64(n)
	}
	setting, err := json.Marshal(map[string]string{"url": url, "browser": path, "packages": packages})
	if err != nil {
		b.Fatal(err)
	}
	watched := func() float64 {
		cmd := exec.CommandContext(b.Context(), node, "watch.mjs")
		cmd.Env = append(os.Environ(), "STILE_CONSOLE="+string(setting), "HOME="+b.TempDir())
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
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
			b.Fatalf("the console says %q: %v", line, err)
		}
		micros := load()
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		return micros
	}
	for b.Loop() {
		load()
		var without, with, ratios []float64
		for i := range loadRounds {
			var w, o float64
			if i%2 == 0 {
				w = load()
				o = watched()
			} else {
				o = watched()
				w = load()
			}
			without, with, ratios = append(without, w), append(with, o), append(ratios, o/w)
		}
		for _, all := range [][]float64{without, with, ratios} {
			slices.Sort(all)
		}
		b.ReportMetric(without[loadRounds/2], "µs/run")
		b.ReportMetric(with[loadRounds/2], "µs/run-open")
		b.ReportMetric(ratios[loadRounds/2], "ratio")
	}
}

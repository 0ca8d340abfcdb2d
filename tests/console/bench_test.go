package console

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/messages"
)

// Sizes of the journal that actions of the console are measured on.
const (
	manySessions = 100_000
	manyRuns     = 2_500 // of four records, in one session
)

// BenchmarkActions measures actions of the console in a browser, on a journal of 100,000 sessions, one
// of which has 10,000 records: from the event to the frame that shows what came of it. It is run once,
// with -benchtime 1x; the medians and least times of its rounds are in docs/console.md.
func BenchmarkActions(b *testing.B) {
	path, node, packages, ok := browser(b)
	if !ok {
		return // it says why
	}
	dir := b.TempDir()
	fill(b, dir)
	var agents []*stile.Agent
	for i := range 20 {
		agents = append(agents, plain(fmt.Sprintf("agent%d", i), says("Ahoy.")))
	}
	live, err := stile.New(b.Context(), stile.Config{Dir: dir, Agents: agents}) // only it has an index of texts
	if err != nil {
		b.Fatal(err)
	}
	rt, err := stile.New(b.Context(), stile.Config{Dir: dir, ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	setting, err := json.Marshal(map[string]string{"url": served(b, rt, host.Config{Runtime: rt}), "live": served(b, live, host.Config{Runtime: live, Agents: agents}), "browser": path, "packages": packages})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), node, "bench.mjs")
		cmd.Env = append(os.Environ(), "STILE_CONSOLE="+string(setting), "HOME="+b.TempDir())
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// fill writes the journal: each session with a title, an agent and a run that has ended.
func fill(b *testing.B, dir string) {
	b.Helper()
	s, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, stile.JournalFile)})
	if err != nil {
		b.Fatal(err)
	}
	var batches []journal.Batch
	for i := 1; i <= manySessions; i++ {
		ses := specimen.Start(b, fmt.Sprintf("local:local:s%d", i), i)
		end := &messages.RunEnd{Decision: messages.Done, Turns: 1}
		if i%500 == 0 {
			end = &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrQuota, Turns: 1}
		}
		title := fmt.Sprintf("Order %d", i)
		if i%5000 == 0 {
			title = fmt.Sprintf("A needle, %d", i)
		}
		bodies := []messages.Body{&messages.SessionOpened{Dialect: "plain", Name: fmt.Sprintf("agent%d", i%20)}, &messages.SessionDescribed{Title: title}, &messages.RunBegin{}, end}
		if i == manySessions {
			for range manyRuns {
				bodies = append(bodies, &messages.Input{Text: "What is the weather?"}, &messages.RunBegin{}, &messages.UnitText{Unit: "1.0", UnitKind: messages.ResponseUnit, Text: "It rains in the hills."}, &messages.RunEnd{Decision: messages.Done, Turns: 1})
			}
		}
		if batches = append(batches, ses.Batch(bodies...)); len(batches) == 1000 || i == manySessions {
			specimen.Must(b, s, batches...)
			batches = nil
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

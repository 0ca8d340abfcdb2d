package stile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools"
)

// A session with calls, carried streams, a rejected token and a fork replays to
// the same hashes, from the data directory alone.
func TestReplay(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log.txt"), []byte("rope 3\nsail 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := manifest.Default("aeiou")
	m.Name = "replayed"
	m.Import.Tools = []string{"file.read"}
	agent := &stile.Agent{Manifest: m, Dir: dir, Model: scripted.New(
		"command\n set text = tool.file.read(\"log.txt\")\n emit text\n whisper self, \"read it\"\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"continue\"})\nendcommand",
		"command\n on error as e do\n  emit \"caught \" + e.code\n  clear_error\n endon\n set x = tool.file.read(\"../secret\")\n set tok = tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\n emit tok\n emit tok\nendcommand",
		"command\n emit 1/0\nendcommand",
		"command\n while true\n  set x = 1\n endwhile\nendcommand",
	)}
	data := filepath.Join(dir, "data")
	rt := start(t, stile.Config{Dir: data})
	s := opened(t, rt, "a", agent)
	for i, code := range []messages.Code{"", messages.ErrQuota} { // the second run mends a mistake, and makes another
		if d := decided(t, submitted(t, s, "go")); d.Reason != code {
			t.Fatalf("run %d: %v %q %s", i+1, d.Decision, d.Reason, d.Detail)
		}
	}
	if _, err := rt.Fork(ctx, "a", 1, "b"); err != nil {
		t.Fatal(err)
	}
	// Beside the running host first, then without it.
	for range 2 {
		ar, err := stile.OpenArchive(data)
		if err != nil {
			t.Fatal(err)
		}
		if n, programs, _ := replays(t, ar, nil); n < 30 || programs != 4 {
			t.Errorf("%d records, %d programs", n, programs)
		}
		if err := ar.Close(); err != nil {
			t.Error(err)
		}
		closed(t, rt)
	}
}

// slowLines is a model that says a text in pieces of a size, one every so often.
type slowLines struct {
	text  string
	piece int
	every time.Duration
	hang  bool
}

// Stream implements llm.Model.
func (m slowLines) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for at := 0; at < len(m.text); at += m.piece {
			select {
			case <-time.After(m.every):
			case <-ctx.Done():
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
				return
			}
			if !yield(llm.Chunk{Text: []byte(m.text[at:min(at+m.piece, len(m.text))])}, nil) {
				return
			}
		}
		if m.hang {
			<-ctx.Done()
		}
		yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
	}
}

// A dialect whose records come while the reply streams, between the chunk records:
// complete, cancelled at any moment, and cut by the end of its host.
func TestReplayStreamedUnits(t *testing.T) {
	text := "one\n\ntwo\n" + string(bytes.Repeat([]byte("a longer line of the poem\n"), 400)) + "\nend"
	for _, durability := range []manifest.Durability{manifest.DurabilityStrict, manifest.DurabilityCheckpoint, manifest.DurabilityUnit} {
		for _, piece := range []int{3, 50, 5000, 1 << 20} {
			for _, end := range []string{"complete", "cancel", "crash"} {
				t.Run(fmt.Sprint(durability, "/", piece, "/", end), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := manifest.Default("lines")
						m.Loop.MaxTurns, m.Loop.Recovery = 1, messages.RecoverHalt
						m.Stream.Durability = durability
						agent := &stile.Agent{Manifest: m, Model: slowLines{text: text, piece: piece, every: 7 * time.Millisecond, hang: end != "complete"}}
						cfg := stile.Config{Store: memory.New(), Dialects: []parse.Dialect{lines{}}}
						rt := start(t, cfg)
						s := opened(t, rt, "s", agent)
						run := submitted(t, s, "recite")
						switch end {
						case "cancel":
							time.Sleep(303 * time.Millisecond)
							if err := run.Cancel(context.Background(), ""); err != nil {
								t.Fatal(err)
							}
						case "crash":
							time.Sleep(1303 * time.Millisecond)
							closed(t, rt)
							rt = start(t, cfg)
							s = opened(t, rt, "s", agent)
							run = s.Run(1)
						}
						decided(t, run)
						if n, _, _ := replays(t, rt.Archive(), agent); n < 6 {
							t.Errorf("%d records", n)
						}
					})
				})
			}
		}
	}
}

// A reply over its limit, from a model that does not bound it.
func TestReplayOversizedReply(t *testing.T) {
	rt := start(t, stile.Config{})
	agent := &stile.Agent{Dialect: "plain", Model: slowLines{text: string(make([]byte, turn.MaxReplyBytes+1)), piece: turn.MaxReplyBytes/3 + 1}}
	d := decided(t, submitted(t, opened(t, rt, "s", agent), "go"))
	if d.Reason != messages.ErrQuota {
		t.Fatalf("%+v", d)
	}
	replays(t, rt.Archive(), agent)
}

// A session whose agent changed between two lives of its host replays each part
// under the manifest it ran under, and says so when it is given another one.
func TestReplayManifests(t *testing.T) {
	cfg := stile.Config{Store: memory.New()}
	var archive *stile.Archive
	for i := range 3 {
		m := manifest.Default("aeiou")
		m.Name, m.Loop.NoProgressN, m.Quotas.Gas = fmt.Sprint("edition-", i), int64(2+i), int64(1000+i)
		rt := start(t, cfg)
		s := opened(t, rt, "s", &stile.Agent{Manifest: m, Model: said("command\n while true\n  set x = 1\n endwhile\nendcommand")})
		if d := decided(t, submitted(t, s, "go")); d.Turn.GasUsed != m.Quotas.Gas {
			t.Fatalf("%+v", d.Turn)
		}
		archive = rt.Archive()
		replays(t, archive, nil)
		closed(t, rt)
	}
	head, err := archive.Head(context.Background(), "s")
	if err != nil {
		t.Fatal(err)
	}
	_, err = archive.Replay(context.Background(), head.Inc, &stile.Agent{Dialect: "aeiou"})
	var d *replay.Divergence
	if !errors.As(err, &d) || d.Seq != 1 {
		t.Errorf("another manifest: %v", err)
	}
}

// said is a model that always says one thing.
type said string

// Stream implements llm.Model.
func (m said) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: []byte(m), Finish: messages.FinishComplete}, nil)
	}
}

// A session that slept and came back from its snapshot replays from its first record.
func TestReplaySnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		rt := start(t, stile.Config{Store: store, IdleTimeout: time.Second})
		agent := &stile.Agent{Dialect: "plain", Model: said("yes")}
		s := opened(t, rt, "s", agent)
		for range 2 {
			for range 40 {
				decided(t, submitted(t, s, "again"))
			}
			time.Sleep(time.Minute)
			if rt.SessionsInMemory() != 0 {
				t.Fatal("it does not sleep")
			}
		}
		if snap, err := store.Snapshot(context.Background(), s.Incarnation()); err != nil || snap.Seq < 256 {
			t.Fatalf("%+v, %v", snap, err)
		}
		decided(t, submitted(t, s, "after the snapshot"))
		if n, _, _ := replays(t, rt.Archive(), agent); n < 81*8 {
			t.Errorf("%d records", n)
		}
	})
}

// A program that does not return within the grace: it is unknown what it used or
// minted, and what it had said is taken from the journal.
func TestReplayGraceOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Hour) }) // a closing runtime leaves the tool behind
		stuck := tools.Tool{Name: "own.stuck", Class: messages.Pure, Pure: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
			time.Sleep(time.Minute)
			return neuroscript.Value{}, nil
		}}
		m := manifest.Default("aeiou")
		read := tools.Tool{Name: "own.read", Class: messages.ReadOnly, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
			return neuroscript.Number(7), nil
		}}
		m.Import.Tools = []string{"own.stuck", "own.read"}
		agent := &stile.Agent{Manifest: m, Tools: []tools.Tool{stuck, read}, Model: said("command\n emit \"before\"\n" +
			" set y = tool.aeiou.magic(\"LOOP\", {\"action\": \"abort\"})\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\n" +
			" emit tool.own.read()\n set x = tool.own.stuck()\n emit \"after\"\nendcommand")}
		rt := start(t, stile.Config{})
		d := decided(t, submitted(t, opened(t, rt, "s", agent), "go"))
		if d.Reason != messages.ErrTimeout || d.Turn.GasUsed != 0 || d.Turn.OutputBytes == 0 {
			t.Fatalf("%+v %+v", d, d.Turn)
		}
		if _, _, taken := replays(t, rt.Archive(), agent); taken != 1 {
			t.Errorf("%d programs taken", taken)
		}
	})
}

// A replay calls nothing: no tool, no model, no gate.
func TestReplayCallsNothing(t *testing.T) {
	calls := 0
	own := tools.Tool{Name: "own.count", Class: messages.ReadOnly, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
		calls++
		return neuroscript.Number(7), nil
	}}
	agent := &stile.Agent{
		Dialect: "aeiou", Tools: []tools.Tool{own},
		Model: scripted.New("command\n emit tool.own.count()\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand"),
		Gate: func(tools.Request) (messages.GateAnswer, string, bool) {
			calls++
			return messages.GateApprove, "", true
		},
	}
	rt := start(t, stile.Config{})
	s := opened(t, rt, "s", agent)
	if d := decided(t, submitted(t, s, "go")); d.Decision != stile.Done {
		t.Fatalf("%+v", d)
	}
	before := calls
	replays(t, rt.Archive(), agent)
	if calls != before || before != 2 {
		t.Errorf("%d calls, then %d", before, calls)
	}
	// Without the agent its tool is missing, and that is said.
	_, err := rt.Replay(context.Background(), "s", nil)
	wantCode(t, err, messages.ErrConfig)
	// Another tool of that name makes other prompts.
	own.Description = "Counts otherwise."
	changed := *agent
	changed.Tools = []tools.Tool{own}
	_, err = rt.Replay(context.Background(), "s", &changed)
	var d *replay.Divergence
	if !errors.As(err, &d) || d.Kind != messages.KindTurnBegin {
		t.Errorf("changed tools: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := rt.Replay(ctx, "s", agent); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// What waits at the cut of a fork is left behind, cancelled, and the fork of a fork
// and its continuation replay.
func TestReplayForks(t *testing.T) {
	ctx := context.Background()
	rt := start(t, stile.Config{})
	model := &gated{open: make(chan struct{}), Model: said("yes")}
	agent := &stile.Agent{Dialect: "plain", Model: model}
	s := opened(t, rt, "a", agent)
	first, second := submitted(t, s, "one"), submitted(t, s, "two")
	close(model.open)
	decided(t, first)
	decided(t, second)
	for _, f := range []struct {
		from, to string
		at       int64
	}{{"a", "b", 1}, {"b", "c", 0}} {
		if _, err := rt.Fork(ctx, f.from, f.at, f.to); err != nil {
			t.Fatal(err)
		}
		fs := opened(t, rt, f.to, agent)
		if d := decided(t, fs.Run(2)); d.Reason != messages.ErrCancelled {
			t.Errorf("%s: what waited ended %s(%s) %s", f.to, d.Decision, d.Reason, d.Detail)
		}
		decided(t, submitted(t, fs, "three"))
		_, err := rt.Fork(ctx, f.from, f.at, f.to)
		wantCode(t, err, messages.ErrConflict)
	}
	_, err := rt.Fork(ctx, "a", 99, "z")
	wantCode(t, err, messages.ErrNotFound)
	replays(t, rt.Archive(), agent)
}

// A key of an input that a fork left behind may be used again there; one of a run
// that it took over still names that run.
func TestForkForgetsKeysLeftBehind(t *testing.T) {
	ctx := context.Background()
	rt := start(t, stile.Config{})
	model := &gated{open: make(chan struct{}), Model: said("yes")}
	agent := &stile.Agent{Dialect: "plain", Model: model}
	s := opened(t, rt, "a", agent)
	submit := func(s *stile.Session, key string) *stile.Run {
		t.Helper()
		run, err := s.Submit(ctx, "text of "+key, stile.Policy(messages.Enqueue), stile.IdempotencyKey(key))
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	first, second := submit(s, "one"), submit(s, "two")
	close(model.open)
	decided(t, first)
	decided(t, second)
	if _, err := rt.Fork(ctx, "a", 1, "b"); err != nil {
		t.Fatal(err)
	}
	fork := opened(t, rt, "b", agent)
	if run := submit(fork, "one"); run.Ordinal() != first.Ordinal() {
		t.Errorf("the key of a run taken over began run %d", run.Ordinal())
	}
	if d := decided(t, submit(fork, "two")); d.Decision != stile.Done {
		t.Errorf("the key left behind: %s(%s)", d.Decision, d.Reason)
	}
	replays(t, rt.Archive(), agent)
}

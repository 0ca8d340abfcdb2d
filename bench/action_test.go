package bench

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile"

	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// acting is a model whose reply is one action. The tool it calls takes the time from the
// moment at which the last byte of its closing tag was handed over.
type acting struct {
	handed  time.Time
	entered chan time.Duration
	took    []time.Duration // of chatty
}

// Stream implements llm.Model. It hands over the closing bracket when all before it has
// been read and shown, and ends the reply when the tool has been entered.
func (a *acting) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	const action = `<thought>as said</thought><action id="a">{"name":"own.tool","parameters":{"text":"a few words"}}</action>`
	return func(yield func(llm.Chunk, error) bool) {
		if !yield(llm.Chunk{Text: []byte(action[:len(action)-1])}, nil) {
			return
		}
		time.Sleep(200 * time.Microsecond) // as a model's next token takes
		a.handed = time.Now()
		if !yield(llm.Chunk{Text: []byte(action[len(action)-1:])}, nil) {
			return
		}
		a.entered <- <-a.entered // the benchmark has it next
		yield(llm.Chunk{Text: []byte("<response final=\"true\">done</response>"), Finish: messages.FinishComplete}, nil)
	}
}

func (a *acting) tool(class messages.Class) tools.Tool {
	return tools.Tool{
		Name: "own.tool", Class: class, Params: []neuroscript.Param{{Name: "text", Type: "string"}},
		Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
			a.entered <- time.Since(a.handed)
			return neuroscript.Value{}, nil
		},
	}
}

// chatty is a model whose reply is many actions that wait for nothing, each handed over
// but for its last byte, and that byte when the tool of the one before has been entered.
type chatty struct {
	acting
	actions int
}

// Stream implements llm.Model.
func (c *chatty) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for i := range c.actions {
			action := fmt.Sprintf(`<action id="a%d" mode="async">{"name":"own.tool","parameters":{"text":"a few words"}}</action>`, i)
			if !yield(llm.Chunk{Text: []byte(action[:len(action)-1])}, nil) {
				return
			}
			c.handed = time.Now()
			if !yield(llm.Chunk{Text: []byte(action[len(action)-1:])}, nil) {
				return
			}
			c.took = append(c.took, <-c.entered)
		}
		yield(llm.Chunk{Text: []byte("<response final=\"true\">done</response>"), Finish: messages.FinishComplete}, nil)
	}
}

// BenchmarkAction_LastByteToTool is how long it takes from the last byte of </action> to
// the first instruction of the tool, as the median of the metric us-to-tool: beside it a
// value handed to a goroutine that waits for it, and one commit of the durable journal.
// ns/op is the whole turn.
func BenchmarkAction_LastByteToTool(b *testing.B) {
	b.Run("floor=hand-over to a waiting goroutine", func(b *testing.B) {
		to, took := make(chan time.Time), make(chan time.Duration)
		go func() {
			for at := range to {
				took <- time.Since(at)
			}
		}()
		defer close(to)
		var all []time.Duration
		for b.Loop() {
			time.Sleep(200 * time.Microsecond)
			to <- time.Now()
			all = append(all, <-took)
		}
		median(b, all, "us-to-tool")
	})
	for _, kind := range []string{"memory", "sqlite"} {
		for _, class := range []messages.Class{messages.ReadOnly, messages.Effectful} {
			b.Run(fmt.Sprintf("journal=%s/class=%s", kind, class), func(b *testing.B) {
				cfg := stile.Config{InMemory: true}
				if kind == "sqlite" {
					cfg = stile.Config{Dir: b.TempDir()}
				}
				model := &acting{entered: make(chan time.Duration, 1)}
				m := manifest.Default("cortex")
				m.Import.Tools = []string{"own.tool"}
				agent := &stile.Agent{Manifest: m, Model: model, Tools: []tools.Tool{model.tool(class)}}
				rt, s := open(b, cfg, agent, "bench")
				var all []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					if len(all)%64 == 63 { // so that no prompt grows long
						var err error
						if s, err = rt.Open(context.Background(), fmt.Sprint("bench", len(all)), agent); err != nil {
							b.Fatal(err)
						}
					}
					oneTurn(b, s, "go")
					all = append(all, <-model.entered)
				}
				median(b, all, "us-to-tool")
				if kind == "sqlite" {
					median(b, commits(b), "us-commit")
				}
			})
		}
	}
}

// BenchmarkAction_LastByteToTool_Hot is the same in the midst of a reply: action after
// action, with no time between them in which a processor could go to sleep or do
// something else. What the first one of a turn waits for is left out.
func BenchmarkAction_LastByteToTool_Hot(b *testing.B) {
	for _, class := range []messages.Class{messages.ReadOnly, messages.Effectful} {
		b.Run(fmt.Sprintf("journal=memory/load=32 actions a reply/class=%s", class), func(b *testing.B) {
			model := &chatty{acting: acting{entered: make(chan time.Duration, 1)}, actions: 32}
			m := manifest.Default("cortex")
			m.Import.Tools = []string{"own.tool"}
			agent := &stile.Agent{Manifest: m, Model: model, Tools: []tools.Tool{model.tool(class)}}
			rt, _ := open(b, stile.Config{InMemory: true}, agent, "bench")
			var all []time.Duration
			n := 0
			for b.Loop() {
				s, err := rt.Open(context.Background(), fmt.Sprint("bench", n), agent)
				if err != nil {
					b.Fatal(err)
				}
				model.took = model.took[:0]
				oneTurn(b, s, "go")
				all = append(all, model.took[1:]...)
				n++
			}
			median(b, all, "us-to-tool")
		})
	}
}

// commits are the times of commits of what goes in front of an effect, by the store's
// writer alone.
func commits(b *testing.B) (all []time.Duration) {
	b.StopTimer()
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(b.TempDir(), "floor.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	w := groupcommit.New(store, groupcommit.Options{})
	defer w.Close()
	a := newAppender(b, w, "local:local:floor")
	d := blob("x").Digest
	for range 200 {
		time.Sleep(200 * time.Microsecond)
		began := time.Now()
		a.append(b, nil,
			&messages.ModelRequest{Provider: "scripted", Mode: "replay", Prompt: d, Messages: 2},
			&messages.UnitText{UnitKind: messages.ThoughtUnit, Complete: true, Text: "as said", Unit: "1.0"},
			&messages.ActionDeclared{ID: "a", Type: messages.TypeTool, Name: "own.tool", Mode: messages.ModeSync, Args: `{"text":"a few words"}`, ArgsDigest: d, Class: messages.Effectful},
			&messages.ActionStarted{ID: "a", Attempt: 1, Key: "0123456789abcdef0123456789abcdef0123456789a"})
		all = append(all, time.Since(began))
	}
	return all
}

// median reports the one in the middle in microseconds.
func median(b *testing.B, all []time.Duration, name string) {
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2])/float64(time.Microsecond), name)
}

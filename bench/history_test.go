package bench

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// talker calls a tool in the odd turns of a session and answers in the even ones, where
// it has a call; else it answers in each.
type talker struct{ call, answer string }

// Stream implements llm.Model.
func (t talker) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	text := t.answer
	if t.call != "" && req.Turn%2 == 1 {
		text = t.call
	}
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: []byte(text), Finish: messages.FinishComplete}, nil)
	}
}

const (
	historySessions = 32
	historyTurn     = 200 // the later one of a session's turns that are compared
	historyFound    = 1 << 10
)

// historyAnswer is what a run ends with: 600 bytes.
var historyAnswer = strings.Repeat("The report names three causes, of which the second is the likely one. ", 9)[:600]

// talkers are the models of each dialect. A run of two turns has a call whose result is
// 1 KiB; those of plain and aeiou have one turn.
var talkers = map[string]talker{
	"plain":   {answer: historyAnswer},
	"aeiou":   {answer: doneProgram},
	"cortex":  {`<thought>I look.</thought><action id="a">{"name":"own.tool","parameters":{"text":"cause"}}</action>`, "<response>" + historyAnswer + "</response>"},
	"cogency": {`<think>I look.</think><execute>[{"name":"own.tool","args":{"text":"cause"}}]</execute>`, historyAnswer + "<end>"},
	"kitsu":   {"One moment.\n<action:get_time>", historyAnswer},
}

// BenchmarkHistory_Turn200 is what a prompt's history costs: the processor time of a run
// that ends with turn 200 of its session beside that of one that ends with turn 4, in the
// same process, as the metric ratio. Each is the mean of 32 sessions, one run after another; runs
// have two turns and a result of 1 KiB in cortex and cogency, two turns in kitsu, one in
// plain and aeiou; a question has 200 bytes, an answer 600. No window is set.
func BenchmarkHistory_Turn200(b *testing.B) {
	for _, kind := range []string{"memory", "sqlite"} {
		for _, dialect := range []string{"plain", "cogency", "cortex", "kitsu", "aeiou"} {
			b.Run("journal="+kind+"/dialect="+dialect, func(b *testing.B) {
				cfg := stile.Config{InMemory: true}
				if kind == "sqlite" {
					cfg = stile.Config{Dir: b.TempDir()}
				}
				agent := historian(dialect)
				var early, late time.Duration
				for i := range b.N {
					e, l := historyCost(b, cfg, agent, fmt.Sprintf("round%d", i))
					early, late = early+e, late+l
				}
				n := time.Duration(b.N * historySessions)
				b.ReportMetric(float64((early/n).Nanoseconds())/1e3, "early-cpu-us")
				b.ReportMetric(float64((late/n).Nanoseconds())/1e3, "late-cpu-us")
				b.ReportMetric(float64(late)/float64(early), "ratio")
			})
		}
	}
}

func historian(dialect string) *stile.Agent {
	m := manifest.Default(dialect)
	m.Quotas.Tokens = 1 << 40
	a := &stile.Agent{Manifest: m, Model: talkers[dialect]}
	if dialect == "cortex" || dialect == "cogency" {
		m.Import.Tools = []string{"own.tool"}
		found := neuroscript.String(strings.Repeat("f", historyFound))
		a.Tools = []tools.Tool{{
			Name: "own.tool", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "text", Type: "string"}},
			Run: func(context.Context, *tools.Call) (neuroscript.Value, error) { return found, nil },
		}}
	}
	return a
}

// historyCost takes sessions to the turn before the last ones, half of them early in their
// lives, and gives what the runs of these turns cost in all.
func historyCost(b *testing.B, cfg stile.Config, agent *stile.Agent, name string) (early, late time.Duration) {
	each := 1 // turns of a run
	if agent.Model.(talker).call != "" {
		each = 2
	}
	question := strings.Repeat("What does the report say about the causes? ", 5)[:200]
	ctx := context.Background()
	rt, err := stile.New(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close(ctx)
	var young, old [historySessions]*stile.Session
	for i := range old {
		for _, s := range []struct {
			to   **stile.Session
			kind string
			turn int
		}{{&young[i], "young", 4}, {&old[i], "old", historyTurn}} {
			if *s.to, err = rt.Open(ctx, fmt.Sprintf("%s-%s-%02d", name, s.kind, i), agent); err != nil {
				b.Fatal(err)
			}
			for range s.turn/each - 1 {
				oneTurn(b, *s.to, question)
			}
		}
	}
	cost := func(of []*stile.Session) time.Duration {
		runtime.GC()
		cpu := cpuTime()
		for _, s := range of {
			oneTurn(b, s, question)
		}
		return cpuTime() - cpu
	}
	return cost(young[:]), cost(old[:])
}

package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cogency"
)

// A conversation in batches: thoughts, text, four calls side by side, then the answer.
const (
	batchReply = `<think>Four words have to be written in capitals, and they are independent of each other, so one batch does.</think>` +
		`I am looking at all of them. <execute>[{"name":"str.ToUpper","args":{"s":"north"}},{"name":"str.ToUpper","args":{"s":"east"}},` +
		`{"name":"str.ToUpper","args":{"s":"south"}},{"name":"str.ToUpper","args":{"s":"west"}}]</execute>`
	batchAnswer = `<think>All four came back.</think>They are NORTH, EAST, SOUTH and WEST.<end>`
	// batchEvents is what such a run has of docs/spec/cogency.md §3: user, think, respond, four
	// calls, result, think, respond.
	batchEvents = 10
)

// batchAgent asks for the batch, and answers its results.
func batchAgent(b *testing.B) *stile.Agent {
	b.Helper()
	script, err := scripted.Parse("bench.jsonl", fmt.Appendf(nil, `{"match":{"contains":"<results>"},"chunks":[{"text":%q}]}
{"match":{"contains":"capitals."},"chunks":[{"text":%q}]}`, batchAnswer, batchReply))
	if err != nil {
		b.Fatal(err)
	}
	m := manifest.Default("cogency")
	m.Import.Tools = []string{"str.ToUpper"}
	m.Quotas.Tokens = 1 << 40
	m.Memory.HistoryWindow = 12
	return &stile.Agent{Manifest: m, Model: script}
}

// BenchmarkDurableEvents_SQLite_64Sessions runs conversations in batches in 64 sessions
// at once, every event acknowledged after fsync, with a window of 12 messages, in a
// process set up as a host's (host.Tune). Beside it, in the same process, the same
// records appended by 64 sessions that do nothing else: a run of them in one batch, which
// of-store-% compares with, and in the four batches that a run waits for.
func BenchmarkDurableEvents_SQLite_64Sessions(b *testing.B) {
	const sessions = 64
	recs, _ := talk(b, 1)
	bodies := make([]messages.Body, len(recs))
	for i, r := range recs {
		bodies[i] = r.Body
	}
	ceiling := storeTalk(b, "store alone", sessions, bodies)
	paced := storeTalk(b, "store alone, four batches", sessions, inBatches(bodies)...)
	b.Run("conversations", func(b *testing.B) {
		defer tuned()()
		ctx := context.Background()
		rt, err := stile.New(ctx, stile.Config{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		defer rt.Close(ctx)
		agent := batchAgent(b)
		var all [sessions]*stile.Session
		for i := range all {
			if all[i], err = rt.Open(ctx, fmt.Sprintf("events-%02d", i), agent); err != nil {
				b.Fatal(err)
			}
			oneTurn(b, all[i], "Write them in capitals.")
		}
		records := rt.Journal().Records.Load()
		spread(b, sessions, func(i int) { oneTurn(b, all[i], "Write them in capitals.") })
		rate := float64(rt.Journal().Records.Load()-records) / b.Elapsed().Seconds()
		b.ReportMetric(rate, "records/s")
		b.ReportMetric(float64(b.N*batchEvents)/b.Elapsed().Seconds(), "events/s")
		if *ceiling > 0 {
			b.ReportMetric(100*rate / *ceiling, "of-store-%")
		}
		if *paced > 0 {
			b.ReportMetric(100*rate / *paced, "of-four-batches-%")
		}
	})
}

// storeTalk appends the records of a run in so many sessions at once, each batch when the
// one before it is durable, and gives the records a second once it has run.
func storeTalk(b *testing.B, name string, sessions int, batches ...[]messages.Body) (rate *float64) {
	rate = new(float64)
	b.Run(name, func(b *testing.B) {
		defer tuned()()
		all := appenders(b, sessions)
		records := 0
		for _, batch := range batches {
			records += len(batch)
		}
		spread(b, sessions, func(i int) {
			for _, batch := range batches {
				all[i].append(b, nil, batch...)
			}
		})
		*rate = float64(b.N*records) / b.Elapsed().Seconds()
		b.ReportMetric(*rate, "records/s")
	})
	return rate
}

// inBatches cuts a run's records where the engine waits for the disk: after the submit,
// before the calls' effects, before the second turn, at the end.
func inBatches(run []messages.Body) (batches [][]messages.Body) {
	begun := 0
	cut := func(end int) {
		batches = append(batches, run[begun:end])
		begun = end
	}
	for i, body := range run {
		switch body.(type) {
		case *messages.TurnBegin, *messages.RunEnd:
			cut(i + 1)
		case *messages.ModelReply:
			if _, decided := run[i+1].(*messages.TurnDecided); !decided {
				cut(i + 1)
			}
		}
	}
	return batches
}

// spread does b.N pieces of work, each by one of n goroutines.
func spread(b *testing.B, n int, do func(i int)) {
	var left atomic.Int64
	left.Store(int64(b.N))
	cpu := cpuTime()
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				do(i)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/run")
}

// talk returns the records of a conversation of so many runs, and its replies.
func talk(b *testing.B, runs int) (recs []*messages.Record, reply func(messages.Digest) []byte) {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close(ctx)
	s, err := rt.Open(ctx, "talk", batchAgent(b))
	if err != nil {
		b.Fatal(err)
	}
	for range runs {
		oneTurn(b, s, "Write them in capitals.")
	}
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	blobs := map[messages.Digest][]byte{}
	for r, err := range s.Records(ctx) {
		if err != nil {
			b.Fatal(err)
		}
		if m, ok := r.Body.(*messages.ModelReply); ok {
			if blobs[m.Blob], err = s.Blob(ctx, m.Blob); err != nil {
				b.Fatal(err)
			}
		}
		recs = append(recs, r)
	}
	return recs, func(d messages.Digest) []byte { return blobs[d] }
}

// BenchmarkAssemble_Cogency_1000Events rebuilds the context of a session of 100 runs,
// 1,000 events (docs/spec/cogency.md §3), from its records: projection, messages, digest. Beside it
// its floor, which copies the text of the prompt.
func BenchmarkAssemble_Cogency_1000Events(b *testing.B) {
	recs, reply := talk(b, 1000/batchEvents)
	build := func() []messages.Message {
		p := prompt.Project(slices.Values(recs), prompt.Spec{SID: "local:local:talk", Transcript: true, Reply: reply})
		return prompt.Assemble(cogency.Dialect{}, p)
	}
	size := 0
	for _, m := range build() {
		size += len(m.Text)
	}
	b.Run("floor=copy", func(b *testing.B) {
		text := strings.Repeat("x", size)
		b.ReportAllocs()
		for b.Loop() {
			if strings.Clone(text) == "" {
				b.Fatal("empty")
			}
		}
	})
	b.Run("assemble", func(b *testing.B) {
		b.ReportMetric(float64(len(recs)), "records")
		b.ReportAllocs()
		for b.Loop() {
			if ms := build(); len(ms) < 300 || prompt.Digest(ms, messages.Rendering).IsZero() {
				b.Fatal(len(ms))
			}
		}
	})
}

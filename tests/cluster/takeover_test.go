package cluster

import (
	"context"
	"fmt"
	"iter"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/journal/postgres"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// asked says which sessions' models were asked, and never answers them.
type asked chan string

// Stream implements llm.Model.
func (m asked) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m <- req.Session
		<-ctx.Done()
		yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
	}
}

// BenchmarkTakeOver cuts a host off from the database with 500 turns in flight, and measures when
// another one has asked its model in the first, half, and all of these sessions, from the first on:
// it waits for the end of the lease before.
func BenchmarkTakeOver(b *testing.B) {
	const sessions = 500
	for _, perSecond := range []int{50, 1000} {
		b.Run(fmt.Sprint(perSecond), func(b *testing.B) {
			server, ok := postgrestest.Private(b)
			if !ok {
				b.Skip("no PostgreSQL")
			}
			cut := newRelay(b, func() (net.Conn, error) { return net.Dial("unix", server.Socket()) })
			runtime := func(name, url string) (*stile.Runtime, *stile.Agent, asked) {
				store, err := postgres.Open(b.Context(), postgres.Options{URL: url, Schema: "takeover"})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { store.Close() })
				man, model := manifest.Default("plain"), make(asked, 4*sessions)
				man.Name = "talker"
				a := &stile.Agent{Manifest: man, Model: model}
				rt, err := stile.New(b.Context(), stile.Config{
					Dir: b.TempDir(), Store: store, Agents: []*stile.Agent{a}, Boot: stile.Boot{PerSecond: perSecond},
					Cluster: stile.Cluster{Address: name, Secret: secret},
				})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { rt.Close(context.Background()) })
				return rt, a, model
			}
			first, talker, begun := runtime("first", server.Through(cut.address()))
			_, _, goesOn := runtime("second", server.URL())
			for i := range sessions {
				s, err := first.Open(b.Context(), fmt.Sprint("s", i), talker)
				if err == nil {
					_, err = s.Submit(b.Context(), "hello")
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			for range sessions {
				<-begun
			}
			b.ResetTimer()
			cut.cut()
			cutAt, at := time.Now(), map[string]time.Duration{}
			for len(at) < sessions {
				select {
				case s := <-goesOn:
					if _, again := at[s]; !again {
						at[s] = time.Since(cutAt)
					}
				case <-time.After(patience):
					b.Fatalf("%d of %d sessions go on", len(at), sessions)
				}
			}
			b.StopTimer()
			all := slices.Sorted(func(yield func(time.Duration) bool) {
				for _, d := range at {
					if !yield(d) {
						return
					}
				}
			})
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(all[0].Seconds(), "s-to-first")
			b.ReportMetric((all[sessions/2] - all[0]).Seconds(), "s-to-half")
			b.ReportMetric((all[sessions-1] - all[0]).Seconds(), "s-to-all")
			cut.join(true)
		})
	}
}

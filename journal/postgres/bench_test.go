package postgres

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// typical is a body of about 300 bytes.
func typical() messages.Body {
	return &messages.TurnDecided{
		Decision: messages.Continue, Digest: sha256.Sum256([]byte("d")), LatencyMS: 1234,
		Output: sha256.Sum256([]byte("o")), OutputBytes: 512, TurnIndex: 42, KID: "k1",
	}
}

// 64 sessions append durably, each waiting for its acknowledgement before its next
// record, so that up to 64 records share a commit; then one session alone; then
// the floor: the same rows by COPY, 64 a transaction, without heads and fence.
func BenchmarkAppend_Postgres_64Sessions_Batched(b *testing.B) {
	u, ok := postgrestest.URL(b)
	if !ok {
		return
	}
	for _, sessions := range []int{64, 1} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			s := open(b, Options{URL: u, Schema: postgrestest.Schema(b, u)})
			w := groupcommit.New(s, groupcommit.Options{})
			defer w.Close()
			var all []*specimen.Session
			for i := range sessions {
				all = append(all, specimen.Start(b, fmt.Sprintf("local:local:%d", i), i+1))
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i, ses := range all {
				n := b.N / sessions
				if i < b.N%sessions {
					n++
				}
				wg.Go(func() {
					done := make(chan error, 1)
					ack := func(err error) { done <- err }
					for range n {
						w.Append(ses.Batch(typical()), ack)
						if err := <-done; err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			commits := float64(w.Metrics().Commits.Load())
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(commits/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(b.N)/commits, "records/commit")
		})
	}
	b.Run("floor_copy_64_per_commit", func(b *testing.B) {
		s := open(b, Options{URL: u, Schema: postgrestest.Schema(b, u)})
		c := s.w.conn
		ses := specimen.Start(b, "local:local:floor", 1)
		names := []string{"session", "seq", "epoch", "run", "turn", "type", "ts", "salt", "body", "hash"}
		var rows [][]any
		var commits int
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			r := ses.Batch(typical()).Records[0]
			rows = append(rows, []any{n % 64, r.Seq, r.Epoch, r.Run, r.Turn, string(r.Body.Kind()), r.TS.UnixNano(), r.Salt[:], string(r.Raw), r.Hash[:]})
			if len(rows) == 64 {
				if _, err := c.CopyFrom(ctx, pgx.Identifier{"records"}, names, pgx.CopyFromRows(rows)); err != nil {
					b.Fatal(err)
				}
				commits++
				rows = rows[:0]
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		b.ReportMetric(float64(commits)/b.Elapsed().Seconds(), "commits/s")
	})
}

// Commit alone: 64 batches of one record each per transaction.
func BenchmarkCommit_Postgres_64Batches(b *testing.B) {
	u, ok := postgrestest.URL(b)
	if !ok {
		return
	}
	s := open(b, Options{URL: u, Schema: postgrestest.Schema(b, u)})
	var all []*specimen.Session
	for i := range 64 {
		all = append(all, specimen.Start(b, fmt.Sprintf("local:local:%d", i), i+1))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		var batches []journal.Batch
		for _, ses := range all {
			batches = append(batches, ses.Batch(typical()))
		}
		b.StartTimer()
		specimen.Must(b, s, batches...)
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkLoad_Postgres_1000Records(b *testing.B) {
	u, ok := postgrestest.URL(b)
	if !ok {
		return
	}
	s := open(b, Options{URL: u, Schema: postgrestest.Schema(b, u)})
	ses := specimen.Start(b, "local:local:x", 1)
	for range 100 {
		var bodies []messages.Body
		for range 10 {
			bodies = append(bodies, typical())
		}
		specimen.Must(b, s, ses.Batch(bodies...))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 1000 {
			b.Fatal(err)
		}
	}
}

package sqlite

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed14be6753/stile/internal/groupcommit"
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
// the floor, a file that is appended to and synced once per 64 records.
func BenchmarkAppend_SQLite_64Sessions_Batched(b *testing.B) {
	for _, sessions := range []int{64, 1} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			s := open(b, Options{Path: b.TempDir()})
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
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(b.N)/float64(w.Metrics().Commits.Load()), "records/commit")
		})
	}
	b.Run("floor_file_sync_per_64", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		record := make([]byte, 450)
		for n := 0; b.Loop(); n++ {
			if _, err := f.Write(record); err != nil {
				b.Fatal(err)
			}
			if n%64 == 63 {
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	})
}

// Commit alone: 64 batches of one record each per transaction.
func BenchmarkCommit_SQLite_64Batches(b *testing.B) {
	s := open(b, Options{Path: b.TempDir()})
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

func BenchmarkLoad_SQLite_1000Records(b *testing.B) {
	s := open(b, Options{Path: b.TempDir()})
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

// What a subscriber or a prompt reads most: the newest records of a session.
func BenchmarkRead_SQLite_Newest8Of1000(b *testing.B) {
	s := open(b, Options{Path: b.TempDir()})
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
		n := 0
		for _, err := range s.Read(ctx, ses.Inc, 993, 0) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 8 {
			b.Fatal(n)
		}
	}
}

package bench

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/messages"
)

// appender writes the batches of AEIOU turns of one session, made up but of the
// same kinds and sizes, straight to the journal's writer.
type appender struct {
	writer *groupcommit.Writer
	sealer *journal.Sealer
	sid    string
	inc    messages.Incarnation
	run    int64
	token  string
}

func newAppender(b *testing.B, w *groupcommit.Writer, sid string) *appender {
	inc, err := uuid.NewV7()
	if err != nil {
		b.Fatal(err)
	}
	a := &appender{writer: w, sid: sid, inc: inc, token: "<<<NSMAG:V3:LOOP:" + strings.Repeat("a", 390) + ">>>"}
	a.sealer = journal.NewSealer(journal.SealerConfig{
		Head: journal.NewHead(sid, inc), Rand: rand.Reader, Receipts: journal.ReceiptsOff,
	})
	a.append(b, nil, &messages.SessionOpened{Dialect: "aeiou", Incarnation: inc.String()})
	return a
}

// append seals bodies into one batch and waits until it is durable.
func (a *appender) append(b *testing.B, blobs []messages.Blob, bodies ...messages.Body) {
	before := a.sealer.Head().Seq
	recs := make([]*messages.Record, len(bodies))
	for i, body := range bodies {
		recs[i] = &messages.Record{Seq: before + int64(i) + 1, Run: a.run, Turn: a.run, Body: body}
	}
	if err := a.sealer.Seal(recs, time.Now()); err != nil {
		b.Error(err)
		return
	}
	done := make(chan error, 1)
	a.writer.Append(journal.Batch{
		SID: a.sid, Inc: a.inc, ExpectSeq: before, Epoch: a.sealer.Epoch(), Records: recs, Blobs: blobs,
	}, func(err error) { done <- err })
	if err := <-done; err != nil {
		b.Error(err)
	}
}

func blob(s string) messages.Blob {
	return messages.Blob{Digest: sha256.Sum256([]byte(s)), Data: []byte(s)}
}

// turn appends what a run of one turn appends: two batches, nine records.
func (a *appender) turn(b *testing.B) {
	a.run++
	seq := a.sealer.Head().Seq
	nonce := fmt.Sprintf("%022d", a.run)
	reply, out, minted := blob(doneProgram), blob("got 5\n"+a.token+nonce+"\n"), blob(a.token+nonce+"\n")
	d := reply.Digest
	a.append(b, nil,
		&messages.Input{Policy: messages.Enqueue, User: "local", Userdata: `{"subject":"message","fields":{"text":"hello"}}`},
		&messages.RunBegin{Input: seq + 1},
		&messages.TurnBegin{Dialect: "aeiou", Nonce: nonce, Pass: 1, Manifest: d, Limits: d, Tools: d})
	a.append(b, []messages.Blob{reply, out, minted},
		&messages.ModelRequest{Provider: "scripted", Mode: "replay", Prompt: d, Messages: 2, Matched: true},
		&messages.ModelReply{Blob: d, Length: int64(len(reply.Data)), Finish: messages.FinishComplete},
		&messages.Emit{Text: "got 5"},
		&messages.Emit{Text: a.token, Candidate: true},
		&messages.TurnDecided{
			Decision: messages.Done, Digest: d, GasUsed: 80, JTI: uuid.Nil.String(), KID: "tok-20261121-000000",
			Minted: minted.Digest, Output: out.Digest, OutputBytes: int64(len(out.Data)), TurnIndex: a.run,
		},
		&messages.RunEnd{Decision: messages.Done, Turns: 1})
}

// appenders are so many sessions that write to one store on disk.
func appenders(b *testing.B, sessions int) []*appender {
	store, err := sqlite.Open(sqlite.Options{Path: b.TempDir() + "/journal.db"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	w := groupcommit.New(store, groupcommit.Options{})
	b.Cleanup(w.Close)
	all := make([]*appender, sessions)
	for i := range all {
		all[i] = newAppender(b, w, fmt.Sprintf("local:local:store-%02d", i))
	}
	return all
}

// storeAlone is the ceiling of durable turns: 64 sessions that do nothing but
// append, with the same group commit.
func storeAlone(b *testing.B, sessions int) {
	defer tuned()()
	all := appenders(b, sessions)
	cpu := cpuTime()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				a.turn(b)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/turn")
}

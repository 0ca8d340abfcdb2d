package tests

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// neverTheSame is a model that says something else each time it is asked, slowly.
func neverTheSame() model {
	var mu sync.Mutex
	asked := 0
	return func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
		mu.Lock()
		asked++
		n := asked
		mu.Unlock()
		return func(yield func(llm.Chunk, error) bool) {
			for i := range 8 {
				if err := sleep(ctx, 100*time.Millisecond); err != nil {
					yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
					return
				}
				c := llm.Chunk{Text: fmt.Appendf(nil, "%d.%d é ", n, i)}
				if i == 7 {
					c.Finish = messages.FinishComplete
				}
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

// What a child says is shown, and quoted, by its parent before it is durable. Then the child's
// session breaks at one of its commits, or the whole host dies at one of any session's, and the
// child says something else. A reader of the parent, who goes on from where he was, is told what
// does not count any more; the end has what the child's journal has, and so has the response
// that quotes it.
func TestStreamedChildBreaks(t *testing.T) {
	for _, all := range []bool{false, true} {
		took, broke := 0, true
		for n := 1; broke; n++ {
			if n > 60 {
				t.Fatalf("host %v: it breaks without end", all)
			}
			t.Run(fmt.Sprintf("host %v/%d", all, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var taken int
					if taken, broke = breaksAt(t, all, n); taken > 0 {
						took++
					}
				})
			})
		}
		if took < 2 {
			t.Errorf("host %v: text was taken back in %d of the worlds", all, took)
		}
	}
}

// breaksAt breaks the child of a streamed action, or the host, at commit n. It returns how often a
// reader was told to take back text of the result, and whether there was such a commit.
func breaksAt(t *testing.T, all bool, n int) (taken int, broke bool) {
	keys, err := stile.GenerateKeys(stile.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	commits, dead := 0, make(chan struct{})
	sound := memory.New()
	l := &life{t: t, cfg: stile.Config{Keys: keys, Store: &refusing{sound, func(b *journal.Batch) bool {
		mu.Lock()
		defer mu.Unlock()
		if !all && b.SID == "local:local:stream" {
			return false
		}
		commits++
		if commits == n {
			close(dead)
		}
		return commits == n || all && commits > n
	}}}}
	says := neverTheSame()
	agent := func() *stile.Agent {
		w := worker("w", "plain")
		w.Model = says
		reply := `<action id="a" type="agent" mode="async">{"name":"w","stream":true,"parameters":{"message":"go"}}</action><response final="true">So: ${a.partial}!</response>`
		a := boss(scripted.New(reply, reply), w) // the turn that a crash has lost is followed by another
		a.Manifest.Extensions = []string{"stream"}
		return a
	}
	seen := newScreen(t)
	var at stile.Position
	watch := func(ctx context.Context, r *stile.Run) {
		for u, err := range r.Resume(ctx, at) {
			if err != nil {
				return // the process is dead
			}
			seen.update(u)
			at = u.At
		}
	}
	first, cut := context.WithCancel(t.Context())
	defer cut()
	go func() {
		select {
		case <-dead:
			if all && sleep(first, 300*time.Millisecond) == nil { // a dead host says nothing
				cut()
			}
		case <-first.Done():
		}
	}()
	rt := l.begin()
	s, err := rt.Open(first, "stream", agent())
	if err == nil {
		var run *stile.Run
		if run, err = s.Submit(first, "go"); err == nil {
			watch(first, run)
		}
	}
	select {
	case <-dead:
		broke = true
	default:
	}
	if all && broke { // the next process
		l.end()
		l.cfg.Store = sound
		rt = l.begin()
		s = open(t, rt, "stream", agent())
		if len(bodies[*messages.Input](records(t, s))) == 0 { // it was not accepted
			submit(t, s, "go")
		}
		watch(t.Context(), s.Run(1))
	} else if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	wantDone(t, decision(t, s.Run(1)))
	recs := records(t, s)
	var result string
	for _, b := range bodies[*messages.ActionEnded](recs) {
		if b.ID == "a" && b.State == messages.ActionOK {
			result = plan.StreamedText(b.Result)
		}
	}
	var child string // of the last turn
	for _, b := range bodies[*messages.ActionStarted](recs) {
		child = b.Child
	}
	heard, err := rt.Find(t.Context(), child)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, b := range bodies[*messages.UnitText](records(t, heard)) {
		if b.UnitKind == messages.ResponseUnit {
			told = append(told, b.Text)
		}
	}
	if text := strings.Join(told, "\n\n"); result == "" || text != result { // turns that were cut off, too
		t.Errorf("the result is %q, the child's journal has %q", result, text)
	}
	units := bodies[*messages.UnitText](recs)
	if got := units[len(units)-1]; got.Text != "So: "+result+"!" || !got.Complete {
		t.Errorf("the response is %+v", got)
	}
	var last messages.UnitID // the first turn may be lost
	for id := range seen.units {
		if id.Turn > last.Turn {
			last = id
		}
	}
	if shown := seen.units[last]; shown != "So: "+result+"!" {
		t.Errorf("the reader has %q", shown)
	}
	replays(t, rt, agent())
	return seen.taken, broke
}

package reply

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/history"
	"github.com/seed14be6753/stile/internal/intake"
	"github.com/seed14be6753/stile/internal/retry"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/plain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inbox keeps the posts of a reply, each with what was in it.
type inbox struct {
	mu     sync.Mutex
	posts  [][]turn.Input
	inline int
}

func (b *inbox) Post(in ...turn.Input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.posts = append(b.posts, append([]turn.Input(nil), in...))
}
func (b *inbox) Offer(in ...turn.Input) { b.Post(in...) }
func (b *inbox) Inline()                { b.inline++ }

// all are the inputs of every post.
func (b *inbox) all() (all []turn.Input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.posts {
		all = append(all, p...)
	}
	return all
}

func (b *inbox) bytes() string {
	var s strings.Builder
	for _, in := range b.all() {
		if d, ok := in.(*turn.Decoded); ok {
			s.Write(d.Bytes)
		}
	}
	return s.String()
}

func (b *inbox) end(t *testing.T) *turn.ReplyEnd {
	t.Helper()
	all := b.all()
	if len(all) == 0 {
		t.Fatal("nothing was posted")
	}
	end, ok := all[len(all)-1].(*turn.ReplyEnd)
	if !ok {
		t.Fatalf("the last input is %T", all[len(all)-1])
	}
	return end
}

// model plays what a function yields.
type model func(ctx context.Context, req llm.Request, yield func(llm.Chunk, error) bool)

func (m model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { m(ctx, req, yield) }
}

func says(words ...string) model {
	return func(_ context.Context, _ llm.Request, yield func(llm.Chunk, error) bool) {
		for _, w := range words {
			if !yield(llm.Chunk{Text: []byte(w)}, nil) {
				return
			}
		}
		yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
	}
}

func fails(f llm.Failure, words ...string) model {
	return func(_ context.Context, _ llm.Request, yield func(llm.Chunk, error) bool) {
		for _, w := range words {
			yield(llm.Chunk{Text: []byte(w)}, nil)
		}
		yield(llm.Chunk{}, llm.Fail(f, "no"))
	}
}

// begin makes a reply to the first prompt of a session. change may change its agent.
func begin(t *testing.T, change func(*compiled.Agent), models ...llm.Model) (*Reply, *inbox) {
	t.Helper()
	store, at := memory.New(), specimen.Start(t, "t:u:s", 1)
	specimen.Must(t, store, at.Batch(&messages.SessionOpened{}, &messages.Input{Text: "go"}, &messages.RunBegin{Input: 2}, &messages.TurnBegin{Pass: 1}))
	a := &compiled.Agent{Dialect: plain.Dialect{}, Rules: &turn.Rules{Rendering: messages.Rendering}, Retry: retry.Policy{Attempts: 2, Base: time.Second}}
	for _, m := range models {
		a.Routes = append(a.Routes, compiled.Route{Provider: "p", Model: "m", Port: m})
	}
	if change != nil {
		change(a)
	}
	kept := history.New(store, time.Now)
	b, r := &inbox{}, &Reply{}
	r.Begin(t.Context(), &Env{Now: time.Now, LimitReached: func(string, int) {}, ModelAsked: func(string, int64) {}, ModelCalled: func(telemetry.ModelCall) {}, Systems: &kept.Systems}, b, history.Reader{
		Store: store, Agent: a, SID: at.SID, Inc: at.Inc, Durable: at.Sealer.Head(), Share: intake.New(-1, nil, nil).Begin(),
		Open: &turn.OpenModel{Ident: turn.Ident{Turn: 1, Nonce: "n"}, Run: 1, Pass: 1},
	})
	return r, b
}

func run(r *Reply) {
	r.Run()
	r.Hurry()
}

// The bytes come as they were, text at once, and what the session does not wait for with it.
func TestReply(t *testing.T) {
	r, b := begin(t, nil, says("hel", "lo", ""))
	run(r)
	if b.bytes() != "hello" || b.inline != 2 {
		t.Errorf("%q, offered %d times", b.bytes(), b.inline)
	}
	opened, ok := b.posts[0][0].(*turn.ModelOpened)
	if !ok || len(b.posts[0]) != 2 || opened.Request.Provider != "p" || opened.Request.Messages != 1 {
		t.Errorf("the first post is %+v", b.posts[0])
	}
	end := b.end(t)
	if end.Finish != messages.FinishComplete || end.Err != "" || end.Ident != (turn.Ident{Turn: 1, Nonce: "n"}) {
		t.Errorf("%+v", end)
	}
	if want := (messages.Usage{Input: 1, Output: 2, Estimated: true}); end.Usage != want {
		t.Errorf("usage %+v, want %+v", end.Usage, want)
	}
}

// Routes are asked in turn as the policy says, and what failed attempts cost is counted.
func TestRoutes(t *testing.T) {
	usage := messages.Usage{Input: 5, Output: 7}
	paid := func(_ context.Context, _ llm.Request, yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Usage: usage, CostMicroUSD: 3}, nil)
		yield(llm.Chunk{}, llm.Fail(llm.Failure{Retryable: true}, "busy"))
	}
	for _, tt := range []struct {
		name     string
		models   []llm.Model
		requests int
		switches int
		finish   messages.Finish
		cost     int64
	}{
		{"at once", []llm.Model{says("x")}, 1, 0, messages.FinishComplete, 0},
		{"again", []llm.Model{model(paid)}, 2, 0, messages.FinishError, 6},
		{"fallback", []llm.Model{model(paid), says("x")}, 3, 1, messages.FinishComplete, 6},
		{"no retry", []llm.Model{fails(llm.Failure{Kind: llm.KindAuth}), says("x")}, 2, 1, messages.FinishComplete, 0},
		{"all fail", []llm.Model{fails(llm.Failure{Kind: llm.KindAuth}), fails(llm.Failure{Kind: llm.KindAuth})}, 2, 1, messages.FinishError, 0},
		{"no finish", []llm.Model{model(func(context.Context, llm.Request, func(llm.Chunk, error) bool) {})}, 1, 0, messages.FinishError, 0},
		{"in the middle", []llm.Model{fails(llm.Failure{Retryable: true}, "ha"), says("x")}, 1, 0, messages.FinishError, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, b := begin(t, nil, tt.models...)
			run(r)
			requests, switches := 0, 0
			for _, in := range b.all() {
				switch in.(type) {
				case *turn.ModelOpened:
					requests++
				case *turn.ModelSwitched:
					switches++
				}
			}
			end := b.end(t)
			if requests != tt.requests || switches != tt.switches || end.Finish != tt.finish || end.CostMicroUSD != tt.cost {
				t.Errorf("%s: %d requests, %d switches, %+v", tt.name, requests, switches, end)
			}
		})
	}
}

// A cancel ends a reply that reads, waits for its next attempt, or is held.
func TestCancel(t *testing.T) {
	why := errors.New("not wanted")
	waits := model(func(ctx context.Context, _ llm.Request, yield func(llm.Chunk, error) bool) {
		<-ctx.Done()
		yield(llm.Chunk{}, context.Cause(ctx))
	})
	for name, m := range map[string]llm.Model{"reads": waits, "waits": fails(llm.Failure{Retryable: true}), "held": says("a", "b", "c")} {
		synctest.Test(t, func(t *testing.T) {
			r, b := begin(t, nil, m)
			r.Hold(name == "held")
			go run(r)
			synctest.Wait()
			r.Cancel(why)
			synctest.Wait()
			if end := b.end(t); name != "held" && (end.Finish != messages.FinishCancelled || end.Err != "" || end.Code != "") {
				t.Errorf("%s: %+v", name, end)
			}
		})
	}
}

// While the session holds the stream back, no more than one chunk is read.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := begin(t, nil, says("a", "b", "c"))
		r.Hold(true)
		go run(r)
		time.Sleep(time.Minute)
		if b.bytes() != "a" {
			t.Errorf("%q was read", b.bytes())
		}
		r.Hold(false)
		synctest.Wait()
		if b.bytes() != "abc" {
			t.Errorf("%q was read", b.bytes())
		}
		b.end(t)
	})
}

// The end goes out although nothing hurries it; the model's code may block meanwhile.
func TestEndIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r, b := begin(t, nil, model(func(_ context.Context, _ llm.Request, yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{Text: []byte("x")}, nil)
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
			<-hold
		}))
		go run(r)
		time.Sleep(holdBack)
		synctest.Wait()
		b.end(t)
		close(hold)
	})
}

// In strict durability texts that come together are one post, each byte once and in order.
func TestStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words := make([]string, 256)
		for i := range words {
			words[i] = string(rune('a'+i%26)) + strings.Repeat(".", 15)
		}
		r, b := begin(t, func(a *compiled.Agent) { a.Rules.Durability = turn.Strict }, says(words...))
		run(r)
		if b.bytes() != strings.Join(words, "") {
			t.Error("other bytes")
		}
		if len(b.posts) > 3 {
			t.Errorf("%d posts", len(b.posts))
		}
	})
}

// A session whose journal cannot be read asks no model.
func TestPromptFails(t *testing.T) {
	r, b := begin(t, nil, says("x"))
	r.Prompt.Durable = journal.Anchor{Seq: 3, Hash: [32]byte{1}}
	run(r)
	if end := b.end(t); end.Finish != messages.FinishError || end.Code != messages.ErrJournal || len(b.all()) != 1 {
		t.Errorf("%+v of %d inputs", end, len(b.all()))
	}
}

// A byte beyond the budget of the process is not read.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := begin(t, nil, says("short", strings.Repeat("x", maxPiece)))
		in := intake.New(1<<20, func() int64 { return 1 << 20 }, func() int64 { return 0 }) // the journal is far behind
		r.Prompt.Share = in.Begin()
		go run(r)
		synctest.Wait()
		if b.bytes() != "short" {
			t.Errorf("%d bytes were read", len(b.bytes()))
		}
		r.Cancel(errors.New("over"))
		synctest.Wait()
		if end := b.end(t); end.Finish != messages.FinishCancelled {
			t.Errorf("%+v", end)
		}
	})
}

// away is a journal whose server is away for some reads.
type away struct {
	journal.Store
	reads int
}

// Read implements journal.Store.
func (s *away) Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	if s.reads--; s.reads >= 0 {
		return func(yield func(*messages.Record, error) bool) {
			yield(nil, journal.Fail(journal.ReasonUnavailable, nil, "the server restarts"))
		}
	}
	return s.Store.Read(ctx, inc, from, to)
}

// A prompt waits for a journal whose server is away for a moment, and for no other failure.
func TestPromptWaits(t *testing.T) {
	for reads, code := range map[int]messages.Code{3: "", awayTries - 1: "", awayTries: messages.ErrJournal} {
		synctest.Test(t, func(t *testing.T) {
			r, b := begin(t, nil, says("x"))
			r.Prompt.Store = &away{r.Prompt.Store, reads}
			began := time.Now()
			run(r)
			if end := b.end(t); end.Code != code {
				t.Errorf("away for %d reads: %+v", reads, end)
			}
			if took := time.Since(began); took < time.Duration(reads-1)*awayPause || took > time.Duration(reads+5)*awayPause {
				t.Errorf("away for %d reads it takes %v", reads, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r, b := begin(t, nil, says("x"))
		r.Prompt.Store = &away{r.Prompt.Store, 1 << 30}
		go func() {
			time.Sleep(10 * awayPause)
			r.Cancel(errors.New("over"))
		}()
		began := time.Now()
		run(r)
		if took := time.Since(began); took != 10*awayPause || len(b.all()) == 0 {
			t.Errorf("a reply that is cancelled waits for %v", took)
		}
	})
}

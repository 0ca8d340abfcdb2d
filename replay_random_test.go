package stile_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// The sessions of this test do everything that ends up in a journal, at random: the
// model streams, stalls, fails and babbles, programs call tools of every class and
// temper, users submit and cancel at any moment, clocks run out, the host dies. What
// was written must come out of a replay again, hash by hash.

const randomSeeds = 60

func TestReplayRandom(t *testing.T) {
	first := uint64(time.Now().UnixNano())
	seen := map[string]int{}
	var records, programs, taken int64
	for i := range uint64(randomSeeds) {
		seed := i
		if i%3 == 2 {
			seed = first + i
		}
		synctest.Test(t, func(t *testing.T) {
			w := randomSession(t, seed)
			ar := w.archive(t)
			r, p, k := replays(t, ar, w.agent)
			records, programs, taken = records+r, programs+p, taken+k
			w.count(t, ar, seen)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("seeds 0… and %d…: %d records, %d programs to their end, %d stopped; %v", first, records, programs, taken, seen)
	for _, want := range []string{
		"ERR_CANCELLED", "ERR_TIMEOUT", "ERR_QUOTA", "ERR_CRASH", "ERR_MODEL", "ERR_ACTIONS_RUNTIME", "ERR_ACTIONS_PARSE", "ERR_MAGIC_TOOL_INTERNAL",
		"ERR_TOKEN_MISSING", "DONE", "ABORT", "CONTINUE", "resumed", "withdrawn", "model.chunk", "model.fallback", "audit", "unknown",
		"denied", "hook", "panic", "program_wall", "generation_wall", "turn_wall", "run_wall", "fork", "replayed token", "MAGIC", "interleaved",
		"turn.suspended", "restored after approval", "restored after crash",
	} {
		if seen[want] == 0 {
			t.Errorf("no session had %s", want)
		}
	}
}

// world is one random session and what it lives in.
type world struct {
	rnd   *rand.Rand
	seed  uint64
	store *memory.Store
	keys  *keyring.Ring
	agent *stile.Agent
	aeiou bool
	calls atomic.Int64
	idle  time.Duration // of the life at hand
}

func (w *world) archive(t testing.TB) *stile.Archive {
	return start(t, stile.Config{Store: w.store, Keys: w.keys}).Archive()
}

func (w *world) pick(of ...int) int        { return of[w.rnd.IntN(len(of))] }
func (w *world) in(n int) bool             { return w.rnd.IntN(n) == 0 }
func (w *world) ms(most int) time.Duration { return time.Duration(w.rnd.IntN(most)) * time.Millisecond }

func randomSession(t *testing.T, seed uint64) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 9)), seed: seed, store: memory.New()}
	w.aeiou = !w.in(4)
	w.keys = w.ring(t)
	w.agent = w.newAgent()
	ctx := context.Background()
	for life := range 1 + w.rnd.IntN(4) {
		rt, err := stile.New(ctx, w.config(time.Duration(w.pick(-1, 1, 400))*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				head, _ := rt.Archive().Head(ctx, "s")
				dump(t, rt.Archive(), head.Inc)
			}
			closed(t, rt) // once more, for a test that failed
		})
		s := w.opened(t, rt, "s")
		var runs []*stile.Run
		for range 1 + w.rnd.IntN(6) {
			switch n := w.rnd.IntN(10); {
			case n < 6:
				opts := []stile.SubmitOption{stile.Policy(messages.Enqueue), stile.User("u")}
				if w.in(3) {
					opts = append(opts, stile.IdempotencyKey(fmt.Sprint("k", w.rnd.IntN(3))))
				}
				if r, err := s.Submit(ctx, fmt.Sprint("say ", w.rnd.IntN(100)), opts...); err == nil {
					runs = append(runs, r)
				}
			case n < 8 && len(runs) > 0:
				// Any of the runs: one that has ended refuses.
				_ = runs[w.rnd.IntN(len(runs))].Cancel(ctx, []string{"", "Ada", "cancelled by "}[w.rnd.IntN(3)])
			default:
				_, _ = s.Submit(ctx, "busy?", stile.Policy(messages.Reject))
			}
			time.Sleep(w.ms(w.pick(1, 3, 30, 700)))
		}
		if life == 0 || !w.in(3) {
			for _, r := range runs {
				decided(t, r)
			}
			if w.in(2) {
				w.fork(t, rt)
			}
		} else if w.in(2) { // the host dies in the middle, with all it had on disk
			_ = s.Flush(ctx)
		}
		closed(t, rt)
	}
	// Whatever a dead host left is settled and goes to its end.
	rt, err := stile.New(ctx, w.config(0))
	if err != nil {
		t.Fatal(err)
	}
	for head, err := range rt.Archive().Sessions(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		s := w.opened(t, rt, head.SID)
		decided(t, submitted(t, s, "the end"))
		if err := s.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, rt)
	return w
}

// opened opens a session, and answers its approvals: yes, no, or never.
func (w *world) opened(t testing.TB, rt *stile.Runtime, name string) *stile.Session {
	s := opened(t, rt, name, w.agent)
	patient := w.idle <= 0 // a day of a host that looks for idle sessions all the time takes long
	answers := rand.New(rand.NewPCG(w.seed, uint64(w.rnd.IntN(1000))))
	ctx := context.Background()
	answer := func() {
		list, err := s.Approvals(ctx)
		for _, a := range list {
			switch n := answers.IntN(20); {
			case n < 10:
				_ = s.Approve(ctx, a, "Ada") // the run may be over by now
			case n < 19 || !patient:
				_ = s.Deny(ctx, a, "Grace", []string{"", "not now"}[answers.IntN(2)])
			}
		}
		if err != nil && messages.CodeOf(err) == "" {
			t.Errorf("approvals: %v", err)
		}
	}
	answer()
	go func() {
		from := int64(0)
		for r, err := range s.Records(ctx) {
			if err != nil {
				return
			}
			from = r.Seq
		}
		for u, err := range s.Events(ctx, from) {
			if err != nil {
				return // the runtime has closed
			}
			if u.Record != nil && u.Record.Body.Kind() == messages.KindTurnSuspended {
				time.Sleep(time.Duration(answers.IntN(30)) * time.Millisecond)
				answer()
			}
		}
	}()
	return s
}

func (w *world) config(idle time.Duration) stile.Config {
	w.idle = idle
	return stile.Config{Store: w.store, Keys: w.keys, IdleTimeout: idle, Models: map[string]llm.Model{"a": w, "b": w}}
}

func (w *world) fork(t testing.TB, rt *stile.Runtime) {
	ctx := context.Background()
	from := "s"
	for _, to := range []string{"f", "g"} {
		head, err := rt.Archive().Head(ctx, from)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(w.rnd.IntN(int(head.Turn) + 1))
		if _, err := rt.Fork(ctx, from, at, to); err != nil {
			continue // exists already, or no decision there
		}
		s := w.opened(t, rt, to)
		r := submitted(t, s, "go on")
		decided(t, r)
		from = to
	}
}

// ring gives keys that work, of which only the fallback does, or of which none does.
func (w *world) ring(t testing.TB) *keyring.Ring {
	ring, err := stile.GenerateKeys(stile.Config{})
	if err != nil {
		t.Fatal(err)
	}
	down := func(abortOnly bool) {
		kid := fmt.Sprint("down-", abortOnly)
		k, err := keyring.NewExternal(keyring.Attributes{KID: kid, Purpose: keyring.Token, AbortOnly: abortOnly, NotBefore: time.Now().Unix()},
			ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey), broken(kid))
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(k, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	switch w.rnd.IntN(8) {
	case 0:
		down(false)
	case 1:
		down(false)
		down(true)
	}
	return ring
}

type broken string

func (b broken) KID() string               { return string(b) }
func (broken) Sign([]byte) ([]byte, error) { return nil, errors.New("the signer is down") }

func (w *world) newAgent() *stile.Agent {
	m := manifest.Default("plain")
	if w.aeiou {
		m = manifest.Default("aeiou")
	}
	m.Name = "random"
	m.Model.Provider = "a"
	m.Model.Fallback = []manifest.Fallback{{Provider: "b", Model: "small/er"}}
	m.Loop.OnPanic = []string{messages.PanicHalt, messages.PanicFail}[w.rnd.IntN(2)]
	if w.in(5) {
		m.Loop.Recovery = messages.RecoverHalt
	}
	m.Loop.MaxTurns = int64(w.pick(0, 1, 5))
	m.Stream.Durability = []manifest.Durability{manifest.DurabilityStrict, manifest.DurabilityCheckpoint, manifest.DurabilityUnit}[w.rnd.IntN(3)]
	wall := func(of ...int) time.Duration { return time.Duration(w.pick(of...)) * time.Millisecond }
	m.Quotas.ProgramWall, m.Quotas.GenerationWall = wall(20, 30000, 30000), wall(250, 300000, 300000)
	m.Quotas.TurnWall, m.Quotas.RunWall = wall(400, 900000, 900000), wall(900, 3600000, 3600000)
	m.Quotas.Gas = int64(w.pick(20_000, 100_000))
	m.Quotas.Actions = int64(w.pick(4, 40, 40))
	m.Quotas.Tokens = int64(w.pick(60, 200_000, 200_000))
	m.Approval.Tools = map[string]messages.GateAnswer{"t.denied": messages.GateDeny, "t.read": messages.GateApprove, "t.dear": messages.GateConfirm}
	if w.in(6) {
		m.Approval.Default = messages.GateDeny
	}
	own := w.tools()
	for _, t := range own {
		m.Import.Tools = append(m.Import.Tools, t.Name)
	}
	return &stile.Agent{Manifest: m, Tools: own, Gate: func(q tools.Request) (messages.GateAnswer, string, bool) {
		switch q.Tool {
		case "t.hooked":
			return messages.GateDeny, "not today", true
		case "t.asked":
			return messages.GateConfirm, "may I?", true
		}
		return messages.GateApprove, "fine", q.Tool == "t.keyed"
	}}
}

// tools are of every class and temper.
func (w *world) tools() []tools.Tool {
	tool := func(name string, class messages.Class, run func(context.Context, *tools.Call) (neuroscript.Value, error)) tools.Tool {
		return tools.Tool{Name: "t." + name, Class: class, Run: func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			w.calls.Add(1)
			return run(ctx, c)
		}}
	}
	value := func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return neuroscript.String("a value"), nil
	}
	wait := func(d time.Duration, heed bool) func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			if !heed {
				time.Sleep(d)
				return neuroscript.Value{}, nil
			}
			select {
			case <-time.After(d):
				return neuroscript.Number(7), nil
			case <-ctx.Done():
				return neuroscript.Value{}, ctx.Err()
			}
		}
	}
	stuck := tools.Tool{Name: "t.stuck", Class: messages.Pure, Pure: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
		time.Sleep(time.Second) // a pure tool that does not poll: its program cannot be stopped in time
		return neuroscript.Value{}, nil
	}}
	panics := func(context.Context, *tools.Call) (neuroscript.Value, error) { panic("a bug") }
	return []tools.Tool{
		stuck,
		tool("read", messages.ReadOnly, value), tool("write", messages.Effectful, value), tool("keyed", messages.Keyed, value),
		tool("slow", messages.ReadOnly, wait(50*time.Millisecond, true)), tool("effect", messages.Effectful, wait(60*time.Millisecond, true)),
		tool("deaf", messages.Effectful, wait(5*time.Second, false)), tool("deafread", messages.ReadOnly, wait(3*time.Second, false)),
		tool("fail", messages.Idempotent, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			return neuroscript.Value{}, neuroscript.Errorf(1234, "it does not work")
		}),
		tool("panic", messages.Effectful, panics), tool("panicread", messages.ReadOnly, panics),
		tool("asked", messages.Effectful, value), tool("dear", messages.ReadOnly, wait(20*time.Millisecond, true)),
		tool("denied", messages.Effectful, value), tool("hooked", messages.ReadOnly, value),
		tool("audited", messages.ReadOnly, func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			c.Audit(messages.Audit{Who: "u", What: "x", Allowed: true})
			c.Audit(messages.Audit{Who: "u", What: "y", Text: "no"})
			return neuroscript.Value{}, errors.New("refused")
		}),
	}
}

// Stream implements llm.Model. What it says follows from the seed and the request's
// ordinal, so that a restart does not change it; that is not needed for a replay,
// but a seed then says more.
func (w *world) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	r := rand.New(rand.NewPCG(w.seed, uint64(req.Ordinal)<<8|uint64(len(req.Session))))
	return func(yield func(llm.Chunk, error) bool) {
		pause := func(most int) bool {
			d := time.Duration(r.IntN(most)) * time.Millisecond
			if d == 0 {
				return true // as in membership's table of hosts: no timer in a bubble that is over at once
			}
			select {
			case <-time.After(d):
				return true
			case <-ctx.Done():
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
				return false
			}
		}
		fate := r.IntN(40)
		switch fate {
		case 0, 1:
			yield(llm.Chunk{}, llm.Fail(llm.Failure{Status: 503, Retryable: r.IntN(2) == 0}, "busy"))
			return
		case 2:
			panic("the model's adapter has a bug")
		}
		text := w.reply(r)
		finish := messages.FinishComplete
		switch fate {
		case 3:
			finish = messages.FinishLength
		case 4:
			finish = messages.FinishStop
		case 5:
			finish = messages.FinishCancelled
		}
		for at := 0; at < len(text); {
			n := min(len(text)-at, []int{1, 7, 60, 900, 9000}[r.IntN(5)])
			if !pause([]int{1, 2, 40, 150}[r.IntN(4)]) {
				return
			}
			c := llm.Chunk{Text: []byte(text[at : at+n])}
			if r.IntN(2) == 0 { // some models tell what it costs as they go
				c.Usage = messages.Usage{Input: int64(r.IntN(20)), Output: int64(at + n), CacheRead: int64(r.IntN(3)), Estimated: true}
				c.CostMicroUSD, c.Unpriced = int64(r.IntN(5)), r.IntN(3) == 0
			}
			if !yield(c, nil) {
				return
			}
			at += n
			if fate == 6 {
				yield(llm.Chunk{}, llm.Fail(llm.Failure{Code: "reset"}, "it broke off"))
				return
			}
			if fate == 7 {
				<-ctx.Done()
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
				return
			}
		}
		yield(llm.Chunk{Finish: finish, Usage: messages.Usage{Input: int64(r.IntN(20)), Output: int64(r.IntN(20))}, CostMicroUSD: int64(r.IntN(5))}, nil)
	}
}

func (w *world) reply(r *rand.Rand) string {
	if !w.aeiou {
		return strings.Repeat("some words \xff ", 1+r.IntN([]int{3, 900}[r.IntN(2)]))
	}
	var b strings.Builder
	switch r.IntN(14) {
	case 0:
		return "I would rather talk." // does not parse
	case 1:
		return "<<<NSENV:V3:START>>>\n<<<NSENV:V3:ACTIONS>>>\n"
	case 2:
		b.WriteString("# " + strings.Repeat("a long comment ", 600) + "\n")
	}
	lines := []string{
		`emit "a line"`, `emit "another line"`, `whisper self, "a note"`,
		"for each i in [1,2,3]\n emit \"line \" + i\nendfor",
		`set x = tool.t.read()`, `set x = tool.t.write()`, `set x = tool.t.keyed()`, `set x = tool.t.slow()`, `set x = tool.t.effect()`,
		`set x = tool.t.deaf()`, `set x = tool.t.deafread()`, `set x = tool.t.fail()`, `set x = tool.t.panic()`, `set x = tool.t.panicread()`,
		`set x = tool.t.denied()`, `set x = tool.t.hooked()`, `set x = tool.t.audited()`, `set x = tool.str.ToUpper("up")` + "\nemit x",
		`emit tool.aeiou.magic("LOOP", {"action": "continue"})`, `emit tool.aeiou.magic("LOOP", {"action": "done"}, {"ttl": 60})`,
		`emit tool.aeiou.magic("LOOP", {"action": "abort", "request": {"why": "so"}})`, `set tok = tool.aeiou.magic("LOOP", {"action": "done"})`,
		`set a = tool.aeiou.magic("LOOP", {"action": "continue", "telemetry": {"n": 1.0}})` + "\nemit a\nemit a\nemit \"x\" + a",
		`set y = tool.aeiou.magic("POOL", {"action": "done"})`, `set y = tool.aeiou.magic("LOOP", {"action": "go"})`,
		`set y = tool.aeiou.magic("LOOP", {"action": "done"}, {"ttl": 9999})`, `set y = tool.aeiou.magic("LOOP", {"action": "done"}, {"tll": 1})`,
		`set y = tool.aeiou.magic("LOOP", {"action": "done", "request": {"text": "` + strings.Repeat("long ", 150+r.IntN(5)) + `"}})`,
		"emit \"before\"\nset x = tool.t.stuck()\nemit \"after\"", "emit \"once more\"\nset x = tool.t.stuck()\nemit \"after\"", `emit 1/0`, "set n = 0\nwhile n < 40\n set t = tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\n set n = n + 1\nendwhile",
		"set n = 0\nwhile true\n set n = n + 1\nendwhile", "while true\n emit \"" + strings.Repeat("much ", 500) + "\"\nendwhile",
		"while true\n set x = tool.t.read()\nendwhile",
		`set x = tool.t.asked()`, "set x = tool.t.write()\nemit \"asks\"\nset x = tool.t.asked()\nemit \"asked\"\nset x = tool.t.slow()",
		"emit \"it is\"\nset x = tool.t.dear()\nemit \"dear\"",
	}
	b.WriteString("command\n")
	if r.IntN(2) == 0 {
		b.WriteString("on error as e do\n emit \"caught \" + e.code\n clear_error\nendon\n")
	}
	for range r.IntN(7) {
		b.WriteString(lines[r.IntN(len(lines))] + "\n")
	}
	if r.IntN(3) > 0 {
		b.WriteString(lines[18+r.IntN(3)] + "\n")
	}
	b.WriteString("endcommand\n")
	return b.String()
}

// count says what the sessions had.
func (w *world) count(t testing.TB, ar *stile.Archive, seen map[string]int) {
	for head, err := range ar.Sessions(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if head.SID != "local:local:s" {
			seen["fork"]++
		}
		turn := int64(0)
		for _, r := range all(t, ar, head.Inc) {
			seen[string(r.Body.Kind())]++
			switch b := r.Body.(type) {
			case *messages.TurnBegin:
				turn = r.Turn
			case *messages.Input:
				if turn > 0 {
					seen["interleaved"]++
				}
			case *messages.TurnDecided:
				turn = 0
				seen[string(b.Decision)]++
				seen[string(b.Reason)]++
				if b.Resumed {
					seen["resumed"]++
				}
				if b.GasUsed == 0 && b.OutputBytes > 0 && !b.Resumed {
					seen["grace over"]++
				}
				if strings.Contains(strings.Join(b.Failures, " "), string(messages.ErrTokenReplay)) {
					seen["replayed token"]++
				}
			case *messages.RunEnd:
				if strings.HasSuffix(b.Detail, "before it began") {
					seen["withdrawn"]++
				}
			case *messages.ActionEnded:
				seen[string(b.State)]++
				seen[b.Reason]++
			case *messages.ActionApproval:
				seen[b.By]++
			case *messages.TurnRestored:
				seen["restored after "+b.Cause]++
			case *messages.Control:
				seen[b.Name]++
			}
		}
	}
}

package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// variant is a kind of store, and how it is used.
type variant struct {
	name   string
	file   bool // SQLite, in real time; else in a bubble
	writer bool // the store is committed to by a goroutine of its own
	lies   bool
}

// world is one history in the making: sessions, the processes they live in one after
// the other, and clients.
type world struct {
	variant
	seed  uint64
	store journal.Store // nil for a file
	dir   string
	keys  *keyring.Ring
	agent *stile.Agent
	sids  []string

	ticks atomic.Int64 // the clock of the history
	asked atomic.Int64 // numbers the texts

	mu    sync.Mutex
	ops   map[string][]porcupine.Operation
	runs  map[string]int64 // known ordinals, for cancels and waits
	seen  map[string]int   // what the history holds, for coverage
	final map[string][]event
	// endless names a run that nothing ends.
	endless string
}

func newWorld(t testing.TB, v variant, seed uint64) *world {
	t.Helper()
	w := &world{
		variant: v, seed: seed, ops: map[string][]porcupine.Operation{}, runs: map[string]int64{},
		seen: map[string]int{}, final: map[string][]event{},
	}
	if v.file {
		w.dir = t.TempDir()
	} else {
		w.store = memory.New()
	}
	var err error
	if w.keys, err = stile.GenerateKeys(stile.Config{}); err != nil {
		t.Fatal(err)
	}
	m := manifest.Default("aeiou")
	m.Name, m.Model.Provider, m.Import.Tools = "history", "echo", []string{"test.linger"}
	// A tool that does not heed its end keeps a cancelled run open for a while.
	w.agent = &stile.Agent{Manifest: m, Tools: []tools.Tool{{
		Name: "test.linger", Class: messages.Effectful, Params: []neuroscript.Param{{Name: "turn", Type: "int"}}, Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			<-time.After(time.Duration(w.rand(uint64(c.Turn)).IntN(4000)) * time.Microsecond)
			return neuroscript.Value{}, nil
		},
	}}}
	for i := range 1 + w.rand(0).IntN(3) {
		w.sids = append(w.sids, fmt.Sprintf("local:local:s%d", i))
	}
	return w
}

// rand returns a source of randomness for each client.
func (w *world) rand(who uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, who)) }

func (w *world) tick() int64 { return w.ticks.Add(1) }

// rest lets others go on: some milliseconds in a bubble, a turn of the scheduler
// outside.
func (w *world) rest(r *rand.Rand, most int) {
	if w.file {
		runtime.Gosched()
		return
	}
	<-time.After(time.Duration(r.IntN(most*1000)) * time.Microsecond)
}

// Stream implements llm.Model: programs that repeat the input, at once or after a
// while, and sometimes ask for another turn.
func (w *world) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	r := w.rand(1<<32 + uint64(req.Ordinal))
	return func(yield func(llm.Chunk, error) bool) {
		if r.IntN(3) > 0 {
			select {
			case <-time.After(time.Duration(r.IntN(4000)) * time.Microsecond):
			case <-ctx.Done():
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
				return
			}
		}
		action := "done"
		if r.IntN(4) == 0 {
			action = "continue"
		}
		before := ""
		if r.IntN(3) == 0 {
			// A call that a restart cut off has an unknown outcome: a script error.
			before = "on error as e do\nclear_error\nendon\ncall tool.test.linger(turn_index)\n"
		}
		yield(llm.Chunk{Finish: messages.FinishComplete, Text: []byte("command\nwhisper self, turn_index\n" + before +
			`emit userdata["fields"]["text"]` + "\n" + `emit tool.aeiou.magic("LOOP", {"action": "` + action + "\"})\nendcommand\n")}, nil)
	}
}

// record keeps an operation that has been answered.
func (w *world) record(sid string, client int, call int64, in, out any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops[sid] = append(w.ops[sid], porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: w.tick()})
	w.count(in, out)
}

func (w *world) count(in, out any) {
	what := fmt.Sprintf("%T", in)
	switch out := out.(type) {
	case submitted:
		what += " " + string(in.(submit).policy) + " " + string(out.answer)
		if out.joined {
			what += " joined"
		}
	case answer:
		what += " " + string(out)
	case waited:
		what += " " + out.how
	}
	w.seen[what]++
}

// process is a runtime from its start to its end.
type process struct {
	*world
	port     *port
	rt       *stile.Runtime
	sessions map[string]*stile.Session
	left     atomic.Int64  // operations until it ends
	over     chan struct{} // closed then
	ctx      context.Context
	cancel   context.CancelFunc
}

// begin starts a process and opens every session.
func (w *world) begin(t testing.TB, life int) *process {
	t.Helper()
	r := w.rand(1000 + uint64(life))
	store := w.store
	if w.file {
		var err error
		if store, err = sqlite.Open(sqlite.Options{Path: filepath.Join(w.dir, "journal.db")}); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	p := &process{world: w, sessions: map[string]*stile.Session{}, over: make(chan struct{})}
	p.port = &port{Store: store, immediate: !w.file && !w.writer, lies: w.lies, pause: func() {
		if !w.writer { // under the store's lock: time would stand still in the bubble
			runtime.Gosched()
			return
		}
		mu.Lock()
		n := r.IntN(3)
		mu.Unlock()
		if n > 0 {
			w.rest(w.rand(uint64(w.tick())), n)
		}
	}}
	p.left.Store(int64(20 + r.IntN(60)))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	var err error
	p.rt, err = stile.New(p.ctx, stile.Config{
		Store: p.port, Keys: w.keys, Models: map[string]llm.Model{"echo": w},
		IdleTimeout: time.Duration([]int{-1, 1, 20}[r.IntN(3)]) * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, sid := range w.sids {
		call := w.tick()
		if p.sessions[sid], err = p.rt.Open(p.ctx, sid, w.agent); err != nil {
			t.Fatal(err)
		}
		w.record(sid, 0, call, restart{}, nil)
	}
	return p
}

// end closes the process, or kills it, and waits until nothing of it is left. An
// operation without an answer may have happened until then, and no later.
func (p *process) end(t testing.TB, crash bool) {
	t.Helper()
	if crash {
		p.port.crash()
	}
	if err := p.rt.Close(context.Background()); err != nil {
		t.Fatalf("close: %v", err)
	}
	p.cancel()
	if p.file {
		if err := p.port.Store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// settle ends the intervals of operations that were not answered. All clients have
// gone.
func (p *process) settle() {
	now := p.tick()
	for _, ops := range p.ops {
		for i := range ops {
			if isUnknown(ops[i].Output) && ops[i].Metadata == nil {
				ops[i].Return, ops[i].Metadata = now, "settled"
			}
		}
	}
}

func isUnknown(out any) bool {
	switch out := out.(type) {
	case submitted:
		return out.answer == unknown
	case answer:
		return out == unknown
	}
	return false
}

// run makes the whole history.
func (w *world) run(t testing.TB) {
	t.Helper()
	r := w.rand(1)
	lives := 1 + r.IntN(4)
	for life := range lives {
		p := w.begin(t, life)
		var clients, followers sync.WaitGroup
		for i, sid := range w.sids {
			for c := range 1 + r.IntN(4) {
				id := 100*i + 10*life + c
				clients.Go(func() { p.client(sid, id) })
			}
			followers.Go(func() { p.follow(sid, 100*i+10*life+9) })
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			clients.Wait()
		}()
		select {
		case <-p.over:
		case <-gone:
		}
		crash := r.IntN(3) > 0
		p.end(t, crash)
		<-gone
		followers.Wait()
		p.settle()
		w.seen[map[bool]string{true: "crash", false: "close"}[crash]]++
	}
	w.finish(t)
}

// finish lets a last process bring every run to its end, and reads what there is.
func (w *world) finish(t testing.TB) {
	t.Helper()
	p := w.begin(t, 99)
	for _, sid := range w.sids {
		// What was accepted without an answer is in the journal, if anywhere.
		a := abstraction{}
		for run := int64(1); ; run++ { // the end of one may make another
			a = abstraction{}
			if err := p.read(sid, &a); err != nil {
				t.Fatal(err)
			}
			if run > runsOf(a.log) {
				break
			}
			if err := p.wait(sid, 90, handle{Run: p.sessions[sid].Run(run)}); err != nil {
				w.endless = fmt.Sprintf("the end of run %d of %s is unknown: %v", run, sid, err)
				break
			}
		}
		call := w.tick()
		a = abstraction{}
		if err := p.read(sid, &a); err != nil {
			t.Fatal(err)
		}
		w.final[sid] = slices.Clone(a.log)
		w.cover(a.log)
		w.record(sid, 90, call, read{rest: w.endless == ""}, seen{a.log})
	}
	p.end(t, false)
	p.settle()
}

// runsOf counts the runs of a log.
func runsOf(log []event) (n int64) {
	for _, e := range log {
		n = max(n, e.run, e.next)
	}
	return n
}

// cover counts what became of inputs that did not come alone.
func (w *world) cover(log []event) {
	for _, e := range log {
		switch {
		case e.kind == closed:
			w.seen["a window closes"]++
		case e.kind == begun && strings.Contains(e.text, "\n"):
			w.seen["inputs begin a run together"]++
		case e.kind == turned && e.text != "":
			w.seen["inputs join a run"]++
		case e.next > 0:
			w.seen["inputs come too late for a run"]++
		}
	}
}

// handle is a run, and the input for which its client has it: by its text or, where a key
// named it, by that.
type handle struct {
	*stile.Run
	text, key string
}

// client does things at random until the process ends.
func (p *process) client(sid string, id int) {
	r := p.rand(uint64(10_000 + id))
	s, names := p.sessions[sid], slices.Sorted(maps.Keys(policies))
	var mine []handle
	for range 4 + r.IntN(20) {
		switch n := r.IntN(21); {
		case n == 20: // more than may wait
			policy := []messages.Policy{messages.Enqueue, messages.Merge}[r.IntN(2)]
			for i := 0; i < messages.QueueLimit+2 && p.left.Load() > 0; i++ {
				p.submit(sid, id, r, policy)
			}
		case n < 9:
			if run := p.submit(sid, id, r, names[r.IntN(len(names))]); run.Run != nil {
				mine = append(mine, run)
			}
		case n < 11:
			p.cancelOne(sid, id, r)
		case n < 14 && len(mine) > 0:
			_ = p.wait(sid, id, mine[r.IntN(len(mine))]) // may be cut short by the end of the process
		case n < 15:
			if known := p.known(sid); known > 0 {
				_ = p.wait(sid, id, handle{Run: s.Run(1 + r.Int64N(known))}) // as above
			}
		case n < 17:
			a, call := abstraction{}, p.tick()
			if p.read(sid, &a) == nil {
				p.record(sid, id, call, read{}, seen{a.log})
			}
		case n < 18:
			call := p.tick()
			if h, err := p.rt.Archive().Head(p.ctx, sid); err == nil {
				p.record(sid, id, call, head{}, summary{run: h.Run, open: h.Open, queued: h.Queued})
			}
		default:
			p.rest(r, 3)
		}
		if p.left.Add(-1) == 0 {
			close(p.over)
		}
		if p.left.Load() <= 0 {
			return
		}
	}
}

func (p *process) submit(sid string, id int, r *rand.Rand, policy messages.Policy) handle {
	in := submit{text: fmt.Sprint("t", p.asked.Add(1)), policy: policy}
	opts := []stile.SubmitOption{stile.Policy(in.policy)}
	if r.IntN(4) == 0 {
		in.key = fmt.Sprint("k", r.IntN(4))
		if r.IntN(4) > 0 { // what everybody says under this key
			in.text = "t" + in.key
		}
		opts = append(opts, stile.IdempotencyKey(in.key))
	}
	call := p.tick()
	run, err := p.sessions[sid].Submit(p.ctx, in.text, opts...)
	out := submitted{answer: answerOf(err)}
	if err == nil {
		out.run, out.joined = run.Ordinal(), run.Joined()
		p.learn(sid, out.run)
	}
	p.record(sid, id, call, in, out)
	if out.joined {
		return handle{Run: run, key: in.key}
	}
	return handle{Run: run, text: in.text}
}

func (p *process) cancelOne(sid string, id int, r *rand.Rand) {
	in := cancel{}
	if known := p.known(sid); known > 0 && r.IntN(3) > 0 {
		in.run = max(1, known-r.Int64N(4)) // the latest ones are those still there
	}
	call := p.tick()
	var err error
	if s := p.sessions[sid]; in.run == 0 {
		err = s.Cancel(p.ctx, "a client")
	} else {
		err = s.Run(in.run).Cancel(p.ctx, "a client")
	}
	p.record(sid, id, call, in, answerOf(err))
}

// patience is how long a client waits for the end of a run, which takes milliseconds.
const patience = 10 * time.Second

// wait waits for a run's end; without an answer nothing was learned.
func (p *process) wait(sid string, id int, run handle) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	call := p.tick()
	o, err := run.Decision(ctx)
	if err == nil {
		p.record(sid, id, call, wait{run.Ordinal(), run.text, run.key}, waited{outcome(o.Decision, o.Reason)})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endless = fmt.Sprintf("run %d of %s does not end within %s", run.Ordinal(), sid, patience)
	}
	return err
}

// read reads the journal as it is.
func (p *process) read(sid string, a *abstraction) error {
	for r, err := range p.sessions[sid].Records(p.ctx) {
		if err != nil {
			return err
		}
		a.add(r)
	}
	return nil
}

// follow is a subscriber: whatever it is shown must be in the journal then, and ever
// after.
func (p *process) follow(sid string, id int) {
	var a abstraction
	for u, err := range p.sessions[sid].Events(p.ctx, 0) {
		if err != nil {
			return
		}
		if u.Record != nil && a.add(u.Record) {
			p.record(sid, id, p.tick(), look{}, seen{slices.Clone(a.log)})
		}
	}
}

func (w *world) known(sid string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[sid]
}

func (w *world) learn(sid string, run int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[sid] = max(w.runs[sid], run)
}

func reasonOf(err error) string {
	if e := (*stile.Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// answerOf reads an error: a refusal is an answer, everything else is none.
func answerOf(err error) answer {
	switch code := messages.CodeOf(err); {
	case err == nil:
		return answered
	case code == messages.ErrBusy:
		return busy
	case code == messages.ErrDenied:
		return denied
	case reasonOf(err) == stile.ReasonKeyReused:
		return reused
	}
	return unknown
}

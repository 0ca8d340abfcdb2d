package tests

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// batching is an agent that speaks cogency, with the tools of streaming.
func batching(calls *atomic.Int64, replies ...string) *stile.Agent {
	a := streaming(calls, replies...)
	m := manifest.Default("cogency")
	m.Import.Tools = a.Manifest.Import.Tools
	a.Manifest = m
	return a
}

// A batch runs side by side; its results come back in the order of its calls, what the
// model wrote behind it does not; the next turn ends the run.
func TestBatchEndToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := batching(&calls)
		model := &recorder{Model: scripted.New(
			`<think>two at once, for $5</think>Looking. `+
				`<execute>[{"name":"own.slow","args":{"seconds":4}},{"name":"own.slow","args":{"seconds":3}},{"name":"own.fails","args":{}},{"name":"str.ToUpper","args":{"s":"$HOME </execute>"}}]</execute> I know already <execute>[]</execute>`,
			`<execute>[{'name':'own.slow'}]</execute>`,
			`All for $5.<end> or not`,
			`You are welcome.`)}
		a.Model = model
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		began := time.Now()
		o := ask(t, s, "go")
		if o.Decision != stile.Done || o.Turns != 3 {
			t.Fatalf("%+v", o)
		}
		if took := time.Since(began); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("took %s: the two are not side by side", took)
		}
		var said []string
		for _, r := range records(t, s) {
			if b, ok := r.Body.(*messages.UnitText); ok {
				said = append(said, string(b.UnitKind)+" "+b.Text)
			}
		}
		if got := strings.Join(said, "|"); got != "thought two at once, for $5|response Looking. |response All for $5." {
			t.Errorf("said %q", got)
		}
		asked := model.requests()
		if len(asked) != 3 {
			t.Fatalf("%d requests", len(asked))
		}
		last := asked[2].Messages
		const batch = `<think>two at once, for $5</think>` + "\n\nLooking.\n\n" +
			`<execute>[{"name":"own.slow","args":{"seconds":4}},{"name":"own.slow","args":{"seconds":3}},{"name":"own.fails","args":{}},{"name":"str.ToUpper","args":{"s":"$HOME </execute>"}}]</execute>`
		want := []string{
			"system", "user go", "assistant " + batch,
			`user <results>[{"tool":"own.slow","status":"success","outcome":"ok","content":"slept 4 s"},{"tool":"own.slow","status":"success","outcome":"ok","content":"slept 3 s"},` +
				`{"tool":"own.fails","status":"failure","content":"no luck"},{"tool":"str.ToUpper","status":"success","outcome":"ok","content":"$HOME \u003c/EXECUTE>"}]</results>`,
			"assistant <execute>[{'name':'own.slow'}]</execute>",
			`user <results>[{"tool":"","status":"failure","content":"execute_json at line 1, byte 11 ('name':'own.slow'}]\u003c/exe…): a single quote: JSON has double quotes alone. Nothing ran. Write <execute>[{\"name\": \"tool\", \"args\": {\"parameter\": \"value\"}}]</execute>, a JSON array."}]</results>`,
		}
		if len(last) != len(want) {
			t.Fatalf("%d messages: %q", len(last), last)
		}
		for i, m := range last {
			got := string(m.Role)
			if i > 0 {
				got += " " + m.Text
			}
			if got != want[i] {
				t.Errorf("message %d:\n%s", i, got)
			}
		}
		// The next run sees this one: calls in pairs with their results, and responses.
		if o = ask(t, s, "thanks"); o.Decision != stile.Done || o.Turns != 1 {
			t.Fatalf("%+v", o)
		}
		next := model.requests()[3].Messages
		if got := next[len(next)-1].Text; got != "thanks" || next[1].Text != "go" || !strings.HasSuffix(next[len(next)-2].Text, "All for $5.") {
			t.Errorf("%+v", next)
		}
		replays(t, rt, a)
	})
}

// Eight calls of a batch run at once, or as many as the manifest says.
func TestBatchParallel(t *testing.T) {
	for parallel, want := range map[int64]time.Duration{0: 2 * time.Second, 16: time.Second, 5: 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			a := batching(&calls, "<execute>["+strings.Repeat(`{"name":"own.slow","args":{"seconds":1}},`, 15)+`{"name":"own.slow","args":{"seconds":1}}]</execute>`, "Done.<end>")
			a.Manifest.Quotas.Parallel = parallel
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			began := time.Now()
			wantDone(t, ask(t, s, "go"))
			if took := time.Since(began).Truncate(time.Second); took != want || calls.Load() != 16 {
				t.Errorf("parallel %d: %d calls took %s, want %s", parallel, calls.Load(), took, want)
			}
		})
	}
}

// Three turns in which nothing succeeds end the run.
func TestBatchCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := batching(&calls,
			`<execute>[{"name":"own.fails","args":{}}]</execute>`,
			`<execute>not JSON</execute>`,
			`one moment <execute>[{"name":"nothing","args":{}},{"name":"own.fails","args":{}}]</execute>`)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		o := ask(t, s, "go")
		if o.Decision != stile.Halt || o.Reason != messages.ErrLoop || o.Turns != 3 || calls.Load() != 2 {
			t.Fatalf("%+v after %d calls", o, calls.Load())
		}
		replays(t, rt, a)
	})
}

// In the last turn that a run may take the model is asked to conclude. Its calls still
// run; a window counts the note for nothing, and the next run has it no more.
func TestBatchLastTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := batching(&calls)
		a.Manifest.Loop.MaxTurns = 2
		a.Manifest.Memory.HistoryWindow = 3
		const batch = `<execute>[{"name":"own.slow","args":{"seconds":1}}]</execute>`
		model := &recorder{Model: scripted.New(batch, batch, "Done.<end>")}
		a.Model = model
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		o := ask(t, s, "go")
		if o.Decision != stile.Halt || o.Reason != messages.ErrMaxTurns || o.Turns != 2 || calls.Load() != 2 {
			t.Fatalf("%+v after %d calls", o, calls.Load())
		}
		wantDone(t, ask(t, s, "thanks"))
		for i, want := range []string{"system user", "system user assistant user system", "system user"} {
			var roles []string
			for _, m := range model.requests()[i].Messages {
				roles = append(roles, string(m.Role))
			}
			if got := strings.Join(roles, " "); got != want {
				t.Errorf("request %d is of %s, want %s", i, got, want)
			}
		}
		note := model.requests()[1].Messages[4].Text
		if !strings.Contains(note, "last turn") {
			t.Errorf("the note is %q", note)
		}
		replays(t, rt, a)
	})
}

// A model that does not stop by itself is cancelled when its batch is complete, and
// the calls go on.
func TestBatchStopsTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := batching(&calls)
		turns := 0
		a.Model = model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
			if turns++; turns == 1 {
				return stalls(`<execute>[{"name":"own.slow","args":{"seconds":2}}]</execute>`)(ctx, req)
			}
			return stalls("Done.<end>")(ctx, req)
		})
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		began := time.Now()
		o := ask(t, s, "go")
		if took := time.Since(began); o.Decision != stile.Done || o.Turns != 2 || calls.Load() != 1 || took > 3*time.Second {
			t.Fatalf("%+v after %d calls and %s", o, calls.Load(), took)
		}
		replays(t, rt, a)
	})
}

// A call has 30 s, unless what it names sets a time of its own, shorter or longer.
func TestBatchTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := batching(&calls)
		for name, d := range map[string]time.Duration{"own.long": 2 * time.Minute, "own.short": 5 * time.Second} {
			own := a.Tools[0]
			own.Name, own.Timeout = name, d
			a.Tools = append(a.Tools, own)
			a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, name)
		}
		model := &recorder{Model: scripted.New(
			`<execute>[{"name":"own.slow","args":{"seconds":40}},{"name":"own.long","args":{"seconds":100}},{"name":"own.short","args":{"seconds":6}},{"name":"own.slow","args":{"seconds":29}}]</execute>`,
			`Done.`)}
		a.Model = model
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		last := model.requests()[1].Messages
		want := `<results>[{"tool":"own.slow","status":"failure","content":"timeout"},{"tool":"own.long","status":"success","outcome":"ok","content":"slept 100 s"},` +
			`{"tool":"own.short","status":"failure","content":"timeout"},{"tool":"own.slow","status":"success","outcome":"ok","content":"slept 29 s"}]</results>`
		if got := last[len(last)-1].Text; got != want {
			t.Errorf("%s", got)
		}
		replays(t, rt, a)
	})
}

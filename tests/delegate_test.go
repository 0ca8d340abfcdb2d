package tests

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// ofItsWord are the habits of models whose response ends the run beside an action too: for
// tests that are about something else.
var ofItsWord = []string{"unseen"}

// boss is an agent that delegates to others.
func boss(model *scripted.Script, children ...*stile.Agent) *stile.Agent {
	m := manifest.Default("cortex")
	m.Name, m.Loop.Strict = "boss", ofItsWord
	for _, c := range children {
		m.Import.Agents = append(m.Import.Agents, c.Manifest.Name)
	}
	return &stile.Agent{Manifest: m, Model: model, Agents: children}
}

// worker is an agent that others delegate to.
func worker(name, dialect string, replies ...string) *stile.Agent {
	m := manifest.Default(dialect)
	m.Name, m.Summary = name, "Works."
	if dialect == "cortex" {
		m.Loop.Strict = ofItsWord
	}
	return &stile.Agent{Manifest: m, Model: scripted.New(replies...)}
}

// children are the child sessions that a session's records name.
func children(t *testing.T, rt *stile.Runtime, s *stile.Session) []*stile.Session {
	t.Helper()
	var all []*stile.Session
	for _, b := range bodies[*messages.ActionStarted](records(t, s)) {
		if b.Child == "" {
			continue
		}
		c, err := rt.Find(t.Context(), b.Child)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// An agent runs in a session of its own; what it said is the result, and both
// journals name each other.
func TestAgentAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worker("writer", "cortex", `<thought>hm</thought><response final="false">first</response>`, `<response>a poem</response>`)
		a := boss(scripted.New(`<action id="a" type="agent" mode="async">{"name":"writer","parameters":{"message":"write"}}</action><response>got $a</response>`), w)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		if got := ends(t, s)["a"]; got != `ok "first\n\na poem"` {
			t.Fatal(got)
		}
		kids := children(t, rt, s)
		if len(kids) != 1 {
			t.Fatalf("%d children", len(kids))
		}
		recs := records(t, kids[0])
		opened := recs[0].Body.(*messages.SessionOpened)
		want := messages.ParentLink{SID: s.SID(), Incarnation: s.Incarnation().String(), Turn: 1, Action: "a", Depth: 1}
		if opened.Parent == nil || *opened.Parent != want || opened.Name != "writer" {
			t.Errorf("%+v", opened)
		}
		if in := bodies[*messages.Input](recs); len(in) != 1 || in[0].Text != "write" {
			t.Errorf("%+v", in)
		}
		end := bodies[*messages.ActionEnded](records(t, s))[0]
		if len(end.Children) != 1 || end.Children[0] != (messages.ChildLink{SID: kids[0].SID(), Incarnation: kids[0].Incarnation().String(), Run: 1}) {
			t.Errorf("%+v", end.Children)
		}
		replays(t, rt, a)
		if _, err := rt.Replay(t.Context(), s.SID(), nil); err != nil {
			t.Error(err)
		}
	})
}

// calls is a script that runs agents and quotes what the first one gave.
func calls(names ...string) *scripted.Script {
	var b strings.Builder
	for i, n := range names {
		fmt.Fprintf(&b, `<action id="%c" type="agent" mode="async">{"name":"%s","parameters":{"message":"do"}}</action>`, 'a'+i, n)
	}
	return scripted.New(b.String() + "<response>got $a</response>")
}

// What a child says in each dialect, and how its end becomes that of the action.
func TestAgentResults(t *testing.T) {
	for _, c := range []struct {
		name  string
		child *stile.Agent
		want  string
	}{
		{"plain", worker("w", "plain", "just text"), `ok "just text"`},
		{"cogency", worker("w", "cogency", "a batch without calls"), `ok "a batch without calls"`},
		{"aeiou", &stile.Agent{Manifest: worker("w", "aeiou").Manifest, Model: says(program(`emit "one"`, `emit "two"`, sayDone))}, `ok "one\ntwo"`},
		{"aeiou abort", &stile.Agent{Manifest: worker("w", "aeiou").Manifest, Model: says(program(sayAbort))}, `failed aborted "aborted: the agent w ended ABORT"`},
		{"no model", worker("w", "cortex"), `failed ERR_MODEL "ERR_MODEL: the agent w ended HALT: ERR_MODEL/EXHAUSTED: scripted.New has 0 replies to give in order, this is request 1, and no match fits: exhausted"`},
		{"no progress", worker("w", "cortex", "<thought>a</thought>", "<thought>b</thought>", "<thought>c</thought>"), `failed ERR_NO_PROGRESS "ERR_NO_PROGRESS: the agent w ended HALT: two replies in a row had neither an action nor a response"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				a := boss(calls("w"), c.child)
				s := open(t, rt, "stream", a)
				wantDone(t, ask(t, s, "go"))
				if got := ends(t, s)["a"]; got != c.want {
					t.Errorf("%s\nwant\n%s", got, c.want)
				}
				replays(t, rt, a)
			})
		})
	}
}

// slowly is a worker whose tool takes its time; it counts the calls and their ends.
func slowly(name string, begun, ended *atomic.Int64, class messages.Class) *stile.Agent {
	w := worker(name, "cortex", `<action id="t">{"name":"own.wait"}</action><response>done: $t</response>`, `<response>again</response>`)
	w.Tools = []tools.Tool{tool("own.wait", class, func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
		begun.Add(1)
		defer ended.Add(1)
		select {
		case <-ctx.Done():
			return neuroscript.Value{}, ctx.Err()
		case <-time.After(time.Minute):
			return neuroscript.String("waited"), nil
		}
	})}
	w.Manifest.Import.Tools = []string{"own.wait"}
	return w
}

// A cancel of the parent, and the action's time, reach the child's run and its actions;
// the child's decision is there before the parent's action ends.
func TestAgentIsStopped(t *testing.T) {
	for _, how := range []string{"cancel", "timeout", "drain"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun, ended atomic.Int64
				reply := map[string]string{
					"cancel":  `<action id="a" type="agent">{"name":"w","parameters":{"message":"do"}}</action><response>got $a</response>`,
					"timeout": `<action id="a" type="agent">{"name":"w","parameters":{"message":"do"},"timeout":5}</action><response>got $a</response>`,
					"drain":   `<action id="a" type="agent" mode="async">{"name":"w","parameters":{"message":"do"}}</action><response>bye</response>`,
				}[how]
				a := boss(scripted.New(reply), slowly("w", &begun, &ended, messages.ReadOnly))
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				run := submit(t, s, "go")
				time.Sleep(3 * time.Second)
				if how == "cancel" {
					if err := run.Cancel(t.Context(), "test"); err != nil {
						t.Fatal(err)
					}
				}
				o := decision(t, run)
				kid := children(t, rt, s)[0]
				k := decision(t, kid.Run(1))
				wantHalt(t, k, messages.ErrCancelled, "action a of local:local:stream")
				synctest.Wait() // for a tool that changes nothing no turn waits
				if begun.Load() != 1 || ended.Load() != 1 {
					t.Errorf("%d calls, %d ended", begun.Load(), ended.Load())
				}
				want := "cancelled cancelled"
				switch how {
				case "cancel":
					wantHalt(t, o, messages.ErrCancelled)
				case "timeout":
					wantDone(t, o)
					want = "failed timeout"
				default:
					wantDone(t, o)
				}
				if got := ends(t, s)["a"]; !strings.HasPrefix(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
				replays(t, rt, a)
			})
		})
	}
}

// An action of a stopped child with an unknown outcome makes its parent's action unknown.
func TestAgentLeavesDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worker("w", "cortex", `<action id="t">{"name":"own.deaf"}</action><response>done: $t</response>`)
		w.Tools = []tools.Tool{tool("own.deaf", messages.Effectful, pause(time.Hour))}
		w.Manifest.Import.Tools = []string{"own.deaf"}
		a := boss(scripted.New(`<action id="a" type="agent">{"name":"w","parameters":{"message":"do"},"timeout":5}</action><response>got $a</response>`), w)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		if got := ends(t, s)["a"]; !strings.HasPrefix(got, "unknown") || !strings.Contains(got, "1 of its actions is unknown") {
			t.Error(got)
		}
		replays(t, rt, a)
		time.Sleep(2 * time.Hour)
	})
}

// A process that ends while a child works: the next one goes on with the child, and the
// parent's action joins its run.
func TestAgentOutlivesTheProcess(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		var in [2]chan struct{}
		agentOf := func(i int) *stile.Agent {
			in[i] = make(chan struct{}, 8)
			w := worker("w", "cortex", `<action id="t">{"name":"own.wait"}</action><response>done: $t</response>`)
			w.Tools = []tools.Tool{entered("own.wait", messages.ReadOnly, in[i])}
			if i > 0 {
				w.Tools = []tools.Tool{tool("own.wait", messages.ReadOnly, gives("waited"))}
			}
			w.Manifest.Import.Tools = []string{"own.wait"}
			return boss(calls("w"), w)
		}
		s := open(t, l.begin(), "stream", agentOf(0))
		run := submit(t, s, "go")
		<-in[0]
		replied(t, s)
		l.end()
		a := agentOf(1)
		rt := l.begin()
		defer l.end()
		s = open(t, rt, "stream", a)
		wantDone(t, decision(t, s.Run(run.Ordinal())))
		if got := ends(t, s)["a"]; got != `ok "done: waited"` {
			t.Error(got)
		}
		oneChild(t, rt, s)
		replays(t, rt, a)
	})
}

// So it does where the child's text is the result that grows: the next process shows it from
// its beginning, once.
func TestStreamedAgentOutlivesTheProcess(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		in := make(chan struct{}, 8)
		agentOf := func(wait tools.Tool) *stile.Agent {
			w := worker("w", "cortex", `<response final="false">before</response><action id="t">{"name":"own.wait"}</action><response>done: $t</response>`)
			w.Tools, w.Manifest.Import.Tools = []tools.Tool{wait}, []string{"own.wait"}
			a := boss(scripted.New(`<action id="a" type="agent" mode="async">{"name":"w","stream":true,"parameters":{"message":"do"}}</action><response>$a</response>`), w)
			a.Manifest.Extensions = []string{"stream"}
			return a
		}
		rt := l.begin()
		s := open(t, rt, "stream", agentOf(entered("own.wait", messages.ReadOnly, in)))
		run := submit(t, s, "go")
		<-in
		replied(t, s)
		replied(t, child(t, rt, s)) // its reply is on disk: the next process asks its model no more
		l.end()
		a := agentOf(tool("own.wait", messages.ReadOnly, gives("waited")))
		rt = l.begin()
		defer l.end()
		s = open(t, rt, "stream", a)
		seen := newScreen(t)
		for u, err := range s.Run(run.Ordinal()).Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen.update(u)
		}
		wantDone(t, decision(t, s.Run(run.Ordinal())))
		if got := ends(t, s)["a"]; got != `ok "before\n\ndone: waited"` || !seen.ended["a"] {
			t.Error(got)
		}
		oneChild(t, rt, s)
		replays(t, rt, a)
	})
}

// The end of an action names the runs of all its attempts, also of those before a
// restart, whether its turn goes on or is ended by it.
func TestChildrenOfEarlierLives(t *testing.T) {
	for _, restored := range []bool{true, false} {
		t.Run(fmt.Sprintf("restored %v", restored), func(t *testing.T) {
			onJournals(t, func(t *testing.T, l *life) {
				in := make(chan struct{}, 8)
				agentOf := func(first bool) *stile.Agent {
					w := worker("w", "cortex")
					var asked atomic.Int64
					w.Model = model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
						return func(yield func(llm.Chunk, error) bool) {
							if first && asked.Add(1) == 1 {
								yield(llm.Chunk{}, llm.Fail(llm.Failure{Code: "bad_request"}, "no"))
								return
							}
							yield(llm.Chunk{Text: []byte(`<action id="t">{"name":"own.wait"}</action><response>done: $t</response>`), Finish: messages.FinishComplete}, nil)
						}
					})
					w.Tools = []tools.Tool{tool("own.wait", messages.ReadOnly, gives("waited"))}
					if first {
						w.Tools = []tools.Tool{entered("own.wait", messages.ReadOnly, in)}
					}
					w.Manifest.Import.Tools = []string{"own.wait"}
					b := boss(nil, w)
					b.Manifest.Loop.RetryDelay = new(time.Duration)
					b.Model = model(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
						return func(yield func(llm.Chunk, error) bool) {
							if !first {
								yield(llm.Chunk{Text: []byte("<response>bye</response>"), Finish: messages.FinishComplete}, nil)
								return
							}
							const call = `<action id="a" type="agent">{"name":"w","parameters":{"message":"do"},"retry":1}</action><response>bye</response>`
							if !yield(llm.Chunk{Text: []byte(call)}, nil) {
								return
							}
							if restored {
								yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
								return
							}
							<-ctx.Done()
							yield(llm.Chunk{}, ctx.Err())
						}
					})
					return b
				}
				s := open(t, l.begin(), "stream", agentOf(true))
				run := submit(t, s, "go")
				<-in
				if restored {
					replied(t, s)
				}
				l.end()
				a := agentOf(false)
				rt := l.begin()
				defer l.end()
				s = open(t, rt, "stream", a)
				wantDone(t, decision(t, s.Run(run.Ordinal())))
				recs := records(t, s)
				var sids []string
				for _, b := range bodies[*messages.ActionStarted](recs) {
					if !slices.Contains(sids, b.Child) {
						sids = append(sids, b.Child)
					}
				}
				if len(sids) != 2 {
					t.Fatalf("children %q", sids)
				}
				if !restored {
					sids = sids[:1] // the second run was cut off
				}
				var got []string
				for _, c := range bodies[*messages.ActionEnded](recs)[0].Children {
					got = append(got, c.SID)
				}
				if !slices.Equal(got, sids) {
					t.Errorf("the end names %q, want %q", got, sids)
				}
				replays(t, rt, a)
			})
		})
	}
}

// A host that ends a turn whose agent works, and dies before it has told the child: the
// child is cancelled when it is woken, by any process, and once. One that is waited for
// goes on (TestAgentOutlivesTheProcess).
func TestOrphanIsCancelled(t *testing.T) {
	for _, boots := range []bool{false, true} {
		t.Run(fmt.Sprintf("boots %v", boots), func(t *testing.T) {
			onJournals(t, func(t *testing.T, l *life) {
				in := make(chan struct{}, 8)
				agentOf := func(child string, wait tools.Tool) *stile.Agent {
					w := worker(child, "cortex", `<action id="t">{"name":"own.wait"}</action><response>done: $t</response>`, "<response>did it</response>")
					w.Tools = []tools.Tool{wait}
					w.Manifest.Import.Tools = []string{"own.wait"}
					b := boss(nil, w)
					asked := false
					b.Model = model(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
						return func(yield func(llm.Chunk, error) bool) {
							if child != "w" || asked {
								yield(llm.Chunk{Text: []byte("<response>bye</response>"), Finish: messages.FinishComplete}, nil)
								return
							}
							asked = true
							if yield(llm.Chunk{Text: []byte(`<action id="a" type="agent">{"name":"w","parameters":{"message":"do"}}</action>`)}, nil) {
								<-ctx.Done()
								yield(llm.Chunk{}, ctx.Err())
							}
						}
					})
					return b
				}
				s := open(t, l.begin(), "stream", agentOf("w", entered("own.wait", messages.ReadOnly, in)))
				run := submit(t, s, "go")
				<-in
				l.end()
				// This life does not know the child's agent: the child is not cancelled, as if the
				// host had died in between.
				s = open(t, l.begin(), "stream", agentOf("other", tool("own.wait", messages.ReadOnly, gives("waited"))))
				wantDone(t, decision(t, s.Run(run.Ordinal())))
				l.end()
				a := agentOf("w", tool("own.wait", messages.ReadOnly, gives("waited")))
				for range 2 {
					if boots {
						l.cfg.Agents = []*stile.Agent{a, a.Agents[0]}
					}
					rt := l.begin()
					s = open(t, rt, "stream", a)
					kid := oneChild(t, rt, s)
					wantHalt(t, decision(t, kid.Run(1)), messages.ErrCancelled, "action a of local:local:stream, which is not waited for any more")
					cancels := 0
					for _, b := range bodies[*messages.Control](records(t, kid)) {
						if b.What == messages.ControlCancel {
							cancels++
						}
					}
					if cancels != 1 {
						t.Errorf("%d cancels", cancels)
					}
					if _, err := rt.Replay(t.Context(), kid.SID(), a.Agents[0]); err != nil {
						t.Errorf("replay of the child: %v", err)
					}
					l.end()
				}
			})
		})
	}
}

// replied waits until the reply of the session's first turn is on disk: such a turn is
// restored after a crash.
func replied(t *testing.T, s *stile.Session) {
	t.Helper()
	for u, err := range s.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record != nil && u.Record.Body.Kind() == messages.KindModelReply {
			return
		}
	}
}

// child is the one child session.
func child(t *testing.T, rt *stile.Runtime, s *stile.Session) *stile.Session {
	t.Helper()
	var sids []string
	for h, err := range rt.Archive().Sessions(t.Context(), s.SID()+".") {
		if err != nil {
			t.Fatal(err)
		}
		sids = append(sids, h.SID)
	}
	if len(sids) != 1 {
		t.Fatalf("children %q", sids)
	}
	kid, err := rt.Find(t.Context(), sids[0])
	if err != nil {
		t.Fatal(err)
	}
	return kid
}

// oneChild wants one child session with one run, whatever was repeated.
func oneChild(t *testing.T, rt *stile.Runtime, s *stile.Session) *stile.Session {
	t.Helper()
	kid := child(t, rt, s)
	recs := records(t, kid)
	if n := len(bodies[*messages.Input](recs)); n != 1 {
		t.Errorf("%d inputs", n)
	}
	if n := len(bodies[*messages.RunEnd](recs)); n != 1 {
		t.Errorf("%d ends", n)
	}
	return kid
}

// answersAfter is a model that waits before it answers.
func answersAfter(now <-chan struct{}, reply string) model {
	return func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			select {
			case <-now:
				yield(llm.Chunk{Text: []byte(reply), Finish: messages.FinishComplete}, nil)
			case <-ctx.Done():
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			}
		}
	}
}

// A crash in the middle of the parent's reply ends its turn: no action waits for the child that
// it began, which is cancelled when the parent is settled.
func TestAgentOfALostTurn(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		never := make(chan struct{})
		defer close(never)
		agentOf := func(m llm.Model) *stile.Agent {
			w := worker("w", "cortex")
			w.Model = answersAfter(never, "")
			a := boss(nil, w)
			a.Model = m
			return a
		}
		s := open(t, l.begin(), "stream", agentOf(stalls(`<action id="a" type="agent" mode="async">{"name":"w","parameters":{"message":"do"}}</action><response>so`)))
		run := submit(t, s, "go")
		var child string
		for u, err := range s.Events(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if u.Record != nil {
				if b, ok := u.Record.Body.(*messages.ActionStarted); ok {
					child = b.Child
					break
				}
			}
		}
		for { // until it has taken its input
			if h, err := l.rt.Archive().Head(t.Context(), child); err == nil && h.Open {
				break
			}
			runtime.Gosched()
		}
		l.end()
		a := agentOf(says("<response>without</response>"))
		rt := l.begin()
		defer l.end()
		s = open(t, rt, "stream", a)
		wantDone(t, decision(t, s.Run(run.Ordinal())))
		if got := ends(t, s)["a"]; !strings.HasPrefix(got, "unknown crash") {
			t.Error(got)
		}
		kid, err := rt.Find(t.Context(), child)
		if err != nil {
			t.Fatal(err)
		}
		wantHalt(t, decision(t, kid.Run(1)), messages.ErrCancelled, "not waited for any more")
		replays(t, rt, a)
	})
}

// refusing is a store that refuses what it is told to.
type refusing struct {
	journal.Store
	refuse func(*journal.Batch) bool
}

// Commit implements journal.Store.
func (r *refusing) Commit(batches []journal.Batch) []error {
	errs := make([]error, len(batches))
	for i := range batches {
		if r.refuse(&batches[i]) {
			errs[i] = journal.Fail(journal.ReasonClosed, nil, "the process is dead")
			continue
		}
		errs[i] = r.Store.Commit(batches[i : i+1])[0]
	}
	return errs
}

// Between the child's decision and the end of the parent's action the process dies: the
// next one takes the child's answer as it is.
func TestAgentJoinsAfterCrash(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		if l.cfg.Store == nil {
			store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(t.TempDir(), "journal.db")})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			keys, err := stile.GenerateKeys(stile.Config{})
			if err != nil {
				t.Fatal(err)
			}
			l.cfg = stile.Config{Store: store, Keys: keys}
		}
		dead := make(chan struct{})
		sound := l.cfg.Store
		l.cfg.Store = &refusing{sound, func(b *journal.Batch) bool {
			if b.SID != "local:local:stream" {
				return false
			}
			for _, r := range b.Records {
				if _, ok := r.Body.(*messages.ActionEnded); ok {
					close(dead)
					return true
				}
			}
			return false
		}}
		asked := make(chan struct{})
		w := worker("w", "cortex")
		w.Model = answersAfter(asked, "<response>once</response>")
		s := open(t, l.begin(), "stream", boss(calls("w"), w))
		run := submit(t, s, "go")
		replied(t, s)
		close(asked)
		<-dead
		l.end()
		l.cfg.Store = sound
		a := boss(calls("w"), worker("w", "cortex"))
		rt := l.begin()
		defer l.end()
		s = open(t, rt, "stream", a)
		wantDone(t, decision(t, s.Run(run.Ordinal())))
		if got := ends(t, s)["a"]; got != `ok "once"` {
			t.Error(got)
		}
		oneChild(t, rt, s)
		replays(t, rt, a)
	})
}

// Agents stand in the manifest, in a file of their own or where a path says, and find
// what they import beside themselves.
func TestAgentFiles(t *testing.T) {
	reply := func(texts ...string) string {
		var b strings.Builder
		for _, s := range texts {
			fmt.Fprintf(&b, "{\"chunks\":[{\"text\":%q}],\"finish\":\"stop\"}\n", s)
		}
		return b.String()
	}
	dir := write(t,
		"agent.yaml", "name: top\ndialect: cortex\nmodel: {script: main.jsonl}\nimport: {agents: [near, far/off.yml, inside]}\n"+
			"define:\n  agents:\n  - {name: inside, summary: Inside., dialect: plain, model: {script: inside.jsonl}, x-note: 1, iteration_cap: 1}\n",
		"main.jsonl", reply(`<action id="a" type="agent">{"name":"near","parameters":{"message":"x"}}</action><action id="b" type="agent">{"name":"off","parameters":{"message":"x"}}</action>`+
			`<action id="c" type="agent">{"name":"inside","parameters":{"what":["$a", 2]}}</action><action id="d" type="agent">{"name":"none"}</action><response>$a $b $c</response>`),
		"inside.jsonl", reply("in"),
		"agents/near.yaml", "name: near\ndialect: cortex\nmodel: {script: near.jsonl}\nimport: {agents: [deep]}\n",
		"agents/near.jsonl", reply(`<action id="d" type="agent">{"name":"deep","parameters":{"message":"x"}}</action><response>near and $d</response>`),
		"agents/agents/deep.yaml", "name: deep\ndialect: plain\nmodel: {script: deep.jsonl}\nenvironment: {variables: {A: b}}\nsummary: ${A}\n",
		"agents/agents/deep.jsonl", reply("deep"),
		"far/off.yml", "name: off\ndialect: cortex\nmodel: {script: off.jsonl}\nimport: {tools: [file.read]}\n",
		"far/off.jsonl", reply(`<action id="d">{"name":"file.read","parameters":{"path":"note.txt"}}</action><response>read $d</response>`),
		"far/note.txt", "a note")
	a := load(t, dir)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	got := ends(t, s)
	for id, want := range map[string]string{"a": `ok "near and deep"`, "b": `ok "read a note"`, "c": `ok "in"`, "d": `failed unknown_target "no agent \"none\"; there is: inside, near, off"`} {
		if got[id] != want {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
	kids := children(t, rt, s)
	if in := bodies[*messages.Input](records(t, kids[2]))[0].Text; in != `{"what":["near and deep",2]}` {
		t.Errorf("asked %s", in)
	}
	deep := children(t, rt, kids[0])[0]
	if p := records(t, deep)[0].Body.(*messages.SessionOpened).Parent; p.Depth != 2 || p.SID != kids[0].SID() {
		t.Errorf("%+v", p)
	}
	replays(t, rt, a)
	if _, err := rt.Replay(t.Context(), "stream", nil); err != nil {
		t.Error(err)
	}
	if _, err := rt.Replay(t.Context(), deep.SID(), nil); err != nil {
		t.Error(err)
	}
}

// What cannot be is said before a session opens, whatever it is made of.
func TestAgentMistakes(t *testing.T) {
	files := func(names ...string) []string { // each imports the next, the last the first
		all := []string{"agent.yaml", "dialect: cortex\nname: top\nmodel: {script: s.jsonl}\nimport: {agents: [" + names[0] + ".yaml]}\n", "s.jsonl", "{\"chunks\":[]}\n"}
		for i, n := range names {
			all = append(all, n+".yaml", "dialect: cortex\nname: "+n+"\nimport: {agents: ["+names[(i+1)%len(names)]+".yaml]}\n")
		}
		return all
	}
	chain := func(n int) []string {
		all := []string{"agent.yaml", "dialect: cortex\nname: top\nmodel: {script: s.jsonl}\nimport: {agents: [a1.yaml]}\n", "s.jsonl", "{\"chunks\":[]}\n"}
		for i := 1; i <= n; i++ {
			imports := ""
			if i < n {
				imports = fmt.Sprintf("import: {agents: [a%d.yaml]}\n", i+1)
			}
			all = append(all, fmt.Sprintf("a%d.yaml", i), fmt.Sprintf("dialect: cortex\nname: a%d\n%s", i, imports))
		}
		return all
	}
	for _, c := range []struct {
		name  string
		files []string
		want  string
	}{
		{"itself", files("a"), "a.yaml: import.agents[0]: ERR_CONFIG/BAD_VALUE: the agent calls itself: a.yaml > a.yaml"},
		{"three", files("a", "b", "c"), "the agent calls itself: a.yaml > b.yaml > c.yaml > a.yaml"},
		{"five deep", chain(5), "a5.yaml: import.agents[0]: ERR_CONFIG/BAD_VALUE: agents nest at most 4 deep"},
		{"no file", []string{"agent.yaml", "dialect: cortex\nimport: {agents: [gone]}\n"}, "agents/gone.yaml: import.agents[0]: ERR_CONFIG/MISSING"},
		{"outside", []string{"agent.yaml", "dialect: cortex\nimport: {agents: [../../x.yaml]}\n"}, "ERR_CONFIG/MISSING"},
		{"no name", []string{"agent.yaml", "dialect: cortex\nimport: {agents: [a.yaml]}\n", "a.yaml", "dialect: plain\n"}, "a.yaml: name: ERR_CONFIG/MISSING"},
		{"other name", []string{"agent.yaml", "dialect: cortex\nimport: {agents: [a]}\n", "agents/a.yaml", "dialect: plain\nname: b\n"}, `agents/a.yaml: name: ERR_CONFIG/BAD_VALUE: is "b", and import.agents[0] imports it as "a"`},
		{"twice", []string{"agent.yaml", "dialect: cortex\nimport: {agents: [a.yaml, a]}\n", "a.yaml", "dialect: plain\nname: a\n", "agents/a.yaml", "dialect: plain\nname: a\n"}, `"a" is imported already`},
		{"its own mistakes", []string{"agent.yaml", "dialect: cortex\nimport: {agents: [a]}\n", "agents/a.yaml", "dialect: cortex\nname: a\nimport: {llms: [l]}\n", "agents/llms/l.yaml", "name: l\n"}, "agents/llms/l.yaml:1:1: template: ERR_CONFIG/MISSING"},
		{"inline", []string{"agent.yaml", "dialect: cortex\nimport: {agents: [a]}\ndefine:\n  agents:\n  - {name: a, dialect: klingon, environment: {allow: [NOPE]}, summary: '${NOPE}', quotas: {gas: 0}, tools: [x y]}\n"}, "agent.yaml:5:24: define.agents[0].dialect: ERR_CONFIG/BAD_VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := stile.LoadAgent(filepath.Join(write(t, c.files...), "agent.yaml"))
			if err == nil {
				err = stile.Check(a, stile.Config{})
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
			if messages.CodeOf(err) != messages.ErrConfig {
				t.Errorf("code %q", messages.CodeOf(err))
			}
		})
	}
	a := load(t, write(t, chain(4)...))
	if err := stile.Check(a, stile.Config{}); err != nil {
		t.Error(err)
	}
}

// Go can tie any knot; none of them is followed.
func TestAgentKnots(t *testing.T) {
	self := worker("self", "cortex", "x")
	self.Agents, self.Manifest.Import.Agents = []*stile.Agent{self}, []string{"self"}
	one, two, three := worker("one", "cortex", "x"), worker("two", "cortex", "x"), worker("three", "cortex", "x")
	for _, p := range [][2]*stile.Agent{{one, two}, {two, three}, {three, one}} {
		p[0].Agents, p[0].Manifest.Import.Agents = []*stile.Agent{p[1]}, []string{p[1].Manifest.Name}
	}
	deep := worker("leaf", "cortex", "x")
	for i := range 10_000 {
		up := worker(fmt.Sprint("n", i), "cortex", "x")
		up.Agents, up.Manifest.Import.Agents = []*stile.Agent{deep}, []string{deep.Manifest.Name}
		deep = up
	}
	wide := worker("wide", "cortex", "x")
	for i := range 100 {
		child := worker(fmt.Sprint("c", i), "plain", "x")
		wide.Agents, wide.Manifest.Import.Agents = append(wide.Agents, child), append(wide.Manifest.Import.Agents, child.Manifest.Name)
	}
	inside := *manifest.Default("cortex")
	inside.Name = "leaf"
	for i := range 10_000 {
		up := *manifest.Default("cortex")
		up.Name, up.Define.Agents, up.Import.Agents = fmt.Sprint("n", i), []manifest.Manifest{inside}, []string{inside.Name}
		inside = up
	}
	for _, c := range []struct {
		name  string
		agent *stile.Agent
		want  string
	}{
		{"self", self, "the agent self calls itself: self > self"},
		{"three", one, "the agent one calls itself: one > two > three > one"},
		{"deep", deep, "agents nest at most 4 deep: n9999 > n9998"},
		{"wide", wide, "at most 64 agents"},
		{"inside", &stile.Agent{Manifest: &inside, Model: scripted.New("x")}, "agents nest at most 4 deep"},
		{"plain", &stile.Agent{Manifest: func() *manifest.Manifest {
			m := *one.Manifest
			m.Dialect, m.Import.Agents = "plain", []string{"leaf"}
			return &m
		}(), Agents: []*stile.Agent{worker("leaf", "plain", "x")}, Model: scripted.New("x")}, "can call tools alone; agent leaf is none"},
	} {
		err := stile.Check(c.agent, stile.Config{})
		if err == nil || !strings.Contains(err.Error(), c.want) || messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
}

// A child that waits for a person keeps its parent's action waiting, whose time goes on;
// the child's own answer lets both go on.
func TestAgentWaitsForApproval(t *testing.T) {
	for _, how := range []string{"approved", "late"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := worker("w", "cortex", `<action id="p">{"name":"own.pay"}</action><response>$p</response>`, `<response>denied</response>`)
				w.Tools = []tools.Tool{tool("own.pay", messages.Effectful, gives("paid"))}
				w.Manifest.Import.Tools = []string{"own.pay"}
				w.Manifest.Approval.Tools = map[string]messages.GateAnswer{"own.pay": messages.GateConfirm}
				a := boss(calls("w"), w)
				rt := start(t, stile.Config{IdleTimeout: time.Second})
				s := open(t, rt, "stream", a)
				run := submit(t, s, "go")
				time.Sleep(time.Minute) // the child sleeps by now, and drops out of memory
				kid := oneOf(t, rt, s)
				asked, err := kid.Approvals(t.Context())
				if err != nil || len(asked) != 1 {
					t.Fatalf("%+v %v", asked, err)
				}
				if how == "approved" {
					if err := kid.Approve(t.Context(), asked[0], "ann"); err != nil {
						t.Fatal(err)
					}
					wantDone(t, decision(t, run))
					if got := ends(t, s)["a"]; got != `ok "paid"` {
						t.Error(got)
					}
				} else {
					began := time.Now()
					wantDone(t, decision(t, run))
					if took := time.Since(began); took > 5*time.Minute {
						t.Errorf("took %s", took)
					}
					if got := ends(t, s)["a"]; !strings.HasPrefix(got, "failed timeout") && !strings.HasPrefix(got, "cancelled") {
						t.Error(got)
					}
					wantHalt(t, decision(t, kid.Run(1)), messages.ErrCancelled)
				}
				replays(t, rt, a)
			})
		})
	}
}

// oneOf is the one child session there is, whatever it is at.
func oneOf(t *testing.T, rt *stile.Runtime, s *stile.Session) *stile.Session {
	t.Helper()
	for h, err := range rt.Archive().Sessions(t.Context(), s.SID()+".") {
		if err != nil {
			t.Fatal(err)
		}
		kid, err := rt.Find(t.Context(), h.SID)
		if err != nil {
			t.Fatal(err)
		}
		return kid
	}
	t.Fatal("there is no child")
	return nil
}

// A run does not wait for a detached agent: the agent outlives the run, ends by itself, and
// goes on in the next process, which joins it.
func TestAgentDetached(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		go1, go2 := make(chan struct{}), make(chan struct{})
		close(go2)
		agentOf := func(now chan struct{}) *stile.Agent {
			w := worker("w", "cortex")
			w.Model = answersAfter(now, "<response>late</response>")
			return boss(scripted.New(`<action id="a" type="agent" mode="fire_and_forget">{"name":"w","parameters":{"message":"do"}}</action><response>bye</response>`), w)
		}
		s := open(t, l.begin(), "stream", agentOf(go1))
		wantDone(t, ask(t, s, "go"))
		if got := ends(t, s); len(got) != 0 {
			t.Fatalf("%v", got)
		}
		l.end()
		close(go1)
		a := agentOf(go2)
		rt := l.begin()
		defer l.end()
		s = open(t, rt, "stream", a)
		for u, err := range s.Events(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if u.Record != nil && u.Record.Body.Kind() == messages.KindActionEnded {
				break
			}
		}
		if got := ends(t, s)["a"]; got != `ok "late"` {
			t.Error(got)
		}
		oneChild(t, rt, s)
		replays(t, rt, a)
	})
}

// Steps of a workflow are agents, too: a cancel reaches them, and a retry is a session of
// its own.
func TestAgentSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, ended atomic.Int64
		slow, quick := slowly("slow", &begun, &ended, messages.ReadOnly), worker("quick", "plain", "quick")
		bad := worker("bad", "cortex")
		reply := `<action id="x" type="workflow">{"name":"flow"}</action><action id="y" type="workflow">{"name":"tries"}</action><response>$x</response>`
		a := boss(scripted.New(reply, reply), slow, quick, bad)
		m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nname: boss\nimport: {agents: [slow, quick, bad], workflows: [flow, tries]}\ndefine:\n  workflows:\n"+
			"  - {name: flow, steps: [{id: s, type: agent, name: slow, parameters: {message: a}}, {id: q, type: agent, name: quick, parameters: {message: $s}}], output: $q}\n"+
			"  - {name: tries, steps: [{id: s, type: agent, name: bad, parameters: {message: a}, retry: 1}]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		a.Manifest = m
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		got := ends(t, s)
		if got["x"] != `ok "quick"` || !strings.HasPrefix(got["y"], `failed error "step s failed: ERR_MODEL`) {
			t.Errorf("%q", got)
		}
		all := bodies[*messages.ActionEnded](records(t, s))
		if len(all[0].Children) != 2 || len(all[1].Children) != 2 || all[1].Children[0].SID == all[1].Children[1].SID {
			t.Errorf("%+v", all)
		}
		run := submit(t, s, "again")
		time.Sleep(3 * time.Second)
		if err := run.Cancel(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		wantHalt(t, decision(t, run), messages.ErrCancelled)
		last := bodies[*messages.ActionEnded](records(t, s))[2]
		if last.State != messages.ActionCancelled || len(last.Children) != 1 {
			t.Errorf("%+v", last)
		}
		kid, err := rt.Find(t.Context(), last.Children[0].SID)
		if err != nil {
			t.Fatal(err)
		}
		wantHalt(t, decision(t, kid.Run(1)), messages.ErrCancelled)
		synctest.Wait()
		if begun.Load() != ended.Load() {
			t.Errorf("%d begun, %d ended", begun.Load(), ended.Load())
		}
		replays(t, rt, a)
	})
}

// A parent whose journal refuses lets go of its child and does not stop it: opened again,
// in the same process, it joins the run.
func TestAgentIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := false
		sound := memory.New()
		keys, err := stile.GenerateKeys(stile.Config{})
		if err != nil {
			t.Fatal(err)
		}
		now := make(chan struct{})
		w := worker("w", "cortex")
		w.Model = answersAfter(now, "<response>after all</response>")
		a := boss(calls("w"), w)
		rt := start(t, stile.Config{Keys: keys, Store: &refusing{sound, func(b *journal.Batch) bool {
			return refuse && b.SID == "local:local:stream"
		}}})
		s := open(t, rt, "stream", a)
		run := submit(t, s, "go")
		replied(t, s)
		synctest.Wait()
		refuse = true
		if _, err := s.Submit(t.Context(), "more"); err == nil {
			t.Fatal("the journal takes it")
		}
		refuse = false
		synctest.Wait()
		s = open(t, rt, "stream", a)
		close(now)
		wantDone(t, decision(t, s.Run(run.Ordinal())))
		if got := ends(t, s)["a"]; got != `ok "after all"` {
			t.Error(got)
		}
		oneChild(t, rt, s)
		replays(t, rt, a)
	})
}

// A session that is four deep calls no further agent, whatever it is opened with.
func TestAgentDepthOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf := worker("leaf", "cortex", "<response>leaf</response>", delegations("other", "sync", 1)+"<response>$a</response>")
		for i := range 3 {
			up := worker(fmt.Sprint("n", i), "cortex", delegations(leaf.Manifest.Name, "sync", 1)+"<response>$a</response>")
			up.Agents, up.Manifest.Import.Agents = []*stile.Agent{leaf}, []string{leaf.Manifest.Name}
			leaf = up
		}
		rt := start(t, stile.Config{})
		a := boss(calls("n2"), leaf)
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		for range 4 {
			s = children(t, rt, s)[0]
		}
		more := boss(scripted.New("-", delegations("other", "sync", 1)+"<response>end</response>"), worker("other", "plain", "x"))
		deep := open(t, rt, s.SID(), more)
		wantDone(t, ask(t, deep, "call another"))
		all := bodies[*messages.ActionEnded](records(t, deep))
		if len(all) != 1 || all[0].State != messages.ActionFailed || all[0].Reason != string(messages.ErrDenied) || !strings.Contains(all[0].Result, "4 deep already") {
			t.Errorf("%+v", all[0])
		}
	})
}

// Another host has the run of a child session cancelled, whose action has ended there. What it names is
// that run, or what is in flight: no session without a parent, and no later session of that name.
func TestCancelChild(t *testing.T) {
	for ordinal, by := range []string{"action a of local:local:stream, which is not waited for any more", "action a of local:local:stream"} {
		synctest.Test(t, func(t *testing.T) {
			var begun, ended atomic.Int64
			a := boss(scripted.New(`<action id="a" type="agent">{"name":"w","parameters":{"message":"do"}}</action><response>got $a</response>`), slowly("w", &begun, &ended, messages.ReadOnly))
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			run := submit(t, s, "go")
			time.Sleep(time.Second)
			kid := children(t, rt, s)[0]
			link := messages.ChildLink{SID: kid.SID(), Incarnation: kid.Incarnation().String(), Run: int64(ordinal)}
			none, other, parent := link, link, link
			none.SID, other.Incarnation, parent.SID, parent.Incarnation = "local:local:none", s.Incarnation().String(), s.SID(), s.Incarnation().String()
			for _, of := range []messages.ChildLink{none, other} {
				if err := rt.CancelChild(t.Context(), of); err != nil {
					t.Errorf("%+v: %v", of, err)
				}
			}
			if err := rt.CancelChild(t.Context(), parent); messages.CodeOf(err) != messages.ErrInvalid {
				t.Errorf("the parent: %v", err)
			}
			if synctest.Wait(); begun.Load() != 1 || ended.Load() != 0 {
				t.Fatalf("%d calls, %d ended", begun.Load(), ended.Load())
			}
			for range 2 { // a run that has ended is no error
				if err := rt.CancelChild(t.Context(), link); err != nil {
					t.Fatal(err)
				}
				k := decision(t, kid.Run(1))
				if wantHalt(t, k, messages.ErrCancelled); !strings.HasSuffix(k.Detail, by) {
					t.Errorf("the child ends %q, want %q", k.Detail, by)
				}
			}
			wantDone(t, decision(t, run))
		})
	}
}

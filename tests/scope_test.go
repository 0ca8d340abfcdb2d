package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// shelf is an agent with a key-value relic of a scope, whose model says these replies.
func shelf(t testing.TB, scope string, replies ...string) *stile.Agent {
	t.Helper()
	return fed(t, scripted.New(replies...), "import: {relics: [box]}\ndefine:\n  relics: [{name: box, service_type: key_value, scope: "+scope+"}]\n")
}

// keep is an action on the relic, and what it gave.
func keep(params string) string {
	return `<action id="k" type="relic" mode="sync">{"name":"box","parameters":` + params + `}</action><response>$k</response>`
}

// Values of a user are of all the user's sessions, those of a tenant of all of the tenant's, and
// of no others.
func TestRelicScopes(t *testing.T) {
	for _, c := range []struct {
		scope string
		want  []string // what the sessions see, in their order
	}{
		{"session", []string{"null", "null", "null", "null"}},
		{"user", []string{`"x"`, "null", "null", "null"}},
		{"tenant", []string{`"x"`, `"x"`, "null", "null"}},
	} {
		t.Run(c.scope, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				setter := shelf(t, c.scope, keep(`{"operation":"set","key":"a","value":"x"}`))
				wantDone(t, ask(t, open(t, rt, "acme:ann:one", setter), "go"))
				for i, name := range []string{"acme:ann:two", "acme:bob:one", "other:ann:one", "other:stile.tenant:one"} {
					a := shelf(t, c.scope, keep(`{"operation":"get","key":"a"}`))
					s := open(t, rt, name, a)
					wantDone(t, ask(t, s, "go"))
					end := bodies[*messages.ActionEnded](records(t, s))[0]
					if want := `"value":` + c.want[i] + "}"; !strings.HasSuffix(end.Result, want) {
						t.Errorf("%s sees %s, want %s", name, end.Result, want)
					}
					if _, err := rt.Replay(t.Context(), name, a); err != nil {
						t.Error(err)
					}
				}
				for _, name := range []string{"acme:ann:stile.relics", "acme:stile.tenant:stile.relics"} {
					if c.scope == "user" && strings.Contains(name, "ann") || c.scope == "tenant" && !strings.Contains(name, "ann") {
						if _, err := rt.Replay(t.Context(), name, nil); err != nil {
							t.Error(err)
						}
					} else if _, err := rt.Find(t.Context(), name); !stile.IsNotFound(err) && messages.CodeOf(err) != messages.ErrDenied {
						t.Errorf("%s: %v", name, err)
					}
					_, err := rt.Open(t.Context(), name, setter)
					wantCode(t, err, messages.ErrDenied)
				}
			})
		})
	}
}

// However many sessions add at once, on hosts that share the journal, no addition is lost, and
// each sum is given once.
func TestRelicScopeLosesNothing(t *testing.T) {
	for _, hosts := range []int{1, 2} {
		t.Run(fmt.Sprint(hosts, " hosts"), func(t *testing.T) {
			const sessions, adds = 8, 4
			cfg := stile.Config{Dir: t.TempDir()}
			var all []*stile.Runtime
			for range hosts {
				all = append(all, start(t, cfg))
			}
			var mu sync.Mutex
			var sums []string
			var work sync.WaitGroup
			for i := range sessions {
				rt := all[i%hosts]
				work.Go(func() {
					reply := ""
					for j := range adds {
						reply += fmt.Sprintf(`<action id="k%d" type="relic" mode="async">{"name":"box","parameters":{"operation":"add","key":"n"}}</action>`, j)
					}
					s, err := rt.Open(t.Context(), fmt.Sprintf("acme:u%d:s", i), shelf(t, "tenant", reply+"<response>done</response>"))
					if err != nil {
						t.Error(err)
						return
					}
					ask(t, s, "go")
					mu.Lock()
					defer mu.Unlock()
					for _, b := range bodies[*messages.ActionEnded](records(t, s)) {
						sums = append(sums, string(b.State)+" "+b.Result)
					}
				})
			}
			work.Wait()
			var want []string
			for i := range sessions * adds {
				want = append(want, fmt.Sprintf(`ok {"key":"n","value":%d}`, i+1))
			}
			slices.Sort(sums)
			slices.Sort(want)
			if !slices.Equal(sums, want) {
				t.Errorf("%q", sums)
			}
			if _, err := all[0].Replay(t.Context(), "acme:stile.tenant:stile.relics", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// The erasure of a user erases the values of the user's scope, and what is kept later is new.
func TestRelicScopeErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		set := keep(`{"operation":"set","key":"a","value":"swordfish"}`)
		wantDone(t, ask(t, open(t, rt, "acme:ann:one", shelf(t, "user", set)), "go"))
		wantDone(t, ask(t, open(t, rt, "acme:bob:one", shelf(t, "user", set)), "go"))
		names, err := rt.EraseUser(t.Context(), "acme", "ann", "test")
		if err != nil || !slices.Contains(names, "acme:ann:stile.relics") {
			t.Fatalf("%q, %v", names, err)
		}
		for name, want := range map[string]string{"acme:ann:two": "null", "acme:bob:two": `"swordfish"`} {
			s := open(t, rt, name, shelf(t, "user", keep(`{"operation":"get","key":"a"}`)))
			wantDone(t, ask(t, s, "go"))
			if end := bodies[*messages.ActionEnded](records(t, s))[0]; !strings.Contains(end.Result, want) {
				t.Errorf("%s sees %s", name, end.Result)
			}
		}
		for head, err := range rt.Archive().Sessions(t.Context(), "acme:ann:") {
			if err != nil {
				t.Fatal(err)
			}
			for r, err := range rt.Archive().Records(t.Context(), head.Inc) {
				if err != nil || strings.Contains(string(r.Raw), "swordfish") {
					t.Errorf("%s: %s, %v", head.SID, r.Raw, err)
				}
			}
		}
	})
}

// Limits are those of the relic, and one relic's are not another's.
func TestRelicScopeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fed(t, scripted.New(
			`<action id="a" type="relic" mode="sync">{"name":"box","parameters":{"key":"a","value":1}}</action>`+
				`<action id="b" type="relic" mode="sync">{"name":"box","parameters":{"key":"b","value":1}}</action>`+
				`<action id="c" type="relic" mode="sync">{"name":"box","parameters":{"key":"a","value":"long"}}</action>`+
				`<action id="d" type="relic" mode="sync">{"name":"box","parameters":{"operation":"set","key":"a","value":2,"expect":3}}</action>`+
				`<action id="e" type="relic" mode="sync">{"name":"chest","parameters":{"key":"b","value":"long"}}</action><response>x</response>`),
			"import: {relics: [box, chest]}\ndefine:\n  relics:\n    - {name: box, service_type: key_value, scope: user, storage: {max_keys: 1, max_value: 4}}\n    - {name: chest, service_type: key_value, scope: user}\n")
		s := open(t, start(t, stile.Config{}), "s", a)
		ask(t, s, "go")
		got := ends(t, s)
		for id, want := range map[string]string{"a": "ok", "b": "failed key_limit", "c": "failed value_limit", "d": "failed conflict", "e": "ok"} {
			if !strings.HasPrefix(got[id], want) {
				t.Errorf("%s: %s, want %s", id, got[id], want)
			}
		}
	})
}

// A feed looks at a relic of a scope, and changes nothing.
func TestRelicScopeOfAFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		m := &recorder{Model: scripted.New("<response>a</response>", "<response>b</response>")}
		a := fed(t, m, "import: {relics: [box]}\ndefine:\n  relics: [{name: box, service_type: key_value, scope: tenant}]\ncontext_feeds:\n"+
			"  - {id: city, source: {type: relic, name: box, params: {operation: get, key: city}}}\n  - {id: bad, source: {type: relic, name: box, params: {key: city, value: Rome}}}\n")
		s := open(t, rt, "acme:ann:looks", a)
		wantDone(t, ask(t, s, "one"))
		for head, err := range rt.Archive().Sessions(t.Context(), "acme:stile.tenant:") {
			t.Errorf("a look made %s, %v", head.SID, err)
		}
		wantDone(t, ask(t, open(t, rt, "acme:bob:sets", shelf(t, "tenant", keep(`{"key":"city","value":"Oslo"}`))), "go"))
		wantDone(t, ask(t, s, "two"))
		if got, want := injected(records(t, s)), []string{"city", "bad failed", "city", "bad failed"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if got := fedWith(m.requests()[1]); !strings.Contains(got, `"Oslo"`) {
			t.Error(got)
		}
	})
}

// losing is a store that loses the answer to the first commit of a change of a relic.
type losing struct {
	journal.Store
	lost bool
}

// Commit implements journal.Store.
func (l *losing) Commit(batches []journal.Batch) []error {
	errs := l.Store.Commit(batches)
	for i := range batches {
		for _, r := range batches[i].Records {
			if r.Body.Kind() == messages.KindRelicChanged && !l.lost {
				l.lost = true
				errs[i] = journal.Fail(journal.ReasonClosed, nil, "the answer is lost")
			}
		}
	}
	return errs
}

// replaced is a store in which another host has taken over a session that calls a relic.
type replaced struct {
	journal.Store
	inc atomic.Pointer[messages.Incarnation]
}

// HeadOf implements journal.Store.
func (r *replaced) HeadOf(ctx context.Context, inc messages.Incarnation) (journal.Head, error) {
	head, err := r.Store.HeadOf(ctx, inc)
	if own := r.inc.Load(); own != nil && *own == inc {
		head.Epoch++
	}
	return head, err
}

// A host whose session another one has taken over changes nothing: the other one repeats the call.
func TestRelicScopeOfAReplacedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &replaced{Store: memory.New()}
		rt := start(t, stile.Config{Store: store})
		s := open(t, rt, "acme:ann:s", shelf(t, "user", keep(`{"operation":"add","key":"n"}`), "<response>never</response>"))
		inc := s.Incarnation()
		store.inc.Store(&inc)
		ask(t, s, "go")
		if got := ends(t, s)["k"]; !strings.HasPrefix(got, "failed") && !strings.HasPrefix(got, "unknown") {
			t.Errorf("the action ended %s", got)
		}
		if _, err := rt.Find(t.Context(), "acme:ann:stile.relics"); !stile.IsNotFound(err) {
			t.Errorf("it changed something: %v", err)
		}
	})
}

// A change whose commit was not answered is not made twice.
func TestRelicScopeLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{Store: &losing{Store: memory.New()}})
		s := open(t, rt, "s", shelf(t, "user", keep(`{"operation":"add","key":"n"}`)))
		wantDone(t, ask(t, s, "go"))
		if got := ends(t, s)["k"]; got != `ok {"key":"n","value":1}` {
			t.Errorf("the action ended %s", got)
		}
	})
}

// A call that a crash cut off is repeated under its key: what it had done is not done again.
func TestRelicScopeAfterCrash(t *testing.T) {
	for _, before := range []bool{false, true} { // whether the change was made before the crash
		t.Run(fmt.Sprint("changed ", before), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys, err := stile.GenerateKeys(stile.Config{})
				if err != nil {
					t.Fatal(err)
				}
				dead := make(chan struct{})
				died := sync.OnceFunc(func() { close(dead) })
				sound := memory.New()
				l := &life{t: t, cfg: stile.Config{Keys: keys, Store: &refusing{sound, func(b *journal.Batch) bool {
					for _, r := range b.Records {
						switch b := r.Body.(type) {
						case *messages.RelicChanged:
							return !before
						case *messages.ActionEnded:
							if b.ID == "k" {
								died()
								return true
							}
						}
					}
					return false
				}}}}
				onDisk := make(chan struct{})
				wait := tool("own.wait", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
					<-onDisk
					return neuroscript.String("waited"), nil
				})
				a := shelf(t, "user", `<action id="w" mode="async">{"name":"own.wait"}</action>`+
					`<action id="k" type="relic" mode="async">{"name":"box","parameters":{"operation":"add","key":"n"},"depends_on":["w"]}</action><response>$k</response>`)
				a.Tools, a.Manifest.Import.Tools = []tools.Tool{wait}, []string{"own.wait"}
				s := open(t, l.begin(), "acme:ann:s", a)
				submit(t, s, "go")
				replied(t, s) // so that the next process restores the turn
				close(onDisk)
				<-dead
				l.end()
				l.cfg.Store = sound
				a.Model = scripted.New()
				rt := l.begin()
				defer l.end()
				s = open(t, rt, "acme:ann:s", a)
				wantDone(t, decision(t, s.Run(1)))
				if got := ends(t, s)["k"]; got != `ok {"key":"n","value":1}` {
					t.Errorf("the action ended %s", got)
				}
				kept, err := rt.Find(t.Context(), "acme:ann:stile.relics")
				if err != nil {
					t.Fatal(err)
				}
				if n := len(bodies[*messages.RelicChanged](records(t, kept))); n != 1 {
					t.Errorf("%d changes", n)
				}
				for name, agent := range map[string]*stile.Agent{s.SID(): a, kept.SID(): nil} {
					if _, err := rt.Replay(t.Context(), name, agent); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

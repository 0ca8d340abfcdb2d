package talk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/internal/resume"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

var (
	broken  = &llm.Failure{Kind: llm.KindNetwork, Code: "transport", Retryable: true}
	garbage = &llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}
	refused = &llm.Failure{Kind: llm.KindAuth, Code: "invalid_api_key", Status: 401}
	absent  = &llm.Failure{Kind: llm.KindRequest, Status: 404}
	lost    = &llm.Failure{Kind: llm.KindRequest, Code: llm.CodeLost, Status: 400}
	limit   = &llm.Failure{Kind: llm.KindRequest, Code: llm.CodeLimit, Status: 400}
)

// A conversation sends what is new, as long as the prompt grows at its end.
func TestGoesOn(t *testing.T) {
	p := &provider{t: t}
	pool, a := newTalk(t, 0, Config{}, p)
	good(t, a.ask(t.Context(), "One"), "ok")
	good(t, a.ask(t.Context(), "One", " ok\n", "Two"), "ok") // dialects trim
	is(t, p.saw(), "connected 1 | 1: 2 of 2 | 1: 1 of 4")
	is(t, strings.Join(a.modes, ", "), "resume 1 2, resume 1 1")
	// Another reply than the model's is told: it goes on from the point before.
	good(t, a.ask(t.Context(), "One", " ok\n", "Two", "no", "Three"), "ok")
	is(t, p.saw(), "1: 3 of 6")
	good(t, a.ask(t.Context(), "Two", "no", "Three"), "ok")
	is(t, p.saw(), "1: 4 of 4")
	is(t, a.noted(), "opened 1 | diverged 1 REPLY | seeded 1 HISTORY")
	a.name = "another"
	good(t, a.ask(t.Context(), "Two", "no", "Three", "ok", "Four"), "ok")
	is(t, a.noted(), "closed 1 MODEL | opened 2")
	if pool.Open() != 1 {
		t.Errorf("%d connections", pool.Open())
	}
}

// What the model writes behind what counts, or goes on to say to a receiver that has left, is
// never built upon.
func TestBehindTheStop(t *testing.T) {
	for name, c := range map[string]struct {
		say    say
		leave  string
		counts int64
		want   string
		whole  bool // the turn is told as it went, in whatever words
	}{
		"left at the end":          {say{text: []string{"re", "ply"}}, "ply", -1, "1: 1 of 6", false},
		"left, and white space":    {say{text: []string{"re", "ply", " \n"}}, "ply", -1, "1: 1 of 6", false},
		"left, and more":           {say{text: []string{"re", "ply"}, behind: "more"}, "ply", -1, "1: 3 of 6", false},
		"left in the middle":       {say{text: []string{"reply", "more"}}, "reply", -1, "1: 3 of 6", false},
		"read, counts in part":     {say{text: []string{"reply", "more"}}, "", 5, "1: 3 of 6", false},
		"told as it went":          {say{text: []string{"<reply/>"}}, "", -1, "1: 1 of 6", true},
		"told so, and more":        {say{text: []string{"reply", "more"}}, "", 5, "1: 3 of 6", true},
		"told so, left, and more":  {say{text: []string{"reply"}, behind: "more"}, "reply", -1, "1: 3 of 6", true},
		"read, white space behind": {say{text: []string{"reply", "\n"}}, "", 5, "1: 1 of 6", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &provider{t: t, answer: func(n int) say { return map[int]say{1: c.say}[n] }}
			_, a := newTalk(t, 0, Config{}, p)
			good(t, a.ask(t.Context(), "One"), "ok")
			a.leave, a.counts = c.leave, func() int64 { return c.counts }
			if o := a.ask(t.Context(), "One", "ok", "Two"); o.Err != nil || o.Broken != "" || !strings.Contains(o.Text, "reply") {
				t.Fatalf("%+v", o)
			}
			p.saw()
			a.leave, a.counts, a.whole = "", nil, c.whole
			p.loose = c.whole
			good(t, a.ask(t.Context(), "One", "ok", "Two", "reply", "Three"), "ok")
			is(t, p.saw(), c.want)
		})
	}
}

// The connection may die in every state. A reply that has begun is not asked for again, one that
// has not at most once more; an agent with auto goes on without, for the rest of its run.
func TestDeath(t *testing.T) {
	once := func(s say) func(int) say { return func(n int) say { return map[int]say{1: s}[n] } }
	always := func(s say) func(int) say {
		return func(n int) say {
			if n == 0 {
				return say{}
			}
			return s
		}
	}
	dead := func(context.Context) bool { return true }
	type outcome struct{ saw, noted, err, then string }
	for name, c := range map[string]struct {
		answer func(int) say
		settle func(context.Context) bool
		dial   *llm.Failure // of the second connection
		text   string
		resume outcome
		auto   outcome
	}{
		"while it rests": {
			settle: dead, text: "ok",
			resume: outcome{"closed 1 | connected 2 | 2: 4 of 4", "closed 1 NETWORK | opened 2", "", "closed 2 | connected 3 | 3: 6 of 6"},
			auto:   outcome{"closed 1 | connected 2 | 2: 4 of 4", "closed 1 NETWORK | opened 2", "", "closed 2 | connected 3 | 3: 6 of 6"},
		},
		"while it rests, and the provider is gone": {
			settle: dead, dial: broken, text: "ok",
			resume: outcome{"closed 1 | refused", "closed 1 NETWORK", "TRANSPORT", "connected 2 | 2: 6 of 6"},
			auto:   outcome{"closed 1 | refused | whole 4", "closed 1 NETWORK | fallback 1 TRANSPORT", "", "whole 6"},
		},
		"while it rests, and the key is refused": {
			settle: dead, dial: refused,
			resume: outcome{"closed 1 | refused", "closed 1 NETWORK", "STATUS_401", "connected 2 | 2: 6 of 6"},
			auto:   outcome{"closed 1 | refused", "closed 1 NETWORK", "STATUS_401", "connected 2 | 2: 6 of 6"},
		},
		"when it is asked": {
			answer: once(say{fails: broken, gone: true}), text: "ok",
			resume: outcome{"1: 1 of 4 | closed 1 | connected 2 | 2: 4 of 4", "closed 1 NETWORK | opened 2", "", "2: 1 of 6"},
			auto:   outcome{"1: 1 of 4 | closed 1 | connected 2 | 2: 4 of 4", "closed 1 NETWORK | opened 2", "", "2: 1 of 6"},
		},
		"whenever it is asked": {
			answer: func(n int) say {
				return map[int]say{1: {fails: broken, gone: true}, 2: {fails: broken, gone: true}}[n]
			}, text: "ok",
			resume: outcome{"1: 1 of 4 | closed 1 | connected 2 | 2: 4 of 4 | closed 2", "closed 1 NETWORK | opened 2", "TRANSPORT", "connected 3 | 3: 6 of 6"},
			auto:   outcome{"1: 1 of 4 | closed 1 | connected 2 | 2: 4 of 4 | closed 2 | whole 4", "closed 1 NETWORK | opened 2 | fallback 2 TRANSPORT", "", "whole 6"},
		},
		"in the middle": {
			answer: once(say{text: []string{"begun"}, fails: broken, gone: true}), text: "begun",
			resume: outcome{"1: 1 of 4 | closed 1", "", "TRANSPORT", "connected 2 | 2: 6 of 6"},
			auto:   outcome{"1: 1 of 4 | closed 1", "fallback 1 TRANSPORT", "TRANSPORT", "whole 6"},
		},
		"in the middle, with the connection": {
			answer: once(say{text: []string{"begun"}, fails: broken}), text: "begun",
			resume: outcome{"1: 1 of 4", "", "TRANSPORT", "1: 6 of 6"},
			auto:   outcome{"1: 1 of 4 | closed 1", "fallback 1 TRANSPORT", "TRANSPORT", "whole 6"},
		},
		"without an end": {
			answer: once(say{text: []string{"begun"}, mute: true}), text: "begun",
			resume: outcome{"1: 1 of 4", "", "PROTOCOL", "1: 6 of 6"},
			auto:   outcome{"1: 1 of 4", "", "PROTOCOL", "1: 6 of 6"},
		},
		"garbage": {
			answer: once(say{fails: garbage, gone: true}), text: "ok",
			resume: outcome{"1: 1 of 4 | closed 1 | connected 2 | 2: 4 of 4", "closed 1 NETWORK | opened 2", "", "2: 1 of 6"},
			auto:   outcome{"1: 1 of 4 | closed 1 | connected 2 | 2: 4 of 4", "closed 1 NETWORK | opened 2", "", "2: 1 of 6"},
		},
		"the provider has lost it": {
			answer: once(say{fails: lost}), text: "ok",
			resume: outcome{"1: 1 of 4 | 1: 4 of 4", "seeded 1 LOST", "", "1: 1 of 6"},
			auto:   outcome{"1: 1 of 4 | 1: 4 of 4", "seeded 1 LOST", "", "1: 1 of 6"},
		},
		"the provider loses whatever it gets": {
			answer: always(say{fails: lost}),
			resume: outcome{"1: 1 of 4 | 1: 4 of 4", "seeded 1 LOST", "STATUS_400", "1: 6 of 6"},
			auto:   outcome{"1: 1 of 4 | 1: 4 of 4 | closed 1 | whole 4", "seeded 1 LOST | fallback 1 STATUS_400", "STATUS_400", "whole 6"},
		},
		"the provider's limit": {
			answer: once(say{fails: limit, gone: true}), text: "ok",
			resume: outcome{"1: 1 of 4 | closed 1 | connected 2 | 2: 4 of 4", "expired 1 LIMIT | opened 2", "", "2: 1 of 6"},
			auto:   outcome{"1: 1 of 4 | closed 1 | connected 2 | 2: 4 of 4", "expired 1 LIMIT | opened 2", "", "2: 1 of 6"},
		},
		"the key is refused": {
			answer: once(say{fails: refused, gone: false}),
			resume: outcome{"1: 1 of 4", "", "STATUS_401", "1: 6 of 6"},
			auto:   outcome{"1: 1 of 4", "", "STATUS_401", "1: 6 of 6"},
		},
	} {
		for _, auto := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, auto %v", name, auto), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &provider{t: t, answer: c.answer, settle: c.settle}
					_, a := newTalk(t, 0, Config{Auto: auto}, p)
					good(t, a.ask(t.Context(), "One"), "ok")
					is(t, p.saw(), "connected 1 | 1: 2 of 2")
					is(t, a.noted(), "opened 1")
					if c.dial != nil {
						p.dial = func(context.Context) error { return llm.Fail(*c.dial, "no") }
					}
					want := c.resume
					if auto {
						want = c.auto
					}
					o := a.ask(t.Context(), "One", "ok", "Two")
					synctest.Wait() // connections are closed on other goroutines
					reason := ""
					if o.Err != nil {
						reason = reasonOf(o.Err)
					}
					if reason != want.err || o.Broken != "" || want.err == "" && o.Text != c.text {
						t.Errorf("%+v", o)
					}
					is(t, sorted(p.saw()), sorted(want.saw))
					is(t, a.noted(), want.noted)
					p.dial = nil
					_ = a.ask(t.Context(), "One", "ok", "Two", "ok", "Three")
					synctest.Wait()
					is(t, sorted(p.saw()), sorted(want.then))
				})
			})
		}
	}
}

// sorted returns the lines of a provider in an order of their own: connections are closed while
// others are made.
func sorted(lines string) string {
	all := strings.Split(lines, " | ")
	slices.Sort(all)
	return strings.Join(all, " | ")
}

// A request may be cancelled in every state, which is no failure, and the next one goes on.
func TestCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(p *provider, hold chan struct{})
		want string // of the request behind
		text string
	}{
		"connecting": {func(p *provider, _ chan struct{}) {
			p.settle = func(context.Context) bool { return true }
			p.dial = func(ctx context.Context) error { <-ctx.Done(); return llm.Fail(*broken, "no") }
		}, "connected 2 | 2: 4 of 4", ""},
		"connected too late": {func(p *provider, _ chan struct{}) {
			p.settle = func(context.Context) bool { return true }
			p.dial = func(ctx context.Context) error { <-ctx.Done(); return nil }
		}, "connected 3 | 3: 4 of 4", ""},
		"settling": {func(p *provider, _ chan struct{}) {
			p.settle = func(ctx context.Context) bool { <-ctx.Done(); return false }
		}, "1: 1 of 4", ""},
		"asking": {func(p *provider, hold chan struct{}) {
			p.answer = func(n int) say { return map[int]say{1: {text: []string{"all"}, hold: hold}}[n] }
		}, "1: 1 of 4", ""},
		"streaming": {func(p *provider, hold chan struct{}) {
			p.answer = func(n int) say { return map[int]say{1: {text: []string{"be", "gun"}, hold: hold}}[n] }
		}, "1: 1 of 4", "be"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provider{t: t}
				_, a := newTalk(t, 0, Config{Auto: true}, p)
				good(t, a.ask(t.Context(), "One"), "ok")
				c.set(p, make(chan struct{}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				o := a.ask(ctx, "One", "ok", "Two")
				if o.Err != nil || o.Broken != "" || o.Finish != messages.FinishCancelled || o.Text != c.text {
					t.Errorf("%+v", o)
				}
				synctest.Wait()
				p.saw()
				if slices.ContainsFunc(a.lines, func(line string) bool { return strings.HasPrefix(line, "fallback") }) {
					t.Errorf("it fell back: %s", a.noted())
				}
				p.settle, p.dial, p.answer = nil, nil, nil
				good(t, a.ask(t.Context(), "One", "ok", "Two"), "ok")
				is(t, p.saw(), c.want)
			})
		})
	}
	t.Run("waiting for another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			p := &provider{t: t, answer: func(int) say { return say{text: []string{"x"}, hold: hold} }}
			_, a := newTalk(t, 0, Config{}, p)
			var wg sync.WaitGroup
			wg.Go(func() { good(t, a.ask(t.Context(), "One"), "x") })
			synctest.Wait()
			b := &asker{talk: a.talk, model: p, name: "m"}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if o := b.ask(ctx, "One"); o.Err != nil || o.Broken != "" || o.Finish != messages.FinishCancelled {
				t.Errorf("%+v", o)
			}
			close(hold)
			wg.Wait()
		})
	})
}

// A connection is closed when it was not used for a while, and given up near the end of its age.
func TestTime(t *testing.T) {
	run := func(name string, c Config, f func(*testing.T, *Pool, *provider, *asker)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provider{t: t}
				pool, a := newTalk(t, 0, c, p)
				good(t, a.ask(t.Context(), "One"), "ok")
				f(t, pool, p, a)
			})
		})
	}
	run("idle", Config{}, func(t *testing.T, pool *Pool, p *provider, a *asker) {
		time.Sleep(DefaultIdle - 1)
		good(t, a.ask(t.Context(), "One", "ok", "Two"), "ok") // and the time begins anew
		time.Sleep(DefaultIdle - 1)
		synctest.Wait()
		if pool.Open() != 1 {
			t.Error("closed too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if pool.Open() != 0 || p.open() != 0 {
			t.Error("not closed")
		}
		good(t, a.ask(t.Context(), "One", "ok", "Two", "ok", "Three"), "ok")
		is(t, a.noted(), "opened 1 | closed 1 IDLE | opened 2")
	})
	run("a long reply is not idle", Config{Idle: time.Second}, func(t *testing.T, pool *Pool, p *provider, a *asker) {
		hold := make(chan struct{})
		p.answer = func(int) say { return say{text: []string{"x"}, hold: hold} }
		time.AfterFunc(time.Hour, func() { close(hold) })
		good(t, a.ask(t.Context(), "One", "ok", "Two"), "x")
		is(t, p.saw(), "connected 1 | 1: 2 of 2 | 1: 1 of 4")
		is(t, a.noted(), "opened 1")
	})
	run("age", Config{Idle: time.Hour, Age: time.Minute}, func(t *testing.T, _ *Pool, p *provider, a *asker) {
		time.Sleep(time.Minute - 1)
		good(t, a.ask(t.Context(), "One", "ok", "Two"), "ok")
		time.Sleep(time.Nanosecond)
		p.expires = time.Now().Add(time.Second) // the provider's end comes first
		good(t, a.ask(t.Context(), "One", "ok", "Two", "ok", "Three"), "ok")
		time.Sleep(time.Second)
		good(t, a.ask(t.Context(), "One", "ok", "Two", "ok", "Three", "ok", "Four"), "ok")
		is(t, a.noted(), "opened 1 | expired 1 AGE | opened 2 | expired 2 AGE | opened 3")
	})
	run("a pause", Config{}, func(t *testing.T, pool *Pool, _ *provider, a *asker) {
		a.talk.Rest(resume.ReasonSuspended)
		synctest.Wait()
		if pool.Open() != 0 {
			t.Error("not closed")
		}
		a.talk.Rest(resume.ReasonSuspended) // again
		good(t, a.ask(t.Context(), "One", "ok", "Two"), "ok")
		is(t, a.noted(), "opened 1 | closed 1 SUSPENDED | opened 2")
	})
	run("a pause in the middle of a reply", Config{}, func(t *testing.T, _ *Pool, p *provider, a *asker) {
		hold := make(chan struct{})
		p.answer = func(int) say { return say{text: []string{"x", "y"}, hold: hold} }
		time.AfterFunc(time.Second, func() {
			a.talk.Rest(resume.ReasonSuspended)
			synctest.Wait()
			close(hold)
		})
		good(t, a.ask(t.Context(), "One", "ok", "Two"), "xy")
	})
	run("a provider that does not answer to the end", Config{}, func(t *testing.T, pool *Pool, p *provider, a *asker) {
		p.hang = make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(p.hang) })
		a.name = "another"
		began := time.Now()
		good(t, a.ask(t.Context(), "One"), "ok")
		a.talk.Close()
		a.talk.Close()
		if time.Since(began) != 0 {
			t.Error("it was waited for")
		}
		if pool.Wait(); time.Since(began) != time.Hour || p.open() != 0 {
			t.Errorf("after %s there are %d", time.Since(began), p.open())
		}
	})
}

// The end of a session ends its conversation, once the request in flight has ended, and no
// other is made.
func TestClose(t *testing.T) {
	(*Talk)(nil).Close()
	(*Talk)(nil).Rest(resume.ReasonSuspended)
	synctest.Test(t, func(t *testing.T) {
		p := &provider{t: t, answer: func(int) say { return say{text: []string{"x", "y"}, hold: make(chan struct{})} }}
		pool, a := newTalk(t, 0, Config{}, p)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if o := a.ask(ctx, "One"); o.Err != nil || o.Broken != "" || o.Finish != messages.FinishCancelled || o.Text != "x" {
				t.Errorf("%+v", o)
			}
		})
		synctest.Wait()
		a.talk.Close()
		synctest.Wait()
		if pool.Open() != 1 {
			t.Error("closed under a request")
		}
		cancel()
		wg.Wait()
		pool.Wait()
		if pool.Open() != 0 || p.open() != 0 {
			t.Error("not closed")
		}
	})
}

// Connections are bounded over all conversations: the one that was idle for longest gives way,
// and one that is used never does.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{t: t}
		pool := NewPool(2, time.Now, unseen)
		var all []*asker
		for i := range 4 {
			all = append(all, &asker{talk: pool.New(Config{Auto: i == 3}), model: p, name: "m"})
		}
		good(t, all[0].ask(t.Context(), "A"), "ok")
		good(t, all[1].ask(t.Context(), "B"), "ok")
		good(t, all[0].ask(t.Context(), "A", "ok", "A"), "ok")
		good(t, all[2].ask(t.Context(), "C"), "ok") // in the place of B
		synctest.Wait()
		if pool.Open() != 2 || p.open() != 2 {
			t.Errorf("%d connections", p.open())
		}
		good(t, all[1].ask(t.Context(), "B", "ok", "B"), "ok") // in the place of A
		is(t, all[0].noted(), "opened 1")
		is(t, all[1].noted(), "opened 1 | closed 1 EVICTED | opened 2")
		good(t, all[2].ask(t.Context(), "C", "ok", "C"), "ok")
		is(t, all[2].noted(), "opened 1")

		// All are used.
		hold := make(chan struct{})
		p.answer = func(int) say { return say{text: []string{"x"}, hold: hold} }
		var wg sync.WaitGroup
		for _, a := range all[1:3] {
			wg.Go(func() { a.ask(t.Context(), "D") })
		}
		synctest.Wait()
		p.answer = nil
		o := all[0].ask(t.Context(), "A", "ok", "A", "ok", "A")
		if f := llm.FailureOf(o.Err); f.Kind != llm.KindOverloaded || !f.Retryable || o.Broken != "" {
			t.Errorf("%+v: %+v", f, o)
		}
		good(t, all[3].ask(t.Context(), "E"), "ok")
		is(t, all[3].noted(), "fallback 0 MODEL_SESSIONS")
		close(hold)
		wg.Wait()
		good(t, all[0].ask(t.Context(), "A", "ok", "A", "ok", "A"), "ok")
		for _, a := range all {
			a.talk.Close()
		}
		pool.Wait()
		if pool.Open() != 0 || p.open() != 0 {
			t.Errorf("%d connections stay", p.open())
		}
	})
}

// All that becomes of connections is seen once, with its reason, also ends that no record tells.
func TestSightings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{t: t}
		pool, a := newTalk(t, 0, Config{Auto: true}, p)
		good(t, a.ask(t.Context(), "One"), "ok")
		good(t, a.ask(t.Context(), "Else"), "ok")
		time.Sleep(DefaultIdle + time.Second)
		synctest.Wait()
		is(t, a.seen.String(), "opened | seeded HISTORY | closed IDLE")
		good(t, a.ask(t.Context(), "One"), "ok")
		p.answer = func(int) say { return say{fails: broken, gone: true} }
		p.dial = func(context.Context) error { return llm.Fail(*absent, "no") }
		a.ask(t.Context(), "One", "ok", "Two")
		is(t, a.seen.String(), "opened | seeded HISTORY | closed IDLE | opened | closed NETWORK | fallback STATUS_404")
		p.answer, p.dial, a.run = nil, nil, 2
		good(t, a.ask(t.Context(), "One"), "ok")
		a.talk.Close()
		pool.Wait()
		is(t, strings.TrimPrefix(a.seen.String(), "opened | seeded HISTORY | closed IDLE | opened | closed NETWORK | fallback STATUS_404 | "), "opened | closed ENDED")
	})
}

// A request behind the end of the session fails, also where there is a place.
func TestAsksTooLate(t *testing.T) {
	for name, auto := range map[string]bool{"resume": false, "auto": true} {
		t.Run(name, func(t *testing.T) {
			p := &provider{t: t}
			pool, a := newTalk(t, 0, Config{Auto: auto}, p)
			a.talk.Close()
			for range 2 {
				if o := a.ask(t.Context(), "One"); o.Broken != "" || o.Err == nil || llm.FailureOf(o.Err).Code != "closed" {
					t.Errorf("%+v", o)
				}
				pool.Wait()
			}
			is(t, p.saw(), "")
		})
	}
}

// An idle connection can always give way, also one that another had looked at while its request
// came to an end.
func TestPoolUnderLoad(t *testing.T) {
	p := &provider{t: t}
	pool := NewPool(1, time.Now, unseen)
	all := []*asker{{talk: pool.New(Config{}), model: p, name: "m"}, {talk: pool.New(Config{}), model: p, name: "m"}}
	last := &asker{talk: pool.New(Config{}), model: p, name: "m"}
	for i := range 5000 {
		var wg sync.WaitGroup
		for _, a := range all {
			wg.Go(func() { a.ask(t.Context(), "A") }) // one of them may find no place
		}
		wg.Wait()
		if o := last.ask(t.Context(), "A"); o.Err != nil {
			t.Fatalf("round %d: nothing is used, and there is no place: %v", i, o.Err)
		}
	}
	for _, a := range append(all, last) {
		a.talk.Close()
	}
	pool.Wait()
	if pool.Open() != 0 || p.open() != 0 {
		t.Errorf("%d connections stay", p.open())
	}
}

// Whatever happens in whatever order, a stream ends in one way, its text is of one reply, nothing
// is built upon what the provider does not have (it says so), and every connection is closed.
func FuzzTalk(f *testing.F) {
	for i := range 20 {
		f.Add(uint64(i))
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 20))
			in := func(n int) bool { return r.IntN(n) == 0 }
			p := &provider{t: t, expires: time.Now().Add(time.Hour)}
			failures := []*llm.Failure{broken, garbage, refused, absent, lost, limit}
			p.answer = func(n int) say {
				s := say{text: []string{fmt.Sprint("r", n, "a"), fmt.Sprint("r", n, "b")}}
				if in(4) {
					s.behind = "more"
				}
				if in(4) {
					s.text = s.text[:r.IntN(3)]
					s.fails, s.gone = failures[r.IntN(len(failures))], in(2)
				}
				if in(8) {
					s.hold = make(chan struct{}) // until the request is cancelled
					s.text = []string{fmt.Sprint("r", n, "a"), fmt.Sprint("r", n, "b")}
				}
				return s
			}
			p.settle = func(context.Context) bool { return in(8) }
			p.dial = func(context.Context) error {
				if in(6) {
					return llm.Fail(*failures[r.IntN(len(failures))], "no")
				}
				return nil
			}
			_, a := newTalk(t, 0, Config{Auto: in(2)}, p)
			history := []string{"One"}
			for turn := range 30 {
				a.run = int64(turn / 5)
				a.leave = ""
				if in(4) {
					a.leave = "r" + fmt.Sprint(p.asked) + "a"
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				o := a.ask(ctx, history...)
				cancel()
				if o.Broken != "" {
					t.Fatalf("seed %d: %+v", seed, o)
				}
				if a, b, two := strings.Cut(o.Text, "a"); two && b != "" && b != a+"b" {
					t.Fatalf("seed %d: a reply of two: %q", seed, o.Text)
				}
				switch {
				case in(6):
					history = append(history, "told otherwise", fmt.Sprint("Q", turn))
				case in(8) && len(history) > 4:
					history = slices.Concat(history[2:], []string{o.Text, fmt.Sprint("Q", turn)})
				case o.Err != nil && in(2): // the turn fails, and the next asks the same
				default:
					history = append(history, o.Text, fmt.Sprint("Q", turn))
				}
				switch {
				case in(10):
					a.talk.Rest(resume.ReasonSuspended)
				case in(10):
					time.Sleep(DefaultIdle)
				}
				synctest.Wait()
			}
		})
	})
}

// A conversation that only grows is gone on from behind its last reply; all else needs another
// connection, which may have the same conversation. What one activation knows is not told to
// another.
func TestOnlyGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{t: t, fixed: true}
		pool, a := newTalk(t, 0, Config{}, p)
		good(t, a.ask(t.Context(), "One"), "ok")
		good(t, a.ask(t.Context(), "One", "ok", "Two"), "ok")
		is(t, p.saw(), "connected 1 | 1: 2 of 2 | 1: 1 of 4")
		good(t, a.ask(t.Context(), "One", "ok", "Two", "no", "Three"), "ok")
		synctest.Wait()
		is(t, sorted(p.saw()), sorted("connected 2 | 2: 6 of 6 | closed 1")) // it closes meanwhile
		is(t, a.noted(), "opened 1 | closed 1 REPLY | opened 2")
		a.talk.Rest(resume.ReasonSuspended)
		synctest.Wait()
		good(t, a.ask(t.Context(), "One", "ok", "Two", "no", "Three", "ok", "Four"), "ok")
		is(t, p.saw(), "closed 2 | again 3 | 3: 1 of 8")
		p.unfit = true
		good(t, a.ask(t.Context(), "One", "ok", "Two", "no", "Three", "ok", "Four", "ok", "Five"), "ok")
		p.unfit = false
		is(t, a.noted(), "closed 2 SUSPENDED | opened 3 HANDLE | closed 3 SETUP | opened 4 HANDLE")
		a.talk.Rest(resume.ReasonSuspended)
		synctest.Wait()
		p.saw()
		p.again = errors.New("it is forgotten")
		good(t, a.ask(t.Context(), "One", "ok", "Two", "no", "Three", "ok", "Four", "ok", "Five", "ok", "Six"), "ok")
		is(t, p.saw(), "connected 5 | 5: 12 of 12")
		is(t, a.noted(), "closed 4 SUSPENDED | opened 5")
		if pool.Open() != 1 {
			t.Errorf("%d connections", pool.Open())
		}
		p.again = nil
		p.expires = time.Now() // the provider says that it leaves
		good(t, a.ask(t.Context(), "One", "ok", "Two", "no", "Three", "ok", "Four", "ok", "Five", "ok", "Six", "ok", "Seven"), "ok")
		is(t, a.noted(), "expired 5 LIMIT | opened 6 HANDLE")
		p.expires = time.Time{}

		// The last connection of a conversation is another one's business.
		b := &asker{talk: pool.New(Config{}), model: p, name: "m", seen: a.seen}
		defer b.talk.Close()
		synctest.Wait()
		p.saw()
		good(t, b.ask(t.Context(), "One", "ok", "Two"), "ok")
		is(t, p.saw(), "connected 7 | 7: 4 of 4")
		b.talk.Close()
		synctest.Wait()
	})
}

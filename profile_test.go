package stile_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// keeps is a model that answers users "ok" and is told what to answer when it is asked
// for a profile; an answer beginning with "!" is a failure of the model.
type keeps struct {
	mu      sync.Mutex
	answers []string
	asked   []string // for profiles
	prompts []string // of users: what the system says
	usage   messages.Usage
}

// Stream implements llm.Model.
func (k *keeps) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		k.mu.Lock()
		text := "ok"
		if strings.HasSuffix(req.Session, ":"+messages.ProfileID) {
			k.asked = append(k.asked, req.Messages[len(req.Messages)-1].Text)
			text = "{}"
			if len(k.answers) > 0 {
				text, k.answers = k.answers[0], k.answers[1:]
			}
		} else {
			system := ""
			if req.Messages[0].Role == messages.RoleSystem {
				system = req.Messages[0].Text
			}
			k.prompts = append(k.prompts, system)
		}
		usage := k.usage
		k.mu.Unlock()
		switch last := req.Messages[len(req.Messages)-1].Text; {
		case text != "ok":
		case strings.HasSuffix(last, "wait"):
			<-ctx.Done()
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			return
		case strings.HasSuffix(last, "delegate"):
			text = `<action id="k" type="agent">{"name":"helper","parameters":{"message":"what the model wants to know"}}</action>`
		case strings.Contains(last, "ok") || strings.Contains(req.Messages[0].Text, "<response"):
			text = "<response final=\"true\">ok</response>"
		}
		if why, fails := strings.CutPrefix(text, "!"); fails {
			yield(llm.Chunk{}, llm.Fail(llm.Failure{Code: "invalid_request"}, why))
			return
		}
		yield(llm.Chunk{Text: []byte(text), Finish: messages.FinishComplete, Usage: usage}, nil)
	}
}

func (k *keeps) take() (asked, prompts []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked, prompts = k.asked, k.prompts
	k.asked, k.prompts = nil, nil
	return asked, prompts
}

// ticking gives a configuration a clock that never tells the same time twice: a bubble's
// stands still while something runs.
func ticking(cfg stile.Config) stile.Config {
	var n atomic.Int64
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(n.Add(1)) * time.Microsecond) }
	return cfg
}

func profiled(t testing.TB, m llm.Model, more string) *stile.Agent {
	t.Helper()
	man, err := manifest.Parse("profiled.yaml", []byte("dialect: cogency\nname: profiled\n"+more))
	if err != nil {
		t.Fatal(err)
	}
	return &stile.Agent{Manifest: man, Model: m}
}

// says has a user say something and waits until all that follows has happened.
func says(t testing.TB, s *stile.Session, text string) {
	t.Helper()
	if o := decided(t, submitted(t, s, text)); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	synctest.Wait()
}

func profileOf(t testing.TB, s *stile.Session) stile.Profile {
	t.Helper()
	p, err := s.Profile(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const aGardener = `{"who":"a gardener","style":"short"}`

// What a user says in several sessions is learned every five messages, shown from the
// next prompt on, kept in versions, and replayed without a model.
func TestProfile(t *testing.T) {
	stores := map[string]func(*testing.T) stile.Config{
		"memory": func(*testing.T) stile.Config { return stile.Config{} },
		"sqlite": func(t *testing.T) stile.Config {
			store, err := sqlite.Open(sqlite.Options{Path: t.TempDir() + "/journal.db"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			return stile.Config{Store: store}
		},
	}
	for name, cfg := range stores {
		t.Run(name, func(t *testing.T) {
			c := cfg(t)
			synctest.Test(t, func(t *testing.T) {
				k := &keeps{answers: []string{"```json\n" + aGardener + "\n```", "{}", `{"who":"a </results> [x] \u2028\nbotanist"}`}, usage: messages.Usage{Input: 100, Output: 10}}
				a := profiled(t, k, "memory: {profile: true}\n")
				rt := start(t, ticking(c))
				one, two := opened(t, rt, "t:ann:one", a), opened(t, rt, "t:ann:two", a)
				for i := range 4 {
					says(t, []*stile.Session{one, two}[i%2], fmt.Sprintf("message %d </execute>", i))
				}
				if asked, prompts := k.take(); len(asked) != 0 || strings.Contains(strings.Join(prompts, ""), "PROFILE") {
					t.Fatalf("after four messages: %q", asked)
				}
				says(t, one, "message 4")
				asked, _ := k.take()
				if len(asked) != 1 {
					t.Fatalf("after five messages asked %d times", len(asked))
				}
				want := `{"profile":{},"messages":["message 0 \u003c/execute\u003e","message 1 \u003c/execute\u003e","message 2 \u003c/execute\u003e","message 3 \u003c/execute\u003e","message 4"]}`
				if asked[0] != want {
					t.Errorf("asked\n%s, want\n%s", asked[0], want)
				}
				if p := profileOf(t, two); p.Version != 1 || p.JSON != aGardener || p.Messages != 5 || p.Characters != len(aGardener) {
					t.Errorf("%+v", p)
				}
				for i := range 5 {
					says(t, two, fmt.Sprintf("more %d", i))
				}
				asked, prompts := k.take()
				if len(asked) != 1 || !strings.HasPrefix(asked[0], `{"profile":`+aGardener+`,"messages":["more 0",`) {
					t.Fatalf("asked %q", asked)
				}
				for _, p := range prompts {
					if !strings.HasSuffix(p, "\n\nUSER PROFILE:\n"+aGardener) {
						t.Errorf("a prompt says\n…%s", p[max(0, len(p)-200):])
					}
				}
				if p := profileOf(t, one); p.Version != 1 || p.Messages != 10 {
					t.Errorf("after {}: %+v", p)
				}
				for i := range 6 {
					says(t, one, fmt.Sprintf("again %d", i))
				}
				_, prompts = k.take()
				if got, want := prompts[len(prompts)-1], `USER PROFILE:`+"\n"+`{"who":"a \u003c/results\u003e \u005bx\u005d \u2028\nbotanist"}`; !strings.HasSuffix(got, want) {
					t.Errorf("the profile is shown as …%q, want %q", got[max(0, len(got)-100):], want)
				}
				records, _, _ := replays(t, rt.Archive(), nil)
				if records == 0 {
					t.Error("nothing was replayed")
				}
			})
		})
	}
}

// sentTools is a provider's model that is asked for a profile, and can be sent tools.
type sentTools struct {
	*keeps
	options chan string // of what it is asked for profiles
}

func (sentTools) CallsTools() bool { return true }

// Stream implements llm.Model.
func (m sentTools) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	if strings.HasSuffix(req.Session, ":"+messages.ProfileID) {
		m.options <- req.Options
	}
	return m.keeps.Stream(ctx, req)
}

// fails is a model that never answers.
type fails struct{}

// Stream implements llm.Model.
func (fails) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, llm.Fail(llm.Failure{Code: "model_not_found"}, "no"))
	}
}

// The keeper of profiles is asked as its agent is, but for what would cut a profile: the
// stop sequences of the agent's answers; and what users said is no marker in its prompt.
func TestProfileIsAskedInItsOwnWay(t *testing.T) {
	for name, c := range map[string]struct{ model, want string }{
		"stop sequences":             {"provider: openai, model: m, options: {temperature: 0.5, stop: [\"}\"]}", `{"stop":[],"temperature":0.5}`},
		"none":                       {"provider: openai, model: m, options: {temperature: 0.5}", `{"temperature":0.5}`},
		"of a fallback":              {"provider: mine, model: m, fallback: [{provider: openai, model: m, options: {stop: [x]}}]", `{"stop":[]}`},
		"calls in the vendor's form": {"provider: openai, model: m, tool_calls: native", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := sentTools{&keeps{}, make(chan string, 10)}
				cfg := ticking(stile.Config{Providers: map[string]llm.Provider{
					"openai": func(llm.Settings) (llm.Model, error) { return m, nil },
					"mine":   func(llm.Settings) (llm.Model, error) { return fails{}, nil },
				}})
				rt := start(t, cfg)
				says(t, opened(t, rt, "t:ann:s", profiled(t, nil, "memory: {profile: true, profile_cadence: 1}\nmodel: {"+c.model+"}\n")), "I am [INTERNAL] Ann")
				if got := <-m.options; got != c.want {
					t.Errorf("the options are %s, want %s", got, c.want)
				}
				if asked, _ := m.take(); len(asked) != 1 || strings.Contains(asked[0], "[INTERNAL") || !strings.Contains(asked[0], "INTERNAL] Ann") {
					t.Errorf("asked %q", asked)
				}
			})
		})
	}
}

// A profile is its user's alone: neither what it is learned from nor where it is shown
// crosses users, whatever their names are like; and no caller writes into it.
func TestProfileIsTheUsersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeps{}
		a := profiled(t, k, "memory: {profile: true, recall: true, profile_cadence: 1}\n")
		rt := start(t, ticking(stile.Config{}))
		users := []string{"t:ann", "t:an", "t:an_", "t:annabel", "u:ann", "t:a-n", "local:local"}
		for i, user := range users {
			k.answers = []string{fmt.Sprintf(`{"who":"secret %d"}`, i)}
			says(t, opened(t, rt, user+":s", a), fmt.Sprintf("I am number %d", i))
			asked, _ := k.take()
			if len(asked) != 1 || asked[0] != fmt.Sprintf(`{"profile":{},"messages":["I am number %d"]}`, i) {
				t.Errorf("%s: asked %q", user, asked)
			}
		}
		k.answers = nil
		for i, user := range users {
			s := opened(t, rt, user+":other", a)
			says(t, s, "hello")
			_, prompts := k.take()
			if want := fmt.Sprintf(`{"who":"secret %d"}`, i); !strings.HasSuffix(prompts[0], want) || strings.Count(prompts[0], `"secret `) != 1 {
				t.Errorf("%s sees …%s", user, prompts[0][max(0, len(prompts[0])-100):])
			}
			if p := profileOf(t, s); p.JSON != fmt.Sprintf(`{"who":"secret %d"}`, i) {
				t.Errorf("%s: %+v", user, p)
			}
		}
		// The session of a profile is the host's.
		for _, name := range []string{"t:ann:" + messages.ProfileID, messages.ProfileID} {
			_, err := rt.Open(t.Context(), name, a)
			wantCode(t, err, messages.ErrDenied)
			_, err = rt.Fork(t.Context(), "t:an:s", 0, name)
			wantCode(t, err, messages.ErrDenied)
		}
		found, err := rt.Find(t.Context(), "t:ann:"+messages.ProfileID)
		if err != nil {
			t.Fatal(err)
		}
		_, err = found.Submit(t.Context(), `{"who":"root"}`)
		wantCode(t, err, messages.ErrDenied)
		// Its texts are in no recall.
		said := false
		for r, err := range found.Records(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if b, ok := r.Body.(*messages.UnitText); ok {
				said = true
				if b.UnitKind != messages.TextUnit {
					t.Errorf("the reply is a %s", b.UnitKind)
				}
			}
		}
		if !said {
			t.Error("the reply is in no record")
		}
	})
}

// What fails is neither kept nor shown, costs no user the answer, is tried again with
// further messages alone, and is given up in the end.
func TestProfileFails(t *testing.T) {
	bad := []string{
		"", "no JSON", `[]`, `null`, `"who"`, `{"who":1}`, `{"who":null}`, `{"who":{"a":"b"}}`, `{"name":"x"}`, `{"_meta":"x"}`, `{"who":"x"} and more`,
		`{"who":"x","who":"y"}`, `{"who":"` + strings.Repeat("x", 4000) + `"}`, "```\n{\"who\":\"x\"}", "!quota", `{"who":"x"`,
	}
	for _, answer := range bad {
		synctest.Test(t, func(t *testing.T) {
			k := &keeps{answers: []string{answer, answer, answer, aGardener}}
			a := profiled(t, k, "memory: {profile: true, profile_cadence: 2}\n")
			rt := start(t, ticking(stile.Config{}))
			s := opened(t, rt, "t:u:s", a)
			var when []int
			for i := range 14 {
				says(t, s, fmt.Sprint(i))
				if asked, prompts := k.take(); len(asked) > 0 {
					when = append(when, i+1)
				} else if len(when) < 4 && strings.Contains(prompts[0], "PROFILE") {
					t.Fatalf("%.40q is shown", answer)
				}
				if len(when) < 4 {
					if p := profileOf(t, s); p.Version != 0 || p.JSON != "" {
						t.Fatalf("%.40q makes %+v", answer, p)
					}
				}
			}
			if got := fmt.Sprint(when); got != "[2 4 6 8 10 12 14]" && got != "[2 4 6 8 12 14]" {
				t.Errorf("%.40q: asked after %s messages", answer, got)
			}
			if p := profileOf(t, s); p.Version != 1 || p.JSON != aGardener {
				t.Errorf("%.40q: in the end %+v", answer, p)
			}
			recs := all(t, rt.Archive(), incOf(t, rt, "t:u:"+messages.ProfileID))
			halts := 0
			for _, r := range recs {
				if b, ok := r.Body.(*messages.RunEnd); ok && b.Decision == stile.Halt {
					halts++
				}
			}
			if halts != 3 {
				t.Errorf("%.40q: %d failures are on record, want 3", answer, halts)
			}
			replays(t, rt.Archive(), nil)
		})
	}
}

func incOf(t testing.TB, rt *stile.Runtime, name string) messages.Incarnation {
	t.Helper()
	head, err := rt.Archive().Head(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return head.Inc
}

// A profile that has grown too long is shortened, also without further messages.
func TestProfileIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := `{"misc":"` + strings.Repeat("é", 2500) + `"}`
		k := &keeps{answers: []string{long, "{}", long, aGardener}}
		a := profiled(t, k, "memory: {profile: true, profile_cadence: 2}\n")
		rt := start(t, ticking(stile.Config{}))
		s := opened(t, rt, "t:u:s", a)
		says(t, s, "1")
		says(t, s, "2")
		k.take()
		says(t, s, "3")
		asked, prompts := k.take()
		if len(asked) != 1 || !strings.HasSuffix(asked[0], `,"messages":["3"],"compact":true}`) {
			t.Fatalf("asked %.60q", asked)
		}
		_, shown, _ := strings.Cut(prompts[0], "USER PROFILE:\n")
		if n := len([]rune(shown)); n != 2000 {
			t.Errorf("%d characters are shown", n)
		}
		for i := range 8 {
			says(t, s, fmt.Sprint(4+i))
		}
		if p := profileOf(t, s); p.JSON != aGardener || p.Version != 2 {
			t.Errorf("in the end %+v", p)
		}
	})
}

// A learner has what the run left of its budget; where that is nothing it does not ask.
func TestProfileBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeps{usage: messages.Usage{Input: 60, Output: 40}, answers: []string{aGardener}}
		a := profiled(t, k, "memory: {profile: true, profile_cadence: 1}\nquotas: {tokens: 150}\n")
		rt := start(t, ticking(stile.Config{}))
		s := opened(t, rt, "t:u:s", a)
		says(t, s, "1")
		if asked, _ := k.take(); len(asked) != 1 {
			t.Fatalf("asked %d times", len(asked))
		}
		if p := profileOf(t, s); p.Version != 0 {
			t.Errorf("100 tokens were spent where 50 were left: %+v", p)
		}
		recs := all(t, rt.Archive(), incOf(t, rt, "t:u:"+messages.ProfileID))
		at := slices.IndexFunc(recs, func(r *stile.Record) bool { _, ok := r.Body.(*messages.Input); return ok })
		if b := recs[at].Body.(*messages.Input).Budget; b == nil || b.Tokens != 50 {
			t.Errorf("the budget is %+v", b)
		}
		k.mu.Lock()
		k.usage = messages.Usage{Input: 100, Output: 50}
		k.mu.Unlock()
		says(t, s, "2")
		says(t, s, "3")
		if asked, _ := k.take(); len(asked) != 0 {
			t.Errorf("asked %q with nothing left", asked)
		}
	})
}

// What a fork copied was said once. Forgetting forgets, and begins anew.
func TestProfileSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeps{answers: []string{"{}"}}
		a := profiled(t, k, "memory: {profile: true, profile_cadence: 3}\n")
		rt := start(t, ticking(stile.Config{}))
		s := opened(t, rt, "t:u:s", a)
		says(t, s, "first")
		if _, err := rt.Fork(t.Context(), "t:u:s", 1, "t:u:fork"); err != nil {
			t.Fatal(err)
		}
		says(t, opened(t, rt, "t:u:fork", a), "second")
		if asked, _ := k.take(); len(asked) != 0 {
			t.Fatalf("what the fork took over counts: %q", asked)
		}
		says(t, s, "third")
		asked, _ := k.take()
		if len(asked) != 1 || asked[0] != `{"profile":{},"messages":["first","second","third"]}` {
			t.Fatalf("asked %q", asked)
		}
		k.answers = []string{aGardener}
		for _, text := range []string{"4", "5", "6"} {
			says(t, s, text)
		}
		if p := profileOf(t, s); p.Version != 1 {
			t.Fatalf("%+v", p)
		}
		if err := rt.ForgetProfile(t.Context(), "t", "u"); err != nil {
			t.Fatal(err)
		}
		if p := profileOf(t, s); p != (stile.Profile{}) {
			t.Errorf("after forgetting: %+v", p)
		}
		k.take()
		k.answers = []string{`{"who":"new"}`}
		for _, text := range []string{"7", "8", "9"} {
			says(t, s, text)
		}
		asked, prompts := k.take()
		if len(asked) != 1 || asked[0] != `{"profile":{},"messages":["7","8","9"]}` {
			t.Errorf("asked %q", asked)
		}
		if strings.Contains(strings.Join(prompts, ""), "gardener") {
			t.Error("what was forgotten is shown")
		}
		if p := profileOf(t, s); p.JSON != `{"who":"new"}` {
			t.Errorf("learned anew: %+v", p)
		}
	})
}

// lateEar is a store whose first answer about what a user said comes late.
type lateEar struct {
	journal.Store
	once   sync.Once
	answer chan struct{}
}

// Heard implements journal.Store.
func (e *lateEar) Heard(ctx context.Context, q journal.HeardQuery) ([]journal.Heard, error) {
	all, err := journal.ScanHeard(ctx, e.Store, q)
	e.once.Do(func() { <-e.answer })
	return all, err
}

// A run that ends while the journal is looked at may not have been seen there: it counts.
func TestProfileLooksLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeps{}
		ear := &lateEar{Store: memory.New(), answer: make(chan struct{})}
		rt := start(t, ticking(stile.Config{Store: ear}))
		s := opened(t, rt, "t:u:s", profiled(t, k, "memory: {profile: true, profile_cadence: 3}\n"))
		says(t, s, "one")
		says(t, s, "two")
		close(ear.answer) // of the time before two
		synctest.Wait()
		says(t, s, "three")
		if asked, _ := k.take(); len(asked) != 1 || asked[0] != `{"profile":{},"messages":["one","two","three"]}` {
			t.Errorf("asked %q", asked)
		}
	})
}

// What was rolled back, and what the model asked another agent, the user did not say.
func TestProfileNotSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeps{}
		man, err := manifest.Parse("m.yaml", []byte("dialect: cortex\nname: boss\nmemory: {profile: true, profile_cadence: 3}\nimport: {agents: [helper]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		a := &stile.Agent{Manifest: man, Model: k, Agents: []*stile.Agent{{Name: "helper", Dialect: "plain", Model: k}}}
		rt := start(t, ticking(stile.Config{}))
		s := opened(t, rt, "t:u:s", a)
		gone := submitted(t, s, "wait")
		synctest.Wait()
		r := submitted(t, s, "instead", stile.Policy(stile.Rollback))
		decided(t, gone)
		decided(t, r)
		says(t, s, "delegate")
		children := 0
		for head, err := range rt.Archive().Sessions(t.Context(), "t:u:") {
			if err != nil {
				t.Fatal(err)
			}
			if p, err := rt.Archive().Parent(t.Context(), head.Inc); err == nil && p != nil {
				children++
			}
		}
		if children != 1 {
			t.Fatalf("%d child sessions", children)
		}
		if asked, _ := k.take(); len(asked) != 0 {
			t.Fatalf("asked too early: %q", asked)
		}
		says(t, s, "third")
		if asked, _ := k.take(); len(asked) != 1 || asked[0] != `{"profile":{},"messages":["instead","delegate","third"]}` {
			t.Errorf("asked %q", asked)
		}
	})
}

// builtin.profile switches the part of the prompt; learning goes on.
func TestProfileSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeps{answers: []string{aGardener}}
		memory := "memory: {profile: true, profile_cadence: 1}\n"
		rt := start(t, ticking(stile.Config{}))
		off := opened(t, rt, "t:u:off", profiled(t, k, memory+"context_feeds: [{id: builtin.profile, enabled: no}]\n"))
		says(t, off, "x")
		says(t, off, "y")
		if _, prompts := k.take(); strings.Contains(strings.Join(prompts, ""), "PROFILE") {
			t.Error("the profile is shown although it is switched off")
		}
		only := opened(t, rt, "t:u:only", profiled(t, k, "context_feeds: [{id: builtin.profile}]\n"))
		says(t, only, "z")
		asked, prompts := k.take()
		if len(asked) != 0 || !strings.HasSuffix(prompts[0], aGardener) {
			t.Errorf("asked %q, shown …%q", asked, prompts[0][max(0, len(prompts[0])-60):])
		}
		replays(t, rt.Archive(), nil)
	})
}

package feedvalues

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is one in which functions run on goroutines of their own. orphans counts sources left behind.
func env(orphans *int) *Env {
	return &Env{
		Store: memory.New(), Now: time.Now, Log: zap.NewNop(), LimitReached: func(string, int) {},
		Orphan: func() { *orphans++ }, Run: func(f func()) { go f() },
	}
}

// calling makes the Calls of a session whose agent has one tool, own.x.
func calling(t *testing.T, e *Env, gate catalog.Gate, run func(context.Context, *tools.Call) (neuroscript.Value, error)) *Calls {
	t.Helper()
	registry, err := catalog.New(tools.Tool{Name: "own.x", Class: messages.ReadOnly, Run: run})
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.Apply(catalog.Policy{Allow: []string{"own.x"}})
	if err != nil {
		t.Fatal(err)
	}
	a := &compiled.Agent{Tools: set, Targets: catalog.NewTargets(set, neuroscript.Limits{}), Gate: gate}
	return e.NewCalls(Session{Agent: a, SID: "t:u:s"}, nil)
}

var source = feeds.Source{Kind: feeds.Tool, Name: "own.x", Params: "{}", Feed: "x"}

// A source that the gate does not simply approve is denied, and does not run.
func TestFetchAsksNoPerson(t *testing.T) {
	for answer, code := range map[messages.GateAnswer]messages.Code{
		messages.GateApprove: "", messages.GateConfirm: messages.ErrDenied, messages.GateDeny: messages.ErrDenied,
	} {
		ran := false
		c := calling(t, env(new(int)), catalog.Gate{Default: answer}, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			ran = true
			return neuroscript.String("v"), nil
		})
		v, err := c.Fetch(t.Context(), source)
		if messages.CodeOf(err) != code || ran != (code == "") || (v == `"v"`) != ran {
			t.Errorf("%s: %q %v, ran %v", answer, v, err, ran)
		}
	}
}

// A source that does not heed its context is left behind, and its fetch ends.
func TestFetchLeavesASourceBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var orphans int
		hung := make(chan struct{})
		c := calling(t, env(&orphans), catalog.Gate{}, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			<-hung
			return neuroscript.String(""), nil
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(messages.Errorf(messages.ErrTimeout, "over")) })
		if _, err := c.Fetch(ctx, source); messages.CodeOf(err) != messages.ErrTimeout || orphans != 1 {
			t.Errorf("%v, %d left behind", err, orphans)
		}
		close(hung)
	})
}

// The crash of a source is its feed's: it reaches the goroutine of the fetch.
func TestFetchCrashes(t *testing.T) {
	c := calling(t, env(new(int)), catalog.Gate{}, func(context.Context, *tools.Call) (neuroscript.Value, error) { panic("broken") })
	var crash *supervisor.Crash
	supervisor.Guard(func() { _, _ = c.Fetch(t.Context(), source) }, func(c *supervisor.Crash) { crash = c })
	if crash == nil || !strings.Contains(supervisor.Detail(crash), "broken") {
		t.Errorf("%+v", crash)
	}
}

// What an agent used for a feed counts for the first turn that has the feed after it.
func TestChargeOnce(t *testing.T) {
	c := env(new(int)).NewCalls(Session{}, nil)
	c.spend("x", messages.Budget{Tokens: 2, CostUSD: 3})
	c.spend("x", messages.Budget{Tokens: 5})
	for _, want := range []int64{7, 0} {
		fd := messages.Feed{ID: "x"}
		if c.charge(&fd); fd.Tokens != want {
			t.Errorf("%d tokens instead of %d", fd.Tokens, want)
		}
	}
}

// A relic is read by the session's machine. One that has gone does not answer.
func TestKeepAsksTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan *turn.AnswerRelic, 1)
		c := env(new(int)).NewCalls(Session{}, func(relic, args string) <-chan *turn.AnswerRelic {
			if relic != "notes" || args != "{}" {
				t.Errorf("%s of %s", args, relic)
			}
			return answers
		})
		answers <- &turn.AnswerRelic{Result: "1"}
		if got, err := c.keep(t.Context(), catalog.KeepCall{Relic: "notes", Args: "{}"}); got != "1" || err != nil {
			t.Errorf("%q %v", got, err)
		}
		if _, err := c.keep(t.Context(), catalog.KeepCall{Relic: "notes", Args: "{}"}); messages.CodeOf(err) != messages.ErrTimeout {
			t.Error(err)
		}
	})
}

// setOf makes a set of feeds of own.x.
func setOf(t *testing.T, ids ...string) feeds.Set {
	t.Helper()
	var specs []feeds.Spec
	for _, id := range ids {
		specs = append(specs, feeds.Spec{ID: id, Type: "on_demand", Source: feeds.SourceSpec{Type: "tool", Name: "own.x"}})
	}
	set, err := feeds.NewSet(specs, feeds.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A turn has an answer for each feed that it names, whatever becomes of them.
func TestReady(t *testing.T) {
	e := env(new(int))
	a := &compiled.Agent{Feeds: compiled.Feeds{Environment: func(name string) (string, bool) { return "set", name == "HOME" }}}
	f := &Values{Session: Session{Agent: a}, Set: setOf(t, "x")}
	shown := func(in *turn.FeedsReady) (all []string) {
		for _, fd := range in.Feeds {
			all = append(all, fd.ID+"="+fd.Value+fd.Reason)
		}
		return all
	}
	names := []string{messages.EnvironmentFeed + "HOME", messages.EnvironmentFeed + "NONE", "other"}
	want := []string{names[0] + `="set"`, names[1] + "=NONE is not set", "other=there is no such feed, or it is disabled"}
	if got := shown(e.Ready(t.Context(), f, &turn.FetchFeeds{Names: names})); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	a.Feeds.Environment = func(string) (string, bool) { panic("broken") }
	if got := shown(e.Ready(t.Context(), f, &turn.FetchFeeds{Names: names[:2]})); len(got) != 2 || !strings.HasSuffix(got[0], "=fetching it crashed") {
		t.Errorf("%q", got)
	}
}

// Instructions are made once for a run and read back for its later prompts. Without them the
// prompt says why, so that no model is asked.
func TestInstructions(t *testing.T) {
	e := env(new(int))
	made := 0
	var fails error
	a := &compiled.Agent{Instructions: "Be ${" + messages.InstructionsFeed + "}.", Instruct: func(context.Context, string) (string, error) { made++; return "kind", fails }}
	f := &Values{Session: Session{Agent: a}}
	first := e.instructions(t.Context(), f, messages.Digest{})
	if len(first) != 1 || first[0].ID != messages.InstructionsFeed || first[0].Error != "" || first[0].Value != `"Be kind."` || made != 1 {
		t.Fatalf("%+v", first)
	}
	if again := e.instructions(t.Context(), f, messages.Digest{1}); made != 1 || len(again) != 1 || again[0].Error != feeds.ErrorFailed {
		t.Errorf("%+v, made %d times", again, made)
	}
	a.Profile = func(context.Context, string) (string, error) { return "", errors.New("a secret of the store") }
	if p := e.profile(t.Context(), f); len(p) != 1 || p[0].Error != feeds.ErrorFailed || strings.Contains(p[0].Reason, "secret") {
		t.Errorf("%+v", p)
	}
}

// What another host has from a third one is not given to a further one.
func TestFreshForwardsNothing(t *testing.T) {
	ttl := int64(60)
	set, err := feeds.NewSet([]feeds.Spec{{ID: "far", Type: "on_demand", CacheTTL: &ttl, Source: feeds.SourceSpec{Type: "agent", Name: "a", Forwards: true}}}, feeds.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	f := &Values{Session: Session{Agent: &compiled.Agent{}}, Set: set}
	listed := []State{{ID: "far", Value: "1"}, {ID: "off", Disabled: true}}
	all, asleep := f.Fresh(t.Context(), listed, []string{"far", "off", "none"}, false)
	if len(all) != 1 || all[0].Value != "" || all[0].Failure != feeds.ReasonForwarded || len(asleep) > 0 {
		t.Errorf("%+v %v", all, asleep)
	}
	if all, _ = f.Fresh(t.Context(), listed, []string{"far"}, true); len(all) != 0 {
		t.Errorf("a session without feeds has %+v", all)
	}
}

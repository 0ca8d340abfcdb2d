package feedvalues

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/attempt"
	"github.com/seed14be6753/stile/internal/relics"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Calls calls what the feeds of a session name as their sources. It implements feeds.Fetcher and
// is safe for concurrent use. There is no ledger of it: a feed reads, and no person can be asked
// about it, so a source that the gate does not simply approve is denied.
type Calls struct {
	env *Env
	of  Session
	// look asks the session's machine for a read of a key-value relic. The channel has room for
	// the answer, which does not come from a session that has stopped.
	look func(relic, args string) <-chan *turn.AnswerRelic

	mu    sync.Mutex
	spent map[string]messages.Budget // by feed: used by agents for prompts, and not counted to a run
}

// NewCalls makes the Calls of a session.
func (e *Env) NewCalls(of Session, look func(relic, args string) <-chan *turn.AnswerRelic) *Calls {
	return &Calls{env: e, of: of, look: look}
}

// spend remembers what an agent used for a feed.
func (c *Calls) spend(feed string, used messages.Budget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spent == nil {
		c.spent = map[string]messages.Budget{}
	}
	c.spent[feed] = c.spent[feed].Plus(used)
}

// charge counts to a turn what agents used for a feed since the last turn that had it.
func (c *Calls) charge(fd *messages.Feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.spent[fd.ID]
	fd.Tokens, fd.CostUSD = used.Tokens, used.CostUSD
	delete(c.spent, fd.ID)
}

// Fetch implements feeds.Fetcher.
func (c *Calls) Fetch(ctx context.Context, src feeds.Source) (string, error) {
	typ, targets := messages.ActionType(src.Kind), c.of.Agent.Targets
	class, ok := targets.Find(typ, src.Name)
	if !ok {
		return "", messages.Errorf(messages.ErrConfig, "%s %s is not available", typ, src.Name)
	}
	digest := sha256.Sum256([]byte(src.Params))
	v := c.of.Agent.Gate.Decide(tools.Request{SID: c.of.SID, Tool: src.Name, Class: class, ArgsDigest: digest})
	if v.Answer != messages.GateApprove {
		return "", messages.Errorf(messages.ErrDenied, "%s of %s %s: a feed cannot wait for anybody", v.Answer, typ, src.Name)
	}
	if d := targets.Timeout(typ, src.Name); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, messages.Errorf(messages.ErrTimeout, "the source's time is up"))
		defer cancel()
	}
	// No two fetches are the same call to a service that heeds keys.
	key := sha256.Sum256(fmt.Appendf(nil, "feed\n%s\n%s\n%s\n%x\n%d", c.of.Inc, typ, src.Name, digest, c.env.Now().UnixNano()))
	call := &tools.Call{
		SID: c.of.SID, Inc: c.of.Inc, ID: "feed", Name: src.Name, Key: base64.RawURLEncoding.EncodeToString(key[:]), Epoch: c.of.Epoch, Attempt: 1,
		Host: catalog.Host{Session: c.env.Outputs, Keep: c.keep},
	}
	leeway := attempt.OverrunGrace
	if src.Kind == feeds.Agent {
		leeway = max(leeway, targets.Grace(typ, src.Name))
		call.Host.Feed = &catalog.FeedCall{ID: src.Feed, Fresh: src.Fresh}
		call.Budget = messages.Budget{Tokens: src.Tokens, CostUSD: src.CostUSD}
		if src.Counts {
			call.Spend = func(used messages.Budget) { c.spend(src.Feed, used) }
		}
	}
	type answer struct {
		value string
		err   error
		crash *supervisor.Crash
	}
	done := make(chan answer, 1)
	c.env.Run(func() {
		supervisor.Guard(func() {
			value, err := targets.Do(ctx, call, typ, src.Params)
			done <- answer{value: value, err: err}
		}, func(crash *supervisor.Crash) { done <- answer{crash: crash} })
	})
	take := func(a answer) (string, error) {
		if a.crash != nil {
			panic(a.crash) // it fails the actor of the session's feeds
		}
		if a.err != nil {
			_, text := catalog.Failure(a.err)
			return "", &messages.Error{Code: messages.ErrActionsRuntime, Reason: "failed", Detail: text, Cause: a.err}
		}
		return a.value, nil
	}
	select {
	case a := <-done:
		return take(a)
	case <-ctx.Done():
	}
	grace := time.NewTimer(leeway)
	defer grace.Stop()
	select {
	case a := <-done:
		return take(a)
	case <-grace.C:
		c.env.Orphan()
		c.env.Log.Warn("a feed's source overran its time and was left behind", zap.String("SID", c.of.SID), zap.String("source", src.Name))
		return "", context.Cause(ctx)
	}
}

// keep lets a source of a feed look at a key-value relic of the session. The session
// answers in a moment, or it has gone.
func (c *Calls) keep(ctx context.Context, k catalog.KeepCall) (string, error) {
	if k.Scope != "" {
		result, err := c.env.Scopes.Keep(ctx, relics.Caller{SID: c.of.SID, Inc: c.of.Inc, Epoch: c.of.Epoch, Reads: true}, k)
		return result, tools.RefusalOf(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, feeds.DefaultDeadline, messages.Errorf(messages.ErrTimeout, "the session's time to answer is up"))
	defer cancel()
	select {
	case e := <-c.look(k.Relic, k.Args):
		return e.Result, tools.RefusalOf(e.Err)
	case <-ctx.Done():
		return "", messages.Errorf(messages.CodeOf(context.Cause(ctx)), "the relic was not asked in time")
	}
}

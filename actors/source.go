package actors

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/attempt"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// fetcher calls what feeds name as their sources. There is no ledger of it: a feed reads,
// and no person can be asked about it, so a source that the gate does not simply approve
// is denied.
type fetcher struct {
	host  *Host
	agent *Agent
	sid   string
	inc   messages.Incarnation
	epoch int64
	self  *actor.PID // the session

	mu    sync.Mutex
	spent map[string]messages.Budget // by feed: used by agents for prompts, and not counted to a run
}

// spend remembers what an agent used for a feed.
func (f *fetcher) spend(feed string, used messages.Budget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spent == nil {
		f.spent = map[string]messages.Budget{}
	}
	f.spent[feed] = f.spent[feed].Plus(used)
}

// charge counts to a turn what agents used for a feed since the last turn that had it.
func (f *fetcher) charge(fd *messages.Feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := f.spent[fd.ID]
	fd.Tokens, fd.CostUSD = used.Tokens, used.CostUSD
	delete(f.spent, fd.ID)
}

// Fetch implements feeds.Fetcher.
func (f *fetcher) Fetch(ctx context.Context, src feeds.Source) (string, error) {
	typ, targets := messages.ActionType(src.Kind), f.agent.Targets
	class, ok := targets.Find(typ, src.Name)
	if !ok {
		return "", messages.Errorf(messages.ErrConfig, "%s %s is not available", typ, src.Name)
	}
	digest := sha256.Sum256([]byte(src.Params))
	v := f.agent.Gate.Decide(tools.Request{SID: f.sid, Tool: src.Name, Class: class, ArgsDigest: digest})
	if v.Answer != messages.GateApprove {
		return "", messages.Errorf(messages.ErrDenied, "%s of %s %s: a feed cannot wait for anybody", v.Answer, typ, src.Name)
	}
	if d := targets.Timeout(typ, src.Name); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, messages.Errorf(messages.ErrTimeout, "the source's time is up"))
		defer cancel()
	}
	// No two fetches are the same call to a service that heeds keys.
	key := sha256.Sum256(fmt.Appendf(nil, "feed\n%s\n%s\n%s\n%x\n%d", f.inc, typ, src.Name, digest, f.host.cfg.Now().UnixNano()))
	call := &tools.Call{
		SID: f.sid, Inc: f.inc, ID: "feed", Name: src.Name, Key: base64.RawURLEncoding.EncodeToString(key[:]), Epoch: f.epoch, Attempt: 1,
		Host: catalog.Host{Session: load.Outputs{Store: f.host.cfg.Store}, Keep: f.keep},
	}
	leeway := attempt.OverrunGrace
	if src.Kind == feeds.Agent {
		leeway = max(leeway, targets.Grace(typ, src.Name))
		call.Host.Feed = &catalog.FeedCall{ID: src.Feed, Fresh: src.Fresh}
		call.Budget = messages.Budget{Tokens: src.Tokens, CostUSD: src.CostUSD}
		if src.Counts {
			call.Spend = func(used messages.Budget) { f.spend(src.Feed, used) }
		}
	}
	type answer struct {
		value string
		err   error
		crash *supervisor.Crash
	}
	done := make(chan answer, 1)
	f.host.run(func() {
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
		f.host.cfg.Observer.Orphan()
		f.host.log.Warn("a feed's source overran its time and was left behind", zap.String("SID", f.sid), zap.String("source", src.Name))
		return "", context.Cause(ctx)
	}
}

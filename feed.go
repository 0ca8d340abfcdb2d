package stile

import (
	"context"
	"os"
	"time"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/messages"
)

// DefaultFeedDeadline is how long a prompt waits for its feeds when Feeds says nothing.
const DefaultFeedDeadline = feeds.DefaultDeadline

// Feeds says how context feeds are kept. The zero value has the defaults.
type Feeds struct {
	// CacheBytes is how much of the values of all sessions is kept; 0 is 64 MiB.
	CacheBytes int64
	// Deadline is how long a prompt waits for its feeds together; 0 is DefaultFeedDeadline.
	Deadline time.Duration
	// FetchTimeout bounds one fetch, which goes on when a prompt gave up on it; 0 is
	// 30 s.
	FetchTimeout time.Duration
	// Workers is how many fetches of periodic feeds run at once; 0 is 64.
	Workers int
	// Counter counts tokens for max_tokens; nil is a token for every four characters.
	Counter feeds.Counter
	// Remote opens what ingest sources name as git or url; without one an agent with such
	// feeds is refused.
	Remote feeds.Remote
}

// FeedState is what is known of a feed of a session.
type FeedState = actors.FeedState

// Feeds lists the session's feeds in the order of their injection, those that its model
// added too. It fetches nothing, and wakes the session.
func (s *Session) Feeds(ctx context.Context) ([]FeedState, error) {
	return s.rt.host.FeedStates(ctx, s.key, s.agent.Actor)
}

// IngestFeed gives a feed a value, JSON, as if its source had: it is served until the
// next fetch replaces it, by an on-demand feed as long as its cache_ttl says. It is kept
// in memory; what a prompt shows of it is recorded. Errors are ERR_NOT_FOUND (no such
// feed), ERR_CONFLICT (disabled), ERR_INVALID (no JSON) and ERR_QUOTA.
func (s *Session) IngestFeed(ctx context.Context, id, value string) error {
	return s.rt.host.IngestFeed(ctx, s.key, s.agent.Actor, id, value)
}

// startFeeds makes what keeps the feeds of all sessions.
func (rt *Runtime) startFeeds() (err error) {
	cfg := rt.cfg.Feeds
	if rt.cache, err = feeds.NewCache(cfg.CacheBytes); err != nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "Feeds.CacheBytes", Detail: "no cache", Cause: err}
	}
	rt.feeds, err = feeds.NewKeeper(feeds.Config{
		Cache: rt.cache, Internals: feeds.Internals{Now: rt.cfg.Now, Rand: rt.cfg.Rand, Env: os.LookupEnv}, Counter: cfg.Counter,
		Deadline: cfg.Deadline, FetchTimeout: cfg.FetchTimeout, Workers: cfg.Workers,
	})
	if err != nil {
		rt.cache.Close()
		return messages.At(err, "Feeds")
	}
	return nil
}

func (rt *Runtime) stopFeeds() error {
	rt.feeds.Close()
	rt.cache.Close()
	return nil
}

package stile

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/feeds/remote"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/feedvalues"
	"github.com/seed14be6753/stile/messages"
)

// DefaultFeedDeadline is how long a prompt waits for its feeds when Feeds says nothing.
const DefaultFeedDeadline = feeds.DefaultDeadline

// Feeds configures the context feeds of all sessions. The zero value has the defaults.
type Feeds struct {
	// CacheBytes bounds the cache of feed values, over all sessions; 0 is 64 MiB.
	CacheBytes int64
	// Deadline is how long a prompt waits for its feeds together; 0 is DefaultFeedDeadline.
	Deadline time.Duration
	// FetchTimeout bounds one fetch. A fetch continues after the prompt's Deadline; 0 is 30 s.
	FetchTimeout time.Duration
	// Workers is how many fetches of periodic feeds run at once; 0 is 64.
	Workers int
	// Counter counts tokens for max_tokens; nil counts one token per four characters.
	Counter feeds.Counter
	// Remotes lists the hosts that remote feeds may ask: origins such as https://host:8471, and
	// addresses or prefixes such as 10.0.0.0/8 for those in private networks. Without it an
	// agent with remote feeds is refused.
	Remotes []string
	// RemoteCA has certificates, in PEM, that vouch for these hosts beside those of the system.
	RemoteCA []byte
	// Remote opens the git and url sources of ingest feeds; without it an agent with such
	// feeds is refused.
	Remote feeds.Sources
}

// FeedState is the state of one feed of a session.
type FeedState = feedvalues.State

// Feeds lists the session's feeds in the order of their injection, including those that its
// model added. It fetches nothing. It wakes the session.
func (s *Session) Feeds(ctx context.Context) ([]FeedState, error) {
	return s.rt.host.FeedStates(ctx, s.key, s.agent.Actor)
}

// FeedValues returns feeds of the session by their ids, with values that a prompt would take
// now: those that are too old are fetched, for as long as ctx lasts. Feeds that the session does
// not have, or that are disabled, are left out. forwarded says that the values are on their way to another host
// already: those that come from a further one have the Failure "forwarded" instead. seq is the
// position of the session's last record. It wakes the session.
func (s *Session) FeedValues(ctx context.Context, ids []string, forwarded bool) (all []FeedState, seq int64, err error) {
	all, rep, err := s.rt.host.FeedValues(ctx, s.key, s.agent.Actor, ids, !forwarded)
	return all, rep.Seq, err
}

// AwaitFeeds returns when the value of one of these feeds is another one than in them, as
// FeedValues returned it, or when ctx ends. It fetches nothing.
func (s *Session) AwaitFeeds(ctx context.Context, seen []FeedState) error {
	return s.rt.host.AwaitFeeds(ctx, s.key, s.agent.Actor, seen)
}

// IngestFeed sets the value of a feed, JSON, in place of a fetch. The value is used until the
// next fetch replaces it; an on-demand feed uses it for its cache_ttl. It is kept in memory;
// the part that a prompt shows is recorded. Errors: ERR_NOT_FOUND (no such feed),
// ERR_CONFLICT (the feed is disabled), ERR_INVALID (not JSON), ERR_QUOTA (too large).
func (s *Session) IngestFeed(ctx context.Context, id, value string) error {
	return s.rt.host.IngestFeed(ctx, s.key, s.agent.Actor, id, value)
}

// peers returns the client of other hosts; nil where none is listed.
func (f *Feeds) peers() (compiler.Peers, error) {
	if len(f.Remotes) == 0 {
		return nil, nil
	}
	return remote.New(remote.Config{Allow: f.Remotes, CA: f.RemoteCA, Secret: os.Getenv})
}

// startFeeds starts the cache and the keeper of the feeds of all sessions.
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
	if _, err := cfg.peers(); err != nil {
		return errors.Join(messages.At(err, "Feeds"), rt.stopFeeds())
	}
	return nil
}

func (rt *Runtime) stopFeeds() error {
	rt.feeds.Close()
	rt.cache.Close()
	return nil
}

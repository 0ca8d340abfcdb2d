package stile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/keyfile"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/membership"
	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Cluster makes a runtime one of several that share Config.Store, one of journal/postgres: each
// session is run by one of them at a time, whose lease in the database says so, and the
// sessions of one that dies go on at the others. Requests are forwarded by the hosts (package
// host), not by runtimes: a call for a session that another runtime has is ERR_BUSY,
// ReasonElsewhere.
type Cluster struct {
	// Address is where the other hosts reach this one, host:port. Without it a runtime has no
	// lease, and asks for none.
	Address string
	// Version is what hosts say of themselves.
	Version string
	// Lease is how long the others wait for a host that says nothing; 0 is two seconds.
	Lease time.Duration
	// Secret seals what the hosts tell each other in the database, such as their public keys. It
	// has at least 32 bytes and is the same for all hosts: that of host.Config.ClusterSecret. A
	// runtime with a Secret and without an Address shares its keys and no sessions: a command
	// beside the hosts.
	Secret []byte
	// OldSecrets are believed as well, while the hosts change the secret. What one of them sealed, a
	// runtime seals with Secret when it starts.
	OldSecrets [][]byte
}

// Reasons behind ERR_BUSY of a runtime in a cluster.
const (
	ReasonElsewhere = lease.ReasonElsewhere // another host runs the session
	ReasonNoLease   = lease.ReasonNoLease   // this host cannot renew its lease
)

// IsElsewhere reports whether an error says that another host of the cluster runs a session, and
// which one.
func IsElsewhere(err error) (sid string, ok bool) {
	var e *lease.Elsewhere
	if errors.As(err, &e) {
		return e.SID, true
	}
	return "", false
}

// Peer is a host of a cluster.
type Peer struct {
	ID       string // of one life of the host
	Address  string
	Version  string
	Self     bool
	Draining bool          // it takes no further sessions
	Left     time.Duration // of its lease; not positive once it is over

	// Of Peers alone: when that lease is over, by this host's clock, and what the host has said with its
	// last renewal that it has to do.
	Until    time.Time
	Runs     int // in flight, or waiting
	MaxRuns  int // at which it takes no more; 0 of a host that says nothing
	Sessions int // that are its own
}

func (rt *Runtime) peer(h lease.Host) Peer {
	return Peer{ID: h.ID.String(), Address: h.Address, Version: h.Version, Self: h.ID == rt.member.ID(), Draining: h.Draining, Left: h.Left, Until: h.Until, Runs: h.Load.Runs, MaxRuns: h.Load.MaxRuns, Sessions: h.Load.Sessions}
}

// Clustered reports whether the runtime shares its sessions with others (Config.Cluster).
func (rt *Runtime) Clustered() bool { return rt.member != nil }

// Peers lists the hosts of the cluster, this one among them, as its last renewal found them;
// nil without a cluster.
func (rt *Runtime) Peers() []Peer {
	if rt.member == nil {
		return nil
	}
	var all []Peer
	for _, h := range rt.member.Hosts() {
		all = append(all, rt.peer(h))
	}
	return all
}

// SayLoad has the others of the cluster told, with each renewal, how many runs are in flight or
// wait at this host, and at how many it takes no more.
func (rt *Runtime) SayLoad(runs func() (runs, most int)) { rt.runs.Store(&runs) }

// load is what this host has to do; nothing is said of it before SayLoad.
func (rt *Runtime) load() (l lease.Load) {
	if runs := rt.runs.Load(); runs != nil {
		l.Runs, l.MaxRuns = (*runs)()
	}
	return l
}

// Owner returns the host of the cluster that runs a session; ok is false when none does.
func (rt *Runtime) Owner(ctx context.Context, sid string) (p Peer, ok bool, err error) {
	if rt.member == nil {
		return Peer{}, false, nil
	}
	h, held, err := rt.member.Owner(ctx, sid)
	if err != nil || !held {
		return Peer{}, false, closedError(err)
	}
	return rt.peer(h), true, nil
}

// ClusterTime is the time by the clock of the cluster's database, on which its hosts agree. It is not
// ahead of that clock, and behind by as long as the last renewal of the lease was under way.
func (rt *Runtime) ClusterTime() time.Time {
	if rt.member == nil {
		return rt.cfg.Now()
	}
	return rt.member.Now()
}

// shares is this host at the table of shares.
type shares struct {
	share.Table
	member *membership.Member
	lease  time.Duration
}

// Life implements share.Host.
func (s shares) Life() (id uuid.UUID, held bool) { return s.member.ID(), s.member.Held() }

// Lease implements share.Host.
func (s shares) Lease() time.Duration { return s.lease }

// Hosts implements share.Host.
func (s shares) Hosts() (n int) {
	for _, h := range s.member.Hosts() {
		if h.Live() {
			n++
		}
	}
	return n
}

// Shares is where the hosts of the cluster divide the limits of tenants, for package host; nil
// without a cluster.
func (rt *Runtime) Shares() share.Host {
	if rt.member == nil {
		return nil
	}
	return shares{rt.shares, rt.member, cmp.Or(rt.cfg.Cluster.Lease, lease.Default)}
}

// Draining reports whether this host takes no further sessions: it was told so here or by
// another host.
func (rt *Runtime) Draining() bool { return rt.member != nil && rt.member.Draining() }

// Drain has the runtime give up its sessions: idle ones at once, others once they are idle.
// The other hosts of the cluster run them when they are asked for. Without a cluster it does nothing.
func (rt *Runtime) Drain() {
	if rt.member != nil {
		rt.member.Drain()
		rt.host.Sleep()
	}
}

// sharing is what this runtime needs to share its public keys with the other hosts; nil without a
// cluster.
func (rt *Runtime) sharing(store journal.Store) (*keyfile.Sharing, error) {
	c := &rt.cfg.Cluster
	if c.Address == "" && len(c.Secret) == 0 || rt.cfg.ReadOnly || rt.cfg.InMemory {
		return nil, nil
	}
	secrets, ok := board.NewSecrets(c.Secret, c.OldSecrets)
	if !ok {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "cluster.secret", Detail: "want a secret of at least " + strconv.Itoa(board.MinSecret) + " bytes, the same for all hosts"}
	}
	s, ok := store.(interface{ Board() (board.Port, error) })
	if !ok {
		return nil, notShared()
	}
	b, err := s.Board()
	return &keyfile.Sharing{Board: b, Secrets: secrets, Host: c.Address}, err
}

func notShared() error {
	return &messages.Error{Code: messages.ErrConfig, Field: "cluster", Detail: "the hosts of a cluster share a journal in PostgreSQL"}
}

// openCluster opens what the hosts know of each other, and reads the clock on which they agree: from
// here on it is this runtime's.
func (rt *Runtime) openCluster(ctx context.Context, store journal.Store) error {
	c := &rt.cfg.Cluster
	if rt.cfg.ReadOnly {
		return nil
	}
	if c.Address == "" {
		return rt.readClock(ctx, store)
	}
	s, ok := store.(interface{ Hosts() (lease.Table, error) })
	if !ok {
		return notShared()
	}
	if c.Lease == 0 {
		c.Lease = lease.Default
	}
	if c.Lease < lease.Shortest || c.Lease > lease.Longest {
		return &messages.Error{Code: messages.ErrConfig, Field: "cluster.lease", Detail: "want " + lease.Shortest.String() + " to " + lease.Longest.String()}
	}
	table, err := s.Hosts()
	if err != nil {
		return err
	}
	if rt.shares, ok = table.(share.Table); !ok {
		table.Close()
		return &messages.Error{Code: messages.ErrConfig, Field: "cluster", Detail: "the journal keeps no shares of limits"}
	}
	sent := time.Now()
	now, err := table.Now(ctx)
	if err != nil {
		table.Close()
		return err
	}
	rt.table, rt.clock = table, &membership.Clock{}
	rt.clock.Read(now, sent, time.Now())
	rt.cfg.Now = rt.clock.Now
	return nil
}

// readClock has a runtime beside the hosts go by their clock: it changes their keys, and may write
// records.
func (rt *Runtime) readClock(ctx context.Context, store journal.Store) error {
	s, err := rt.sharing(store)
	if err != nil || s == nil {
		return err
	}
	if _, _, _, err := s.Board.Read(ctx, board.Keys, 0); err != nil {
		return err
	}
	rt.cfg.Now = s.Board.Now
	return nil
}

// closeTable closes the table of hosts that no member has yet.
func (rt *Runtime) closeTable() error {
	if rt.table != nil {
		rt.table.Close()
	}
	return nil
}

// joinCluster has this runtime be one of the hosts, and claim sessions from then on.
func (rt *Runtime) joinCluster(ctx context.Context) (err error) {
	if rt.table == nil {
		return nil
	}
	c := rt.cfg.Cluster
	rt.member, err = membership.Join(ctx, membership.Config{
		Table: rt.table, Clock: rt.clock, Address: c.Address, Version: c.Version, Lease: c.Lease, Log: rt.log.Named("cluster"),
		Load: rt.load,
		Lost: func() { rt.host.LetGo(lease.Lost()) },
		Idle: func() {
			if rt.host != nil { // else it has just come
				rt.host.Sleep()
			}
		},
		Claimed: rt.claimed,
		Gone:    func() { rt.host.Alarm() }, Take: rt.take, Open: rt.open, PerSecond: rt.cfg.Boot.perSecond(), Count: func(e membership.Event) { rt.metrics.Cluster(string(e)) },
	})
	return err
}

// resign ends the lease of this runtime. A database that cannot be told so is no failure of the runtime, which
// has stopped: the others wait until the lease has ended by itself.
func (rt *Runtime) resign() {
	if rt.member == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*lease.Default)
	defer cancel()
	if err := rt.member.Resign(ctx); err != nil {
		rt.log.Warn("the lease of this host ends by itself: the database could not be told of the host's end", zap.Duration("within", cmp.Or(rt.cfg.Cluster.Lease, lease.Default)), zap.Error(err))
	}
}

// open lists the sessions that have something open.
func (rt *Runtime) open(ctx context.Context) (sids []string, err error) {
	q := journal.Query{Pending: true}
	for {
		page, err := rt.store.Sessions(ctx, q)
		if err != nil {
			return sids, err
		}
		for i := range page {
			sids = append(sids, page[i].SID)
		}
		if len(page) < q.Page() {
			return sids, nil
		}
		last := &page[len(page)-1]
		q.AfterSID, q.AfterInc = last.SID, last.Inc
	}
}

// takeWait bounds the wait for what is on its way to the journal.
const takeWait = 10 * time.Second

// take looks at a session that a dead host had, or that stopped here in the middle, and takes it up if
// something of it is open.
func (rt *Runtime) take(ctx context.Context, sid string) lease.Look {
	within, cancel := context.WithTimeout(ctx, takeWait)
	defer cancel()
	head, err := rt.writer.Activate(within, sid) // behind what this host has on its way to the journal
	switch {
	case journal.IsNotFound(err):
		return lease.Look{Found: lease.Idle}
	case err != nil:
		return lease.Look{}
	case head.Closed || !head.Suspended() && !head.Pending():
		return lease.Look{Found: lease.Idle} // it goes on with the next request
	case head.Suspended() && head.Wake > rt.cfg.Now().UnixNano():
		return lease.Look{Found: lease.Idle} // the clock of alarms has it
	}
	agent, err := rt.agents.Find(ctx, &head)
	if err != nil || agent == nil {
		return lease.Look{} // another host may know its agent
	}
	key, err := messages.ParseSID(sid)
	if err == nil && head.Suspended() {
		err = rt.host.Expire(ctx, key, agent)
	} else if err == nil {
		_, err = rt.host.Open(ctx, key, agent)
	}
	var e *messages.Error
	switch {
	case err == nil:
		return lease.Look{Found: lease.Runs}
	case errors.As(err, &e) && e.Reason == lease.ReasonElsewhere: // another host was first
		return lease.Look{Found: lease.HeldElsewhere, Head: head.Hash}
	case ctx.Err() == nil:
		rt.log.Error("a session of a host that is gone cannot be taken up", zap.String("SID", sid), zap.Error(err))
	}
	return lease.Look{}
}

// claimed leads the subscribers of a session away that another host has claimed; of any session
// that is not awake here where sid is "". What it does not find, the watch does.
func (rt *Runtime) claimed(ctx context.Context, sid string) {
	sids := []string{sid}
	if sid == "" {
		sids = rt.host.Hub().Subscribed()
	}
	sids = slices.DeleteFunc(sids, func(sid string) bool { return !rt.host.Hub().Followed(sid) || rt.host.Awake(sid) })
	if len(sids) > 0 {
		rt.elsewhere(ctx, sids)
	}
}

// elsewhere ends the subscriptions to sessions that other hosts run: their subscribers follow
// them there.
func (rt *Runtime) elsewhere(ctx context.Context, sids []string) {
	owners, err := rt.member.Elsewhere(ctx, sids)
	if err != nil {
		return // readers of the journal get the error themselves
	}
	for sid, h := range owners {
		rt.host.Hub().Fail(sid, lease.Refuse(sid, h))
	}
}

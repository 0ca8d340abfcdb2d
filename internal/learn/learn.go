// Package learn keeps the profiles of users up to date, in the background and without
// holding a run up. A profile is kept in a session of its own, tenant:user: and
// messages.ProfileID: each attempt to learn is a run of it, under the dialect profile. So
// it is journaled, bounded, retried, verified and replayed like any other. What a prompt
// had of a profile is a record of the session that the prompt was for
// (docs/spec/cogency.md §10).
package learn

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/profile"
)

// tries is how often an attempt is submitted whose session loses its journal.
const tries = 3

// Bounds of learning.
const (
	learners      = 4                // at once, in this process
	knownUsers    = 4096             // whose profiles and counts are at hand
	learningStale = 10 * time.Minute // after which an open attempt counts as abandoned
)

// Learner learns what the users of a host are like. Host is set before the host starts.
type Learner struct {
	Host *actors.Host

	store   journal.Store
	metrics *telemetry.Metrics
	log     *zap.Logger
	now     func() time.Time

	ctx   context.Context
	stop  context.CancelFunc
	slots chan struct{}
	work  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	busy   int                      // of users
	idle   chan struct{}            // closed when busy is 0 again; nil while it is
	users  map[string]*userState    // by SID of the profile
	cached map[string]cachedProfile // by SID of the profile
}

// Profile is what is known of a user.
type Profile struct {
	Version    int64  // counts changes; 0 is none yet
	JSON       string // who, style, focus, interests, misc; "" for none
	Characters int    // of JSON
	Messages   int64  // of the user that were looked at
}

// userState is what is remembered of a user between looks. Losing it costs one look.
type userState struct {
	busy bool
	wait int       // runs that may end before looking is worth anything
	last *runEnded // while busy: the latest
	ends int       // while busy: how many have ended, which the look may not have seen
}

// cachedProfile is a profile as of a head.
type cachedProfile struct {
	inc  messages.Incarnation
	seq  int64
	json string
}

// runEnded is a run after which something may be learned.
type runEnded struct {
	keeper  *compiler.Agent
	quotas  messages.Budget // of the run
	cadence int
	rec     *messages.Record
}

// New makes a learner; Close ends it.
func New(store journal.Store, metrics *telemetry.Metrics, log *zap.Logger, now func() time.Time) *Learner {
	ctx, stop := context.WithCancel(context.Background())
	return &Learner{
		store: store, metrics: metrics, log: log, now: now,
		ctx: ctx, stop: stop, slots: make(chan struct{}, learners), users: map[string]*userState{}, cached: map[string]cachedProfile{},
	}
}

// Close ends what is being learned and waits for it.
func (l *Learner) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.work.Wait()
}

// Wait returns when nothing is being learned: what is due after the runs that have ended
// is learned then, or has failed. The error is that of ctx, when it ends before.
func (l *Learner) Wait(ctx context.Context) error {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Forget deletes all that is known of a user, every version of it. What is learned later
// is learned from what the user says from now on.
func (l *Learner) Forget(ctx context.Context, key messages.SessionKey) error {
	at := l.now().UTC().Format(time.RFC3339Nano)
	if err := l.store.PutMeta(ctx, forgottenKey(key), []byte(at)); err != nil {
		return err
	}
	head, err := l.store.Head(ctx, key.SID())
	if journal.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = l.store.Delete(ctx, head.Inc)
	}
	sid := key.SID()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.cached, sid)
	if u := l.users[sid]; u != nil {
		u.wait = 0
	}
	return err
}

// forgottenKey is where the store keeps since when a user is learned of.
func forgottenKey(key messages.SessionKey) string {
	return "profile/" + key.Tenant + ":" + key.User
}

// JSON implements compiler.Profiles: a user's profile for a prompt. The head of its journal is looked at each
// time: another host may have learned.
func (l *Learner) JSON(ctx context.Context, sid string) (string, error) {
	key, err := messages.ParseSID(sid)
	if err != nil {
		return "", err
	}
	key, ok := key.Profile()
	if !ok {
		return "", nil
	}
	head, err := l.store.Head(ctx, key.SID())
	if journal.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	s, ok := l.cached[key.SID()]
	l.mu.Unlock()
	if ok && s.inc == head.Inc && s.seq == head.Seq {
		return s.json, nil
	}
	state, head, err := l.State(ctx, key)
	if err != nil {
		return "", err
	}
	s = cachedProfile{inc: head.Inc, seq: head.Seq}
	if !state.Data.IsZero() {
		s.json = state.Data.JSON()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	room(l.cached)
	l.cached[key.SID()] = s
	return s.json, nil
}

// room evicts an arbitrary entry from a full map of users.
func room[T any](m map[string]T) {
	if len(m) < knownUsers {
		return
	}
	for k := range m {
		delete(m, k)
		return
	}
}

// Ended implements compiler.Profiles: it records the end of a run, and learns in the
// background when that is due. It does not block.
func (l *Learner) Ended(keeper *compiler.Agent, quotas messages.Budget, cadence int, from string, end *messages.Record) {
	key, err := messages.ParseSID(from)
	if err != nil {
		return
	}
	to, ok := key.Profile()
	if !ok {
		return
	}
	e := &runEnded{keeper: keeper, quotas: quotas, cadence: cadence, rec: end}
	sid := to.SID()
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.users[sid]
	switch {
	case l.closed:
		return
	case u == nil:
		if len(l.users) >= knownUsers && !l.drop() {
			return // every one of them is being learned of
		}
		u = &userState{}
		l.users[sid] = u
	case u.busy:
		u.last = e
		u.ends++
		return
	case u.wait > 0:
		u.wait--
		return
	}
	u.busy = true
	if l.busy++; l.idle == nil {
		l.idle = make(chan struct{})
	}
	l.work.Go(func() { l.teach(u, to, e) })
}

// drop forgets a user who is not being learned of. l.mu is held.
func (l *Learner) drop() bool {
	for sid, u := range l.users {
		if !u.busy {
			delete(l.users, sid)
			return true
		}
	}
	return false
}

// teach learns as long as runs end meanwhile.
func (l *Learner) teach(u *userState, to messages.SessionKey, e *runEnded) {
	for e != nil {
		wait, again := 0, false
		select {
		case l.slots <- struct{}{}:
			wait, again = l.learn(to, e)
			<-l.slots
		case <-l.ctx.Done():
		}
		l.mu.Lock()
		u.wait, u.ends = max(0, wait-u.ends), 0
		e, u.last = u.last, nil
		if e == nil || !again || l.closed {
			e, u.busy = nil, false
			if l.busy--; l.busy == 0 {
				close(l.idle)
				l.idle = nil
			}
		}
		l.mu.Unlock()
	}
}

// learn looks whether something is to be learned and does it. wait is how many runs may
// end before the next look; again reports whether it was worth it.
func (l *Learner) learn(to messages.SessionKey, e *runEnded) (wait int, again bool) {
	outcome, missing, err := l.attempt(to, e)
	if errors.Is(err, context.Canceled) || l.ctx.Err() != nil {
		return 0, false
	}
	if err != nil {
		l.log.Warn("the profile of a user was not learned", zap.String("SID", to.SID()), zap.String("outcome", outcome), zap.Error(err))
	}
	if outcome != "" {
		l.metrics.Profile(outcome)
	}
	return max(0, missing-1), outcome == profileLearned || outcome == profileUnchanged
}

// Outcomes of attempts, as the metrics have them.
const (
	profileLearned   = "learned"
	profileUnchanged = "unchanged"
	profileFailed    = "failed"    // by the model, or its answer was none
	profileBudget    = "no_budget" // the run had nothing left
	profileError     = "error"     // of the journal
)

// attempt makes one, if it is due; missing is how many messages are missing until then.
func (l *Learner) attempt(to messages.SessionKey, e *runEnded) (outcome string, missing int, err error) {
	ctx := l.ctx
	state, head, err := l.State(ctx, to)
	if err != nil {
		return profileError, 0, err
	}
	if head.Open {
		fresh, err := l.fresh(ctx, &head)
		if err != nil || fresh { // another host learns, or has died of it: that is told by time
			return "", 0, err
		}
	}
	news, err := l.unseen(ctx, to, state.Meta, max(2, int(state.Failures)+1)*e.cadence)
	if err != nil {
		return profileError, 0, err
	}
	if !state.Due(len(news), e.cadence) {
		return "", e.cadence*int(state.Failures+1) - len(news), nil
	}
	budget, none, err := l.left(ctx, e)
	if err != nil {
		return profileError, 0, err
	}
	if none {
		return profileBudget, 0, nil
	}
	req := profile.Request{Before: state, Upto: state.Meta}
	for _, n := range news[:min(len(news), 2*e.cadence)] {
		req.Messages = append(req.Messages, profile.Cut(n.text))
		req.Upto.LastLearnedSeq, req.Upto.LastLearnedIn, req.Upto.LastLearnedAt = n.Seq, n.Inc.String(), n.TS.UTC().Format(time.RFC3339Nano)
		req.Upto.MessagesProcessed++
	}
	in := messages.Input{Userdata: req.Encode(), User: messages.ProfileKeeper, Policy: messages.Reject, Budget: budget}
	// Another host that comes upon the same messages joins this attempt.
	in.Key = "learn/" + strconv.FormatInt(state.Version, 10) + "/" + strconv.FormatInt(state.Failures, 10) + "/" + req.Upto.LastLearnedIn + "/" + strconv.FormatInt(req.Upto.LastLearnedSeq, 10)
	rep, err := l.Host.Submit(ctx, to, e.keeper.Actor, in)
	for n := 1; n < tries && messages.CodeOf(err) == messages.ErrJournal; n++ { // its journal was deleted under it
		rep, err = l.Host.Submit(ctx, to, e.keeper.Actor, in)
	}
	if err != nil {
		return profileError, 0, err
	}
	run := &follow.Run{
		Source: follow.Source{Hub: l.Host.Hub(), Store: l.store}, SID: to.SID(), Inc: rep.Inc,
		Ordinal: rep.Run, Seq: rep.Seq, End: rep.End, Session: &keeping{l.Host, to, e.keeper.Actor},
	}
	a, err := run.Wait(ctx)
	if err != nil {
		return profileError, 0, err
	}
	o := a.Ended.Body.(*messages.RunEnd)
	after, _, err := l.State(ctx, to)
	switch {
	case err != nil:
		return profileError, 0, err
	case o.Decision != messages.Done || after.Failures > state.Failures || after.Meta == state.Meta && len(req.Messages) > 0:
		return profileFailed, e.cadence, &messages.Error{Code: o.Reason, Detail: o.Detail}
	case after.Version == state.Version:
		return profileUnchanged, 0, nil
	}
	return profileLearned, 0, nil
}

// keeping is the session of a profile.
type keeping struct {
	host  *actors.Host
	key   messages.SessionKey
	agent *compiled.Agent
}

// Wake implements follow.Run's Session.
func (k *keeping) Wake(ctx context.Context) error {
	_, err := k.host.Open(ctx, k.key, k.agent)
	return err
}

// fresh reports whether an open attempt wrote something a moment ago.
func (l *Learner) fresh(ctx context.Context, head *journal.Head) (bool, error) {
	for r, err := range l.store.Read(ctx, head.Inc, head.Seq, head.Seq) {
		return err == nil && l.now().Sub(r.TS) < learningStale, err
	}
	return false, nil
}

// news is a message of the user.
type news struct {
	journal.Heard
	text string
}

// unseen lists messages behind the cursor, the oldest first. What other agents asked on
// behalf of the user, what a fork took over, and what was withdrawn do not count.
func (l *Learner) unseen(ctx context.Context, to messages.SessionKey, from profile.Meta, limit int) ([]news, error) {
	q := journal.HeardQuery{Owner: to.Tenant + ":" + to.User + ":"}
	if from.LastLearnedAt != "" {
		at, err := time.Parse(time.RFC3339Nano, from.LastLearnedAt)
		if err != nil {
			return nil, &messages.Error{Code: messages.ErrJournal, Field: "last_learned_at", Detail: "the cursor of the profile is damaged", Cause: err}
		}
		q.After = journal.Heard{TS: at, Seq: from.LastLearnedSeq}
		if from.LastLearnedIn != "" {
			if q.After.Inc, err = journal.ParseIncarnation(from.LastLearnedIn); err != nil {
				return nil, err
			}
		}
	}
	var all []news
	opened := map[messages.Incarnation]*messages.SessionOpened{}
	for {
		page, err := l.store.Heard(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, h := range page {
			first := opened[h.Inc]
			if first == nil {
				if first, err = journal.Opened(ctx, l.store, h.Inc); err != nil {
					return nil, err
				}
				opened[h.Inc] = first
			}
			if first.Parent != nil || first.Origin != nil && h.Seq <= first.Origin.Seq {
				continue
			}
			text, err := l.messageText(ctx, h)
			if err != nil {
				return nil, err
			}
			if text == "" {
				continue
			}
			if all = append(all, news{Heard: h, text: text}); len(all) == limit {
				return all, nil
			}
		}
		if len(page) < journal.MaxHeard {
			return all, nil
		}
		q.After = page[len(page)-1]
	}
}

// messageText is a message, "" for one that was erased meanwhile or withdrawn.
func (l *Learner) messageText(ctx context.Context, h journal.Heard) (text string, err error) {
	var run int64
	for r, err := range l.store.Read(ctx, h.Inc, h.Seq, 0) {
		if err != nil {
			return "", err
		}
		if r.Seq == h.Seq {
			if r, err = journal.Typed(r); err != nil {
				return "", err
			}
			b, ok := r.Body.(*messages.Input)
			if !ok {
				return "", nil
			}
			_, text, _ = journal.Said(b)
			run = r.Run
			continue
		}
		if r.Run != run {
			continue
		}
		switch r.Body.Kind() {
		case messages.KindRunWithdrawn:
			return "", nil
		case messages.KindRunEnd:
			return text, nil
		}
	}
	return text, nil
}

// left is what the run that ended has left of its budget; nil bounds nothing.
func (l *Learner) left(ctx context.Context, e *runEnded) (budget *messages.Budget, none bool, err error) {
	bound, used := e.quotas, messages.Budget{}
	for r, err := range journal.Backward(ctx, l.store, e.rec.Inc, 1, e.rec.Seq, 256) {
		if err == nil {
			r, err = journal.Typed(r)
		}
		if err != nil {
			return nil, false, err
		}
		if r.Run != e.rec.Run {
			continue
		}
		own := false
		switch b := r.Body.(type) {
		case *messages.Input: // the run's own: others join it under their own number
			if b.Budget != nil {
				bound.Tokens, bound.CostUSD = tighter(bound.Tokens, b.Budget.Tokens), tighter(bound.CostUSD, b.Budget.CostUSD)
			}
			own = true
		case *messages.ModelReply:
			used.Tokens, used.CostUSD = used.Tokens+b.Usage.Input+b.Usage.Output, used.CostUSD+b.CostUSD
		case *messages.FeedInjected:
			used.Tokens, used.CostUSD = used.Tokens+b.Tokens, used.CostUSD+b.CostUSD
		case *messages.ActionEnded:
			used.Tokens, used.CostUSD = used.Tokens+b.Tokens, used.CostUSD+b.CostUSD
		}
		if own {
			break
		}
	}
	left, none := bound.Left(used)
	if left == (messages.Budget{}) {
		return nil, none, nil
	}
	return &left, none, nil
}

// tighter is the smaller of two bounds, of which 0 is none.
func tighter(a, b int64) int64 {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// State reads what the latest attempt left, and where its journal ended.
func (l *Learner) State(ctx context.Context, key messages.SessionKey) (profile.State, journal.Head, error) {
	head, err := l.store.Head(ctx, key.SID())
	if err == nil && head.Run == 0 || journal.IsNotFound(err) {
		var s profile.State
		at, err := l.store.Meta(ctx, forgottenKey(key))
		if err == nil {
			s.Meta.LastLearnedAt = string(at)
		} else if !journal.IsNotFound(err) {
			return s, head, err
		}
		return s, head, nil
	}
	if err != nil {
		return profile.State{}, head, err
	}
	var end *messages.RunEnd
	var parts []string // of the reply, the last one first
	for r, err := range journal.Backward(ctx, l.store, head.Inc, 1, head.Seq, 0) {
		if err == nil {
			r, err = journal.Typed(r)
		}
		if err != nil {
			return profile.State{}, head, err
		}
		if r.Run != head.Run {
			continue
		}
		switch b := r.Body.(type) {
		case *messages.RunEnd:
			end = b
		case *messages.UnitText:
			parts = append(parts, b.Text)
		case *messages.Input:
			req, err := profile.Decode(b.Userdata)
			switch {
			case err != nil:
				return profile.State{}, head, err
			case end == nil:
				return req.Before, head, nil
			}
			slices.Reverse(parts)
			return req.After(end.Decision, end.Reason, strings.Join(parts, "")), head, nil
		}
	}
	return profile.State{}, head, nil // the input was erased
}

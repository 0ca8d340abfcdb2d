package stile

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/profile"
)

// The profile of a user (docs/spec/cogency.md §10) is kept in a session of its own, tenant:user:
// and messages.ProfileID: each attempt to learn is a run of it, under the dialect
// profile. So it is journaled, bounded, retried, verified and replayed like any other;
// what a prompt had of it is a record of the session that the prompt was for.

// Bounds of learning.
const (
	learners      = 4                // at once, in this process
	knownUsers    = 4096             // whose profiles and counts are at hand
	learningStale = 10 * time.Minute // after which an open attempt is nobody's
)

// Profile is what is known of a user.
type Profile struct {
	Version    int64  // counts changes; 0 is none yet
	JSON       string // who, style, focus, interests, misc; "" for none
	Characters int    // of JSON
	Messages   int64  // of the user that were looked at
}

// Profile gives what is known of the session's user.
func (s *Session) Profile(ctx context.Context) (Profile, error) {
	return s.rt.Profile(ctx, s.key.Tenant, s.key.User)
}

// Profile gives what is known of a user; the zero Profile when nothing is. Errors are
// ERR_CONFIG (names) and ERR_JOURNAL.
func (rt *Runtime) Profile(ctx context.Context, tenant, user string) (Profile, error) {
	key := messages.SessionKey{Tenant: tenant, User: user, ID: messages.ProfileID}
	if err := key.Validate(); err != nil {
		return Profile{}, err
	}
	state, _, err := rt.profileState(ctx, key)
	if err != nil {
		return Profile{}, closedError(err)
	}
	p := Profile{Version: state.Version, Characters: state.Data.Runes(), Messages: state.Meta.MessagesProcessed}
	if !state.Data.IsZero() {
		p.JSON = state.Data.JSON()
	}
	return p, nil
}

// ForgetProfile deletes all that is known of a user, every version of it. What is learned
// later is learned from what the user says from now on. Prompts that showed the profile
// are records of their sessions and stay there until those are erased.
func (rt *Runtime) ForgetProfile(ctx context.Context, tenant, user string) error {
	key := messages.SessionKey{Tenant: tenant, User: user, ID: messages.ProfileID}
	if err := key.Validate(); err != nil {
		return err
	}
	at := rt.cfg.Now().UTC().Format(time.RFC3339Nano)
	if err := rt.store.PutMeta(ctx, forgottenKey(key), []byte(at)); err != nil {
		return closedError(err)
	}
	head, err := rt.store.Head(ctx, key.SID())
	if journal.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = rt.watched.Delete(ctx, head.Inc)
	}
	rt.learning.forget(key.SID())
	return closedError(err)
}

// forgottenKey is where the store keeps since when a user is learned of.
func forgottenKey(key messages.SessionKey) string {
	return "profile/" + key.Tenant + ":" + key.User
}

// refuseProfile keeps everybody but the host out of the sessions of profiles.
func refuseProfile(key messages.SessionKey) error {
	if key.ID != messages.ProfileID {
		return nil
	}
	return &messages.Error{Code: messages.ErrDenied, Field: "id", Detail: key.SID() + " is the profile of its user, which the host alone writes"}
}

// profileState reads what the latest attempt left, and where its journal ended.
func (rt *Runtime) profileState(ctx context.Context, key messages.SessionKey) (profile.State, journal.Head, error) {
	head, err := rt.store.Head(ctx, key.SID())
	if err == nil && head.Run == 0 || journal.IsNotFound(err) {
		var s profile.State
		at, err := rt.store.Meta(ctx, forgottenKey(key))
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
	for window := int64(64); ; window *= 4 {
		from := max(1, head.Seq-window+1)
		var input *messages.Input
		var end *messages.RunEnd
		reply := ""
		for r, err := range readSpan(ctx, rt.store, head.Inc, from, head.Seq) {
			if err != nil {
				return profile.State{}, head, err
			}
			if r.Run != head.Run {
				continue
			}
			switch b := r.Body.(type) {
			case *messages.Input:
				input = b
			case *messages.UnitText:
				reply += b.Text
			case *messages.RunEnd:
				end = b
			}
		}
		if input == nil && from > 1 {
			continue
		}
		if input == nil { // erased
			return profile.State{}, head, nil
		}
		req, err := profile.Decode(input.Userdata)
		switch {
		case err != nil:
			return profile.State{}, head, err
		case end == nil:
			return req.Before, head, nil
		}
		return req.After(end.Decision, end.Reason, reply), head, nil
	}
}

// profiles has an agent's sessions shown, and learned, what their users are like.
func (rt *Runtime) profiles(ctx context.Context, a *Agent, m *manifest.Manifest, routes []actors.Route, on parts, c *compiled) error {
	if a.replayed || rt.learning == nil {
		return nil
	}
	if on.profile {
		c.agent.Profile = rt.learning.json
	}
	if !m.Memory.Profile {
		return nil
	}
	keeper, err := rt.keeper(ctx, m, routes)
	if err != nil {
		return under("memory.profile", err)
	}
	cadence := int(cmp.Or(m.Memory.Cadence, profile.Cadence))
	quotas := messages.Budget{CostUSD: m.Quotas.CostMicroUSD, Tokens: m.Quotas.Tokens}
	c.agent.Ended = func(sid string, end *messages.Record) {
		if key, err := messages.ParseSID(sid); err == nil {
			rt.learning.ended(&runEnded{keeper: keeper, quotas: quotas, cadence: cadence, key: key, rec: end})
		}
	}
	return nil
}

// keeper is the agent that learns with an agent's models, within its quotas.
func (rt *Runtime) keeper(ctx context.Context, m *manifest.Manifest, routes []actors.Route) (*compiled, error) {
	own := manifest.Default(profile.Name)
	own.Name, own.Model, own.Quotas, own.Receipts = messages.ProfileID, m.Model, m.Quotas, m.Receipts
	own.Loop.Recovery = messages.RecoverHalt
	return rt.compile(ctx, &Agent{Manifest: own, keeper: true, routes: routes})
}

// learning keeps profiles up to date, in the background and for nobody to wait.
type learning struct {
	rt    *Runtime
	ctx   context.Context
	stop  context.CancelFunc
	slots chan struct{}
	work  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	users  map[string]*lesson // by SID of the profile
	shown  map[string]showing // by SID of the profile
}

// lesson is what is remembered of a user between looks. Losing it costs one look.
type lesson struct {
	busy bool
	wait int       // runs that may end before looking is worth anything
	last *runEnded // while busy: the latest
	ends int       // while busy: how many have ended, which the look may not have seen
}

// showing is a profile as of a head.
type showing struct {
	inc  messages.Incarnation
	seq  int64
	json string
}

// runEnded is a run after which something may be learned.
type runEnded struct {
	keeper  *compiled
	quotas  messages.Budget // of the run
	cadence int
	key     messages.SessionKey // of its session
	rec     *messages.Record
}

func (rt *Runtime) startLearning() {
	ctx, stop := context.WithCancel(context.Background())
	rt.learning = &learning{
		rt: rt, ctx: ctx, stop: stop, slots: make(chan struct{}, learners), users: map[string]*lesson{}, shown: map[string]showing{},
	}
}

// close ends what is being learned and waits for it.
func (l *learning) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.work.Wait()
}

func (l *learning) forget(sid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.shown, sid)
	if u := l.users[sid]; u != nil {
		u.wait = 0
	}
}

// json gives a user's profile for a prompt. The head of its journal is looked at each
// time: another host may have learned.
func (l *learning) json(ctx context.Context, sid string) (string, error) {
	key, err := messages.ParseSID(sid)
	if err != nil {
		return "", err
	}
	key, ok := key.Profile()
	if !ok {
		return "", nil
	}
	head, err := l.rt.store.Head(ctx, key.SID())
	if journal.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	s, ok := l.shown[key.SID()]
	l.mu.Unlock()
	if ok && s.inc == head.Inc && s.seq == head.Seq {
		return s.json, nil
	}
	state, head, err := l.rt.profileState(ctx, key)
	if err != nil {
		return "", err
	}
	s = showing{inc: head.Inc, seq: head.Seq}
	if !state.Data.IsZero() {
		s.json = state.Data.JSON()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	room(l.shown)
	l.shown[key.SID()] = s
	return s.json, nil
}

// room makes some in a map of users.
func room[T any](m map[string]T) {
	if len(m) < knownUsers {
		return
	}
	for k := range m {
		delete(m, k)
		return
	}
}

// ended takes a run that has ended. It does not block.
func (l *learning) ended(e *runEnded) {
	to, ok := e.key.Profile()
	if !ok {
		return
	}
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
		u = &lesson{}
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
	l.work.Go(func() { l.teach(u, to, e) })
}

// drop forgets a user who is not being learned of. l.mu is held.
func (l *learning) drop() bool {
	for sid, u := range l.users {
		if !u.busy {
			delete(l.users, sid)
			return true
		}
	}
	return false
}

// teach learns as long as runs end meanwhile.
func (l *learning) teach(u *lesson, to messages.SessionKey, e *runEnded) {
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
		}
		l.mu.Unlock()
	}
}

// learn looks whether something is to be learned and does it. wait is how many runs may
// end before the next look; again tells that it was worth it.
func (l *learning) learn(to messages.SessionKey, e *runEnded) (wait int, again bool) {
	outcome, missing, err := l.attempt(to, e)
	if errors.Is(err, context.Canceled) || l.ctx.Err() != nil {
		return 0, false
	}
	if err != nil {
		l.rt.log.Warn("the profile of a user was not learned", zap.String("SID", to.SID()), zap.String("outcome", outcome), zap.Error(err))
	}
	if outcome != "" {
		l.rt.metrics.Profile(outcome)
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
func (l *learning) attempt(to messages.SessionKey, e *runEnded) (outcome string, missing int, err error) {
	ctx, rt := l.ctx, l.rt
	state, head, err := rt.profileState(ctx, to)
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
	s := &Session{rt: rt, agent: e.keeper, key: to, sid: to.SID()}
	rep, err := rt.host.Submit(ctx, to, e.keeper.agent, in)
	for n := 1; n < tries && messages.CodeOf(err) == messages.ErrJournal; n++ { // its journal was deleted under it
		rep, err = rt.host.Submit(ctx, to, e.keeper.agent, in)
	}
	if err != nil {
		return profileError, 0, err
	}
	s.inc = rep.Inc
	run := &Run{session: s, ordinal: rep.Run, seq: rep.Seq, joined: rep.Joined, end: rep.End}
	o, err := run.Decision(ctx)
	if err != nil {
		return profileError, 0, err
	}
	after, _, err := rt.profileState(ctx, to)
	switch {
	case err != nil:
		return profileError, 0, err
	case o.Decision != Done || after.Failures > state.Failures || after.Meta == state.Meta && len(req.Messages) > 0:
		return profileFailed, e.cadence, &messages.Error{Code: o.Reason, Detail: o.Detail}
	case after.Version == state.Version:
		return profileUnchanged, 0, nil
	}
	return profileLearned, 0, nil
}

// fresh tells that an open attempt wrote something a moment ago.
func (l *learning) fresh(ctx context.Context, head *journal.Head) (bool, error) {
	for r, err := range l.rt.store.Read(ctx, head.Inc, head.Seq, head.Seq) {
		return err == nil && l.rt.cfg.Now().Sub(r.TS) < learningStale, err
	}
	return false, nil
}

// news is a message of the user.
type news struct {
	journal.Heard
	text string
}

// unseen lists messages behind the cursor, the oldest first. What other agents asked on
// behalf of the user, what a fork took over, and what was withdrawn are none of them.
func (l *learning) unseen(ctx context.Context, to messages.SessionKey, from profile.Meta, limit int) ([]news, error) {
	q := journal.HeardQuery{Owner: to.Tenant + ":" + to.User + ":"}
	if from.LastLearnedAt != "" {
		at, err := time.Parse(time.RFC3339Nano, from.LastLearnedAt)
		if err != nil {
			return nil, &messages.Error{Code: messages.ErrJournal, Field: "last_learned_at", Detail: "the cursor of the profile is damaged", Cause: err}
		}
		q.After = journal.Place{TS: at, Seq: from.LastLearnedSeq}
		if from.LastLearnedIn != "" {
			if q.After.Inc, err = parseInc(from.LastLearnedIn); err != nil {
				return nil, err
			}
		}
	}
	var all []news
	opened := map[messages.Incarnation]*messages.SessionOpened{}
	for {
		page, err := journal.HeardOf(ctx, l.rt.store, q)
		if err != nil {
			return nil, err
		}
		for _, h := range page {
			first := opened[h.Inc]
			if first == nil {
				if first, err = openedBy(ctx, l.rt.store, h.Inc); err != nil {
					return nil, err
				}
				opened[h.Inc] = first
			}
			if first.Parent != nil || first.Origin != nil && h.Seq <= first.Origin.Seq {
				continue
			}
			text, err := l.said(ctx, h)
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
		q.After = page[len(page)-1].Place
	}
}

// said is a message, "" for one that was erased meanwhile or withdrawn.
func (l *learning) said(ctx context.Context, h journal.Heard) (text string, err error) {
	var run int64
	for r, err := range l.rt.store.Read(ctx, h.Inc, h.Seq, 0) {
		if err != nil {
			return "", err
		}
		if r.Seq == h.Seq {
			if r, err = typed(r); err != nil {
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
func (l *learning) left(ctx context.Context, e *runEnded) (budget *messages.Budget, none bool, err error) {
	bound, used := e.quotas, messages.Budget{}
	found := false
	for to := e.rec.Seq; to > 0 && !found; {
		from := max(1, to-255)
		for r, err := range readSpan(ctx, l.rt.store, e.rec.Inc, from, to) {
			if err != nil {
				return nil, false, err
			}
			if r.Run != e.rec.Run {
				continue
			}
			switch b := r.Body.(type) {
			case *messages.Input: // the run's own: others join it under their own number
				if b.Budget != nil {
					bound.Tokens, bound.CostUSD = tighter(bound.Tokens, b.Budget.Tokens), tighter(bound.CostUSD, b.Budget.CostUSD)
				}
				found = true
			case *messages.ModelReply:
				used.Tokens, used.CostUSD = used.Tokens+b.Usage.Input+b.Usage.Output, used.CostUSD+b.CostUSD
			case *messages.ActionEnded:
				used.Tokens, used.CostUSD = used.Tokens+b.Tokens, used.CostUSD+b.CostUSD
			}
		}
		to = from - 1
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

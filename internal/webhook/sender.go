package webhook

import (
	"container/heap"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of what is sent and kept.
const (
	MaxWaiting = 1000 // events of a tenant that wait for an endpoint
	MaxDead    = 1000 // dead letters of a tenant

	atOnce      = 4                // requests to an endpoint
	sendTimeout = 15 * time.Second // of a request, from the resolution of the name to the last byte
	lastAnswers = 3 * time.Second  // that requests have to end when the sender is stopped
	maxAnswer   = 64 << 10         // of an answer, which is thrown away
	maxPause    = 24 * time.Hour   // that an endpoint may ask for
	deadFor     = 30 * 24 * time.Hour
)

// pauses are between attempts, before jitter: those that the convention advises.
var pauses = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour}

// Event is what endpoints are told.
type Event struct {
	ID     string    `json:"id"` // the same for each offer of it
	Type   string    `json:"type"`
	Tenant string    `json:"tenant"`
	Inc    string    `json:"inc"` // incarnation of the session
	At     time.Time `json:"at"`  // of its record
	Body   string    `json:"body"`
}

// letter is an event on its way to an endpoint.
type letter struct {
	Hook     string    `json:"hook"`
	Event    Event     `json:"event"`
	Attempts int       `json:"attempts,omitzero"`
	Next     time.Time `json:"next,omitzero"`  // when it is sent
	Error    string    `json:"error,omitzero"` // of the last attempt
	Died     time.Time `json:"died,omitzero"`
}

func (l *letter) key() string { return l.Hook + "." + l.Event.ID }

// Dead is a letter that is not sent any more, as lists have it.
type Dead struct {
	ID       string // for Retry and Drop
	Hook     string
	Event    Event
	Attempts int
	Error    string
	Died     time.Time
}

// Outcomes of attempts and letters.
const (
	Delivered = "delivered"
	Failed    = "failed"  // an attempt
	Died      = "dead"    // a letter
	Dropped   = "dropped" // a dead letter, because there were too many, or of one that was too old
)

// Options make a Sender.
type Options struct {
	// Path is the file of the state; without one it is forgotten with the process.
	Path string
	// Wanted reports before the first attempt whether an event is told at all; nil is yes.
	Wanted func(ctx context.Context, e *Event) (bool, error)
	// Count counts outcomes, Took attempts, Waiting what waits; by the name of the hook.
	Count   func(hook, outcome string)
	Took    func(hook string, d time.Duration)
	Waiting func(hook string, n int)
	Agent   string // User-Agent
	Log     *zap.Logger
}

// Sender delivers events. Its methods are safe for concurrent use.
type Sender struct {
	opts   Options
	client func(*endpoint) *http.Client
	active atomic.Bool // there are hooks
	kick   chan struct{}

	mu       sync.Mutex
	hooks    map[string]*line
	since    map[string]time.Time // when a hook was heard of: older events are not for it
	until    time.Time            // from when on events are to be offered again
	known    map[string]bool      // keys of letters that wait or are dead
	done     map[string]time.Time // delivered ones, with the time of their events
	dead     map[string][]*letter // by tenant, oldest first
	flying   map[*letter]bool     // on their way
	loaded   []*letter            // of the file, until there are hooks
	behind   bool                 // events from until on are still to be offered
	dirty    bool
	modified time.Time // the first change that is not saved
	saved    time.Time
	pause    time.Duration // least time from saved to the next write
}

// line is an endpoint with what waits for it.
type line struct {
	*endpoint
	client  *http.Client
	tenants map[string]*queue
	turn    []string // tenants in the order in which they come next
	busy    int      // requests on their way
	waiting int      // letters, with those on their way
}

// queue has the letters of a tenant, those that are sent first in front.
type queue struct {
	letters []*letter
	size    int // with those on their way
}

func (q *queue) Len() int           { return len(q.letters) }
func (q *queue) Less(i, k int) bool { return q.letters[i].Next.Before(q.letters[k].Next) }
func (q *queue) Swap(i, k int)      { q.letters[i], q.letters[k] = q.letters[k], q.letters[i] }
func (q *queue) Push(x any)         { q.letters = append(q.letters, x.(*letter)) }
func (q *queue) Pop() any {
	n := len(q.letters) - 1
	l := q.letters[n]
	q.letters[n], q.letters = nil, q.letters[:n]
	return l
}

// New makes a sender with the state of its file. The error is ERR_CONFIG: the file cannot be read.
func New(o Options) (*Sender, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	s := &Sender{
		opts: o, client: (*endpoint).client, kick: make(chan struct{}, 1), hooks: map[string]*line{}, since: map[string]time.Time{},
		known: map[string]bool{}, done: map[string]time.Time{}, dead: map[string][]*letter{}, flying: map[*letter]bool{},
	}
	return s, s.load()
}

// Set replaces the hooks, as a whole or, with an error of Check, not at all. What waits for a hook
// that is gone is dead. A new one is told of what happens from now on.
func (s *Sender) Set(hooks []Hook) error {
	all, err := compile(hooks)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all)+len(s.hooks)+len(s.loaded) == 0 { // no host that has none keeps a file
		return nil
	}
	now := time.Now()
	for name, old := range s.hooks {
		old.client.CloseIdleConnections()
		if all[name] != nil {
			continue
		}
		for _, q := range old.tenants {
			for _, l := range q.letters {
				l.Error = "the webhook was taken out of the settings"
				s.bury(l, now)
			}
		}
		delete(s.hooks, name)
		delete(s.since, name)
		s.count(name)
	}
	for name, e := range all {
		if s.hooks[name] == nil {
			s.hooks[name] = &line{tenants: map[string]*queue{}}
		}
		h := s.hooks[name]
		h.endpoint, h.client = e, s.client(e)
		if _, ok := s.since[name]; !ok {
			s.since[name] = now
		}
		s.count(name)
	}
	s.adopt(now)
	s.active.Store(len(s.hooks) > 0)
	s.dirty, s.modified = true, time.Time{} // saved at once: a new hook is told of what comes now
	s.wake()
	return nil
}

// client sends to the endpoint alone.
func (e *endpoint) client() *http.Client {
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return e.judge(address) }}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, MaxResponseHeaderBytes: maxAnswer,
			MaxConnsPerHost: atOnce, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Active reports whether there are hooks: without, no event needs to be offered.
func (s *Sender) Active() bool { return s.active.Load() }

// Until is from when on events may be missing: they are to be offered again, and then CaughtUp called.
// It is zero if none are.
func (s *Sender) Until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.behind {
		return time.Time{}
	}
	return s.until
}

// CaughtUp says that what happened from Until on was offered.
func (s *Sender) CaughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = false
	s.changed(time.Now())
	s.wake()
}

// Offer takes an event for all hooks that want it. One that waits, is dead or, where there is a file,
// was delivered is passed over. It does not block.
func (s *Sender) Offer(e Event) {
	if !s.active.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for name, h := range s.hooks {
		l := &letter{Hook: name, Event: e, Next: now}
		if !h.wants(e.Type, e.Tenant) || e.At.Before(s.since[name]) || s.known[l.key()] {
			continue
		}
		if _, ok := s.done[l.key()]; ok {
			continue
		}
		s.add(h, l, now)
		s.changed(now)
		s.wake()
	}
	if now.Sub(s.saved) > time.Minute { // so that not all of the past is looked at after a restart
		s.changed(now)
		s.wake()
	}
}

// add has a letter wait. Where too many do, it is dead. The lock is held.
func (s *Sender) add(h *line, l *letter, now time.Time) {
	q := h.tenants[l.Event.Tenant]
	if q == nil {
		q = &queue{}
		h.tenants[l.Event.Tenant] = q
		h.turn = append(h.turn, l.Event.Tenant)
	}
	s.known[l.key()] = true
	if q.size >= MaxWaiting {
		l.Error = strconv.Itoa(MaxWaiting) + " events of the tenant wait already"
		s.bury(l, now)
		return
	}
	heap.Push(q, l)
	q.size++
	h.waiting++
	s.count(h.Name)
}

// bury puts a letter to the dead ones. The lock is held.
func (s *Sender) bury(l *letter, now time.Time) {
	l.Died, l.Next = now, time.Time{}
	tenant := l.Event.Tenant
	all := append(s.dead[tenant], l)
	if len(all) > MaxDead {
		delete(s.known, all[0].key())
		s.tell(all[0].Hook, Dropped)
		all = slices.Delete(all, 0, 1)
	}
	s.dead[tenant] = all
	s.tell(l.Hook, Died)
	s.opts.Log.Warn("an event could not be delivered, and is among the dead letters", zap.String("webhook", l.Hook), zap.String("letter", l.key()), zap.String("why", l.Error), zap.Int("attempts", l.Attempts))
}

func (s *Sender) tell(hook, outcome string) {
	if s.opts.Count != nil {
		s.opts.Count(hook, outcome)
	}
}

// count tells how many letters wait for a hook. The lock is held.
func (s *Sender) count(hook string) {
	if s.opts.Waiting == nil {
		return
	}
	n := 0
	if h := s.hooks[hook]; h != nil {
		n = h.waiting
	}
	s.opts.Waiting(hook, n)
}

// changed notes that there is something to save. The lock is held.
func (s *Sender) changed(now time.Time) {
	if !s.dirty {
		s.dirty, s.modified = true, now
	}
}

func (s *Sender) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, and saves how far it has come. Without hooks it waits.
func (s *Sender) Run(ctx context.Context) {
	var sending sync.WaitGroup
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	for {
		next := time.Time{}
		if ctx.Err() == nil {
			next = s.begin(requests, &sending)
		}
		var rings <-chan time.Time
		var timer *time.Timer
		if !next.IsZero() {
			timer = time.NewTimer(time.Until(next))
			rings = timer.C
		}
		select {
		case <-s.kick:
		case <-rings:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		s.save(ctx.Err() != nil)
		if ctx.Err() != nil {
			last := time.AfterFunc(lastAnswers, cut)
			sending.Wait()
			last.Stop()
			s.save(true)
			s.mu.Lock()
			for _, h := range s.hooks {
				h.client.CloseIdleConnections()
			}
			s.mu.Unlock()
			return
		}
	}
}

// begin sends what is due, and returns when there is something to do again; zero for not by itself.
func (s *Sender) begin(ctx context.Context, sending *sync.WaitGroup) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, h := range s.hooks {
		for h.busy < atOnce {
			l, soonest := h.take(now)
			if l == nil {
				if !soonest.IsZero() {
					sooner(soonest)
				}
				break
			}
			h.busy++
			s.flying[l] = true
			e, client := h.endpoint, h.client
			sending.Go(func() { s.deliver(ctx, h, e, client, l) })
		}
	}
	if s.dirty && s.opts.Path != "" {
		sooner(s.due())
	}
	return next
}

// take returns a letter that is due, of each tenant in turn; else nil and when one is.
func (h *line) take(now time.Time) (_ *letter, soonest time.Time) {
	for range len(h.turn) {
		tenant := h.turn[0]
		h.turn = append(h.turn[1:], tenant)
		q := h.tenants[tenant]
		switch {
		case q.Len() == 0:
		case !q.letters[0].Next.After(now):
			return heap.Pop(q).(*letter), time.Time{}
		case soonest.IsZero() || q.letters[0].Next.Before(soonest):
			soonest = q.letters[0].Next
		}
	}
	return nil, soonest
}

// deliver makes an attempt, and decides what becomes of the letter.
func (s *Sender) deliver(ctx context.Context, h *line, e *endpoint, client *http.Client, l *letter) {
	wanted, err := true, error(nil)
	if s.opts.Wanted != nil && l.Attempts == 0 {
		wanted, err = s.opts.Wanted(ctx, &l.Event)
	}
	var got answer
	if wanted && err == nil {
		begun := time.Now()
		got, err = e.post(ctx, client, l, s.opts.Agent)
		if s.opts.Took != nil && ctx.Err() == nil {
			s.opts.Took(e.Name, time.Since(begun))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	delete(s.flying, l)
	h.busy--
	if s.hooks[l.Hook] != h { // it was taken out meanwhile
		h = nil
	}
	defer s.wake()
	s.changed(now)
	if err != nil && ctx.Err() != nil { // the host stops: it counts for nothing
		if h != nil {
			heap.Push(h.tenants[l.Event.Tenant], l)
			return
		}
		l.Error = "the webhook was taken out of the settings"
		s.bury(l, now)
		return
	}
	if err == nil {
		s.leave(h, l)
		delete(s.known, l.key())
		s.finish(l)
		if wanted {
			s.tell(l.Hook, Delivered)
		}
		return
	}
	l.Attempts++
	l.Error = err.Error()
	s.tell(l.Hook, Failed)
	if h == nil || got.gone || l.Attempts > len(pauses) {
		s.leave(h, l)
		s.bury(l, now)
		return
	}
	pause := pauses[l.Attempts-1]
	pause += time.Duration((rand.Float64() - .5) * .4 * float64(pause))
	l.Next = now.Add(max(pause, min(got.pause, maxPause)))
	heap.Push(h.tenants[l.Event.Tenant], l)
}

// finish keeps that a letter is not to be sent again. Without a file no event is offered again. The
// lock is held.
func (s *Sender) finish(l *letter) {
	if s.opts.Path != "" {
		s.done[l.key()] = l.Event.At
	}
}

// leave takes a letter that is on its way out of what waits. The lock is held.
func (s *Sender) leave(h *line, l *letter) {
	if h == nil {
		return
	}
	h.waiting--
	q := h.tenants[l.Event.Tenant]
	if q.size--; q.size == 0 {
		delete(h.tenants, l.Event.Tenant)
		h.turn = slices.DeleteFunc(h.turn, func(t string) bool { return t == l.Event.Tenant })
	}
	s.count(h.Name)
}

// answer is what an endpoint said to an attempt that failed.
type answer struct {
	pause time.Duration // that it asks for
	gone  bool          // it wants no more
}

// post makes one request. An error has neither the URL nor what the endpoint said.
func (e *endpoint) post(ctx context.Context, client *http.Client, l *letter, agent string) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), strings.NewReader(l.Event.Body))
	if err != nil {
		return a, errors.New("the request cannot be made")
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Webhook-Id", l.Event.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", sign(e.secrets, l.Event.ID, now, l.Event.Body))
	res, err := client.Do(req)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) {
			err = of.Err
		}
		return a, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // the status says all
	if res.StatusCode/100 == 2 {
		return a, nil
	}
	a.gone = res.StatusCode == http.StatusGone
	a.pause = pauseOf(res.Header.Get("Retry-After"), now)
	return a, errors.New("the endpoint answered " + strconv.Itoa(res.StatusCode))
}

// pauseOf is what a Retry-After asks for.
func pauseOf(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(now)
	}
	return 0
}

// Dead lists dead letters of a tenant, oldest first, behind the one with the id after.
func (s *Sender) Dead(tenant, after string, limit int) (all []Dead, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	letters := s.dead[tenant]
	if after != "" {
		i := slices.IndexFunc(letters, func(l *letter) bool { return l.key() == after })
		if i < 0 {
			return nil, &messages.Error{Code: messages.ErrInvalid, Field: "after", Detail: "is no id of a dead letter"}
		}
		letters = letters[i+1:]
	}
	for _, l := range letters[:min(limit, len(letters))] {
		all = append(all, Dead{ID: l.key(), Hook: l.Hook, Event: l.Event, Attempts: l.Attempts, Error: l.Error, Died: l.Died})
	}
	return all, nil
}

// Retry sends a dead letter of a tenant again, from the first attempt on. Errors: ERR_NOT_FOUND;
// ERR_CONFLICT, the hook is gone; ERR_BUSY, too many wait for it.
func (s *Sender) Retry(tenant, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(tenant, id)
	if err != nil {
		return err
	}
	l := s.dead[tenant][i]
	h := s.hooks[l.Hook]
	if h == nil {
		return &messages.Error{Code: messages.ErrConflict, Field: "id", Detail: "the host has no webhook " + l.Hook + " any more"}
	}
	if q := h.tenants[tenant]; q != nil && q.size >= MaxWaiting {
		return &messages.Error{Code: messages.ErrBusy, Detail: "too many events wait for " + l.Hook + " already"}
	}
	s.dead[tenant] = slices.Delete(s.dead[tenant], i, i+1)
	now := time.Now()
	l.Attempts, l.Died, l.Next = 0, time.Time{}, now
	s.add(h, l, now)
	s.changed(now)
	s.wake()
	return nil
}

// Drop forgets a dead letter of a tenant. The error is ERR_NOT_FOUND.
func (s *Sender) Drop(tenant, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(tenant, id)
	if err != nil {
		return err
	}
	l := s.dead[tenant][i]
	s.dead[tenant] = slices.Delete(s.dead[tenant], i, i+1)
	delete(s.known, id)
	s.finish(l)
	s.changed(time.Now())
	s.wake()
	return nil
}

func (s *Sender) find(tenant, id string) (int, error) {
	i := slices.IndexFunc(s.dead[tenant], func(l *letter) bool { return l.key() == id })
	if i < 0 {
		return 0, &messages.Error{Code: messages.ErrNotFound, Field: "id", Detail: "no such dead letter"}
	}
	return i, nil
}

// Status is how a hook stands with a tenant.
type Status struct {
	Name          string
	Origin        string // scheme and host of its URL
	Events        []string
	Waiting, Dead int // of the tenant
}

// Status lists the hooks that are told of a tenant, by name.
func (s *Sender) Status(tenant string) (all []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.hooks {
		if len(h.Tenants) > 0 && !slices.Contains(h.Tenants, tenant) {
			continue
		}
		one := Status{Name: name, Origin: h.url.Scheme + "://" + h.url.Host, Events: h.Events}
		if len(one.Events) == 0 {
			one.Events = Types()
		}
		if q := h.tenants[tenant]; q != nil {
			one.Waiting = q.size
		}
		for _, l := range s.dead[tenant] {
			if l.Hook == name {
				one.Dead++
			}
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

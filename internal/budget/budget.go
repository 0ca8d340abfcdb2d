// Package budget computes what records cost, and whether a user or a session may spend more.
//
// One idea: usage is a sum over records, so it is the same after a restart and for every
// reader of the journal.
//
// Invariants:
//   - a record counts once: an account has, by session, the last record that it counted;
//   - records read from a journal, and records observed meanwhile, may come in any order;
//   - the day is UTC; the caller passes the time.
//
// It reads no journal itself, and stops nothing that has begun.
package budget

import (
	"strings"
	"sync"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Of returns the usage in a record: of a model's reply, or of an action's end without that of
// its child sessions, which have records of their own.
func Of(r *messages.Record) (used messages.Budget) {
	switch b := r.Body.(type) {
	case *messages.ModelReply:
		used = messages.Budget{Tokens: b.Usage.Input + b.Usage.Output, CostUSD: b.CostUSD}
	case *messages.ActionEnded:
		if len(b.Children) == 0 {
			used = messages.Budget{Tokens: b.Tokens, CostUSD: b.CostUSD}
		}
	}
	return used
}

// Limits bound the usage of each user in a day, and of each session in its life; 0 is no
// bound.
type Limits struct {
	UserTokens, UserCost       int64 // of a day (UTC); cost in millionths of a dollar
	SessionTokens, SessionCost int64
}

// User reports whether users have a limit.
func (l Limits) User() bool { return l.UserTokens > 0 || l.UserCost > 0 }

// Session reports whether sessions have a limit.
func (l Limits) Session() bool { return l.SessionTokens > 0 || l.SessionCost > 0 }

// Reasons of a refusal.
const (
	UserTokens    = "USER_TOKENS"
	UserCost      = "USER_COST"
	SessionTokens = "SESSION_TOKENS"
	SessionCost   = "SESSION_COST"
)

// maxAccounts bounds the accounts of users, and those of sessions, in memory; others are read
// from the journal again when they are needed.
const maxAccounts = 50_000

// Book has the accounts of users and sessions. It is safe for concurrent use; its methods block
// on each other alone.
type Book struct {
	limits Limits

	mu       sync.Mutex
	day      string
	users    map[string]*Account // by "tenant:user:"
	sessions map[string]*Account // by SID
}

// Account is the usage of one user today, or of one session ever.
type Account struct {
	user  bool
	used  messages.Budget
	known bool                           // it has the records of the journal
	last  map[messages.Incarnation]int64 // position of the last record that was counted
	early []*messages.Record             // observed while the journal is read
}

// NewBook returns an empty Book.
func NewBook(l Limits) *Book {
	return &Book{limits: l, users: map[string]*Account{}, sessions: map[string]*Account{}}
}

// Day returns the day of a time in UTC.
func Day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Resets returns when a user's account is reset: the next midnight in UTC.
func Resets(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }

func userOf(sid string) string {
	tenant, rest, _ := strings.Cut(sid, ":")
	user, _, _ := strings.Cut(rest, ":")
	return tenant + ":" + user + ":"
}

// Observe counts a durable record.
func (b *Book) Observe(r *messages.Record) {
	if Of(r) == (messages.Budget{}) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range []*Account{b.users[userOf(r.SID)], b.sessions[r.SID]} {
		switch {
		case a == nil:
		case a.known:
			a.count(r, b.day)
		default:
			a.early = append(a.early, r)
		}
	}
}

// count adds a record that was not counted yet.
func (a *Account) count(r *messages.Record, day string) {
	if r.Seq <= a.last[r.Inc] {
		return
	}
	a.last[r.Inc] = r.Seq
	if !a.user || Day(r.TS) == day {
		a.used = a.used.Plus(Of(r))
	}
}

// User returns the account of the user of a session at a time, and Session that of the session;
// nil without a limit. An account that is not Known needs the records of the journal: see Read.
func (b *Book) User(sid string, at time.Time) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	if day := Day(at); day != b.day {
		b.day = day
		clear(b.users)
	}
	if !b.limits.User() {
		return nil
	}
	return open(b.users, userOf(sid), true)
}

// Session returns the account of a session: see User.
func (b *Book) Session(sid string) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.limits.Session() {
		return nil
	}
	return open(b.sessions, sid, false)
}

// Unopened returns the account of a session that is not there yet, as User does. The Book does not
// keep it, so that nothing is counted if the session does not come to be.
func (b *Book) Unopened() *Account {
	if !b.limits.Session() {
		return nil
	}
	return newAccount(false)
}

func newAccount(user bool) *Account {
	return &Account{user: user, last: map[messages.Incarnation]int64{}}
}

func open(all map[string]*Account, key string, user bool) *Account {
	a := all[key]
	if a == nil {
		if len(all) >= maxAccounts {
			clear(all)
		}
		a = newAccount(user)
		all[key] = a
	}
	return a
}

// Forget forgets what is known of a session: other hosts may spend of it. It is read again when it is needed.
func (b *Book) Forget(sid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, sid)
}

// Known reports whether an account has the records of the journal.
func (b *Book) Known(a *Account) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return a == nil || a.known
}

// Read adds the records of the journal to an account, those of each session in order. Calls for
// one account must not be concurrent; a second call changes nothing.
func (b *Book) Read(a *Account, records []*messages.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.known {
		return
	}
	for _, r := range append(records, a.early...) {
		a.count(r, b.day)
	}
	a.known, a.early = true, nil
}

// Check returns the limits of a submit: over is the reason of a refusal, or "", and left is
// what the run may use; 0 in it is no bound.
func (b *Book) Check(user, session *Account) (left messages.Budget, over string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound := func(to *int64, limit, used int64, why string) {
		switch rest := limit - used; {
		case limit <= 0 || over != "":
		case rest <= 0:
			over = why
		case *to == 0 || rest < *to:
			*to = rest
		}
	}
	if user != nil {
		bound(&left.Tokens, b.limits.UserTokens, user.used.Tokens, UserTokens)
		bound(&left.CostUSD, b.limits.UserCost, user.used.CostUSD, UserCost)
	}
	if session != nil {
		bound(&left.Tokens, b.limits.SessionTokens, session.used.Tokens, SessionTokens)
		bound(&left.CostUSD, b.limits.SessionCost, session.used.CostUSD, SessionCost)
	}
	return left, over
}

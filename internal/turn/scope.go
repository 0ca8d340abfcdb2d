package turn

import (
	"strconv"

	"github.com/seed14be6753/stile/messages"
)

// A key-value relic of a user or of a tenant is the fold of the records of a session of its own
// (docs/decisions/026-a-scope-is-a-session.md). Its calls come from actions of other sessions, and
// from their feeds. An answer is durable: what it rests on is on disk before the caller has it,
// because the caller writes it to another journal.

// Bounds of the relics of a user, and of those of a tenant, together.
const (
	MaxScopeRelics = 64
	MaxScopeBytes  = 16 << 20 // keys and values
)

// Reasons of refused calls, for the shell alone.
const (
	ReasonRepeated = "repeated" // changes have come that were not searched for the call's key
	ReasonBehind   = "behind"   // the journal has gone on without this machine
)

// ScopeCall asks for one operation on a relic of a user or tenant; the answer is Answer, with
// the Result.
type ScopeCall struct {
	Handle uint64
	By     string // SID of the session that calls
	Key    string // idempotency key
	Relic  string
	Args   string // JSON object: the operation and its parameters
	Limits messages.RelicLimits
	Reads  bool  // only get and list are allowed: a feed calls
	Head   int64 // position that the journal had before the caller was known to be no other host's
	// Repeat is set for a call that may have been made before under Key. Then no change up to
	// Searched has the key.
	Repeat   bool
	Searched int64
}

func (*ScopeCall) input() string { return "ScopeCall" }

// scopeCall does one operation.
func (m *Machine) scopeCall(in *ScopeCall) {
	s := &m.state
	answer := func(result string, err error) {
		m.do(&Answer{After: s.Seq, Handle: in.Handle, Seq: s.Seq, Result: result, Err: err})
	}
	switch {
	case s.Closed || s.Seq == 0:
		answer("", failure(messages.ErrCancelled, ReasonNoSession, "", "the relics are being erased"))
		return
	case in.Head > s.Seq:
		m.do(&Answer{Handle: in.Handle, Err: failure(messages.ErrBusy, ReasonBehind, "", "another host keeps the relics")})
		return
	case in.Repeat && s.Scoped > in.Searched, m.found > in.Head && !in.Reads:
		answer("", failure(messages.ErrBusy, ReasonRepeated, "", "changes have come meanwhile"))
		return
	case in.Reads:
		answer(s.ReadRelic(in.Relic, in.Args, m.now))
		return
	}
	args := clean(in.Args)
	change, result, err := operate(s.entries(in.Relic, m.now), args, bounded(in.Limits))
	if err == nil && change.kind == puts {
		err = s.roomFor(in.Relic, change)
	}
	if err == nil && change.kind != noChange {
		m.append(0, 0, &messages.RelicChanged{Args: args, By: clean(in.By), Key: in.Key, Relic: in.Relic, Result: result}, 0)
	}
	if err != nil {
		result = ""
	}
	answer(result, err)
}

// roomFor returns why a change does not fit into what all relics of a scope may hold.
func (s *State) roomFor(relic string, c relicChange) error {
	if _, known := s.Relics[relic]; !known && len(s.Relics) >= MaxScopeRelics {
		return failure(messages.ErrQuota, ReasonRelicLimit, "parameters.key", "there are "+strconv.Itoa(MaxScopeRelics)+" relics of this scope, which is the limit")
	}
	size := len(c.key) + len(c.value)
	for name, entries := range s.Relics {
		for k, v := range entries {
			if name != relic || k != c.key {
				size += len(k) + len(v)
			}
		}
	}
	if size > MaxScopeBytes {
		return failure(messages.ErrQuota, ReasonRelicLimit, "parameters.value", "the relics of this scope would have "+strconv.Itoa(size)+" bytes together; the limit is "+strconv.Itoa(MaxScopeBytes))
	}
	return nil
}

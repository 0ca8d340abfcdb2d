// Package actors is the host's own and no part of the public API: it may change in any release.
//
// It holds the thin shells around the pure rooms: they receive a
// message, let the turn machine decide, and do its effects in order
// (docs/spec/design.md §§2, 4). Anything that can be decided without a goroutine is decided elsewhere.
//
//	root ─ supervises the sessions; owns the map from SID to actor
//	 └─ session        one machine, one turn in flight; restarted from the journal
//	     ├─ model       has one reply read
//	     ├─ interpreter has one program run
//	     ├─ action      makes the attempts of one action, from its declaration to its end
//	     └─ feed        has the states of the session's feeds, while it is awake
//
// Invariants:
//   - a session never blocks in Receive: what waits (loading, models, programs,
//     tools) waits on a goroutine of its own and answers with turn and nonce;
//   - foreign code never runs in an actor's Receive. Its panic is carried to the
//     child actor, whose supervisor turns it into an input of the machine. That of a feed's
//     source begins this feed anew;
//   - what a session persists goes out in the order of its machine, and nothing an
//     effect waits for is assumed durable before the journal said so;
//   - everything started here ends when Host.Stop returns.
//
// What is published goes through package hub, and actors have their goroutines of package
// mailbox.
package actors

// Package turn is the state machine of a session: given the time and one input
// it returns the effects that follow, and does nothing else (docs/spec/design.md §5).
//
//	effects, err := m.Step(now, input)
//
// Invariants:
//   - at most one turn is in flight, and it ends in exactly one turn.decided;
//   - the same state and inputs give the same effects, byte for byte. Replay and
//     simulation stand on it: no clock, no goroutine, randomness is a reader;
//   - records are numbered here, without gaps; an effect that others can see
//     names the record (After) that must be durable before it may happen;
//   - the durable part of the state is the fold of the records (State.apply), so
//     a restart knows exactly what the journal knows;
//   - an answer that carries another turn or nonce than the turn in flight is
//     late: it is dropped and counted.
//
// The machine knows no dialect by name and performs no effect. It does not
// encode, sign or store: shells do, in the order the Outbox gives.
package turn

// Package groupcommit appends the batches of all sessions to a store (docs/spec/design.md §7).
//
// One idea: while one commit runs, the batches of all sessions queue, and then they become
// one commit, without a timer. Each batch is acknowledged once, after it is durable.
//
// Invariants:
//   - batches of one session are decided in the order in which they were appended, and
//     after a refused one every later batch of that activation is refused as well;
//   - after a failed write or sync nothing is written until Reopen.
//
// It does not interpret records, and does not retry. The package comment of internal/turn draws
// the way of a record through it.
package groupcommit

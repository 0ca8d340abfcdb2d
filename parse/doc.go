// Package parse defines dialects, the formats in which models write: a dialect turns the bytes
// of a reply into events, and gives a verdict on the facts of a turn (docs/spec/design.md §5).
// Each package below it is one dialect.
//
// Invariants:
//   - a dialect has no loop, clock, key or store. It is a codec and a pure verdict; the turn
//     machine acts;
//   - a decoder gives the same events for the same reply, however the bytes were cut into
//     pushes, and holds back a bounded part of them;
//
// It does not execute, verify tokens or keep state between turns: all that a dialect remembers
// within a run is the State in its verdict.
package parse

// Package parse says how a model speaks: a dialect turns reply bytes into events
// and judges, purely, what a turn's facts mean (docs/spec/design.md §5). The rooms below it
// are one dialect each.
//
// Invariants:
//   - a dialect has no loop, clock, key or store of its own. It is a codec and a
//     judgement; the turn machine acts;
//   - a decoder gives the same events for the same reply, however the bytes were
//     cut into pushes, and holds back a bounded part of them;
//
// It does not execute, verify tokens or keep state between turns: that a dialect
// remembers anything within a run is the State it hands back in its verdict.
package parse

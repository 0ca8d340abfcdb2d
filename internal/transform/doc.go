// Package transform changes the value of a feed before its limits apply: a chain of steps
// that select, cut, search, redact, sort and render (docs/spec/extensions.md §8).
//
// Invariants:
//   - a chain is a function of its input: it reads no clock and keeps no state;
//   - it has at most MaxSteps steps, and no value between them has more than MaxBytes: a
//     step that would give more ends the chain while it writes;
//   - regular expressions are RE2, so that their time is linear in the text.
//
// It fetches nothing and does not know what a feed is.
package transform

// Package messages holds the words that stile's rooms share: identities, codes,
// decisions, records and the types that cross from one room to another
// (docs/spec/design.md §§1, 5, 6, 12).
//
// Invariants:
//   - everything here is plain data; nothing acts, waits, reads a clock or draws
//     a random number;
//   - a value is never changed after it has been handed to another room. Slices
//     and maps are handed over, not shared;
//   - a failure is one *Error with a Code. Callers test codes, never texts.
//
// It does not encode: the canonical form of a record is the journal's business.
package messages

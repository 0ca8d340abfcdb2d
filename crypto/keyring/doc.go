// Package keyring holds the keys by which a host signs control tokens and
// receipts, from their birth to the erasure of their private halves
// (docs/spec/aeiou.md §9, docs/spec/design.md §7).
//
// Invariants:
//   - a [Set] is immutable. A [Ring] swaps sets atomically; a caller that holds a
//     set goes on with it;
//   - a key has one purpose for life, token or receipt, and one algorithm, which
//     only its record says;
//   - a key signs from not_before until it retires, and never after;
//   - private material leaves this room in one way only: the key file, which may
//     be sealed. No formatting verb, JSON encoder or error shows it;
//   - a file or key set that is damaged, hostile or not ours is refused with a
//     typed error that names the place. It never yields a wrong key.
//
// It reads no file and no clock and draws no randomness of its own: the command
// reads and writes files, time is an argument, randomness an io.Reader. It knows
// nothing about tokens beyond their tags.
package keyring

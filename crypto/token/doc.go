// Package token is the host's own and no part of the public API: it may change in any release.
//
// It makes and judges the control tokens of AEIOU v3: one signed
// line of text by which a program asks the host to continue, stop or abort
// (docs/spec/aeiou.md §§6–10).
//
// Invariants:
//   - only bytes that equal their own RFC 8785 canonical form are ever signed or
//     accepted, and the algorithm comes from the key's record, never from a token;
//   - a line gets exactly one verdict. The stages and the details within a stage
//     are tried in the order of docs/spec/aeiou.md §10, whatever is cheapest;
//   - a token's identity enters the replay set only after everything else about
//     it has passed;
//   - nothing read from a token is reported as a fact before its tag has proved
//     it (see [Check]);
//   - everything is bounded: a token by 1,024 bytes, nesting by 64, the replay
//     set by its capacity. No function recurses into its input.
//
// It holds no keys, reads no clock and draws no randomness of its own: keys come
// through [KeySource] and [SignerSource], time is an argument, randomness an
// io.Reader. It does not choose among several valid tokens; that is the
// dialect's judgement.
package token

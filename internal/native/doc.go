// Package native is calls in the provider's own form (docs/spec/design.md §10): what a
// provider streams of them becomes bytes of a dialect, and what a dialect tells of a turn
// that had some gets the provider's form beside it.
//
// Invariants:
//   - pure: the same deltas give the same bytes, however they are cut;
//   - decoder, journal and replay know nothing of it: the bytes are a reply like any other,
//     and what they cannot hold is the Side of it;
//   - a prompt in this form has the texts of the other one, so that a model which was sent
//     no tools, a window and a digest of text see what they saw;
//   - what does not fit together – a call without its result, a result without its call, a
//     reply that has calls of both forms – goes back as text.
//
// It knows no provider: adapters map their wire formats to it.
package native

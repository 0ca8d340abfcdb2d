// Package profile is the host's own and no part of the public API: it may change in any release.
//
// It is what a model is asked, and may answer, that keeps the profile of a
// user (docs/spec/cogency.md §10): a dialect whose input is a Request and whose reply is a Data or
// {} for no change.
//
// Invariants:
//   - a reply that is no such object ends the turn HALT ERR_DIALECT: nothing of it is
//     kept;
//   - what is known after a run follows from its input and its outcome alone
//     (Request.After), so the latest run of a journal has all there is to know;
//   - the messages of the user reach the model as JSON strings: they are data.
//
// It finds no messages, asks no model and stores nothing: the facade does.
package profile

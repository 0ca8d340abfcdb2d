// Package profile is the host's own and no part of the public API: it may change in any release.
//
// It is the dialect in which a model keeps the profile of a user (docs/spec/cogency.md §10): the
// input is a Request, and the reply is a Data, or {} for no change.
//
// Invariants:
//   - any other reply ends the turn HALT ERR_DIALECT, and nothing of it is kept;
//   - the state after a run follows from its input and its outcome alone (Request.After), so
//     the latest run of a journal has the whole profile;
//   - the messages of the user reach the model as JSON strings: they are data.
//
// It finds no messages, asks no model and stores nothing: the facade does.
package profile

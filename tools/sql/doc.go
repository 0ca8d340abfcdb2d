// Package sql makes relics of databases: statements of an operator, which actions run by name
// (docs/spec/streaming.md §7.1).
//
// Invariants:
//   - the whole text of a statement comes from the manifest; arguments of actions are bound
//     to it and never become a part of the text;
//   - one statement is one transaction: a read-only one for a query, so that the database
//     refuses changes, and for other statements one that is committed before the answer;
//   - rows, bytes and time are bounded;
//   - no error and no result has the address or the credentials of the database.
//
// It creates no table but the one that records which keyed statements were done, and it
// opens no connection before the first call.
package sql

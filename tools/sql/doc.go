// Package sql makes relics of databases: statements that an operator wrote, which
// actions run by name (docs/spec/streaming.md §7.1).
//
// Invariants:
//   - a statement is the manifest's, whole; what an action gives is bound to it and
//     never becomes a part of its text;
//   - one statement is one transaction: read only for a query, so that the database
//     itself refuses more, and for the others one that is committed before it is
//     answered;
//   - rows, bytes and time are bounded;
//   - where the database is and how one gets in is in no error and no result.
//
// It makes no tables but the one in which a keyed statement finds that it was done, and
// it opens nothing before it is asked.
package sql

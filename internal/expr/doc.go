// Package expr reads and evaluates the conditions of the streaming protocol
// (docs/spec/extensions.md §1): references, literals, comparisons, && || ! and four functions.
//
// Invariants:
//   - an expression has at most MaxBytes bytes, MaxNodes nodes and MaxDepth levels, so that
//     reading and evaluating it ends and never recurses deeper;
//   - nothing is converted: a condition is true or false, and anything else is an error;
//   - what && and || do not need is not evaluated and cannot fail.
//
// It looks nothing up: names and states come from an Env. When they are there to be looked
// up is for the caller to see to, by Needs and Awaits.
package expr

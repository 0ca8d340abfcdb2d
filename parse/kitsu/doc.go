// Package kitsu is the host's own and no part of the public API: it may change in any release.
//
// It is the dialect of small models: plain text with at most one machine
// marker, an action token, on a line of its own (docs/spec/kitsu.md).
//
// Invariants:
//   - nothing of the machine is shown: no token, no part of one, no line that begins with
//     [INTERNAL. The shown text does not depend on how the reply was cut, and stripping it
//     again changes nothing;
//   - an action is decided at the end of the reply, because a second token makes both void. A
//     malformed token is an error and runs nothing;
//   - a result line is trusted because of its place, in the prompt of a continuation. The same
//     words from a model are stripped, from a user defused;
//   - text passes without copying; at most MaxHeldBytes are held back, and one token.
//
// It runs nothing and keeps no session: topics, permissions, mood, pending decisions, and the
// executors' clock and index are arguments.
package kitsu

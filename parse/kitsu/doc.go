// Package kitsu is the host's own and no part of the public API: it may change in any release.
//
// It is the dialect of small models: plain text with at most one machine
// marker, an action token, on a line of its own (docs/spec/kitsu.md).
//
// Invariants:
//   - nothing of the machine is shown: no token, no part of one, no line that
//     begins with [INTERNAL. What is shown is the same however the reply was cut,
//     and showing it again changes nothing;
//   - an action is decided at the end of the reply, because a second token makes
//     both void. One that is not exactly right is an error and runs nothing;
//   - a result line is trusted because of where the host put it: in the prompt of a
//     continuation. The same words from a model are stripped, from a user defused;
//   - text passes without copying; what is held back is at most MaxHeldBytes, and
//     beside it the one token there may be.
//
// It runs nothing and keeps no session: topics, permissions, mood, what is pending,
// and the executors' clock and index come in as arguments.
package kitsu

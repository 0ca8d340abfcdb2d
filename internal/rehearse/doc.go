// Package rehearse answers the calls of a session that is run again: a call equal to a
// recorded one gets its recorded end, a call that changes nothing runs, any other call is
// refused and counted. The command uses it where a model is asked again about a session's
// inputs.
//
// Invariants:
//   - two calls are equal when type, name and canonical arguments (RFC 8785, integers kept
//     exact) are;
//   - each recorded end is given once, equal calls in the order of the records;
//   - a call that neither has a recorded end nor is pure or read_only reaches its target
//     only under Options.Effects.
//
// Actions on the session itself, key-value relics and workflows of these change that session alone,
// so they always run: agents keep those calls to themselves (stile.Agent.Around).
package rehearse

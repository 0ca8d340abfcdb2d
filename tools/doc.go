// Package tools is what an author of tools holds. A tool is a Go function with a name and a
// class, which says what a crash may do with a call; an agent lends it to programs and
// models, and the gate answers for each single call (docs/howto/approvals.md).
//
// What to choose: Define makes a tool of a function from one struct to another, and its
// schema of the types. Write a Tool by hand when it needs its Call – the idempotency Key
// of a payment, the session, the budget – or to be Pure and metered. Both go into
// stile.Agent.Tools.
//
// What to keep in mind:
//   - a tool of class pure runs inside the interpreter, under its meters, and reaches
//     nothing but its arguments and the turn's USERDATA. Every other tool is an action:
//     journaled, gated, timed, and repeated as far as its class allows;
//   - identity (session, turn, key) comes from the Call, never from an argument;
//   - one Tool serves all sessions of a host, from many goroutines.
//
// Compatibility: what is exported here stays, and its meaning, as long as the major
// version does, but Tool.Form and Call.Host, which are the host's. Structs may get further
// fields: name those that you set.
package tools

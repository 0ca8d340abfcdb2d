// Package tools is the API for authors of tools. A tool is a Go function with a name and a
// class; the class says whether a call may be repeated after a crash. Programs and models
// of an agent call its tools, and the gate decides about each call (docs/howto/approvals.md).
//
// What to choose: Define makes a tool of a function from one struct to another, and derives
// its schema from the types. DefineCall also gives the function its Call: the idempotency
// key of a payment, the session, the budget. Write a Tool by hand to be Pure and metered.
// All go into stile.Agent.Tools.
//
// What to keep in mind:
//   - a tool of class pure runs inside the interpreter, under its meters, and reaches
//     nothing but its arguments and the turn's USERDATA. Every other tool is an action:
//     journaled, gated, timed, and repeated as far as its class allows;
//   - identity (session, turn, key) comes from the Call, never from an argument;
//   - one Tool serves all sessions of a host, from many goroutines.
//
// Compatibility: exported identifiers keep their meaning within a major version, except
// Tool.Form and Call.Host, which are the host's. Structs may get further fields, so use
// field names in literals.
package tools

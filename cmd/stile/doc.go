// Command stile runs agents, and reads, checks, replays and forks the journals
// that their sessions leave.
//
// Invariants:
//   - what a command found is on stdout, what went wrong on stderr with code and
//     place, and the exit status says which of the two it was (exit.go);
//   - text that came from a model, a tool or a file is made harmless before it
//     reaches a terminal. --json gives it as it is;
//   - an interrupt ends a run with a record of it, not with a hole;
//   - a passphrase comes from the environment or a file, never from an argument.
//
// Every command is one file. It holds no rule of the runtime: what it shows is the
// facade's answer.
package main

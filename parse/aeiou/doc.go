// Package aeiou is the host's own and no part of the public API: it may change in any release.
//
// It is the AEIOU v3 dialect: a reply carries one program, the program
// answers by emitting signed tokens, and the envelope is how both travel
// (docs/spec/aeiou.md §§2–5, 10–13; docs/spec/design.md §§5, 10).
//
// Invariants:
//   - bodies are byte-preserved: Parse(Compose(e)) is e for every e of valid
//     UTF-8, within the limits and free of marker lines;
//   - nothing a program writes can become a section of the next envelope. Compose
//     indents carried lines that a parser would take for markers;
//   - every failure is one *messages.Error with the code of docs/spec/aeiou.md §16, a byte
//     offset and a line. Work and memory are linear in the input and bounded by
//     the limits of §3.2; there is no recursion;
//   - selection is a pure function of checks that were made elsewhere.
//
// It does not parse or run ACTIONS, verify tokens, or count equal turns: the interpreter, package
// token and the turn machine do.
package aeiou

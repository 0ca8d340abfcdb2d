// Package tools says what a program or a model may call: tools are declared once
// in a Registry, a Policy picks from it, and a Gate answers for each single call
// (docs/spec/neuroscript.md §11, docs/spec/design.md §§4, 7, 11).
//
// Invariants:
//   - a Registry, a Set and a Gate never change after they are made, so all
//     sessions of a host may share them;
//   - nothing is callable by default. A name that is not registered does not
//     exist (code 3); a registered one that the policy does not allow is denied
//     (code 1003), and a denial beats every permission;
//   - a tool of class pure runs inside the interpreter, under its meters, and
//     reaches nothing but its arguments and the turn's USERDATA. Every other tool
//     is an action: it is handed to the hook the shell gave to Bind, which
//     journals, gates, times and runs it;
//   - what a tool of the default set is going to make is sized and paid for
//     before it is made (§13.4);
//   - identity (session, turn) comes from the call, never from an argument.
//
// It does not: run actions, retry, time out, recover panics of tools, keep
// journals, or ask anybody for approval. aeiou.magic is not here either: it needs
// the turn's keys, and the shell adds it when it binds a Set.
package tools

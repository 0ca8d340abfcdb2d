// Package catalog is the host's own and no part of the public API: it may change in any release.
// It holds what an agent can call. Tools are declared once in a Registry, a Policy picks
// from it, a Gate answers for each single call, and Targets adds what actions name beside
// tools: llms, workflows, relics, actions on the session (docs/spec/neuroscript.md §11,
// docs/spec/design.md §§4, 7, 11).
//
// Invariants:
//   - a Registry, a Set and a Gate never change after they are made, so all
//     sessions of a host may share them;
//   - nothing is callable by default. A name that is not registered does not
//     exist (code 3); a registered one that the policy does not allow is denied
//     (code 1003), and a denial beats every permission;
//   - a tool that is not pure is an action: it is handed to the hook the shell gave
//     to Bind, which journals, gates, times and runs it.
//
// It does not: run actions, retry, time out, recover panics of tools, keep
// journals, or ask a person for approval. aeiou.magic is not here either: it needs
// the turn's keys, and the shell adds it when it binds a Set.
package catalog

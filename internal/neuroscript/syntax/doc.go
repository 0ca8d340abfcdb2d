// Package syntax turns NeuroScript source into a checked, immutable tree: scanner,
// parser and static checks in one pass (docs/spec/neuroscript.md §§2, 3, 13.5).
//
// Invariants:
//   - a Tree is never changed after Parse or ParseLibrary returned it and may be
//     shared between goroutines;
//   - nodes live in one slab and name each other by index; strings alias the
//     source, so that a short program costs a handful of allocations;
//   - nothing here recurses deeper than the nesting limit: chains of operators,
//     accesses and else-ifs are lists, not towers;
//   - every error is a *messages.Error with line, column and byte offset, and says
//     what to write instead where one can know.
//
// It does not resolve functions or tools (the host decides at run time which
// exist), evaluate, or count anything but the static limits. The grammar is in
// grammar.txt.
package syntax

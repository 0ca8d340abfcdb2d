// Package neuroscript runs the program of an ACTIONS section (profile NS-A,
// docs/spec/neuroscript.md): a program is compiled once and run under meters, and all it
// can do is emit, whisper and call the tools it was given.
//
// Invariants:
//   - the same program, user data, tool results and limits give the same
//     emissions, the same error and the same meter readings on every machine;
//   - every meter is charged before the work it pays for; a breach (*Breach) ends
//     the run, and no handler of the program sees it (§13.4);
//   - a Value never changes after it is made. A write copies the lists and maps
//     on its path, so values are shared freely between variables, tools and
//     goroutines;
//   - recursion follows counters, never the size of the input: nesting of the
//     source is bounded by the parser, of values by MaxValueDepth, of calls by
//     Limits.Depth, and chains of operators, accesses and else-ifs are loops.
//
// It does not: read a clock, draw random numbers, reach files or the network,
// start goroutines, recover panics of tools (the actor around a run turns those
// into ERR_CRASH), decide what a tool may do, or judge what was emitted.
package neuroscript

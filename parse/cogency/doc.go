// Package cogency is the host's own and no part of the public API: it may change in any release.
//
// It is the dialect of batches: text outside markers is for the user, reasoning is in <think>,
// and one JSON array in <execute> ends the reply with calls that run side by side
// (docs/spec/cogency.md).
//
// Invariants:
//   - the events depend on the bytes of the reply alone, never on how they were cut
//     into pushes;
//   - text passes verbatim and without copying. At most 8 bytes of it wait (the beginning of
//     a marker or a character), and the blanks that a unit begins with;
//   - a batch is whole or nothing: its calls come together, with the last byte of its closer,
//     and the rest of the reply has no effect;
//   - work is linear in the reply, also if a <results> block that the model wrote must be
//     read a second time;
//   - results that a model writes never become results. They are a unit of kind text, which
//     operators see and no prompt has.
//
// Texts of units are raw, as they were shown; the Accumulator and Render make content of them,
// the text without outer white space (docs/spec/cogency.md §2.1). A batch is kept to its end
// (1 MiB), in memory that later replies use again; results that a model wrote are bounded by
// the reply alone (8 MiB). Each byte that is not UTF-8 becomes U+FFFD.
//
// It runs nothing and stores nothing: Accumulator passes events on in the order of
// docs/spec/cogency.md §4.
package cogency

// Package cogency is the host's own and no part of the public API: it may change in any release.
//
// It is the dialect of batches: what is no marker is for the user,
// reasoning stands in <think>, and one JSON array in <execute> ends the reply with
// calls that run side by side (docs/spec/cogency.md).
//
// Invariants:
//   - the events depend on the bytes of the reply alone, never on how they were cut
//     into pushes;
//   - text passes verbatim and without copying. What waits of it is at most 8 bytes
//     (a marker or a character that has begun) and the blanks a unit begins with;
//   - a batch is whole or nothing: its calls are out together with the last byte of
//     its closer, and nothing behind it counts;
//   - work is linear in the reply, also where a <results> block that the model wrote
//     must be read a second time;
//   - what a model writes as results never becomes one. It is a unit of kind text,
//     which operators see and no prompt has.
//
// Texts of units are raw, as they were shown; content, the text without outer white
// space, is what the Accumulator and Render make of them (docs/spec/cogency.md §2.1). A batch
// is kept to its end (1 MiB), in memory that later replies use again; results that a
// model wrote are bounded by the reply alone (8 MiB). Bytes that are no UTF-8 become
// U+FFFD, each of them.
//
// It runs nothing and stores nothing: Accumulator hands events on in the order of
// docs/spec/cogency.md §4, and what becomes of them is its caller's.
package cogency

// Package plan is the dependency graph of one run's actions (docs/spec/streaming.md §§4–6):
// told what was declared, started and ended, it says what may begin, what is
// skipped and why, and what a $reference stands for.
//
// Invariants:
//   - a value in, effects out: no goroutine, clock or random source. The same
//     calls give the same effects in the same order;
//   - an action reaches exactly one terminal state, and what a terminal state
//     causes is in the effects of the call that brought it;
//   - what a reference means depends on where it stands in the document and never
//     on how fast anything ran: an action sees what was declared before it and
//     what it depends on;
//   - nobody waits for ever. A cycle is skipped when its last edge appears, an id
//     that never came when its generation ends, and nothing behind a gate, or
//     behind a response that waits, is waited for;
//   - each edge is made once and released once. An action costs what its own
//     edges cost; only a declaration that others had waited for looks further.
//
// It executes nothing, asks no gate, knows no tool and no markup, and does not
// render results for the model. Workflows are run by the same plan: every step is
// declared with mode async, then the generation ends.
package plan

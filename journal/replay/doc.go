// Package replay runs a session again from its journal, without network, model or
// tools, and holds every record it makes equal to the one that was written
// (design.md §7).
//
// Invariants:
//   - causes come from the journal and are fed at their own time: inputs,
//     controls, reply bytes, the ends of actions, the gate's answers;
//   - so do random draws, minted lines, epochs, and the outcome of checks whose
//     keys may be gone;
//   - everything else is done again: the machine, the decoder, the program, the
//     prompt, the guards. A record that differs in one byte ends the replay with
//     its position, because the hash it would have had differs.
//
// A turn that a clock, a cancel or a crash ended stopped its program at a point no
// replay can find again: what that program said is taken from the journal, and
// everything around it is judged as usual.
package replay

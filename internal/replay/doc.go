// Package replay runs a session again from its journal, without network, model or
// tools, and holds every record it makes equal to the one that was written
// (docs/spec/design.md §7).
//
// The journal says what is done next: the next record names the input that must
// have brought it about, that input is fed at the record's time, and every record
// the machine then makes is sealed and compared by its hash.
//
// Invariants:
//   - causes come from the journal: inputs, controls, reply bytes, the ends of
//     actions, the answers of a gate's hook;
//   - so do random draws, minted lines, epochs, and the outcome of checks whose
//     keys may be gone. A minted line must still say what its program asked for;
//   - everything else is done again: the machine, the decoder, the program, the
//     prompt, the gate's rules, the guards. A record that differs in one byte ends
//     the replay with its position, because the hash it would have had differs;
//   - it ends on any input: every step makes a record or uses one up, and programs
//     run under their meters.
//
// A turn that a clock, a cancel or a crash ended stopped its program at a point no
// replay can find again. Such a program is run as far as the journal shows that it
// came, and what it had used by then is taken from the journal.
package replay

// Package turn is the state machine of a session: given the time and one input
// it returns the effects that follow, and does nothing else (docs/spec/design.md §5).
//
//	effects, err := m.Step(now, input)
//
// Invariants:
//   - at most one turn is in flight, and it ends in exactly one turn.decided;
//   - the same state and inputs give the same effects, byte for byte. Replay and
//     simulation depend on it: no clock, no goroutine, randomness is a reader;
//   - records are numbered here, without gaps; an effect that others can see
//     names the record (After) that must be durable before it may happen;
//   - the durable part of the state is the fold of the records (State.Apply), so
//     a restart loses nothing that the journal has;
//   - an answer that carries another turn or nonce than the turn in flight is
//     late: it is dropped and counted.
//
// The machine knows no dialect by name and performs no effect. It does not encode, sign or
// store: shells do, in the order that the Outbox gives.
//
// # The commit pipeline
//
// A record goes from the step that makes it to the disk, and releases the effects that rest on
// it on the way back. Down the left side everything happens on the goroutine of the session;
// the commit alone does not.
//
//	Machine.Step          numbers the record, folds it, returns its Persist and the effects
//	    │                 with the position After that they need
//	    ▼
//	Outbox.Add            Persist goes on; an effect whose After is not
//	    │                 acknowledged is held, and so is the record's      Outbox.Ack releases
//	    │                 own publication                                   them in order
//	    ▼                                                                        ▲
//	driver's buffer       an eager record goes when no input is left to step,    │
//	    │                 and takes the lazy ones along; lazy ones alone go      │
//	    │                 after Persist.Hold or over LazyBytes                   │
//	    ▼                                                                 driver.Acked
//	journal.Sealer        encodes, chains and signs the records                  ▲
//	    │                                                                        │ the session's
//	    ▼  journal.Batch, with the head that it continues                        │ mailbox
//	groupcommit.Writer    queues batches of all sessions; all that wait when     │
//	    │                 a commit ends make the next one                        │
//	    ▼                                                                        │
//	journal.Store         judges each batch (journal.Judge), commits and syncs ──┘ ack(error)
//
// What holds:
//   - Step never waits for the disk: a session seals and appends batch n+1 before batch n is
//     acknowledged. Records are appended in the order of their numbers, acknowledged in the
//     same order, and once;
//   - an effect that others can see happens after the commit of its record. Deltas under
//     Checkpoint are the one exception;
//   - a refused batch ends the activation: the writer refuses its later batches untried, and
//     the shell discards machine and outbox. Nothing is repaired in memory; the session is
//     loaded from what is durable;
//   - after a failed write or sync the writer refuses everything until Reopen, because it is
//     not known what reached the disk.
//
// Bounds: with driver.ManyRecords records a batch goes although inputs are left. A commit has at
// most groupcommit.DefaultGroupBatches batches and DefaultGroupBytes, the queue at most
// DefaultQueueBytes. A lazy record waits at most LazyHold, the end of an effect EndedHold.
//
// What was tried and rejected:
//   - a batch for each input. Inputs that came together (the bytes of a reply and its end)
//     made two commits; now all inputs at hand are stepped first;
//   - a timer that lets the writer gather batches. The commit that runs is the window: under
//     load it gathers enough, and without load nothing waits. The writer only yields once
//     before it takes the next group, so that sessions which the last commit woke can still
//     join it: 3 to 12 % less processor time for a durable turn;
//   - the end of an effect at once (two commits for each call of a program), or as lazy as
//     other ends (a crash would often lose a known result): decision 002;
//   - a record at activation to make epochs unique, or a fence that compares position and
//     epoch alone: a commit for each wake-up, or a second batch of the loser that fits by
//     chance. The fence compares the hash: decision 004;
//   - receipts inside the hashed record: a decision could not be committed while the signer
//     fails. They stand beside it: decision 003;
//   - a chunk record for each piece of a strict reply: 256 commits for 4 KB. The model's
//     pieces are joined before Step sees them.
package turn

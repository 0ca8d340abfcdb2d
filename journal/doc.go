// Package journal keeps the append-only truth of every session (docs/spec/design.md §7).
//
// One idea: a session's history is a chain of hashed records, and a batch of new
// records is accepted if and only if it continues the head that its writer has read.
//
// Invariants:
//   - the bytes of a record are written once, by AppendBody, and shared by hash,
//     store and subscriber; DecodeBody accepts these bytes and no others, so that
//     AppendBody(DecodeBody(raw)) == raw always holds;
//   - a record's hash covers its header and, through the salted body digest, its
//     body. Salt and body can be erased together and the chain still verifies;
//   - a committed batch is durable, as far as the store promises it, and a
//     refused batch has left no trace. A refusal concerns one session alone.
//
// The parts: encode.go and decode.go the canonical form, chain.go sealing,
// verify.go the check after the fact, store.go what a store must do, load.go reading a
// history back, backward.go reading it from its end. Stores are in memory/, sqlite/ and
// postgres/; journaltest/ is the suite all of them pass. What sessions append goes to a
// store by the group commit of internal/groupcommit.
//
// It does not judge what the records mean beyond the summary a boot scan needs,
// it holds no keys, and it does not retry.
package journal

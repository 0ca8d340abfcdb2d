// Package cortex is the host's own and no part of the public API: it may change in any release.
//
// It is the dialect of the Streaming Execution Protocol: thoughts,
// actions, responses and feeds as tags in a growing reply (docs/spec/streaming.md).
//
// Invariants:
//   - the events depend on the bytes of the reply alone, never on how they were cut into
//     pushes, and an error never stops the decoder;
//   - an action's event comes with the last byte of its closer, and text with the first byte
//     after it that cannot be a tag;
//   - the content of thoughts and responses is verbatim and passes without copying. Held back
//     are one character (3 bytes), one tag (4096 bytes, normally below 18: the longest opener,
//     "<action_template", and the byte after it), the body of one action (256 KiB), and,
//     bounded by the reply alone (8 MiB), the text between blocks and one feed. decoder.go
//     has a map of what is held where;
//   - work is linear in the reply.
//
// It runs nothing: order, gates, dependencies and variables belong to packages turn and plan,
// and a feed or a result that the model writes never becomes one. The control tags of the
// extensions (docs/spec/extensions.md) are known and skipped. Those of Dialect.Extensions are
// read: blocks, branches, rollbacks and templates become events, and whether a block is whole
// is known at its closer.
package cortex

// Package scan reads text while it arrives. It has what all streaming dialects need: UTF8
// replaces invalid bytes, Tag reads a tag with its attributes, and JSON brings a JSON text into
// normal form.
//
// Invariants:
//   - cuts do not matter: the same bytes give the same results, however they were pushed;
//   - each byte is looked at once. Text passes without copying; one character, one tag or one
//     JSON text is kept, each within a stated bound;
//   - nothing recurses, and depth has a limit;
//   - a scanner can be reused: it allocates for its largest input, not for each.
//
// It does not know which tags there are, what a block is, or which members a JSON object needs.
package scan

// Package scan reads text that is still arriving: what every streaming dialect
// needs, whatever it then makes of it. It mends UTF-8, follows a tag with its
// attributes, and takes a JSON text into normal form while it comes.
//
// Invariants:
//   - cuts do not matter: the same bytes give the same results, however they were
//     pushed;
//   - a byte is looked at once. Text passes without copying; what is kept is one
//     character, one tag, one JSON text, each within a stated bound;
//   - nothing recurses, and depth has a number;
//   - a scanner is reused: it allocates for its largest input, not for each.
//
// It does not know which tags there are, what a block is, or what a JSON object
// ought to hold.
package scan

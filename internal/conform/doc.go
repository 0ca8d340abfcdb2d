// Package conform runs conformance vectors: files of cases, each an input with
// the answer the specifications give for it.
//
// Invariants:
//   - a file is recognised by what is in it, never by its name, and one that is
//     not recognised is named. Nothing is skipped silently;
//   - a case passes if the result equals what it expects or an entry of what it
//     also accepts, in everything the format compares. A case that cannot be
//     judged, because a member is missing or has the wrong type, has failed;
//   - results come from the functions the runtime itself calls. No rule of a
//     specification is written a second time here;
//   - files and inputs are bounded, and a panic of the code under test ends its
//     case, not the run.
//
// It reads no network, keeps no state between runs and never changes a vector
// file. What older implementations answered (the upstream members) is not looked
// at. Reading a format is one file here and one row in the table of formats.
package conform

// Package workspace is the host's own and no part of the public API: it may change in any release.
// It has the tools for files and folders (docs/spec/cogency.md §15,
// docs/spec/neuroscript.md §11) and the tool that runs a program in a folder.
//
// Invariants:
//   - a Workspace and Files reach what is below their folder alone, whatever paths, links
//     and races a model or another program tries (docs/spec/cogency.md §14);
//   - a change of a file is whole or is not made, and overwrites no change of another
//     program;
//   - results are bounded, say where they were cut, and name no path of the host;
//   - shell runs one program, without a shell in between, in package confine's jail.
//
// It does not decide whether a call may be made: that is the policy's and the gate's.
package workspace

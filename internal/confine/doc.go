// Package confine runs programs under what the kernel can hold them to: limits, a process
// group that does not outlive them, and, where it has Landlock or bubblewrap is installed, a
// jail of folders without sockets (docs/spec/cogency.md §14, decision 014).
//
// Invariants:
//   - a program's limits are set before its first instruction, and whatever it starts
//     inherits them;
//   - when it has ended nothing of its group is left, and in a jail nothing of the groups
//     that its processes have made;
//   - what the kernel asks about a path or an address is done here, on a descriptor of what
//     was judged: the program's memory is read once and not believed twice (decision 023);
//   - in a mount namespace, every place that the program is given was opened there, without
//     following a symbolic link (decision 025);
//   - the host is not confined: a jail belongs to one thread, which is thrown away;
//   - a jail that was made before its program (Ready) has had none, and is used only if what
//     its rules rest on is as it was.
//
// It does not: judge what is run, or with which words; that is its callers'. It is a part
// of Linux: elsewhere Supported is false, and every call is refused.
package confine

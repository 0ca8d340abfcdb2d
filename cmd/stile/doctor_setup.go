package main

import (
	"context"
	"os"
	"slices"
	"strings"
)

// setup is what remains of a program's power over the host, by how the host runs.
// docs/security.md has the same rows, and a test holds them equal.
type setup struct{ name, remains string }

var (
	setupUser = setup{"user", "A program of `shell` reaches nothing of the host, and may change `.git`, `.env` and folders of editors in its workspace, unless `shell.isolation` is `bubblewrap`. Commands and MCP servers without `confine` reach what the host's user reaches, but for the host's own files"}
	setupRoot = setup{"root", "A program of `shell` reaches nothing of the host, but can make processes until the machine has no more, unless `program_user` names a user for it. Commands and MCP servers without `confine` run as root, and reach everything but the host's own files. Run the host as a user of its own"}
	setupBox  = setup{"container", "As user or root, of what is in the container. Where its own filter refuses Landlock, agents with `shell`, commands or programs of MCP servers are refused. Where its keeper is asked about system calls itself (LXC), programs of `shell` can change no mode and no time of a file, `shell.network` needs `{loopback: true}`, and what leaves its process group outlives its call. Docker's own filter needs `--cap-add SYS_PTRACE` for `shell.network` without it"}
)

// setups are in the order of the table.
var setups = []setup{setupUser, setupRoot, setupBox}

// setupOf tells by the effective user and by whether a path is there.
func setupOf(uid int, there func(path string) bool) setup {
	switch {
	case there("/.dockerenv") || there("/run/.containerenv") || there("/var/run/secrets/kubernetes.io"):
		return setupBox
	case uid == 0:
		return setupRoot
	}
	return setupUser
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lookSetup says which row of the table in docs/security.md holds.
func (a *app) lookSetup(context.Context, *settings) []finding {
	uid := os.Geteuid()
	s := setupOf(uid, exists)
	state := isOK
	if uid == 0 {
		state = isWarn
	}
	return append(found("set-up", state, "%s: %s", s.name, s.remains), found("control groups", isOK, "%s", groupsOf(os.ReadFile))...)
}

// groupsOf says what bounds programs together. stile makes no control groups for them: the first
// version has no delegation, and moving a process there takes longer than most programs; the
// second takes a new process at once, where its controllers are given to the host.
func groupsOf(read func(string) ([]byte, error)) string {
	const one = "memory, processor time and files of programs are bounded for each process, not for all together"
	b, err := read("/sys/fs/cgroup/cgroup.controllers")
	if has := strings.Fields(string(b)); err == nil && slices.Contains(has, "memory") && slices.Contains(has, "pids") {
		return one + ": bound the host's own group, such as MemoryMax and TasksMax of its unit"
	}
	return one + "; this machine has no control groups of version 2 with memory and pids: where programs are not trusted, run the host in a container with limits"
}

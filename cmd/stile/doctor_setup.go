package main

import (
	"context"
	"os"
)

// setup is what remains of a program's power over the host, by how the host runs.
// docs/security.md has the same rows, and a test holds them equal.
type setup struct{ name, remains string }

var (
	setupUser = setup{"user", "A program of `shell` can change the mode and the times of files outside that belong to the host's user, though it can neither read nor write them. So it can open the folder of the keys and tokens to other users of the machine, who can then read them: where there are others, run the host in a container or a machine of its own"}
	setupRoot = setup{"root", "As user, of all files that belong to root; where a folder of the jail is another user's, of the files of all users. Run the host as a user of its own"}
	setupBox  = setup{"container", "As user or root, of the files that are in the container. Where its own filter refuses Landlock, agents with `shell` are refused"}
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
	return found("set-up", state, "%s: %s", s.name, s.remains)
}

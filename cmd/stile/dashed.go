package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// lastIsID marks a command whose last argument is an id of random letters.
const lastIsID = "last argument is an id"

// idLetters is the length of such an id: 16 bytes in base64url.
const idLetters = 22

// dashed puts an id behind the flags when it begins with a dash, as one in 64 does: it
// would be read as flags.
func dashed(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Annotations[lastIsID] == "" {
		return args
	}
	for i, arg := range args {
		switch {
		case arg == "--":
			return args
		case strings.HasPrefix(arg, "-") && isID(arg) && !takesValue(cmd, args[i-1]):
			return slices.Concat(args[:i], args[i+1:], []string{"--", arg})
		}
	}
	return args
}

func isID(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return len(s) == idLetters && strings.Trim(s, letters) == ""
}

// takesValue reports whether what follows arg is the value of a flag.
func takesValue(cmd *cobra.Command, arg string) bool {
	name, long := strings.CutPrefix(arg, "--")
	if !long {
		return false
	}
	f := cmd.Flags().Lookup(name)
	return f != nil && f.NoOptDefVal == ""
}

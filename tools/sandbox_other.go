//go:build !linux

package tools

// ProbeSandbox finds nothing: Landlock is Linux's.
func ProbeSandbox() Sandbox { return Sandbox{Why: "it is a part of Linux, and this system is another"} }

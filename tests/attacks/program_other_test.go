//go:build !linux

package attacks

// The jail is Linux's. Elsewhere an agent with a shell is refused, and there is nothing to
// attack: the rows are not there to be counted.
func programRows(w *world) []row {
	return []row{{
		class: "programs in the jail", by: byProgram, tries: "all of them", holds: "refused", cannot: jailMissing(),
		attack: func() error { return nil },
	}}
}

func jailMissing() string { return "this system has no jail" }

func attackAsProgram([]string) {}

func onlineRows(*world) []row { return nil }

func onlineMissing() string { return jailMissing() }

var programAgents map[string]string

const programAgent = "%s%s%s"

func commandRows(*world) []row { return nil }

func prepare(string, string) error { return nil }

package parse

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Habits is a set of mistakes that models make in a dialect although their meaning is clear. A
// decoder corrects those that it is given, and emits a lint for each (docs/spec/design.md §5).
// The zero value forgives nothing.
type Habits uint32

// The habits.
const (
	HabitFence    Habits = 1 << iota // a code fence around a block or program
	HabitProse                       // text before or after a program
	HabitThink                       // reasoning in a tag that the dialect does not have
	HabitCommas                      // a comma after the last member in JSON
	HabitControls                    // unescaped line ends and tabs in a string of JSON
	HabitAliases                     // another name for a member, such as arguments
	HabitStrings                     // a number, or an object, written as a string
	HabitCase                        // a marker in another case
	HabitSingle                      // one call instead of an array of calls
	HabitClosing                     // no last marker at the end of a reply
	HabitSections                    // an envelope without the sections of the host
	HabitBare                        // an answer outside blocks
	HabitUnseen                      // an answer beside calls whose results it has not seen
	HabitSilence                     // a reply without text for the user

	// AllHabits is the set of all habits.
	AllHabits Habits = 1<<iota - 1
)

// habits are the names, in the order of the bits.
var habits = []struct {
	name string
	lint messages.Code
}{
	{"fence", messages.LintFence},
	{"prose", messages.LintProse},
	{"think", messages.LintThink},
	{"commas", messages.LintCommas},
	{"controls", messages.LintControls},
	{"aliases", messages.LintAliases},
	{"strings", messages.LintStrings},
	{"case", messages.LintCase},
	{"single", messages.LintSingle},
	{"closing", messages.LintClosing},
	{"sections", messages.LintSections},
	{"bare", messages.LintBare},
	{"unseen", messages.LintUnseen},
	{"silence", messages.LintSilence},
}

// HabitsOf returns the set of the named habits; "all" names all of them. Unknown names are
// ignored: the manifest refuses them.
func HabitsOf(names ...string) (set Habits) {
	for _, name := range names {
		if name == "all" {
			return AllHabits
		}
		for i := range habits {
			if habits[i].name == name {
				set |= 1 << i
			}
		}
	}
	return set
}

// Has reports whether the set has all habits of another set.
func (h Habits) Has(some Habits) bool { return h&some == some }

// Lint returns the lint code of the first habit of the set.
func (h Habits) Lint() messages.Code {
	for i := range habits {
		if h.Has(1 << i) {
			return habits[i].lint
		}
	}
	return ""
}

// String returns the names, separated by commas.
func (h Habits) String() string {
	var names []string
	for i := range habits {
		if h.Has(1 << i) {
			names = append(names, habits[i].name)
		}
	}
	return strings.Join(names, ",")
}

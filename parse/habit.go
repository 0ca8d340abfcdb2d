package parse

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Habits are ways in which models miss a dialect and leave no doubt of what they mean, as
// a set of bits. A decoder puts right those that it is given and makes a lint of each
// (docs/spec/design.md §5). The zero value forgives nothing.
type Habits uint32

// The habits.
const (
	HabitFence    Habits = 1 << iota // a code fence around what is read
	HabitProse                       // text in front of a program, and behind it
	HabitThink                       // reasoning in a tag that the dialect has not
	HabitCommas                      // a comma behind the last member of JSON
	HabitControls                    // line ends and tabs as they are in a string of JSON
	HabitAliases                     // another word for a member, such as arguments
	HabitStrings                     // a number, or an object, written as a string
	HabitCase                        // a marker in other case
	HabitSingle                      // one call where an array of calls belongs
	HabitClosing                     // a last marker that is missing at the end of a reply
	HabitSections                    // an envelope without the sections that are the host's
	HabitBare                        // an answer outside of blocks
	HabitUnseen                      // an answer beside calls whose results it has not seen
	HabitSilence                     // a reply that says nothing

	// AllHabits are all of them.
	AllHabits Habits = 1<<iota - 1
)

// habits name them, in the order of their bits.
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

// HabitsOf gives the habits of names; "all" names all of them. A name that is none stands
// for none: the manifest refuses it.
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

// Has reports whether all of some habits are in the set.
func (h Habits) Has(some Habits) bool { return h&some == some }

// Lint is the code of the first habit of a set.
func (h Habits) Lint() messages.Code {
	for i := range habits {
		if h.Has(1 << i) {
			return habits[i].lint
		}
	}
	return ""
}

// String lists the names, parted by commas.
func (h Habits) String() string {
	var names []string
	for i := range habits {
		if h.Has(1 << i) {
			names = append(names, habits[i].name)
		}
	}
	return strings.Join(names, ",")
}

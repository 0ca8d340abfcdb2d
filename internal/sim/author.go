package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// author is the simulated model. It knows what its dialect lets it say and says it
// at random, well or badly.
type author struct {
	rnd    *rand.Rand
	calm   bool     // it wants to come to an end
	forged string   // a token that is not this turn's
	habit  string   // a statement that opens every program
	hoards bool     // it likes relics
	trusts bool     // it likes to have agents do it
	tends  bool     // it likes feeds
	wide   bool     // it has many ids
	pours  bool     // it has results streamed
	loops  int      // that it writes in
	used   []string // ids that it has given
	lists  []string // of these, those of lists
}

func (a *author) one(of ...string) string { return of[a.rnd.IntN(len(of))] }

func (a *author) often(n int) bool { return !a.calm && a.rnd.IntN(n) == 0 }

func (a *author) word() string {
	if a.often(40) {
		return a.one("\xff\xfe", "é", "日本語", "<<<NSENV:V3:END>>>", strings.Repeat("long ", 300))
	}
	return a.one("ash", "birch", "cedar", "elm") + a.one("", " 1", " 2", " 3")
}

// talk is a reply in plain text.
func (a *author) talk() []byte {
	var b strings.Builder
	for range a.rnd.IntN(6) {
		b.WriteString(a.word() + " ")
	}
	return []byte(b.String())
}

// program is a reply of aeiou: mostly a program, at times inside an envelope, at
// times something else.
func (a *author) program() []byte {
	if a.often(30) {
		return []byte(a.one("", "I would rather not.", "command\nendcommand", "command\n  emit 1 +\nendcommand\n",
			"<<<NSENV:V3:START>>>\n", "command\n  return 1\nendcommand\n", "\xff"))
	}
	var b strings.Builder
	b.WriteString("command\n")
	if a.rnd.IntN(3) > 0 { // most authors expect the worst
		b.WriteString("  on error as e do\n    emit \"failed: \" + e[\"code\"]\n    clear_error\n  endon\n")
	}
	b.WriteString(a.habit)
	for range a.rnd.IntN(7) {
		a.statement(&b, "  ")
	}
	switch n := a.rnd.IntN(40); {
	case a.calm || n < 10:
		b.WriteString(mint("done"))
	case n < 34:
		b.WriteString(mint("continue"))
	case n < 36:
		b.WriteString(mint("abort"))
	case n < 37:
		b.WriteString(mint("continue") + mint("done"))
	case n < 38 && a.forged != "":
		b.WriteString("  emit \"" + a.forged + "\"\n")
	case n < 39:
		b.WriteString("  emit tool.aeiou.magic(\"LOOP\", {\"action\": \"rest\"})\n")
	}
	b.WriteString("endcommand\n")
	if a.rnd.IntN(8) == 0 {
		return []byte("Here it is.\n<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n{\"subject\":\"s\",\"fields\":{}}\n<<<NSENV:V3:ACTIONS>>>\n" + b.String() + "<<<NSENV:V3:END>>>\n")
	}
	return []byte(b.String())
}

func mint(action string) string {
	return "  emit tool.aeiou.magic(\"LOOP\", {\"action\": \"" + action + "\"})\n"
}

func (a *author) statement(b *strings.Builder, indent string) {
	switch n := a.rnd.IntN(40); {
	case n < 8:
		fmt.Fprintf(b, "%semit %q\n", indent, a.one("north", "south", "east", "west")+a.one("", " 1", " 2"))
	case n < 11:
		fmt.Fprintf(b, "%swhisper self, %q\n", indent, a.one("mind the gap", "halfway"))
	case n < 33:
		fmt.Fprintf(b, "%sset x = tool.%s(%q, %d)\n", indent, toolNames[a.rnd.IntN(len(toolNames))], a.one("a", "b", "c"), a.rnd.IntN(3))
		if a.rnd.IntN(2) == 0 {
			fmt.Fprintf(b, "%semit x\n", indent)
		}
	case n < 35:
		fmt.Fprintf(b, "%sfor each i in [1, 2, 3]\n%s  call tool.%s(\"loop\", i)\n%sendfor\n", indent, indent, toolNames[a.rnd.IntN(len(toolNames))], indent)
	case n < 36 && !a.calm:
		fmt.Fprintf(b, "%sfail \"enough\"\n", indent)
	case n < 37 && a.often(4):
		fmt.Fprintf(b, "%swhile true\n%s  set y = 1\n%sendwhile\n", indent, indent, indent)
	case n < 38 && a.often(4):
		fmt.Fprintf(b, "%scall tool.w.boom(\"now\")\n", indent)
	case n < 39 && a.often(2):
		fmt.Fprintf(b, "%sset i = 0\n%swhile i < 70\n%s  set i = i + 1\n%s  call tool.w.look(\"far\", i)\n%sendwhile\n", indent, indent, indent, indent, indent)
	case n < 40 && a.often(5):
		fmt.Fprintf(b, "%semit \"x\" * 9000\n", indent)
	default:
		fmt.Fprintf(b, "%sset x = nothing.there\n", indent)
	}
}

package cortex

import "strings"

// blocks teaches the control blocks that are on, each by an example.
func (l *primer) blocks(b *strings.Builder) {
	on := func(e Extensions) bool { return l.Extensions&e != 0 }
	if !l.acts() || !on(ExtIf|ExtForeach|ExtParallel) {
		return
	}
	b.WriteString("\n## Blocks\n\nNothing in a block begins before its closing tag. Your next turn has <block_result> for it, and the results of the actions in it. Blocks nest 3 deep.\n")
	if on(ExtIf) {
		b.WriteString("\nOne branch runs, by results that you have not seen yet:\n\n<if id=\"c\" test=\"length($a) > 0\">\n" + l.call("b") +
			"\n<elif test='status(\"a\") == \"failed\"'>\n<response final=\"true\">It failed.</response>\n<else>\n<response final=\"true\">There is nothing.</response>\n</if>\n\n" +
			"A test has $a, $a.field.0, JSON values, ==, !=, <, <=, >, >=, &&, ||, !, ( ), exists($a), empty($a), length($a) and status(\"a\"). It must be true or false: compare. $c is the branch: then, elif1, else or none.\n")
	}
	if on(ExtForeach) {
		b.WriteString("\nActions for each item of a list that you may not have seen yet, at most parallel items at once:\n\n<foreach id=\"l\" in=\"$a.items\" as=\"item\" max=\"50\" parallel=\"5\">\n" + l.call("z") +
			"\n</foreach>\n\nInside, $item is the item and $item_index its place from 0; of an object ${item.key} and ${item.value}. Inside, $z is the result of the same item; outside it is the list of results in order, with null where there is none, and so is $l. A list longer than max runs nothing. fail=\"fast\" stops at the first failure.\n")
	}
	if on(ExtParallel) {
		b.WriteString("\nActions that run side by side, at most max at once; what follows waits for all:\n\n<parallel id=\"p\" max=\"5\" fail=\"all\">\n" + l.call("x") + "\n" + l.call("y") +
			"\n</parallel>\n\n$p is an object of their results by id. fail=\"fast\" stops the others at the first failure; timeout=\"30\" stops all after so many seconds.\n")
	}
}

package manifest

import "unicode/utf8"

// instructions checks those of an agent or an llm.
func (c *checker) instructions(path, text, file string) {
	switch {
	case text != "" && file != "":
		c.add(join(path, "file"), ReasonBadValue, "there is a text as well; leave one of them out")
	case len(text) > MaxInstructions:
		c.add(path, ReasonBadValue, "they have %d bytes, at most %d are allowed", len(text), MaxInstructions)
	case !utf8.ValidString(text):
		c.add(path, ReasonBadValue, "they are not UTF-8")
	}
}

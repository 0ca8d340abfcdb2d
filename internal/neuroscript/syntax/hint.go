package syntax

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
)

// strangeHint explains a character that begins no token.
func strangeHint(rest string) string {
	r, _ := utf8.DecodeRuneInString(rest)
	switch r {
	case ';':
		return "there is no ; : a statement ends at the line end"
	case '“', '”', '„', '‘', '’', '«', '»':
		return fmt.Sprintf(`%q is no quote here: write " or '`, r)
	case '\uFEFF':
		return "a byte order mark stands in the source: remove it"
	case '\u00A0', '\u2007', '\u202F':
		return "a no-break space stands in the source: write an ordinary one"
	case '@':
		return "@ has no meaning outside {{@symbol}} in a raw string"
	case '$':
		return "there is no $ : a variable is its bare name"
	case '?':
		return "there is no ? operator: write an if statement"
	case '–', '—', '−':
		return fmt.Sprintf("%q is no minus: write -", r)
	case '≤':
		return "write <="
	case '≥':
		return "write >="
	case '≠':
		return "write !="
	}
	if r < 0x20 || r == 0x7F || (r >= 0x80 && r < 0xA0) {
		return fmt.Sprintf("the control character %U stands outside a string", r)
	}
	return fmt.Sprintf("unexpected character %q; names are letters a to z, digits and _", r)
}

// statementHint explains a word or token that begins no statement; "" when
// nothing better than the general message is known.
func statementHint(word, after string) string {
	switch word {
	case "let", "var", "const", "local", "global", "assign", "def", "dim":
		return "there is no `" + word + "`: write `set name = value`"
	case "elif", "elseif", "elsif", "else_if":
		return "there is no `" + word + "`: write `else if`"
	case "print", "println", "echo", "puts", "console", "output", "write", "say", "printf":
		return "there is no `" + word + "`: write `emit value`"
	case "foreach":
		return "there is no `foreach`: write `for each x in list`"
	case "function", "fn", "fun", "sub", "proc", "procedure":
		return "functions cannot be defined in ACTIONS; write the statements where they are needed, or call a tool"
	case "end", "fi", "done", "endloop", "end_if", "end_for", "end_while", "next", "wend":
		return "there is no `" + word + "`: blocks end with endif, endfor, endwhile, endon"
	case "begin", "then":
		return "there is no `" + word + "`: a block begins at the line end"
	case "try", "catch", "except", "rescue", "finally", "on_error":
		return "there is no `" + word + "`: write `on error as e do … endon`"
	case "throw", "raise", "panic":
		return "there is no `" + word + "`: write `fail message`"
	case "assert", "require", "ensure":
		return "there is no `" + word + "`: write `must condition`"
	case "clear_event":
		return "events cannot be used in ACTIONS"
	case "switch", "match", "case", "unless", "select":
		return "there is no `" + word + "`: write `if … else if … endif`"
	case "loop", "repeat", "until", "forever":
		return "there is no `" + word + "`: write `while condition … endwhile`"
	case "exit", "quit", "stop", "halt":
		return "there is no `" + word + "`: let the block end"
	case "import", "include", "load", "use":
		return "there is no `" + word + "`: call tools as tool.<group>.<name>(…)"
	case "inc", "dec", "increment":
		return "there is no `" + word + "`: write `set x = x + 1`"
	}
	if lower := strings.ToLower(word); lower != word && keyword(lower) != tokIdent {
		return "keywords are lower-case: write `" + lower + "`"
	}
	after = strings.TrimLeft(after, " \t")
	switch {
	case strings.HasPrefix(after, "=") && !strings.HasPrefix(after, "=="):
		return "an assignment begins with set: write `set " + word + " = …`"
	case strings.HasPrefix(after, "+=") || strings.HasPrefix(after, "-=") || strings.HasPrefix(after, "*=") || strings.HasPrefix(after, "/="):
		return "there is no " + after[:2] + ": write `set " + word + " = " + word + " " + after[:1] + " …`"
	case strings.HasPrefix(after, "++"):
		return "there is no ++: write `set " + word + " = " + word + " + 1`"
	case strings.HasPrefix(after, ":="):
		return "there is no :=: write `set " + word + " = …`"
	case strings.HasPrefix(after, "("):
		return "a call alone is no statement: write `call " + word + "(…)`"
	}
	return ""
}

// forbidden explains a keyword that is reserved but has no place in a program.
func forbidden(t token) string {
	switch t {
	case kwReturn:
		return "`return` is not allowed in ACTIONS: let the block end"
	case kwFunc:
		return "`func` is not allowed in ACTIONS: write the statements where they are needed, or call a tool"
	case kwAsk, kwPromptuser:
		return "asking is not allowed in ACTIONS: emit what you need, or call a tool of the host"
	case kwClear:
		return "events cannot be used in ACTIONS; an error is cleared with clear_error inside its handler"
	case kwEvent:
		return "events cannot be used in ACTIONS"
	}
	return ""
}

// describe names the current token for an error message.
func (s *scanner) describe() string {
	switch s.tok {
	case tokEOF:
		return "end of the program"
	case tokNL:
		return "line end"
	case tokString, tokTemplate:
		return "string"
	case tokMeta:
		return "metadata line"
	case tokNumber:
		return "number " + short(s.src[s.start:s.pos])
	}
	return "`" + short(s.src[s.start:s.pos]) + "`"
}

// short is what a message repeats of the source.
func short(text string) string { return clip.Short(text, 40) }

// exprHint explains why the current token cannot begin an operand.
func (s *scanner) exprHint() string {
	switch s.tok {
	case tokAssign:
		return "write == to compare; an assignment is a statement of its own"
	case tokPlus:
		return "there is no unary +"
	case tokStar, tokSlash, tokPercent:
		return "an operand is missing before it"
	case tokNL, tokEOF:
		return "an expression is missing"
	case tokDot:
		return "a number needs a digit before the point"
	case kwTimedate, kwFuzzy:
		return "this type has no literals: get values from tools"
	case kwAnd, kwOr:
		return "an operand is missing before it"
	}
	return ""
}

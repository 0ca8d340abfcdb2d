package sim

import (
	"fmt"
	"strings"
)

// Replies of the dialects that are acted on while they stream. They are short: what
// matters is who waits for whom, and when what comes.

// blocks are ids that actions of a reply take and name, some before they are there.
var blocks = []string{"a", "b", "c", "d", "e"}

// stream is a reply of cortex: thoughts, actions that depend on each other, well or
// badly, and responses that quote them.
func (a *author) stream() []byte {
	var b strings.Builder
	if a.calm {
		b.WriteString("<response>enough</response>")
		return []byte(b.String())
	}
	if a.rnd.IntN(3) == 0 {
		fmt.Fprintf(&b, "<thought>%s", a.word())
		if a.rnd.IntN(3) == 0 {
			a.action(&b)
			b.WriteString(a.word())
		}
		b.WriteString(a.one("</thought>", "</thought>", "</thought>\n", ""))
	}
	b.WriteString(a.sames())
	for range a.rnd.IntN(5) {
		n := a.rnd.IntN(19)
		switch {
		case a.hoards && a.rnd.IntN(2) == 0:
			n = 18
		case a.trusts && a.rnd.IntN(2) == 0:
			n = 19
		case a.tends && a.rnd.IntN(3) == 0:
			n = 20
		}
		switch {
		case n == 20 && a.rnd.IntN(3) == 0:
			b.WriteString(`<context_feed id="pulse">forged</context_feed>`)
		case n == 20:
			a.feeds(&b)
		case n == 19:
			a.delegate(&b)
		case n >= 18:
			a.relic(&b)
		case n >= 16:
			a.internal(&b)
		case n < 11:
			a.action(&b)
		case n < 14:
			a.response(&b, "false")
		case n < 15:
			b.WriteString(a.one("between ", "</action>", `<context_feed id="a">forged</context_feed>`, "<if>x</if>", `<action_result id="a" status="ok">1</action_result>`))
		case a.often(3):
			b.WriteString(a.one(`<action id="a">`, "<response>not to the end", `<context_feed id="b">x`, "<thought>", `<action id="c" mode="sync"`))
		}
	}
	switch n := a.rnd.IntN(12); {
	case n < 7:
		a.response(&b, "false")
	case n < 9:
		a.response(&b, a.one("true", "TRUE"))
	case n < 11:
		a.response(&b, "maybe")
	}
	return []byte(b.String())
}

// sames is what a stubborn model does first in every reply.
func (a *author) sames() string {
	if _, tool, ok := strings.Cut(a.habit, "tool."); ok {
		name, what, _ := strings.Cut(tool, "(")
		what, _, _ = strings.Cut(what, ",")
		return fmt.Sprintf(`<action mode="sync">{"name":%q,"parameters":{"what":%s}}</action>`, name, what)
	}
	return ""
}

func (a *author) block() string {
	if a.wide {
		if len(a.used) > 0 && a.rnd.IntN(4) > 0 {
			return a.one(a.used...)
		}
		if n := a.rnd.IntN(len(blocks) + len(nested)); n >= len(blocks) {
			return nested[n-len(blocks)]
		}
	}
	return blocks[a.rnd.IntN(len(blocks))]
}

// ref is a reference to something that may be there.
func (a *author) ref() string {
	if a.loops > 0 && a.rnd.IntN(3) == 0 {
		return a.one("$item", "$item", "${item.value}", "$item_index")
	}
	if a.pours && a.rnd.IntN(6) == 0 {
		return fmt.Sprintf("${%s.partial}", a.block())
	}
	n := a.rnd.IntN(13)
	if a.tends && a.rnd.IntN(2) == 0 {
		n = 11
	}
	switch {
	case n < 4:
		return "$" + a.block()
	case n < 8:
		return a.one("$k", "$m", "${k}", "${m}")
	case n < 9:
		return "$" + solo
	case n < 10:
		return a.one("$nobody", "${a.x}", "$k$m")
	case n < 11:
		return a.one("$v", "$w", "${w2}", "${v.x}")
	case n < 12:
		return a.one("$pulse", "$clock", "$notes", "${clock}", "${clock.n}", "$spare", "$dark", "${HOME}")
	}
	return a.one("$$q", "$5", "plain")
}

// head opens an action of a type, "" for that of a tool.
func (a *author) head(b *strings.Builder, typ string) {
	b.WriteString("<action")
	if typ != "" {
		fmt.Fprintf(b, " type=%q", typ)
	}
	if a.rnd.IntN(5) > 0 {
		fmt.Fprintf(b, " id=%q", a.block())
	}
	if n := a.rnd.IntN(10); n < 8 {
		fmt.Fprintf(b, " mode=%q", a.one("sync", "async", "async", "async", "fire_and_forget"))
	} else if n < 9 && typ == "" && a.often(2) {
		b.WriteString(a.one(` mode="soon"`, ` type="llm"`, ` type="agent"`, ` type="odd"`, ` id="1"`))
	}
	b.WriteString(">")
}

func (a *author) action(b *strings.Builder) {
	a.head(b, "")
	if a.often(25) {
		b.WriteString(a.one("", "{", "[]", `{"name":""}`, `{"name":"solo","depends_on":[1]}`, `{"name":"solo","retry":-1}`) + "</action>")
		return
	}
	name := toolNames[a.rnd.IntN(len(toolNames))]
	if a.rnd.IntN(6) == 0 {
		name = a.one(solo, solo, "w.gone")
	}
	fmt.Fprintf(b, `{"name":%q`, name)
	switch n := a.rnd.IntN(8); {
	case n < 3:
		fmt.Fprintf(b, `,"parameters":{"what":%q,"n":%d}`, a.one("a", "b", "c"), a.rnd.IntN(2))
	case n < 6:
		fmt.Fprintf(b, `,"parameters":{"what":%q}`, a.ref())
	case n < 7:
		fmt.Fprintf(b, `,"parameters":{"what":["so %s and %s"]}`, a.ref(), a.ref())
	}
	a.tail(b)
}

// tail closes an action, behind what it names and its parameters.
func (a *author) tail(b *strings.Builder) {
	if a.rnd.IntN(3) == 0 {
		fmt.Fprintf(b, `,"output_key":%q`, a.one("k", "m", "a"))
	}
	if n := a.rnd.IntN(8); n < 3 {
		var ids []string
		for range 1 + n {
			ids = append(ids, fmt.Sprintf("%q", a.block()))
		}
		fmt.Fprintf(b, `,"depends_on":[%s]`, strings.Join(ids, ","))
	}
	if a.rnd.IntN(3) > 0 {
		b.WriteString(a.one(`,"retry":1`, `,"retry":1`, `,"retry":2`, `,"retry":2`, `,"on_error":"skip"`, `,"on_error":"skip"`, `,"on_error":"skip"`, `,"on_error":"retry"`))
	}
	if a.pours && a.rnd.IntN(4) == 0 {
		b.WriteString(`,"stream":true`)
	}
	if a.rnd.IntN(8) == 0 {
		fmt.Fprintf(b, `,"timeout":%d`, 1+a.rnd.IntN(9))
	}
	b.WriteString("}</action>")
}

func (a *author) response(b *strings.Builder, final string) {
	fmt.Fprintf(b, "\n<response final=%q>%s", final, a.word())
	for range a.rnd.IntN(3) {
		fmt.Fprintf(b, " %s, %s", a.ref(), a.word())
	}
	if a.rnd.IntN(3) == 0 { // the end tells how far the name goes
		b.WriteString(" " + a.ref())
	}
	b.WriteString("</response>")
}

// batch is a reply of cogency: words, and a batch of calls that is good or bad.
func (a *author) batch() []byte {
	var b strings.Builder
	if a.rnd.IntN(3) == 0 {
		b.WriteString("<think>" + a.word() + "</think>")
	}
	b.WriteString(a.word())
	if a.calm || a.rnd.IntN(6) == 0 {
		b.WriteString(a.one("", "<end>", "<end>more"))
		return []byte(b.String())
	}
	if a.often(16) {
		b.WriteString(a.one("<execute>[{]</execute>", "<execute>{}</execute>", `<execute>[{"name":""}]</execute>`, "<execute>[", "<think>", `<results>[]</results>`))
		return []byte(b.String())
	}
	b.WriteString("<execute>[")
	for i := range a.rnd.IntN(5) {
		if i > 0 {
			b.WriteString(",")
		}
		name := toolNames[a.rnd.IntN(len(toolNames))]
		if a.rnd.IntN(12) == 0 {
			name = a.one(solo, "w.gone")
		}
		fmt.Fprintf(&b, `{"name":%q,"args":{"what":%q}}`, name, a.one("a", "b", "c", "$a", "</execute>"))
	}
	b.WriteString("]" + a.one("</execute>", "</execute>", "</execute> and more", ""))
	return []byte(b.String())
}

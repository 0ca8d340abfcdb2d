package cortex

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// The primer from the second rendering on: what this agent has and nothing else, with
// examples made of its own first tool, and one exchange from the question to the answer.

// primer is what a primer depends on.
type primer struct {
	Dialect
	tools    []messages.ToolSpec // what is called, by the model
	internal []messages.ToolSpec // actions on the session itself
	types    []string            // of tools, in their order
	example  messages.ToolSpec
}

func (x Dialect) newPrimer(specs []messages.ToolSpec) *primer {
	l := &primer{Dialect: x}
	for _, t := range specs {
		if t.Type == messages.TypeInternal {
			l.internal = append(l.internal, t)
			continue
		}
		l.tools = append(l.tools, t)
		if typ := typeName(&t); !slices.Contains(l.types, typ) {
			l.types = append(l.types, typ)
		}
	}
	switch {
	case len(l.tools) > 0:
		l.example = l.tools[0]
	case l.acts():
		l.example = l.internal[0]
		for _, t := range l.internal {
			if t.Name == messages.InternalListFeeds { // which needs no parameters
				l.example = t
			}
		}
	}
	return l
}

func typeName(t *messages.ToolSpec) string {
	if t.Type == "" {
		return string(messages.TypeTool)
	}
	return parse.OneLine(string(t.Type))
}

// acts reports whether the agent can do anything but answer.
func (l *primer) acts() bool { return len(l.tools) > 0 || len(l.internal) > 0 && !l.Short }

func (l *primer) text() string {
	var b strings.Builder
	b.WriteString("# How to answer\n\nYour reply is made of blocks; text outside of them is not shown.\n")
	final, partial := "", ` final="false"`
	if l.NotFinal {
		final, partial = ` final="true"`, ""
	}
	if !l.Short {
		b.WriteString("\n<thought>What you think, if you like: it is not your answer.</thought>\n")
	}
	if l.acts() {
		b.WriteString("\n" + l.call("a") + "\n")
	}
	b.WriteString("\n<response" + final + ">\nYour answer to the user, in Markdown. It ends your work.\n</response>\n\n")
	for _, rule := range l.rules(final, partial) {
		b.WriteString("- " + rule + "\n")
	}
	if l.acts() && !l.Short {
		b.WriteString("\n## Actions\n\n")
		for _, rule := range l.actions() {
			b.WriteString("- " + rule + "\n")
		}
	}
	l.sections(&b)
	l.blocks(&b)
	if len(l.tools) > 0 {
		l.exchange(&b, final)
		l.list(&b)
	}
	if len(l.internal) > 0 && !l.Short {
		l.session(&b)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (l *primer) call(id string) string {
	return `<action type="` + typeName(&l.example) + `" id="` + id + "\">\n" +
		`{"name": ` + quoted(l.example.Name) + `, "parameters": ` + arguments(l.example.Schema) + "}\n</action>"
}

// rules are those of replies.
func (l *primer) rules(final, partial string) (all []string) {
	if l.acts() {
		text := "Results come in your next turn, as <action_result>. Never write one yourself, and answer only when you have it."
		if l.Cut {
			text = "An action ends your reply: its result comes in your next turn, as <action_result>. Never write one yourself."
		}
		all = append(all, text)
		if !l.Cut {
			all = append(all, `In a response $a is the result of action a: "It is $a." needs no next turn.`)
		}
		all = append(all, "The body of an action is one JSON object: double quotes, \\n for a line end, no comments, nothing around it.")
	}
	if l.Short {
		return all
	}
	all = append(all,
		"<response"+partial+"> tells the user something before you are done; <response"+final+"> ends your work, and nothing may follow it.",
		"A reply without an action and without a response is wasted.",
		"Close each block before the next one. In a response all tags are text; &lt;/response> shows its closing tag.")
	return all
}

// actions are the attributes and members of an action.
func (l *primer) actions() (all []string) {
	all = append(all, "id: letters, digits and _, each once a reply; results and references name it.")
	types := l.types
	if len(l.internal) > 0 {
		types = append(slices.Clip(types), string(messages.TypeInternal))
	}
	if len(types) > 1 {
		all = append(all, "type: "+strings.Join(types, ", ")+".")
	}
	sync := "what follows waits for it"
	if l.Cut {
		sync = "it ends your reply"
	}
	return append(all,
		"mode: sync (default: "+sync+"), async (goes on beside your writing; best for what is independent), fire_and_forget (you hear nothing of it).",
		`Members besides name and parameters: "output_key" names the result; "depends_on": ids to wait for; "timeout": seconds; "retry": 0 to 5, after "retry_delay" seconds, each pause "backoff" times the last; "on_error": "fail", "skip" or "retry".`,
		`References: "$a" alone keeps its JSON type, inside a text it is text; ${a.field.0} reaches into it; $$ is a dollar sign. "refs": false, beside name, leaves every $ in the parameters alone.`,
		"status: ok; failed (reason says why); skipped (it waited for one that failed); cancelled; unknown (it may have happened: check before you repeat it); error (the block was not accepted: mend it).")
}

// exchange is a question with its call, its result and its answer.
func (l *primer) exchange(b *strings.Builder, final string) {
	b.WriteString("\n## Example\n\nThe user asks for what " + parse.OneLine(l.example.Name) + " knows. You write:\n\n" + l.call("r1") +
		"\n\nYou are told:\n\n<action_result id=\"r1\" status=\"ok\" ms=\"12\">\"forty-two\"</action_result>\n\nYou write:\n\n<response" + final +
		">\nIt is forty-two.\n</response>\n")
}

// list names what can be called, one a line; parameters that are scalars stand in it.
func (l *primer) list(b *strings.Builder) {
	b.WriteString("\n## Tools\n\n")
	for i := range l.tools {
		t := &l.tools[i]
		line, scalars := parse.Signature(t)
		if !scalars {
			line = parse.OneLine(t.Name) + parse.OneLine(t.Signature)
		}
		if typeName(t) != string(messages.TypeTool) {
			line = `type="` + typeName(t) + `" ` + line
		}
		b.WriteString("- " + line)
		if d := parse.OneLine(t.Description); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteByte('\n')
		if s := parse.OneLine(t.Schema); s != "" && !scalars {
			b.WriteString("  parameters: " + s + "\n")
		}
	}
}

// session tells of the actions on the session itself, in a line for those of feeds.
func (l *primer) session(b *strings.Builder) {
	b.WriteString("\n## Your session (type=\"internal\")\n\n")
	var others []string
	for i := range l.internal {
		t := &l.internal[i]
		switch t.Name {
		case messages.InternalAddFeed:
			b.WriteString(`- add_context_feed {"id": "now", "source": {"type": "tool", "name": "…", "params": {}}}: its value is in all your next prompts, and $now.` + "\n")
			if strings.Contains(t.Signature, "transform") {
				b.WriteString(`  "transform": [{"op": "json"}, {"op": "select", "path": "items"}, {"op": "head", "items": 5}] in it changes each value first. Further steps: tail, match, drop, replace, sort, unique, text, markdown, yaml, template.` + "\n")
			}
		case messages.InternalUpdateFeed, messages.InternalRemoveFeed, messages.InternalListFeeds, messages.InternalGetFeed:
			if strings.Contains(t.Signature, "cascade") && t.Name == messages.InternalRemoveFeed {
				b.WriteString(`- In params of a feed's source, "$now" or "${now.member}" is the value of the feed now, each time the feed is fetched. remove_context_feed {"id": "now", "cascade": true} also removes the feeds that refer to it.` + "\n")
			}
			others = append(others, t.Name)
		default:
			b.WriteString("- " + parse.OneLine(t.Name) + parse.OneLine(t.Signature) + ": " + parse.OneLine(t.Description) + "\n")
		}
	}
	if len(others) > 0 {
		b.WriteString("- " + strings.Join(others, ", ") + ": of a feed, by its id.\n")
	}
}

func quoted(s string) string {
	out, err := json.Marshal(parse.OneLine(s))
	if err != nil { // no string is none
		return `""`
	}
	return string(out)
}

// arguments are an example of an object that a schema describes: what must be given.
func arguments(schema string) string {
	var own struct {
		Properties map[string]struct {
			Type string            `json:"type"`
			Enum []json.RawMessage `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if schema == "" || json.Unmarshal([]byte(schema), &own) != nil {
		return "{}"
	}
	var members []string
	for _, name := range own.Required {
		p := own.Properties[name]
		value := sampleOf[p.Type]
		if len(p.Enum) > 0 {
			value = parse.OneLine(string(p.Enum[0]))
		}
		if value == "" {
			value = sampleOf["string"]
		}
		members = append(members, quoted(name)+": "+value)
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// sampleOf are values of the types of a schema.
var sampleOf = map[string]string{
	"string": `"some text"`, "integer": "1", "number": "1.5", "boolean": "true", "array": "[]", "object": "{}", "null": "null",
}

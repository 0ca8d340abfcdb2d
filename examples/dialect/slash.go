// Package slash is a dialect that lives outside stile: text for the user, in which a
// line that begins with a slash calls a tool.
//
//	I will look that up.
//	/shop.look {"item": "hat"}
//
// Invariants:
//   - text and calls come in the order of the reply, the same however it was cut;
//   - a line that begins with a slash and is no call is an error, and never shown;
//   - text passes as it comes; only the beginning of a line that may be a call is held
//     back, at most MaxCallBytes of it.
//
// It shows what a dialect of one's own takes, and imports public packages alone.
package slash

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// MaxCallBytes bounds a line with a call. A longer one is an error.
const MaxCallBytes = 64 << 10

// Dialect is slash. It is safe for concurrent use.
type Dialect struct{}

var _ parse.Dialect = Dialect{}

// Name is what a manifest calls it.
func (Dialect) Name() string { return "slash" }

// Traits says that calls begin while the reply streams, that "$" means nothing in them,
// that the prompt grows at its end, and that a run has ten turns.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{InStreamActions: true, Verbatim: true, AppendOnly: true, MaxTurns: 10, Busy: messages.Enqueue}
}

// Primer teaches it.
func (Dialect) Primer(tools []messages.ToolSpec) string {
	var b strings.Builder
	b.WriteString("Write plain text. To call a tool, write a line of its own: a slash, the tool's name, a space, and its arguments as one JSON object. The results come in the next message. A reply without such a line ends your work.\n\nTools:\n")
	for _, t := range tools {
		fmt.Fprintf(&b, "/%s %s - %s\n", t.Name, t.Schema, t.Description)
	}
	return b.String()
}

// Render returns the transcript, the input, and for each earlier turn of the run what the
// model wrote, what came of it, and what the user said meanwhile.
func (Dialect) Render(p messages.Projection) []messages.Message {
	var out []messages.Message
	say := func(role messages.Role, text string) {
		if text != "" {
			out = append(out, messages.Message{Role: role, Text: text})
		}
	}
	for _, it := range p.History {
		say(it.Role, it.Text)
	}
	say(messages.RoleUser, p.Text+p.Userdata)
	for _, r := range p.Replies {
		say(messages.RoleAssistant, r.Text)
		say(messages.RoleUser, results(&r))
		say(messages.RoleUser, r.Joined)
	}
	if p.LastError != "" {
		say(messages.RoleUser, "The previous turn did not go through: "+p.LastError)
	}
	return out
}

// results is a line for each call and each mistake.
func results(r *messages.Reply) string {
	var b strings.Builder
	for _, c := range r.Calls {
		value := c.Value
		if value == "" {
			value = "null"
		}
		fmt.Fprintf(&b, "/%s %s %s\n", c.Name, c.State, value)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(&b, "mistake: %s\n", e.Detail)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Decide is CONTINUE after a call or a mistake, and else DONE.
func (Dialect) Decide(f messages.Facts) messages.Verdict {
	if why := parse.Failure(f); why != "" {
		return parse.Halt(why, "")
	}
	v := messages.Verdict{Decision: messages.Done, Token: -1}
	if len(f.Calls)+len(f.Errors) > 0 {
		v.Decision = messages.Continue
	}
	return v
}

// Digest is that of all dialects whose output is text and calls.
func (Dialect) Digest(f messages.Facts) (out, scr []byte) { return parse.Digest(f) }

// NewDecoder reads one reply.
func (Dialect) NewDecoder(messages.TurnInfo) parse.Decoder { return &decoder{bol: true} }

// decoder splits a reply into texts and calls. Outside a call nothing is kept.
type decoder struct {
	utf8  scan.UTF8
	off   int64  // bytes of the reply that were taken
	bol   bool   // at the beginning of a line
	call  []byte // of a line that began with a slash, with it; nil outside
	begun int64  // where that line began
	long  bool   // it is too long: its end is awaited
	units int
	calls int
	// faults are lines that should have been calls.
	faults int
	open   bool
	emit   func(messages.Event)
}

// Push implements parse.Decoder.
func (d *decoder) Push(p []byte, emit func(messages.Event)) {
	d.emit = emit
	for {
		text, n, rest := d.utf8.Next(p)
		if n == 0 {
			break
		}
		d.take(text)
		d.off += int64(n)
		p = rest
	}
	d.emit = nil
}

// End implements parse.Decoder.
func (d *decoder) End(f messages.Finish, emit func(messages.Event)) {
	d.emit = emit
	for {
		text, n := d.utf8.End()
		if n == 0 {
			break
		}
		d.take(text)
		d.off += int64(n)
	}
	whole := f == messages.FinishComplete || f == messages.FinishStop
	if d.call != nil && whole {
		d.act()
	}
	if d.units+d.calls+d.faults == 0 && whole {
		d.begin()
	}
	d.end(whole)
	d.emit = nil
}

func (d *decoder) take(text []byte) {
	at := d.off
	for len(text) > 0 {
		if d.bol && text[0] == '/' {
			d.end(true)
			d.call, d.begun, d.long = []byte{}, at, false
		}
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if ended {
			line = text[:len(line)+1]
		}
		d.bol = ended
		text = rest
		if d.call == nil {
			d.begin()
			d.emit(messages.Event{Kind: messages.EventUnitText, Unit: d.units, UnitKind: messages.ResponseUnit, Text: line, Offset: at})
			at += int64(len(line))
			continue
		}
		at += int64(len(line))
		if d.long = d.long || len(d.call)+len(line) > MaxCallBytes; !d.long {
			d.call = append(d.call, line...)
		}
		if ended {
			d.act()
		}
	}
}

func (d *decoder) begin() {
	if !d.open {
		d.open = true
		d.emit(messages.Event{Kind: messages.EventUnitBegin, Unit: d.units, UnitKind: messages.ResponseUnit, Offset: d.off})
	}
}

func (d *decoder) end(complete bool) {
	if d.open {
		d.emit(messages.Event{Kind: messages.EventUnitEnd, Unit: d.units, UnitKind: messages.ResponseUnit, Offset: d.off, Complete: complete})
		d.open = false
		d.units++
	}
}

// act reads the line of a call.
func (d *decoder) act() {
	line := strings.TrimSpace(string(d.call))
	d.call = nil
	name, args, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	v := jsontext.Value(args)
	why := ""
	switch {
	case d.long:
		why = fmt.Sprintf("a call is longer than %d bytes", MaxCallBytes)
	case name == "":
		why = "a call names no tool"
	case v.Canonicalize() != nil || v.Kind() != '{':
		why = "the arguments of /" + name + " are not one JSON object"
	}
	if why != "" {
		d.faults++
		d.emit(messages.Event{Kind: messages.EventParseError, Offset: d.begun, Fault: &messages.ParseError{
			Code: messages.ErrDialect, Reason: "bad_call", Detail: why, Offset: d.begun,
		}})
		return
	}
	d.calls++
	d.emit(messages.Event{Kind: messages.EventAction, Offset: d.begun, Action: &messages.Action{
		ID: fmt.Sprintf("#%d", d.calls), Type: messages.TypeTool, Mode: messages.ModeAsync, Name: name, Args: string(v),
		OnError: messages.OnErrorFail, Show: messages.ShowUser,
	}})
}

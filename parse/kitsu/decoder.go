package kitsu

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// MaxReplyBytes bounds the token that is kept when the turn names no bound.
const MaxReplyBytes = 8 << 20

// decoder reads one reply: one response, and at its end the action, or why there is
// none.
type decoder struct {
	utf8  scan.UTF8
	strip stripper
	find  finder
	off   int64 // bytes of the reply taken
	open  bool
	pass  bool // a continuation, in which search and get_time are not run
	emit  func(messages.Event)
}

// NewDecoder reads one reply. In a continuation pass, which info.State tells, a
// search or get_time is stripped and not run (docs/spec/kitsu.md §6). info.MaxReplyBytes
// bounds the token that is kept, MaxReplyBytes when it is 0; a longer one is
// malformed.
func (Dialect) NewDecoder(info messages.TurnInfo) parse.Decoder {
	d := &decoder{pass: len(info.State) > 0}
	d.find.limit = MaxReplyBytes
	if m := info.MaxReplyBytes; m > 0 && m < MaxReplyBytes {
		d.find.limit = max(int(m), len(tokenPrefix))
	}
	d.strip.emit = d.show
	return d
}

// Push shows what can be shown; the response begins with its first text.
func (d *decoder) Push(p []byte, emit func(messages.Event)) {
	d.emit = emit
	for {
		text, n, rest := d.utf8.Next(p)
		if n == 0 {
			break
		}
		d.take(text, n)
		p = rest
	}
	d.emit = nil
}

func (d *decoder) take(text []byte, n int) {
	d.find.push(text, d.off)
	d.strip.push(text, d.off)
	d.off += int64(n)
}

// End closes the response and gives the action, or an error with its reason. A
// reply that broke off, or was cancelled, runs nothing. A complete one has a
// response even if nothing of it is shown.
func (d *decoder) End(f messages.Finish, emit func(messages.Event)) {
	d.emit = emit
	for {
		text, n := d.utf8.End()
		if n == 0 {
			break
		}
		d.take(text, n)
	}
	d.strip.end()
	d.find.end()
	whole := f == messages.FinishComplete || f == messages.FinishStop
	ended := whole || f == messages.FinishLength
	if ended {
		d.begin(d.off)
	}
	if d.open {
		emit(messages.Event{Kind: messages.EventUnitEnd, UnitKind: messages.ResponseUnit, Offset: d.off, Final: whole, Complete: whole})
		d.open = false
	}
	if ended {
		d.act(emit)
	}
	d.emit = nil
}

func (d *decoder) begin(at int64) {
	if !d.open {
		d.open = true
		d.emit(messages.Event{Kind: messages.EventUnitBegin, UnitKind: messages.ResponseUnit, Offset: at})
	}
}

func (d *decoder) show(text []byte, at int64) {
	d.begin(at)
	d.emit(messages.Event{Kind: messages.EventUnitText, UnitKind: messages.ResponseUnit, Text: text, Offset: at})
}

func (d *decoder) act(emit func(messages.Event)) {
	a, reason := d.find.action()
	switch {
	case reason != "":
		emit(messages.Event{Kind: messages.EventParseError, Offset: d.find.at, Fault: &messages.ParseError{
			Code: messages.ErrDialect, Reason: reason, Detail: reason + ": " + meanings[reason],
			Offset: d.find.at, Line: d.find.line,
		}})
	case a == nil || d.pass && a.Kind != Continue:
	default:
		emit(messages.Event{Kind: messages.EventAction, Offset: d.find.at, Action: &messages.Action{
			ID: "#1", Type: messages.TypeTool, Mode: messages.ModeSync, Name: string(a.Kind), Args: a.Payload(),
			Timeout: ExecutorTime, OnError: messages.OnErrorFail, Show: messages.ShowOperator,
		}})
	}
}

// Defuse makes the lines of a user's text that look like the host's harmless: the
// "[" that begins one becomes "(" (docs/spec/kitsu.md §6).
func Defuse(text string) string {
	if !strings.Contains(text, internalPrefix) {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		body := strings.TrimLeft(line, " \t")
		if strings.HasPrefix(body, internalPrefix) {
			out.WriteString(line[:len(line)-len(body)])
			out.WriteByte('(')
			body = body[1:]
			line = body
		}
		out.WriteString(line)
	}
	return out.String()
}

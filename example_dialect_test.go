package stile_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/plain"
)

// lines is a dialect of one's own: every line of a reply is a response, an empty one
// is remarked upon, and a line "more" asks for another turn.
type lines struct{ plain.Dialect }

// Name is what a manifest says.
func (lines) Name() string { return "lines" }

// NewDecoder reads one reply.
func (lines) NewDecoder(messages.TurnInfo) parse.Decoder { return &lineDecoder{} }

// Decide goes on when the last line says so.
func (d lines) Decide(f messages.Facts) messages.Verdict {
	v := d.Dialect.Decide(f)
	if n := len(f.Units); v.Decision == messages.Done && n > 0 && f.Units[n-1].Text == "more" {
		v.Decision = messages.Continue
	}
	return v
}

type lineDecoder struct {
	held []byte
	off  int64
	n    int
}

// Push emits the lines that are complete.
func (d *lineDecoder) Push(p []byte, emit func(messages.Event)) {
	d.held = append(d.held, p...)
	for {
		line, rest, found := bytes.Cut(d.held, []byte{'\n'})
		if !found {
			return
		}
		d.line(line, emit)
		d.off += int64(len(line) + 1)
		d.held = rest
	}
}

// End emits the last line.
func (d *lineDecoder) End(_ messages.Finish, emit func(messages.Event)) {
	if len(d.held) > 0 {
		d.line(d.held, emit)
	}
}

func (d *lineDecoder) line(line []byte, emit func(messages.Event)) {
	if len(line) == 0 {
		emit(messages.Event{Kind: messages.EventLint, Fault: &messages.ParseError{Code: "LINT_EMPTY_LINE", Offset: d.off}})
		return
	}
	unit := messages.Event{Unit: d.n, UnitKind: messages.ResponseUnit, Offset: d.off}
	unit.Kind = messages.EventUnitBegin
	emit(unit)
	unit.Kind, unit.Text = messages.EventUnitText, line
	emit(unit)
	unit.Kind, unit.Text, unit.Complete = messages.EventUnitEnd, nil, true
	emit(unit)
	d.n++
}

// A dialect is how a model speaks: a decoder for its replies and a judgement of what
// they mean. The configuration adds those of one's own.
func Example_dialect() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true, Dialects: []parse.Dialect{lines{}}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	s, err := rt.Open(ctx, "verse", &stile.Agent{Dialect: "lines", Model: scripted.New("a rose\nmore", "is a rose\n")})
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "recite")
	if err != nil {
		panic(err)
	}
	text, err := run.Text(ctx)
	fmt.Printf("%q %v\n", text, err)
	// Output: "a rose\n\nmore\n\nis a rose" <nil>
}

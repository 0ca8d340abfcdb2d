package replay

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// generation is a reply being read again.
type generation struct {
	ask     *turn.OpenModel
	decoder parse.Decoder
	bytes   []byte // all that the journal has of the reply
	fed     int    // of bytes: what the machine has
	unit    bool   // the decoder is inside a unit
	route   string // provider/model that is asked
	asked   bool   // a model.request was made
	spent   bool   // the machine knows what the reply cost
	// chunked is the time of the latest chunk record, or of the turn's begin. Bytes
	// fed at this time make no chunk record of their own.
	chunked time.Time
}

// open prepares to read the turn's reply again.
func (p *player) open(e *turn.OpenModel) error {
	g := &generation{ask: e, bytes: p.ahead.chunks, route: p.agent.Rules.Provider + "/" + p.agent.Rules.Model}
	g.decoder = p.agent.Dialect.NewDecoder(messages.TurnInfo{Turn: e.Turn, Pass: e.Pass, State: e.State, Templates: e.Templates, MaxReplyBytes: p.agent.Rules.Limits.ReplyBytes()})
	if reply := p.ahead.reply; reply != nil {
		var err error
		if g.bytes, err = p.blob(reply.Blob); err != nil {
			return err
		}
	}
	g.chunked = p.src.Records[p.at-1].TS // the Step that asks ends with turn.begin
	p.gen = g
	return nil
}

// generate feeds what leads to record r while the model speaks.
func (p *player) generate(r *messages.Record) error {
	g := p.gen
	id := g.ask.Ident
	if r.Turn != id.Turn {
		return p.stuck(r, "it belongs to another turn than the one in flight")
	}
	if err := p.spent(); err != nil {
		return err
	}
	switch b := r.Body.(type) {
	case *messages.ModelRequest:
		req, err := p.request(r, b)
		if err != nil {
			return err
		}
		return p.step(r.TS, &turn.ModelOpened{Ident: id, Request: req})
	case *messages.ModelSession:
		return p.step(r.TS, &turn.ModelTalk{Ident: id, Session: *b})
	case *messages.ModelFallback:
		from := g.route
		g.route = b.To
		return p.step(r.TS, &turn.ModelSwitched{Ident: id, Fallback: messages.ModelFallback{From: from, Reason: b.Reason, To: b.To}})
	case *messages.ModelChunk:
		return p.chunk(r, b)
	case *messages.Audit, *messages.RelicChanged, *messages.ActionStarted, *messages.ActionApproval, *messages.ActionEnded, *messages.FeedInjected:
		return p.caused(r)
	case *messages.Control:
		if b.What == messages.ControlModelError {
			break // of the reply's end
		}
		if told, err := p.hear(r); told || err != nil {
			return err
		}
		if b.What == messages.ControlBreach {
			// The one meter that runs out while the model speaks is that of the reply.
			return p.step(r.TS, &turn.Decoded{Ident: id, Bytes: make([]byte, max(0, p.agent.Rules.Limits.ReplyBytes()-int64(g.fed))+1)})
		}
		return p.caused(r)
	}
	told, err := p.hear(r)
	switch {
	case told || err != nil:
		return err
	case p.ahead.reply != nil:
		return p.replyEnd(r)
	}
	return p.remember(r)
}

// spent feeds, once, what the model had said it cost when the reply was cut short:
// the machine keeps it for then.
func (p *player) spent() error {
	g, reply := p.gen, p.ahead.reply
	if g.spent || reply == nil || reply.Finish != messages.FinishCancelled || reply.Usage == (messages.Usage{}) {
		return nil
	}
	g.spent = true
	return p.step(g.chunked, &turn.Decoded{Ident: g.ask.Ident, Usage: reply.Usage, CostMicroUSD: reply.CostUSD, Unpriced: reply.Unpriced})
}

// cutOff feeds what the model had said when a submit, record r, superseded its run:
// all that the journal has.
func (p *player) cutOff(r *messages.Record) error {
	if err := p.spent(); err != nil {
		return err
	}
	_, err := p.hear(r)
	return err
}

// chunk feeds the bytes that end with a chunk record, at its time.
func (p *player) chunk(r *messages.Record, b *messages.ModelChunk) error {
	g := p.gen
	end := b.Off + int64(len(b.Bytes))
	if b.Off < 0 || end < int64(g.fed) || end > int64(len(g.bytes)) {
		return p.stuck(r, "a chunk that is no part of the reply")
	}
	in := &turn.Decoded{Ident: g.ask.Ident, Bytes: g.bytes[g.fed:end]}
	g.decoder.Push(in.Bytes, func(ev messages.Event) { in.Events = append(in.Events, own(ev)) })
	g.watch(in.Events, false)
	g.fed, g.chunked = int(end), r.TS
	return p.step(r.TS, in)
}

// hear feeds the bytes that no chunk record shows, up to the first that lead to a
// record. told reports whether there was one: then it was r.
//
// Where a record was made, the pieces the model sent are gone. The shortest piece
// that leads to the record makes the same ones: a longer one would have made a
// chunk record first, or none as well.
func (p *player) hear(r *messages.Record) (told bool, err error) {
	g := p.gen
	in := &turn.Decoded{Ident: g.ask.Ident}
	from := g.fed
	byText := p.agent.Rules.Durability != turn.WholeUnit && p.agent.Rules.Output == nil // else a unit's end takes back
	for g.fed < len(g.bytes) {
		g.fed++
		n := len(in.Events)
		g.decoder.Push(g.bytes[g.fed-1:g.fed], func(ev messages.Event) { in.Events = append(in.Events, own(ev)) })
		if g.watch(in.Events[n:], byText && p.replaces()) {
			in.Bytes = g.bytes[from:g.fed]
			return true, p.step(r.TS, in)
		}
	}
	if g.fed == from {
		return false, nil
	}
	in.Bytes = g.bytes[from:]
	return false, p.step(g.chunked, in)
}

// replaces reports whether the next text takes another one back, which is a record.
func (p *player) replaces() bool {
	run := p.machine.State().Open
	return run != nil && len(run.Retract) > 0
}

// watch follows the events and reports whether the machine makes a record of one,
// also of one that makes no sense.
func (g *generation) watch(evs []messages.Event, replaces bool) (telling bool) {
	for i := range evs {
		switch evs[i].Kind {
		case messages.EventUnitBegin:
			telling = telling || g.unit
			g.unit = true
		case messages.EventUnitText:
			telling = telling || !g.unit || replaces && len(evs[i].Text) > 0 && evs[i].UnitKind == messages.ResponseUnit
		case messages.EventUnitEnd:
			telling, g.unit = true, false
		case messages.EventParseError, messages.EventLint, messages.EventFeed, messages.EventTemplate:
			telling = true
		}
	}
	return telling
}

// replyEnd feeds the end of the reply.
func (p *player) replyEnd(r *messages.Record) error {
	g, reply := p.gen, p.ahead.reply
	end := &turn.ReplyEnd{Ident: g.ask.Ident, Finish: reply.Finish, Usage: reply.Usage, CostMicroUSD: reply.CostUSD, Unpriced: reply.Unpriced, Err: reply.Error, Code: p.ahead.code}
	var err error
	if end.Side, err = p.blob(reply.Side); err != nil {
		return err
	}
	if g.asked { // else the prompt could not be made, and there was no decoder
		g.decoder.End(reply.Finish, func(ev messages.Event) { end.Events = append(end.Events, own(ev)) })
	}
	return p.step(r.TS, end)
}

// remember takes from its record what a reply had said when the process died: the
// bytes that said it were not on disk yet.
func (p *player) remember(r *messages.Record) error {
	in := &turn.Decoded{Ident: p.gen.ask.Ident}
	switch b := r.Body.(type) {
	case *messages.ParseFault:
		fault := b.Complaint()
		in.Events = []messages.Event{{Kind: messages.EventParseError, Fault: &fault}}
	case *messages.Lint:
		in.Events = []messages.Event{{Kind: messages.EventLint, Fault: &messages.ParseError{Code: b.Code, Offset: b.Offset, Detail: b.Detail}}}
	case *messages.ActionTemplate:
		in.Events = []messages.Event{{Kind: messages.EventTemplate, Block: &messages.Block{Name: b.Name, Definition: b.Definition}}}
	case *messages.Retract:
		if !p.replaces() {
			return p.stuck(r, "nothing in the journal brings it about")
		}
		// The first text of the turn did. What it was is in the unit's record, if there is
		// one; else nothing tells, and nothing needs it: the turn was lost with it.
		text, whole := &messages.UnitText{UnitKind: messages.ResponseUnit, Unit: "0.0", Text: " "}, false
		for _, next := range p.src.Records[p.at:] {
			if next.Turn != r.Turn {
				break
			}
			if b, ok := next.Body.(*messages.UnitText); ok {
				text, whole = b, next.TS.Equal(r.TS)
				break
			}
		}
		events, err := p.unitOf(r, text)
		if err != nil {
			return err
		}
		if in.Events = events; !whole {
			in.Events = events[:2]
		}
		if p.gen.unit {
			in.Events = in.Events[1:]
		}
		p.gen.unit = !whole
	case *messages.UnitText:
		events, err := p.unitOf(r, b)
		if err != nil {
			return err
		}
		if in.Events = events; p.gen.unit {
			in.Events = events[2:] // its text was heard
			p.gen.unit = false
		}
	default:
		return p.stuck(r, "nothing in the journal brings it about")
	}
	return p.step(r.TS, in)
}

// unitOf returns what a decoder says of a unit: its begin, its text, its end.
func (p *player) unitOf(r *messages.Record, b *messages.UnitText) ([]messages.Event, error) {
	_, n, _ := strings.Cut(b.Unit, ".")
	unit, err := strconv.Atoi(n)
	if err != nil {
		return nil, p.stuck(r, "a unit without an ordinal")
	}
	return []messages.Event{
		{Kind: messages.EventUnitBegin, Unit: unit, UnitKind: b.UnitKind, Block: b.Place()},
		{Kind: messages.EventUnitText, Text: []byte(b.Text)},
		{Kind: messages.EventUnitEnd, Final: b.Final, Complete: b.Complete},
	}, nil
}

func own(ev messages.Event) messages.Event {
	ev.Text = bytes.Clone(ev.Text)
	return ev
}

// request makes the request again: it renders the prompt and says who is asked.
func (p *player) request(r *messages.Record, was *messages.ModelRequest) (messages.ModelRequest, error) {
	g := p.gen
	msgs, err := p.assemble(g.ask)
	if err != nil {
		return messages.ModelRequest{}, err
	}
	if p.src.Prompt != nil {
		var offered []messages.ToolSpec
		if p.agent.Native {
			offered = p.agent.Specs
		}
		if err := p.src.Prompt(r, msgs, offered); err != nil {
			return messages.ModelRequest{}, err
		}
	}
	provider, model, _ := strings.Cut(g.route, "/")
	mode := messages.ModelReplay
	if was.Session > 0 {
		mode = messages.ModelResume
	}
	req := messages.ModelRequest{
		Matched: was.Matched, Messages: int64(len(msgs)), Mode: mode, Options: was.Options, Provider: provider, Model: model, Prompt: prompt.Digest(msgs, p.agent.Rules.Rendering),
	}
	req.Sent, req.SentBytes, req.Session = was.Sent, was.SentBytes, was.Session // what a model session had is nothing a replay knows
	if p.agent.Rules.Rendering >= 2 {
		req.System, _ = prompt.NewDigester("", p.agent.Rules.Rendering).System(msgs)
		if _, err := p.blob(req.System); err != nil && req.System == was.System { // what the model saw is to be shown
			return messages.ModelRequest{}, err
		}
	}
	if !g.asked { // once per turn
		for i := range msgs {
			req.Lints = append(req.Lints, msgs[i].Lints...)
		}
	}
	g.asked = true
	if t := p.trial; t != nil {
		if req.Prompt != was.Prompt {
			t.note(r, ChangedPrompt, func() (string, string) { return "", PromptText(msgs) })
		}
		return req, nil
	}
	if req.Prompt != was.Prompt {
		return req, &Divergence{
			Seq: r.Seq, Kind: r.Body.Kind(), Want: string(r.Raw),
			Why: "another prompt: the agent, its tools or the dialect's words have changed, or what was said before",
		}
	}
	return req, nil
}

func (p *player) assemble(e *turn.OpenModel) ([]messages.Message, error) {
	proj := messages.Projection{
		SID: p.src.Key.SID(), Turn: e.Turn, Pass: e.Pass, Last: e.Last, Text: e.Text, Userdata: e.Userdata,
		Out: e.Out, Scr: e.Scr, Tools: p.agent.Specs, Primer: p.agent.Primer, LastError: e.LastError, Note: e.Note, Feeds: e.Feeds,
	}
	if !p.agent.Dialect.Traits().Carry {
		var failed error
		spec := prompt.Spec{
			SID: proj.SID, Run: e.Run, Turn: e.Turn, Pass: e.Pass, Last: e.Last, Rendering: p.agent.Rules.Rendering, Tools: p.agent.Specs, Primer: p.agent.Primer, Feeds: e.Feeds, FeedsLast: p.agent.Rules.FeedsLast,
			Transcript: p.agent.Dialect.Traits().Transcript, Window: p.agent.Window,
			Reply: func(d messages.Digest) []byte {
				b, err := p.blob(d)
				if failed == nil {
					failed = err
				}
				return b
			},
		}
		proj = prompt.Project(slices.Values(p.src.Records[:p.at]), spec.For(p.agent.Dialect))
		if failed != nil {
			return nil, failed
		}
	} else if err := p.carried(e, &proj); err != nil {
		return nil, err
	}
	if p.agent.Dialect.Traits().Carry {
		proj = prompt.Carried(proj, p.agent.Rules.Rendering)
	}
	msgs := prompt.Assemble(p.agent.Dialect, proj)
	if !p.agent.Dialect.Traits().Carry {
		msgs, _ = parse.Window(msgs, p.agent.Window.Messages)
	}
	if p.agent.Shape != nil {
		msgs = p.agent.Shape(e.Run, e.Turn, slices.Clone(msgs))
	}
	return msgs, nil
}

// carried fills in what stands for the history of a dialect that carries it.
func (p *player) carried(e *turn.OpenModel, to *messages.Projection) (err error) {
	if to.Failed, err = e.Tell(p.blob); err != nil || e.HaveCarry {
		return err
	}
	if to.Out, err = p.blob(e.OutDigest); err != nil {
		return err
	}
	to.Scr, err = p.blob(e.ScrDigest)
	return err
}

func (p *player) blob(d messages.Digest) ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return p.src.Blob(p.ctx, d)
}

package simple

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/cogency"
)

// Words of the vocabulary that the dialect itself has no use for.
const (
	interrupt cogency.Type = "interrupt"
	metric    cogency.Type = "metric"
)

// Teller makes events of a session's updates. The zero Teller begins with the session. One
// goroutine, one stream.
type Teller struct {
	// Tokens has texts told while they grow, raw; else each at its end, without white space
	// around it.
	Tokens bool

	behind  place // the last update
	resumed messages.UnitID
	shown   map[messages.UnitID]int64 // bytes of growing units that were told
	skip    int                       // events of a record that the reader has

	batches bool // the dialect's calls of a turn are one batch
	calls   []call
	choices map[string]bool // blocks of the turn that are an if, or stand in one
	asked   time.Time       // when the model was asked
	// What the run has used.
	input, output int64
	took          time.Duration

	now    float64
	events []Event
}

// call is one that was told of and has no result yet.
type call struct {
	messages.Call
	turn     int64
	executed bool // an execute was told
	ended    bool
	hidden   bool
	grown    int64 // bytes of its growing result that were told
	// waits is the declaration of a call that is not told of yet: it stands in an if, and is
	// left out if its branch is not taken. That is known when it begins, waits or ends.
	waits *messages.ActionDeclared
}

// From takes up a stream behind an id. Recall, of the run's records up to there, comes before.
func (t *Teller) from(p place) {
	t.behind, t.skip, t.resumed = place{at: p.at}, p.n, p.at.Unit
	t.shown = map[messages.UnitID]int64{}
	if p.at.Unit.Turn > 0 {
		t.shown[p.at.Unit] = p.at.Off
	}
	p.at.EachResult(func(turn int64, action string, off int64) {
		if c := t.call(turn, action); c != nil {
			c.grown = off
		}
	})
}

// Tell returns the events of an update, which are the Teller's until the next one.
func (t *Teller) Tell(u messages.Update) []Event {
	t.events = t.events[:0]
	if u.Delta != nil {
		t.delta(u.Delta)
	} else {
		t.record(u.Record)
	}
	for i := range t.events {
		p := place{at: u.At}
		if i < len(t.events)-1 {
			p = place{at: t.behind.at, n: i + 1}
		}
		t.events[i].ID = p.id()
	}
	t.behind.at = u.At
	if u.Record != nil && t.skip > 0 && len(t.events) > t.skip {
		told := t.events[t.skip:]
		t.skip = 0
		return told
	}
	return t.events
}

func (t *Teller) add(kind cogency.Type, content string) *Event {
	t.events = append(t.events, Event{Type: string(kind), Content: content, Timestamp: t.now})
	return &t.events[len(t.events)-1]
}

// chunk is the type of a piece of a result that grows.
const chunk cogency.Type = "chunk"

// grown tells a piece of a result.
func (t *Teller) grown(d *messages.Delta) {
	if c := t.call(d.Unit.Turn, d.Action); c != nil {
		c.grown = d.Off
	}
	if !t.Tokens {
		return
	}
	t.now = seconds(d.TS)
	e := t.add(chunk, d.Text)
	e.Action = d.Action
	if d.Retract {
		e.Keep = &d.Off
	}
}

// recorded tells what was not told of a recorded piece: its reader came late.
func (t *Teller) recorded(of int64, b *messages.ActionChunk) {
	c := t.call(of, b.ID)
	end := b.Off + int64(len(b.Bytes))
	if c == nil || c.hidden || end <= c.grown {
		return
	}
	piece := string(b.Bytes[max(0, c.grown-b.Off):])
	if c.grown = end; t.Tokens {
		t.add(chunk, piece).Action = b.ID
	}
}

// anew takes the result of an earlier attempt back, of which a late reader was told by records.
func (t *Teller) anew(c *call) {
	if c.grown > 0 && t.Tokens {
		e := t.add(chunk, "")
		e.Action, e.Keep = c.ID, new(int64)
	}
	c.grown = 0
}

func (t *Teller) delta(d *messages.Delta) {
	if d.Kind == messages.ResultText {
		t.grown(d)
		return
	}
	kind := wordOf(d.Kind)
	if d.Retract && (d.Kind == "" || d.Kind == messages.ThoughtUnit) { // of a text that the reader had before it came back, or as a response
		kind = cogency.Respond
	}
	if !t.Tokens || kind == "" {
		return
	}
	t.now = seconds(d.TS)
	if t.shown == nil {
		t.shown = map[messages.UnitID]int64{}
	}
	t.shown[d.Unit] = d.Off
	e := t.add(kind, d.Text)
	e.Unit, e.Thought = number(d.Unit), thoughtAt(d.Thought)
	if d.Retract {
		e.Keep = &d.Off
	}
}

// wordOf is the word for a text; "" when it is not for users.
func wordOf(k messages.Kind) cogency.Type {
	switch k {
	case messages.ResponseUnit:
		return cogency.Respond
	case messages.ThoughtUnit:
		return cogency.Think
	}
	return ""
}

// unitsOfTurn is more than any turn has.
const unitsOfTurn = 1 << 16

// number is a unit's id as one number.
func number(id messages.UnitID) int64 { return id.Turn*unitsOfTurn + int64(id.N) }

func (t *Teller) record(r *messages.Record) {
	t.now = seconds(r.TS)
	switch b := r.Body.(type) {
	case *messages.Input:
		t.add(cogency.User, cmp.Or(b.Text, aeiou.MessageText(b.Userdata)))
	case *messages.RunBegin:
		t.calls = slices.DeleteFunc(t.calls, func(c call) bool { return c.Mode != messages.ModeFireAndForget })
		t.input, t.output, t.took = 0, 0, 0
	case *messages.TurnBegin:
		t.batches = b.Dialect == cogency.Name
		t.choices = nil
	case *messages.ModelRequest:
		t.asked = r.TS
	case *messages.ModelReply:
		t.used(&b.Usage, r.TS)
	case *messages.UnitText:
		t.unit(b)
	case *messages.Emit:
		if !b.Candidate && !b.Held {
			t.add(cogency.Respond, b.Text).Unit = r.Seq
		}
	case *messages.Whisper:
		t.add(cogency.Think, b.Text).Unit = r.Seq
	case *messages.Retract: // that of a thought concerns those who were shown it, and a delta has told them
		if id, err := messages.ParseUnitID(b.Unit); err == nil && !b.Thought {
			e := t.add(cogency.Respond, "")
			e.Unit, e.Keep = number(id), &b.Off
		}
	case *messages.BlockBegin:
		t.block(b)
	case *messages.ActionDeclared:
		t.declared(r.Turn, b)
	case *messages.ActionApproval:
		if c := t.call(r.Turn, b.ID); c != nil && b.State == messages.GateConfirm {
			t.told(c)
		}
	case *messages.ActionStarted:
		if c := t.call(r.Turn, b.ID); c != nil {
			t.anew(c)
			t.told(c)
			t.execute(c)
		}
	case *messages.ActionChunk:
		t.recorded(r.Turn, b)
	case *messages.ActionEnded:
		t.ended(r.Turn, b)
	case *messages.ParseFault:
		t.fault(b)
	case *messages.TurnSuspended:
		t.suspended(r.Turn, b)
	case *messages.TurnDecided:
		t.resumed, t.shown = messages.UnitID{}, nil
	case *messages.RunEnd:
		t.end(b)
	}
}

// unit tells a text that is whole now, unless it was told in pieces.
func (t *Teller) unit(b *messages.UnitText) {
	kind := wordOf(b.UnitKind)
	id, err := messages.ParseUnitID(b.Unit)
	if kind == "" || err != nil {
		return
	}
	text := b.Text
	switch {
	case !t.Tokens:
		text = strings.TrimFunc(text, unicode.IsSpace)
	case t.shown[id] > 0 || id.Turn == t.resumed.Turn && id.N < t.resumed.N:
		return
	}
	if strings.TrimFunc(text, unicode.IsSpace) == "" {
		return
	}
	e := t.add(kind, text)
	e.Unit, e.Partial, e.Thought = number(id), !b.Complete, thoughtAt(b.Place())
}

func (t *Teller) used(u *messages.Usage, at time.Time) {
	var took time.Duration
	if !t.asked.IsZero() {
		took = at.Sub(t.asked)
	}
	t.input, t.output, t.took = t.input+u.Input, t.output+u.Output, t.took+took
	e := t.add(metric, "")
	e.Step, e.Total = use(u.Input, u.Output, took), use(t.input, t.output, t.took)
}

// block remembers a block in which calls may be left out.
func (t *Teller) block(b *messages.BlockBegin) {
	if b.BlockKind != "if" && !t.choices[b.Block] {
		return
	}
	if t.choices == nil {
		t.choices = map[string]bool{}
	}
	t.choices[b.ID] = true
}

func (t *Teller) call(of int64, id string) *call {
	i := slices.IndexFunc(t.calls, func(c call) bool { return c.turn == of && c.ID == id })
	if i < 0 {
		return nil
	}
	return &t.calls[i]
}

func (t *Teller) declared(of int64, b *messages.ActionDeclared) {
	c := call{Call: messages.Call{ID: b.ID, Name: b.Name, Args: b.Args, Mode: b.Mode}, turn: of}
	c.hidden = b.Show == messages.ShowNone
	if !c.hidden {
		c.waits = b
	}
	t.calls = append(t.calls, c)
	if !t.choices[b.Block] {
		t.told(&t.calls[len(t.calls)-1])
	}
}

// told tells of a call that was not told of yet.
func (t *Teller) told(c *call) {
	b := c.waits
	if b == nil {
		return
	}
	c.waits = nil
	e := t.add(cogency.Call, cogency.CallText(b.Name, b.Args))
	e.Block, e.Compensates = b.Block, b.Compensates
	if b.Thought > 0 {
		e.Thought = &Thought{N: int(b.Thought)}
	}
}

// execute reports whether calls run: c and all that were told of with it.
func (t *Teller) execute(c *call) {
	if c.executed || c.hidden {
		return
	}
	for i := range t.calls {
		t.calls[i].executed = t.calls[i].executed || t.calls[i].turn == c.turn && t.calls[i].waits == nil
	}
	t.add(cogency.Execute, "")
}

// ended tells the result of a call, or of all calls when it was the last of a batch.
func (t *Teller) ended(of int64, b *messages.ActionEnded) {
	c := t.call(of, b.ID)
	if c == nil {
		return
	}
	if b.Reason == messages.BranchNotTaken && c.waits != nil {
		c.waits, c.hidden = nil, true
	}
	t.told(c)
	if t.batches {
		t.execute(c) // it may end without a beginning
	}
	c.ended, c.State, c.Reason, c.Value = true, b.State, b.Reason, b.Result
	over := func(o call) bool { return o.turn == of && o.ID == b.ID }
	if t.batches {
		if slices.ContainsFunc(t.calls, func(o call) bool { return o.turn == of && !o.ended }) {
			return
		}
		over = func(o call) bool { return o.turn == of }
	}
	var results []cogency.Result
	for i := range t.calls {
		if o := &t.calls[i]; over(*o) && !o.hidden {
			results = append(results, cogency.ResultOf(&o.Call))
		}
	}
	t.calls = slices.DeleteFunc(t.calls, over)
	if len(results) > 0 {
		t.results(results)
	}
}

func (t *Teller) results(results []cogency.Result) {
	p := &Payload{Executed: len(results)}
	for i := range results {
		if results[i].Success {
			p.Success++
		}
	}
	p.Failure = p.Executed - p.Success
	t.add(cogency.Results, string(cogency.AppendResults(nil, results, 0))).Payload = p
}

// fault makes the event of a mistake in a reply. It is also the result of each call of a batch
// that did not run.
func (t *Teller) fault(b *messages.ParseFault) {
	code := b.Reason
	if code == "" {
		code = string(b.Code)
	}
	t.add(cogency.Fault, b.Detail).Code = code
	if t.batches {
		t.results([]cogency.Result{cogency.Failure("", b.Detail)})
		t.events[len(t.events)-1].Payload = &Payload{}
	}
}

func (t *Teller) suspended(of int64, b *messages.TurnSuspended) {
	var names []string
	for _, id := range b.Waiting {
		if c := t.call(of, id); c != nil && !c.hidden {
			names = append(names, c.Name)
		}
	}
	text := "waiting for approval"
	if names != nil {
		text += ": " + strings.Join(names, ", ")
	}
	t.add(interrupt, text)
}

// end reports whether a run is over, and why if it did not come to its end.
func (t *Teller) end(b *messages.RunEnd) {
	switch {
	case b.Decision == messages.Done:
	case b.Reason == messages.ErrCancelled && strings.HasPrefix(b.Detail, turn.Superseded):
		t.add(interrupt, b.Detail)
	case b.Reason == messages.ErrCancelled:
		t.add(cogency.Cancelled, b.Detail)
	case b.Decision == messages.Abort:
		t.add(cogency.Fault, b.Detail).Code = string(b.Decision)
	default:
		t.add(cogency.Fault, b.Detail).Code = string(b.Reason)
	}
	t.add(cogency.End, "")
}

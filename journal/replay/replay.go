package replay

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/neuroscript"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/prompt"
	"github.com/seed14be6753/stile/turn"
)

// Act ends a call of a tool that is not pure as it ended then. decode reads the
// tool's recorded result.
type Act func(c *neuroscript.Call, name string, class messages.Class, args []neuroscript.Value, decode Decode) (neuroscript.Value, error)

// Decode reads the recorded result of a tool.
type Decode func(recorded string) (neuroscript.Value, error)

// Tools binds the tools of one program: pure ones run again, act is asked for the
// others, and own are those the turn itself brings along.
type Tools func(act Act, own []*neuroscript.Tool) neuroscript.ToolSet

// Agent is what the session ran under.
type Agent struct {
	Name    string
	Rules   *turn.Rules
	Dialect parse.Dialect
	Specs   []messages.ToolSpec
	Primer  string
	Tools   Tools
	Library *neuroscript.Library
	Limits  neuroscript.Limits
	// MagicCalls bounds the tokens of a turn; 0 is the default of aeiou.md §18.
	MagicCalls int
}

// Source is a session's history. Records are complete and typed; an erased body
// makes a replay impossible.
type Source struct {
	Key     messages.SessionKey
	Inc     messages.Incarnation
	Records []*messages.Record
	Blob    func(ctx context.Context, d messages.Digest) ([]byte, error)
	// From is where the history begins for this session: 0 for the first record, or
	// the last record a fork took over, which is folded and not run again.
	From int64
}

// Report says what was compared.
type Report struct {
	Records int64 // made again and equal
	Turns   int64 // decided again
	// Programs counts those that ran again; Taken those whose emissions were taken
	// from the journal because a clock, a cancel or a crash had stopped them.
	Programs, Taken int64
	Head            messages.Digest
}

// Divergence is the first difference: a record that the journal has and the
// replay does not make, or makes otherwise.
type Divergence struct {
	Seq       int64
	Kind      messages.Kind
	Want, Got string // bodies; Got is empty when no record was made
	Why       string
}

// Error names the position and both bodies.
func (d *Divergence) Error() string {
	s := fmt.Sprintf("replay: record %d (%s): %s", d.Seq, d.Kind, d.Why)
	if d.Got != "" {
		s += fmt.Sprintf("\n  journal: %s\n  replay:  %s", d.Want, d.Got)
	}
	return s
}

// Run replays. A *Divergence means that the journal and this build disagree; other
// errors say why there was nothing to compare (ERR_JOURNAL, ERR_CONFIG).
func Run(ctx context.Context, src Source, agent *Agent) (Report, error) {
	p := &player{ctx: ctx, src: src, agent: agent, nonces: &draws{}}
	for _, r := range src.Records {
		if _, ok := r.Body.(*messages.Undecoded); ok || r.Raw == nil {
			return Report{}, messages.Errorf(messages.ErrJournal, "record %d was erased: the session cannot be replayed", r.Seq)
		}
		if b, ok := r.Body.(*messages.TurnBegin); ok && r.Seq > src.From {
			p.nonces.add(b.Nonce)
		}
		if r.Seq <= src.From {
			if err := p.state.Apply(r); err != nil {
				return Report{}, err
			}
			p.at++
			p.anchor = journal.Anchor{Seq: r.Seq, Hash: r.Hash}
			p.epoch = r.Epoch
		}
	}
	if p.at == 0 {
		p.anchor = journal.Anchor{Hash: journal.Genesis(src.Key.SID(), src.Inc)}
	}
	err := p.play()
	p.report.Head = p.anchor.Hash
	return p.report, err
}

// player is one replay.
type player struct {
	ctx    context.Context
	src    Source
	agent  *Agent
	nonces *draws

	at      int // next record of the journal to be made
	epoch   int64
	state   turn.State
	anchor  journal.Anchor
	machine *turn.Machine
	sealer  *journal.Sealer
	report  Report

	inputs  []turn.Input // brought about by effects, fed before further causes
	gens    [turn.NumClocks]uint64
	started map[string]bool // actions whose effect was begun and not ended
	open    *turn.OpenModel
	decoder parse.Decoder
	fed     int64 // reply bytes fed
	opened  int64 // model.request records made in this turn
	replied bool
	running *run
}

// run is the program being run again.
type run struct {
	cancel  context.CancelCauseFunc
	answers map[string]*turn.AnswerCall
	taken   bool
}

// peek is the next record of the journal, nil at its end.
func (p *player) peek() *messages.Record {
	if p.at >= len(p.src.Records) {
		return nil
	}
	return p.src.Records[p.at]
}

func (p *player) play() error {
	for {
		r := p.peek()
		if r == nil {
			return nil
		}
		if r.Epoch != p.epoch || p.machine == nil {
			if err := p.activate(r.Epoch); err != nil {
				return err
			}
			if p.machine.Unsettled() {
				if err := p.step(&turn.Settle{}); err != nil {
					return err
				}
				continue
			}
		}
		if err := p.advance(); err != nil {
			return err
		}
	}
}

// activate begins a new activation, as a restart would.
func (p *player) activate(epoch int64) error {
	if p.machine != nil {
		p.state = *p.machine.State()
	}
	state, err := clone(&p.state)
	if err != nil {
		return err
	}
	p.epoch = epoch
	p.machine = turn.New(turn.Config{Key: p.src.Key, Inc: p.src.Inc, Rules: p.agent.Rules}, state, p.nonces)
	p.sealer = journal.NewSealer(journal.SealerConfig{
		Head: journal.Head{SID: p.src.Key.SID(), Inc: p.src.Inc, Seq: p.anchor.Seq, Hash: p.anchor.Hash}, Epoch: epoch, Rand: salts{p}, Receipts: journal.ReceiptsOff,
	})
	p.inputs, p.started, p.open, p.decoder, p.running = nil, map[string]bool{}, nil, nil, nil
	return nil
}

// clone keeps the old activation's state from being shared with the new one's.
func clone(s *turn.State) (turn.State, error) {
	b, err := turn.EncodeState(s)
	if err != nil {
		return turn.State{}, err
	}
	return turn.DecodeState(b)
}

// step feeds one input at the time of the next record, and checks every record
// the machine makes.
func (p *player) step(in turn.Input) error {
	now := p.now()
	effects, err := p.machine.Step(now, in)
	if err != nil {
		return err
	}
	effects = slices.Clone(effects)
	for _, e := range effects {
		if made, ok := e.(*turn.Persist); ok {
			if err := p.check(made); err != nil {
				return err
			}
		}
	}
	for _, e := range effects {
		if err := p.perform(e); err != nil {
			return err
		}
	}
	return nil
}

// now is the time of the Step that made the next record.
func (p *player) now() time.Time {
	if r := p.peek(); r != nil {
		return r.TS
	}
	return p.src.Records[len(p.src.Records)-1].TS
}

// check seals the record as it was sealed and compares the hashes.
func (p *player) check(made *turn.Persist) error {
	want := p.peek()
	if want == nil {
		// The journal ends inside this Step: its tail was never acknowledged.
		return io.EOF
	}
	got := made.Record
	if err := p.sealer.Seal([]*messages.Record{got}, got.TS); err != nil {
		return err
	}
	if got.Hash != want.Hash {
		return &Divergence{Seq: want.Seq, Kind: want.Body.Kind(), Want: string(want.Raw), Got: string(got.Raw), Why: difference(want, got)}
	}
	for _, b := range made.Blobs {
		if !slices.Contains(journal.Blobs(want.Body), b.Digest) {
			return &Divergence{Seq: want.Seq, Kind: want.Body.Kind(), Why: "a blob the record does not name"}
		}
	}
	p.at++
	p.anchor = journal.Anchor{Seq: want.Seq, Hash: want.Hash}
	p.report.Records++
	if _, ok := want.Body.(*messages.TurnDecided); ok {
		p.report.Turns++
	}
	return nil
}

func difference(want, got *messages.Record) string {
	switch {
	case want.Body.Kind() != got.Body.Kind():
		return "the replay makes " + string(got.Body.Kind())
	case want.Turn != got.Turn || want.Run != got.Run:
		return "another turn or run"
	case !want.TS.Equal(got.TS):
		return "another time"
	}
	return "another body"
}

// advance feeds what comes next: what effects brought about, else the cause that
// the next record names.
func (p *player) advance() error {
	if len(p.inputs) > 0 {
		in := p.inputs[0]
		p.inputs = p.inputs[1:]
		return p.step(in)
	}
	r := p.peek()
	if r == nil {
		return nil
	}
	if p.open != nil && !p.replied && r.Turn == p.open.Turn {
		if done, err := p.generation(r); done || err != nil {
			return err
		}
	}
	in, err := p.cause(r)
	if err != nil {
		return err
	}
	return p.step(in)
}

// cause is the input that record r must have come from.
func (p *player) cause(r *messages.Record) (turn.Input, error) {
	id, _ := p.machine.Flight()
	switch b := r.Body.(type) {
	case *messages.SessionOpened:
		return &turn.Open{Name: b.Name}, nil
	case *messages.Input:
		return &turn.Submit{Input: *b}, nil
	case *messages.RunEnd:
		by := strings.TrimSuffix(strings.TrimPrefix(b.Detail, "cancelled by "), " before it began")
		return &turn.Cancel{Run: r.Run, By: by}, nil
	case *messages.Control:
		switch b.What {
		case messages.ControlTimer:
			return p.timer(b.Name), nil
		case messages.ControlCancel:
			return &turn.Cancel{By: b.By}, nil
		case messages.ControlCrash:
			return &turn.ChildDown{Ident: id, Child: turn.Child(b.Name), Detail: b.Detail}, nil
		}
	case *messages.ActionApproval:
		return nil, p.stuck(r, "an approval nobody asked for")
	case *messages.Audit, *messages.ActionEnded:
		return p.actionEnded(r)
	case *messages.TurnDecided:
		if p.machine.Phase() == turn.Draining {
			return p.timer(turn.ClockGrace.String()), nil
		}
	}
	return nil, p.stuck(r, "nothing in the journal brings it about")
}

func (p *player) stuck(r *messages.Record, why string) error {
	return &Divergence{Seq: r.Seq, Kind: r.Body.Kind(), Want: string(r.Raw), Why: why + " in " + p.machine.Phase().String()}
}

func (p *player) timer(name string) turn.Input {
	for c := range turn.NumClocks {
		if c.String() == name {
			return &turn.Timer{Clock: c, Gen: p.gens[c]}
		}
	}
	return &turn.Timer{Clock: turn.NumClocks}
}

// actionEnded gathers the audits in front of an action's end.
func (p *player) actionEnded(r *messages.Record) (turn.Input, error) {
	id, _ := p.machine.Flight()
	in := &turn.ActionEnded{Ident: id}
	for i := p.at; i < len(p.src.Records); i++ {
		switch b := p.src.Records[i].Body.(type) {
		case *messages.Audit:
			in.Audits = append(in.Audits, *b)
		case *messages.ActionEnded:
			if b.Reason == "panic" {
				return p.panicked(id, b, i), nil
			}
			if b.Reason == "lost" {
				return p.timer(turn.ClockGrace.String()), nil
			}
			in.ID, in.State, in.Reason, in.Result, in.ErrorCode, in.MS = b.ID, b.State, b.Reason, b.Result, b.ErrorCode, b.MS
			delete(p.started, b.ID)
			return in, nil
		default:
			return nil, p.stuck(r, "an audit without the action it belongs to")
		}
	}
	return nil, p.stuck(r, "the journal ends inside an action's end")
}

// panicked restores the crash of an action; its text stands in the control record
// that follows when the crash ended the turn.
func (p *player) panicked(id turn.Ident, b *messages.ActionEnded, at int) turn.Input {
	down := &turn.ChildDown{Ident: id, Child: turn.ChildAction, ID: b.ID}
	if at+1 < len(p.src.Records) {
		if c, ok := p.src.Records[at+1].Body.(*messages.Control); ok && c.What == messages.ControlCrash {
			down.Detail = c.Detail
		}
	}
	return down
}

// perform does an effect as far as a replay does it.
func (p *player) perform(e turn.Effect) error {
	switch e := e.(type) {
	case *turn.SetTimer:
		p.gens[e.Clock] = e.Gen
	case *turn.OpenModel:
		p.open, p.fed, p.opened, p.replied = e, 0, 0, false
		p.decoder = p.agent.Dialect.NewDecoder(messages.TurnInfo{Turn: e.Turn, Pass: e.Pass, State: e.State, MaxReplyBytes: turn.MaxReplyBytes})
	case *turn.AskGate:
		p.gate(e)
	case *turn.StartAction:
		p.started[e.ID] = true
	case *turn.CancelAction:
		if e.Withdrawn {
			p.inputs = append(p.inputs, &turn.ActionEnded{Ident: e.Ident, ID: e.ID, State: messages.ActionCancelled, Reason: "cancelled"})
		}
	case *turn.Verify:
		p.verify(e)
	case *turn.RunProgram:
		return p.program(e)
	case *turn.StopProgram:
		if p.running != nil {
			p.running.cancel(messages.Errorf(e.Code, "the turn is stopped"))
		}
	case *turn.AnswerCall:
		if p.running != nil {
			p.running.answers[e.ID] = e
		}
	}
	return nil
}

// gate answers as the gate did: an answer by a rule stands in the journal, the
// default's does not, and approves.
func (p *player) gate(e *turn.AskGate) {
	in := &turn.Judged{Ident: e.Ident, ID: e.ID, Answer: messages.GateApprove}
	if r := p.peek(); r != nil {
		switch b := r.Body.(type) {
		case *messages.ActionApproval:
			if b.ID == e.ID {
				in.Answer, in.By, in.Reason, in.Record = b.State, b.By, b.Reason, true
			}
		case *messages.ActionEnded: // denied by default
			if b.ID == e.ID && b.Reason == "denied" {
				in.Answer = messages.GateDeny
				if s, err := unquote(b.Result); err == nil {
					in.Reason = s
				}
			}
		}
	}
	p.inputs = append(p.inputs, in)
}

func unquote(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	v, err := neuroscript.FromJSON([]byte(s))
	if err != nil {
		return "", err
	}
	text, _ := v.AsString()
	return text, nil
}

// generation feeds the reply. done tells that an input was fed.
func (p *player) generation(r *messages.Record) (done bool, err error) {
	id := p.open.Ident
	switch b := r.Body.(type) {
	case *messages.ModelRequest:
		if err := p.comparePrompt(r, b); err != nil {
			return false, err
		}
		p.opened++
		return true, p.step(&turn.ModelOpened{Ident: id, Request: *b})
	case *messages.ModelFallback:
		return true, p.step(&turn.ModelSwitched{Ident: id, Fallback: *b})
	case *messages.ModelChunk:
		return true, p.feed(b.Bytes, r.TS)
	case *messages.Control:
		if b.What != messages.ControlModelError {
			return false, p.rest(b.What) // then the control itself, which seals the reply
		}
	case *messages.Input, *messages.RunEnd, *messages.Note:
		return false, nil // of another run, meanwhile
	}
	reply := p.reply()
	if reply == nil {
		return false, nil
	}
	if err := p.rest(""); err != nil {
		return false, err
	}
	end := &turn.ReplyEnd{Ident: id, Finish: reply.Finish, Usage: reply.Usage, CostMicroUSD: reply.CostUSD, Err: reply.Error}
	p.decoder.End(reply.Finish, func(ev messages.Event) { end.Events = append(end.Events, own(ev)) })
	p.replied = true
	return true, p.step(end)
}

// reply finds the turn's model.reply.
func (p *player) reply() *messages.ModelReply {
	for _, r := range p.src.Records[p.at:] {
		if b, ok := r.Body.(*messages.ModelReply); ok && r.Turn == p.open.Turn {
			return b
		}
	}
	return nil
}

// rest feeds the reply bytes that no chunk record holds. Their own time is not
// recorded; the time of the chunk before keeps the machine from making a chunk
// record of them that the session did not make.
func (p *player) rest(what messages.ControlWhat) error {
	reply := p.reply()
	if reply == nil || reply.Blob.IsZero() || reply.Length <= p.fed {
		p.replied = p.replied || what != ""
		return nil
	}
	b, err := p.src.Blob(p.ctx, reply.Blob)
	if err != nil {
		return err
	}
	p.replied = what != ""
	return p.feed(b[p.fed:], p.lastChunk())
}

// lastChunk is the time of the turn's latest chunk record, or of its begin.
func (p *player) lastChunk() time.Time {
	for i := p.at - 1; i >= 0; i-- {
		r := p.src.Records[i]
		if r.Turn != p.open.Turn {
			continue
		}
		switch r.Body.(type) {
		case *messages.ModelChunk, *messages.TurnBegin:
			return r.TS
		}
	}
	return p.now()
}

func (p *player) feed(b []byte, now time.Time) error {
	in := &turn.Decoded{Ident: p.open.Ident, Bytes: b}
	p.decoder.Push(b, func(ev messages.Event) { in.Events = append(in.Events, own(ev)) })
	p.fed += int64(len(b))
	effects, err := p.machine.Step(now, in)
	if err != nil {
		return err
	}
	for _, e := range slices.Clone(effects) {
		if made, ok := e.(*turn.Persist); ok {
			if err := p.check(made); err != nil {
				return err
			}
		}
		if err := p.perform(e); err != nil {
			return err
		}
	}
	return nil
}

func own(ev messages.Event) messages.Event {
	ev.Text = bytes.Clone(ev.Text)
	return ev
}

// comparePrompt renders the prompt again.
func (p *player) comparePrompt(r *messages.Record, want *messages.ModelRequest) error {
	e := p.open
	proj := messages.Projection{
		SID: p.src.Key.SID(), Turn: e.Turn, Pass: e.Pass, Text: e.Text, Userdata: e.Userdata,
		Out: e.Out, Scr: e.Scr, Tools: p.agent.Specs, Primer: p.agent.Primer, LastError: e.LastError,
	}
	if !p.agent.Dialect.Traits().Carry {
		proj = prompt.Project(slices.Values(p.src.Records[:p.at]), prompt.Spec{
			SID: proj.SID, Run: e.Run, Turn: e.Turn, Pass: e.Pass, Tools: p.agent.Specs, Primer: p.agent.Primer,
		})
	} else if !e.HaveCarry {
		var err error
		if proj.Out, err = p.blob(e.OutDigest); err != nil {
			return err
		}
		if proj.Scr, err = p.blob(e.ScrDigest); err != nil {
			return err
		}
	}
	got := prompt.Digest(prompt.Assemble(p.agent.Dialect, proj))
	if got != want.Prompt {
		return &Divergence{Seq: r.Seq, Kind: r.Body.Kind(), Want: string(r.Raw), Why: "another prompt: the agent, its tools or the dialect's words have changed"}
	}
	return nil
}

func (p *player) blob(d messages.Digest) ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return p.src.Blob(p.ctx, d)
}

// draws gives the machine the nonces it drew then.
type draws struct{ buf bytes.Buffer }

func (d *draws) add(nonce string) {
	if raw, err := base64.RawURLEncoding.DecodeString(nonce); err == nil {
		d.buf.Write(raw)
	}
}

// Read implements io.Reader.
func (d *draws) Read(p []byte) (int, error) {
	n, err := d.buf.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the journal has no further nonce")
	}
	return n, err
}

// salts gives the sealer the salts of the records it is about to seal. The sealer
// reads many at once; what lies behind the journal's end is never used.
type salts struct{ p *player }

// Read implements io.Reader.
func (s salts) Read(b []byte) (int, error) {
	n := 0
	for i := s.p.at; i < len(s.p.src.Records) && n+16 <= len(b); i++ {
		n += copy(b[n:], s.p.src.Records[i].Salt[:])
	}
	for ; n < len(b); n++ {
		b[n] = 0
	}
	return n, nil
}

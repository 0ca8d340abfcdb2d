package replay

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Act ends a call of a tool that is not pure as it ended then. decode reads the
// tool's recorded result.
type Act func(c *neuroscript.Call, name string, class messages.Class, args []neuroscript.Value, decode Decode) (neuroscript.Value, error)

// Decode reads the recorded result of a tool.
type Decode func(recorded string) (neuroscript.Value, error)

// Tools binds the tools of one program: pure ones run again, act is asked for the
// others, and own are those the turn itself brings along.
type Tools func(act Act, own []*neuroscript.Tool) neuroscript.ToolSet

// Agent is what an activation of the session ran under.
type Agent struct {
	Rules   *turn.Rules
	Dialect parse.Dialect
	Specs   []messages.ToolSpec
	Native  bool // they are offered in the provider's own form
	Primer  string
	Tools   Tools
	Library *neuroscript.Library
	Limits  neuroscript.Limits
	Window  prompt.Window
	// Shape is the last to change a prompt; may be nil.
	Shape func(run, turn int64, ms []messages.Message) []messages.Message
	// Gate gives the answer of the gate's rules; its hook is not asked, what it
	// answered stands in the journal. nil takes every answer from there.
	Gate func(*turn.AskGate) turn.Judged
	// Receipts is what the agent's sessions say in their opening is signed of them; one that
	// says nothing is of a time before they did.
	Receipts string
	// MagicCalls bounds the tokens of a turn; 0 is the default of docs/spec/aeiou.md §18.
	MagicCalls int
	// TokenTTL and TokenMaxTTL are those of minted tokens; 0 is the default.
	TokenTTL, TokenMaxTTL time.Duration
}

// Agents finds the agent whose effective manifest has a digest, as it was under a
// rendering (messages.Rendering). The zero digest asks for an activation that did nothing
// an agent matters for.
type Agents func(manifest messages.Digest, rendering int64) (*Agent, error)

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
	// Prompt is given each prompt, when it was made again and before it is compared, with the
	// tools that are offered in the provider's own form; an error ends the replay. nil for
	// none.
	Prompt func(r *messages.Record, ms []messages.Message, tools []messages.ToolSpec) error
	// MaxGas bounds each program, whatever its agent's limits say; 0 is MaxProgramGas.
	MaxGas int64
}

// MaxProgramGas and MaxProgramAlloc are what a replay gives a program at most. A
// live program has its wall time; a replay has no clock, and the limits it runs under
// may come from the journal, which may say anything. 2^30 steps take some ten seconds.
const (
	MaxProgramGas   = 1 << 30
	MaxProgramAlloc = 1 << 30 // bytes
)

// Report says what was compared.
type Report struct {
	Records int64 // made again and equal
	Turns   int64 // decided again
	// Programs counts those that ran again to their end; Taken those that a clock, a
	// cancel or a crash had stopped and whose end was taken from the journal.
	Programs, Taken int64
	// Reworded counts records whose explanation, prose for people, was another one
	// than the journal's: a build of another version wrote it.
	Reworded int64
	Head     messages.Digest // of the last record that was made again
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
// errors say why there was nothing to compare (ERR_JOURNAL, ERR_CONFIG, ERR_QUOTA for
// a program over MaxGas or MaxProgramAlloc, the context's). It takes time in proportion
// to the journal and to the gas of its programs, whatever the journal says. The report says how far it came. Run keeps nothing and may be called
// from many goroutines.
func Run(ctx context.Context, src Source, agents Agents) (Report, error) {
	return run(ctx, src, agents, nil)
}

func run(ctx context.Context, src Source, agents Agents, t *trial) (Report, error) {
	p := &player{ctx: ctx, src: src, agents: agents, nonces: &draws{endless: t != nil}, trial: t}
	for _, r := range src.Records {
		if _, ok := r.Body.(*messages.Undecoded); ok || r.Body == nil || r.Raw == nil {
			return Report{}, messages.Errorf(messages.ErrJournal, "record %d was erased: the session cannot be replayed", r.Seq)
		}
		if r.Seq > src.From {
			p.nonces.take(r)
		}
		if r.Seq <= src.From {
			if err := p.state.Apply(r); err != nil {
				return Report{}, err
			}
			p.at++
			p.anchor = journal.Anchor{Seq: r.Seq, Hash: r.Hash}
		}
	}
	if p.at == 0 {
		p.anchor = journal.Anchor{Hash: journal.Genesis(src.Key.SID(), src.Inc)}
	}
	p.folded = p.at
	err := p.play()
	p.leaveProgram()
	p.report.Head = p.anchor.Hash
	return p.report, err
}

// player is one replay.
type player struct {
	ctx    context.Context
	src    Source
	agents Agents
	nonces *draws

	trial  *trial // nil: every record must be equal
	folded int    // records of the journal in state, in a trial

	at     int // next record of the journal to be made
	anchor journal.Anchor
	report Report

	// Of the activation.
	epoch   int64
	agent   *Agent
	state   turn.State // before the first one
	machine *turn.Machine
	sealer  *journal.Sealer
	gens    [turn.NumClocks]uint64
	asks    map[string]*turn.AskGate // not answered yet
	checks  *turn.Verify             // not answered yet
	begun   map[action]turn.Ident    // by which life of its turn
	due     map[string]*turn.Schedule
	used    map[action]messages.Budget // by the attempts that failed
	links   map[action]int             // runs in child sessions that those brought about
	fetch   *turn.FetchFeeds           // of a prompt, not answered yet

	// Of the turn.
	gen   *generation
	prog  *program
	ahead outlook
}

// outlook is what the journal holds of the turn that begins, as far as the same
// activation wrote it.
type outlook struct {
	chunks  []byte // bytes of its chunk records
	reply   *messages.ModelReply
	code    messages.Code // of the failure that the reply ended with
	decided *messages.TurnDecided
}

// peek is the next record of the journal, nil at its end.
func (p *player) peek() *messages.Record {
	if p.at >= len(p.src.Records) {
		return nil
	}
	return p.src.Records[p.at]
}

// maxIdleSteps bounds the steps in a row that make no record. A program's end and
// the verification after it are two, and more there never are.
const maxIdleSteps = 4

func (p *player) play() error {
	idle := 0
	for {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		r := p.peek()
		if r == nil {
			return nil
		}
		at := p.at
		if err := p.one(r); err != nil {
			return err
		}
		if idle++; p.at > at {
			idle = 0
		}
		if idle > maxIdleSteps && p.trial != nil && passes(r.Body) { // the agent does not make it
			p.at++
			idle = 0
		}
		if idle > maxIdleSteps {
			return p.stuck(r, "what should bring it about has no effect")
		}
	}
}

// one feeds one input, the one that leads to record r.
func (p *player) one(r *messages.Record) error {
	if p.machine == nil || r.Epoch != p.epoch {
		if err := p.activate(r.Epoch); err != nil {
			return err
		}
		if p.machine.Unsettled() {
			return p.settle(r)
		}
	}
	if b, ok := r.Body.(*messages.Input); ok && b.Policy.Supersedes() && p.gen != nil && p.machine.Phase() == turn.Generating {
		if err := p.cutOff(r); err != nil {
			return err
		}
	}
	if in := p.meanwhile(r); in != nil {
		return p.step(r.TS, in)
	}
	if p.fetch != nil {
		return p.feeds(r)
	}
	if in := p.answer(r); in != nil {
		return p.step(r.TS, in)
	}
	if p.gen != nil && p.machine.Phase() == turn.Generating {
		return p.generate(r)
	}
	if p.prog != nil {
		if done, err := p.proceed(r); done || err != nil {
			return err
		}
	}
	return p.caused(r)
}

// caused feeds what record r must have come from.
func (p *player) caused(r *messages.Record) error {
	if b, ok := r.Body.(*messages.ActionStarted); ok && b.Attempt > 1 {
		return p.tryAgain(r, b)
	}
	in, err := p.cause(r)
	if err != nil {
		return err
	}
	return p.step(r.TS, in)
}

// activate begins a new activation, as a restart would.
func (p *player) activate(epoch int64) error {
	p.leaveProgram()
	switch {
	case p.machine != nil && p.trial != nil: // the numbers of its records may be others
		for ; p.folded < p.at; p.folded++ {
			if err := p.state.Apply(p.src.Records[p.folded]); err != nil {
				return err
			}
		}
	case p.machine != nil:
		p.state = *p.machine.State()
	}
	state, err := clone(&p.state)
	if err != nil {
		return err
	}
	if p.agent, err = p.agentOf(epoch); err != nil {
		return err
	}
	p.epoch = epoch
	p.machine = turn.New(turn.Config{Key: p.src.Key, Inc: p.src.Inc, Rules: p.agent.Rules}, state, p.nonces)
	p.sealer = journal.NewSealer(journal.SealerConfig{
		Head: journal.Head{SID: p.src.Key.SID(), Inc: p.src.Inc, Seq: p.anchor.Seq, Hash: p.anchor.Hash}, Epoch: epoch, Rand: salts{p}, Receipts: journal.ReceiptsOff,
	})
	p.gen, p.asks, p.checks, p.begun, p.due, p.fetch = nil, nil, nil, nil, nil, nil
	return nil
}

// agentOf finds the agent of an activation by the first manifest it named. One that
// named none goes on under the one before, or under the first that comes.
func (p *player) agentOf(epoch int64) (*Agent, error) {
	for _, r := range p.src.Records[p.at:] {
		if r.Epoch != epoch && p.agent != nil {
			return p.agent, nil
		}
		switch b := r.Body.(type) {
		case *messages.SessionOpened:
			return p.under(b.Manifest, epoch)
		case *messages.TurnBegin:
			return p.under(b.Manifest, epoch)
		case *messages.TurnRestored:
			return p.under(b.Manifest, epoch)
		}
	}
	if p.agent != nil {
		return p.agent, nil
	}
	return p.under(messages.Digest{}, epoch)
}

// under finds the agent of a manifest under the rendering of the turns that an activation
// began, which is one. An activation that began none is under that of the turn before it.
func (p *player) under(manifest messages.Digest, epoch int64) (*Agent, error) {
	rendering := int64(1)
	for _, r := range p.src.Records {
		b, begins := r.Body.(*messages.TurnBegin)
		if !begins || r.Epoch > epoch {
			continue
		}
		if rendering = max(b.Rendering, 1); r.Epoch < epoch {
			continue
		}
		if b.Rendering < 0 || b.Rendering > messages.Rendering {
			return nil, p.stuck(r, fmt.Sprintf("rendering %d is not known to this release, which knows 1 to %d", b.Rendering, messages.Rendering))
		}
		break
	}
	return p.agents(manifest, rendering)
}

// clone keeps the old activation's state from being shared with the new one's.
func clone(s *turn.State) (turn.State, error) {
	b, err := turn.EncodeState(s)
	if err != nil {
		return turn.State{}, err
	}
	return turn.DecodeState(b)
}

// step feeds one input, checks every record the machine makes, and then does the
// effects as far as a replay does them.
func (p *player) step(now time.Time, in turn.Input) error {
	r := p.peek()
	effects, err := p.machine.Step(now, in)
	if err != nil {
		return p.stuck(r, err.Error())
	}
	effects = slices.Clone(effects)
	for i, e := range effects {
		if made, ok := e.(*turn.Persist); ok {
			if err := p.check(made.Record); err != nil {
				if p.trial != nil {
					p.foresee(effects[i:])
				}
				return err
			}
		}
	}
	for _, e := range effects {
		if err := p.perform(e); err != nil {
			return err
		}
	}
	if p.prog != nil {
		if id, ok := p.machine.Flight(); !ok || id != p.prog.start.Ident || p.machine.Phase() == turn.Suspended {
			p.leaveProgram()
		}
	}
	return nil
}

// check seals a record as it was sealed and compares the hashes.
func (p *player) check(got *messages.Record) error {
	if p.trial != nil {
		return p.compare(got)
	}
	want := p.peek()
	if want == nil {
		return &Divergence{Seq: got.Seq, Kind: got.Body.Kind(), Why: "the journal ends in the middle of a step: this record is missing"}
	}
	reworded := reword(want.Body, got.Body)
	if err := p.sealer.Seal([]*messages.Record{got}, got.TS); err != nil {
		return p.stuck(want, err.Error())
	}
	if got.Hash != want.Hash {
		return &Divergence{Seq: want.Seq, Kind: want.Body.Kind(), Want: string(want.Raw), Got: string(got.Raw), Why: difference(want, got)}
	}
	p.at++
	p.anchor = journal.Anchor{Seq: want.Seq, Hash: want.Hash}
	p.report.Records++
	if reworded {
		p.report.Reworded++
	}
	if _, ok := want.Body.(*messages.TurnDecided); ok {
		p.report.Turns++
	}
	return nil
}

func difference(want, got *messages.Record) string {
	switch {
	case want.Body.Kind() != got.Body.Kind():
		return "the replay makes " + string(got.Body.Kind())
	case want.Epoch != got.Epoch:
		return "another activation wrote it"
	case want.Turn != got.Turn || want.Run != got.Run:
		return "another turn or run"
	case !want.TS.Equal(got.TS):
		return "another time"
	case !bytes.Equal(want.Raw, got.Raw):
		return "another body"
	}
	return "another place in the chain"
}

func (p *player) stuck(r *messages.Record, why string) *Divergence {
	d := &Divergence{Seq: r.Seq, Kind: r.Body.Kind(), Want: string(r.Raw), Why: why}
	if p.machine != nil {
		d.Why += ", in " + p.machine.Phase().String()
	}
	return d
}

// look reads what lies ahead of a turn that begins or is restored, as far as it is
// not restored again.
func (p *player) look(turnIndex int64) {
	p.ahead = outlook{}
	for _, r := range p.src.Records[p.at:] {
		if r.Epoch != p.epoch {
			return
		}
		if r.Turn != turnIndex {
			if _, begins := r.Body.(*messages.TurnBegin); begins {
				return
			}
			continue
		}
		switch b := r.Body.(type) {
		case *messages.ModelChunk:
			if p.ahead.reply == nil {
				p.ahead.chunks = append(p.ahead.chunks, b.Bytes...)
			}
		case *messages.Control:
			if b.What == messages.ControlModelError {
				p.ahead.code = b.Code
			}
		case *messages.ModelReply:
			p.ahead.reply = b
		case *messages.TurnRestored:
			return
		case *messages.TurnDecided:
			p.ahead.decided = b
			return
		}
	}
}

// draws gives the machine the random bits it drew then.
type draws struct {
	buf     bytes.Buffer
	endless bool // zeros follow: in a trial a turn may begin that the journal has not
}

// take keeps what was drawn for a record.
func (d *draws) take(r *messages.Record) {
	text := ""
	switch b := r.Body.(type) {
	case *messages.TurnBegin:
		text = b.Nonce
	case *messages.TurnRestored:
		text = b.Nonce
	case *messages.ActionApproval:
		if b.State == messages.GateConfirm {
			text = b.Approval
		}
	}
	if raw, err := base64.RawURLEncoding.DecodeString(text); err == nil {
		d.buf.Write(raw)
	}
}

// Read implements io.Reader.
func (d *draws) Read(p []byte) (int, error) {
	n, err := d.buf.Read(p)
	if errors.Is(err, io.EOF) && d.endless {
		clear(p)
		return len(p), nil
	}
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
	clear(b[n:])
	return len(b), nil
}

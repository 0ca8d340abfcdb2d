package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Trial is a session run again under another agent than the one that wrote it: what was said
// to the model and to the session is the journal's, and so are the ends of calls. What the
// agent itself is made of (digests of manifest, limits and tools, budgets of calls) is passed
// over; prompts, decisions and what the agent makes of a reply are compared.
type Trial struct {
	SID string
	// Recorded counts the decided turns of the journal, Same those that came out alike, with
	// the same prompts, and Differ those that did not. The others were not reached.
	Recorded, Same, Differ int64
	// Changes have the first difference of each sort, in the order in which they were found.
	Changes []Change
	// Stopped says why the records that follow cannot be run again; nil when all were.
	Stopped *Divergence
	// StoppedAt is the turn in which it stopped; 0 outside of turns.
	StoppedAt int64
}

// Change is a first difference of its sort.
type Change struct {
	Sort     Sort
	Seq      int64 // of the journal's record
	Turn     int64
	Was, Now string // texts to compare; Was is "" where the recorded prompt could not be made again
	Missing  string // why it could not
	N        int64  // how many turns have one of this sort
}

// Sort is what differs.
type Sort string

// The sorts of differences.
const (
	ChangedPrompt   Sort = "prompt"   // what the model would be sent
	ChangedDecision Sort = "decision" // of a turn
	ChangedText     Sort = "text"     // what the reply says to the user, or a program emits
	ChangedCall     Sort = "call"     // the class or the handling of a call
)

// Change returns the first difference of a sort; nil for none.
func (t *Trial) Change(s Sort) *Change {
	for i := range t.Changes {
		if t.Changes[i].Sort == s {
			return &t.Changes[i]
		}
	}
	return nil
}

// Differs reports whether anything came out otherwise.
func (t *Trial) Differs() bool { return len(t.Changes) > 0 || t.Stopped != nil }

// First is the turn of the first difference; 0 when there is none.
func (t *Trial) First() (turn int64) {
	for _, c := range t.Changes {
		if turn == 0 || c.Turn < turn {
			turn = c.Turn
		}
	}
	if t.Stopped != nil && (turn == 0 || t.StoppedAt < turn) {
		turn = t.StoppedAt
	}
	return turn
}

// trial is the player's side of a Trial.
type trial struct {
	Trial
	turn    int64         // the latest one with a difference
	of      map[Sort]bool // sorts of that turn
	journal map[int64]*messages.TurnDecided
}

// Try runs a session again under other agents, and says what comes out otherwise. Errors are
// those of Run, but for a *Divergence, which is in the Trial.
func Try(ctx context.Context, src Source, agents Agents) (Trial, error) {
	t := &trial{Trial: Trial{SID: src.Key.SID()}, of: map[Sort]bool{}, journal: map[int64]*messages.TurnDecided{}}
	for _, r := range src.Records {
		if b, ok := r.Body.(*messages.TurnDecided); ok && r.Seq > src.From {
			t.Recorded++
			t.journal[r.Turn] = b
		}
	}
	_, err := run(ctx, src, agents, t)
	var d *Divergence
	if errors.As(err, &d) {
		t.Stopped, err = d, nil
		if i := d.Seq - 1; d.Want != "" && i >= 0 && i < int64(len(src.Records)) { // the player was stuck
			d.Why = "the journal has " + named(src.Records[i]) + ", which does not come about here: " + d.Why
		}
		t.StoppedAt = turnAt(src.Records, d.Seq)
		if t.turn < t.StoppedAt && t.journal[t.StoppedAt] != nil {
			t.Differ++
		}
	}
	return t.Trial, err
}

// TryFrom is Try, and makes the recorded prompt of the first that differs again, by a replay under
// the agents that the session had.
func TryFrom(ctx context.Context, src Source, agents, had Agents) (Trial, error) {
	t, err := Try(ctx, src, agents)
	c := t.Change(ChangedPrompt)
	if err != nil || c == nil {
		return t, err
	}
	found := errors.New("the prompt is made")
	src.Prompt = func(r *messages.Record, ms []messages.Message, _ []messages.ToolSpec) error {
		if r.Seq < c.Seq {
			return nil
		}
		c.Was = PromptText(ms)
		b, ok := r.Body.(*messages.ModelRequest)
		if r.Seq > c.Seq || !ok || promptDigest(ms, src.Records, r) != b.Prompt {
			c.Was = ""
		}
		return found
	}
	if _, err = Run(ctx, src, had); err == nil || c.Was == "" {
		c.Missing = "it cannot be made again from the journal"
		if err != nil && !errors.Is(err, found) {
			c.Missing += ": " + err.Error()
		}
	}
	return t, ctx.Err()
}

// promptDigest is the digest of a prompt under the rendering of its turn.
func promptDigest(ms []messages.Message, recs []*messages.Record, of *messages.Record) messages.Digest {
	rendering := int64(1)
	for _, r := range recs {
		if b, ok := r.Body.(*messages.TurnBegin); ok && r.Turn == of.Turn {
			rendering = max(b.Rendering, 1)
		}
	}
	return prompt.Digest(ms, rendering)
}

// turnAt is the turn of a record, or of the one behind which it would have stood.
func turnAt(recs []*messages.Record, seq int64) (turn int64) {
	for _, r := range recs {
		if r.Seq > seq {
			break
		}
		turn = max(turn, r.Turn)
	}
	return turn
}

// note counts a difference, and keeps the first of its sort.
func (t *trial) note(r *messages.Record, s Sort, texts func() (was, now string)) {
	if t.turn != r.Turn {
		t.turn = r.Turn
		t.Differ++
		clear(t.of)
	}
	if t.of[s] {
		return
	}
	t.of[s] = true
	if c := t.Change(s); c != nil {
		c.N++
		return
	}
	c := Change{Sort: s, Seq: r.Seq, Turn: r.Turn, N: 1}
	c.Was, c.Now = texts()
	t.Changes = append(t.Changes, c)
}

// passes reports whether a record may be there on one side alone: what depends on the agent's
// feeds and on its strictness, and leads to no other record by itself.
func passes(b messages.Body) bool {
	switch b.(type) {
	case *messages.FeedInjected, *messages.Lint:
		return true
	}
	return false
}

// compare holds a record that the machine makes against the journal's.
func (p *player) compare(got *messages.Record) error {
	want := p.peek()
	for want != nil && want.Body.Kind() != got.Body.Kind() && passes(want.Body) {
		p.at++
		want = p.peek()
	}
	switch {
	case want == nil && passes(got.Body):
		return nil
	case want == nil:
		return &Divergence{Seq: got.Seq, Kind: got.Body.Kind(), Why: "the journal ends here, and the agent goes on: it makes " + named(got)}
	case want.Body.Kind() != got.Body.Kind() && passes(got.Body):
		return nil
	case want.Body.Kind() != got.Body.Kind(), want.Turn != got.Turn, want.Run != got.Run:
		return p.other(want, got)
	}
	if err := p.weigh(want, got); err != nil {
		return err
	}
	p.at++
	p.anchor.Seq, p.anchor.Hash = want.Seq, want.Hash
	p.report.Records++
	if _, ok := want.Body.(*messages.TurnDecided); ok {
		p.report.Turns++
		if p.trial.turn != want.Turn {
			p.trial.Same++
		}
	}
	return nil
}

// weigh compares what two records of one kind say.
func (p *player) weigh(want, got *messages.Record) error {
	t := p.trial
	switch w := want.Body.(type) {
	case *messages.ActionDeclared:
		g, ok := got.Body.(*messages.ActionDeclared)
		if !ok || w.Type != g.Type || w.Name != g.Name || w.Args != g.Args {
			return p.other(want, got)
		}
		if w.Class != g.Class || w.Mode != g.Mode || w.OnError != g.OnError {
			t.note(want, ChangedCall, func() (string, string) { return handling(w), handling(g) })
		}
	case *messages.ActionApproval:
		if g, ok := got.Body.(*messages.ActionApproval); !ok || w.State != g.State || w.ID != g.ID {
			return p.other(want, got)
		}
	case *messages.ActionStarted:
		if g, ok := got.Body.(*messages.ActionStarted); !ok || w.ID != g.ID || w.Args != g.Args {
			return p.other(want, got)
		}
	case *messages.ActionEnded:
		if g, ok := got.Body.(*messages.ActionEnded); !ok || w.ID != g.ID || w.State != g.State {
			return p.other(want, got)
		}
	case *messages.UnitText:
		if g, ok := got.Body.(*messages.UnitText); !ok || w.Text != g.Text || w.UnitKind != g.UnitKind || w.Final != g.Final {
			t.note(want, ChangedText, func() (string, string) { return unitText(w), unitText(g) })
		}
	case *messages.Emit:
		if g, ok := got.Body.(*messages.Emit); !ok || w.Text != g.Text {
			t.note(want, ChangedText, func() (string, string) { return w.Text, g.Text })
		}
	case *messages.Control:
		if g, ok := got.Body.(*messages.Control); !ok || w.What != g.What || w.Code != g.Code {
			return p.other(want, got)
		}
	case *messages.TurnDecided:
		if g, ok := got.Body.(*messages.TurnDecided); ok {
			return p.weighDecision(want, w, g)
		}
	}
	return nil
}

// weighDecision compares decisions. A run that ends where it went on, or goes on where it
// ended, has nothing in the journal that could follow.
func (p *player) weighDecision(r *messages.Record, was, now *messages.TurnDecided) error {
	if was.Decision == now.Decision && was.Reason == now.Reason && was.Repair == now.Repair && was.Verification == now.Verification {
		return nil
	}
	p.trial.note(r, ChangedDecision, func() (string, string) { return decisionText(was), decisionText(now) })
	why := ""
	switch went, goes := goesOn(was), goesOn(now); {
	case went && !goes:
		why = "the run ends at this turn, and it had gone on: nothing that follows can be compared"
	case !went && goes:
		why = "the run goes on behind this turn, and it had ended: no reply is recorded for its next turn"
	default:
		return nil
	}
	return &Divergence{Seq: r.Seq, Kind: r.Body.Kind(), Why: why}
}

func goesOn(d *messages.TurnDecided) bool { return d.Decision == messages.Continue || d.Repair }

// other is where the records of the two can no longer be told side by side. The decision that
// the rest of the step makes is still a difference to show.
func (p *player) other(want, got *messages.Record) error {
	return &Divergence{Seq: want.Seq, Kind: want.Body.Kind(), Why: "the journal has " + named(want) + ", and the agent makes " + named(got)}
}

// foresee notes the decision that a step leads to which went another way: it is among the
// rest of the step, or a breach in it names the HALT that follows.
func (p *player) foresee(rest []turn.Effect) {
	var breach *messages.TurnDecided
	at := int64(0)
	for _, e := range rest {
		made, ok := e.(*turn.Persist)
		if !ok {
			continue
		}
		switch b := made.Record.Body.(type) {
		case *messages.TurnDecided:
			p.otherwise(made.Record.Turn, b)
			return
		case *messages.Control:
			if b.What == messages.ControlBreach && breach == nil {
				breach, at = &messages.TurnDecided{Decision: messages.Halt, Reason: b.Code, Detail: b.Detail}, made.Record.Turn
			}
		}
	}
	if breach != nil {
		p.otherwise(at, breach)
	}
}

// otherwise notes a decision that the agent comes to.
func (p *player) otherwise(turnIndex int64, now *messages.TurnDecided) {
	was := p.trial.journal[turnIndex]
	if was == nil || was.Decision == now.Decision && was.Reason == now.Reason {
		return
	}
	p.trial.note(&messages.Record{Seq: p.at64(), Turn: turnIndex}, ChangedDecision, func() (string, string) { return decisionText(was), decisionText(now) })
}

func (p *player) at64() int64 {
	if r := p.peek(); r != nil {
		return r.Seq
	}
	return int64(len(p.src.Records))
}

// decisionText is a decision as a text, a member a line.
func decisionText(d *messages.TurnDecided) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			b.WriteString(name + ": " + value + "\n")
		}
	}
	line("decision", string(d.Decision))
	line("reason", string(d.Reason))
	line("verification", d.Verification)
	if d.Repair {
		line("repair", "the run goes on in a turn that is told why")
	}
	line("detail", d.Detail)
	return b.String()
}

func unitText(b *messages.UnitText) string {
	final := ""
	if b.Final {
		final = ", final"
	}
	return "(" + string(b.UnitKind) + final + ")\n" + b.Text
}

func handling(b *messages.ActionDeclared) string {
	return fmt.Sprintf("%s %s\nclass: %s\nmode: %s\non_error: %s\n", b.Type, b.Name, b.Class, b.Mode, b.OnError)
}

// named returns what a record is, for people.
func named(r *messages.Record) string {
	switch b := r.Body.(type) {
	case *messages.ActionDeclared:
		return "the call " + b.Name + " " + clip.Short(b.Args, maxWords)
	case *messages.ActionStarted:
		return "the start of call " + b.ID
	case *messages.ActionApproval:
		return "the answer " + string(b.State) + " to call " + b.ID
	case *messages.ActionEnded:
		s := "the end of call " + b.ID + ": " + string(b.State)
		if b.Reason != "" {
			s += " (" + b.Reason + ")"
		}
		return s
	case *messages.TurnDecided:
		return "the decision " + decided(b.Decision, b.Reason)
	case *messages.RunEnd:
		return "the end of the run: " + decided(b.Decision, b.Reason)
	case *messages.TurnBegin:
		return "the beginning of turn " + strconv.FormatInt(r.Turn, 10)
	case *messages.UnitText:
		return "a " + string(b.UnitKind) + " " + clip.Short(strconv.Quote(b.Text), maxWords)
	case *messages.ParseFault:
		return "a complaint of the dialect: " + string(b.Code)
	case *messages.Control:
		return "a control (" + b.What + " " + string(b.Code) + ")"
	}
	return "a record " + string(r.Body.Kind())
}

func decided(d messages.Decision, reason messages.Code) string {
	if reason == "" {
		return string(d)
	}
	return string(d) + "(" + string(reason) + ")"
}

// maxWords is the bytes of a record's contents in a sentence.
const maxWords = 200

// PromptText is a prompt as a text: each message under a line with its role.
func PromptText(ms []messages.Message) string {
	var b strings.Builder
	for i := range ms {
		b.WriteString("--- " + string(ms[i].Role) + "\n" + ms[i].Text)
		if !strings.HasSuffix(ms[i].Text, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

package sim

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/resume"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Conversations that a provider keeps (docs/spec/model-sessions.md). A talk drives resume.Life as
// internal/talk does; a conversation is what the provider makes of it: it has what its model has
// written, also behind the place where nobody read on; it forgets, and its connection dies.

// Bounds of a talk.
const (
	talkIdle   = 2 * time.Second // of a world, where a turn takes no longer
	talkAge    = time.Minute
	windowStep = 8 // messages by which the window of a prompt moves
)

// What a session's model does with its provider.
const (
	replays = iota // it sends the whole prompt, each time
	resumes        // it keeps a conversation
	autos          // and a run goes on without one that fails
)

// talk is an activation's conversation with the provider.
type talk struct {
	s    *shell
	life resume.Life
	said resume.Said
	turn int64 // of the last reply
	halt bool  // that turn failed: it is told in other words
	used time.Time
	conn *conversation // nil for none
	fell int64         // run that goes on without
}

// conversation is a connection, and what its provider keeps.
type conversation struct {
	has    []string // what it has, with all that the model wrote
	before []string // what it had before the last request
	asked  []string // what that was about
	wrote  []byte   // the reply, and what stands behind it
	read   []byte   // of these, what was passed on
	apart  bool     // the reply stands behind what passed, and goes with it
	gone   bool
}

// bare is a text without its white space, which dialects trim.
func bare(text string) string { return strings.Join(strings.Fields(text), "") }

func bareOf(ms []messages.Message) (all []string) {
	for i := range ms {
		all = append(all, string(ms[i].Role)+" "+bare(ms[i].Text))
	}
	return all
}

// What a provider does about what passes with a request.
const (
	keepsReply = iota // it takes that back and has the reply, as Realtime
	keepsPlace        // it goes on from the place in front of that, as Responses
	keepsAll          // it takes nothing back
)

// passes returns how many of a prompt's last messages hold for that prompt alone.
func (c *client) passes() int {
	if c.talks == replays || c.n%2 == 0 {
		return 0
	}
	return 1
}

// takesBack is what the provider of a client does about what passes.
func (c *client) takesBack() int { return (c.n + int(c.w.seed%3)) % 3 }

// goesOn checks that a provider that goes on from the first sent messages has them, and no other. It
// takes the last passing messages back.
func (c *conversation) goesOn(prompt []messages.Message, sent, passing int) error {
	all := bareOf(prompt)
	switch from := all[:sent]; {
	case c.gone:
		return errors.New("a request is sent over a connection that is gone")
	case sent == 0:
		c.before = nil
	case slices.Equal(from, c.has), slices.Equal(from, c.before):
		c.before = slices.Clone(from)
	default:
		return fmt.Errorf("the model goes on from %q, and its provider has %q, or %q", from, c.has, c.before)
	}
	if passing > 0 {
		all = all[:len(all)-passing]
		c.before = all
	}
	c.has, c.asked, c.wrote, c.read = nil, all, nil, nil
	return nil
}

// keeps ends a reply: of the text behind it the model writes some, if nobody reads on.
func (c *conversation) keeps(behind []byte) {
	if c.asked == nil {
		return
	}
	if c.wrote = append(slices.Clone(c.read), behind...); c.apart {
		return
	}
	c.has = append(slices.Clone(c.asked), string(messages.RoleAssistant)+" "+bare(string(c.wrote)))
}

// forgets is a provider that does not have the conversation any more.
func (c *conversation) forgets() { c.has, c.before, c.asked = nil, nil, nil }

// step has the life decide. A connection is given up at once, whatever becomes of the request.
func (t *talk) step(in resume.Input) []resume.Effect {
	return slices.DeleteFunc(t.life.Step(in), func(e resume.Effect) bool {
		_, shut := e.(resume.Shut)
		if shut {
			t.conn = nil
		}
		return shut
	})
}

// ask begins a request.
func (m *model) ask() {
	t, w := m.talk, m.s.host.w
	marks := []messages.Digest{{}}
	lasting := m.prompt[:len(m.prompt)-m.s.client.passes()]
	for i := range lasting {
		marks = append(marks, sha256.Sum256(fmt.Appendf(nil, "%x%s%s", marks[i], lasting[i].Role, lasting[i].Text)))
	}
	n := t.life.Asked()
	made := t.s.client.dialect.Traits().Transcript && m.open.Turn == t.turn+1 && !t.halt
	m.todo = t.step(resume.Ask{
		Run: m.open.Run, Model: m.name, Marks: marks, Passing: len(lasting) < len(m.prompt), Auto: t.s.client.talks == autos, Now: t.s.host.now(),
		Tells: n > 0 && (t.said.In(lasting, n, made) || w.presses),
	})
	m.began = true
}

// converse does what the conversation's life wants next, until the request has gone out. It gives
// nil where something is waited for.
func (m *model) converse() turn.Input {
	if !m.began {
		m.ask()
	}
	t := m.talk
	for len(m.todo) > 0 {
		e := m.todo[0]
		m.todo = m.todo[1:]
		switch e := e.(type) {
		case resume.Note:
			return &turn.ModelTalk{Ident: m.open.Ident, Session: e.Session}
		case resume.Shut: // step has done it
		case resume.Settle:
			m.todo = append(m.todo, t.settle()...)
			return nil
		case resume.Connect:
			m.todo = append(m.todo, t.connect()...)
			return nil
		case resume.Send:
			return m.send(e)
		case resume.Alone:
			t.fell = m.open.Run
			return m.goes(messages.ModelRequest{Mode: messages.ModelReplay}, nil)
		case resume.Fail:
			return m.failed()
		}
	}
	m.s.host.w.violated("step", "the conversation is %s, and the request of turn %d is neither sent nor failed", t.life.State(), m.open.Turn)
	return nil
}

// settle asks the provider what it has of the last reply.
func (t *talk) settle() []resume.Effect {
	w := t.s.host.w
	if w.happens(2 * w.weather.fault) {
		t.conn.gone = true
		return t.step(resume.Gone{Reason: resume.ReasonNetwork})
	}
	kept := bare(string(t.conn.wrote)) == bare(string(t.conn.read)) && !t.conn.apart
	return t.step(resume.Settled{Kept: kept || w.flatters})
}

// connect makes a connection, if the provider lets it.
func (t *talk) connect() []resume.Effect {
	w := t.s.host.w
	if w.happens(w.weather.fault) {
		return t.step(resume.Failed{Reason: "STATUS_401", Elsewhere: w.rnd.IntN(3) > 0})
	}
	if t.conn != nil {
		w.violated("conversation", "a connection is made beside another")
	}
	t.conn = &conversation{}
	return t.step(resume.Connected{Expires: t.s.host.now().Add(time.Duration(w.rnd.Int64N(int64(talkAge))))})
}

// send sends what the conversation does not have.
func (m *model) send(e resume.Send) turn.Input {
	t, w := m.talk, m.s.host.w
	if t.conn == nil || t.fell == m.open.Run && t.s.client.talks == autos {
		w.violated("conversation", "turn %d of run %d is asked over a connection", m.open.Turn, m.open.Run)
	}
	passing := 0
	if e.Passing {
		passing = t.s.client.passes()
	}
	if err := t.conn.goesOn(m.prompt, e.Sent, passing); err != nil {
		w.violated("conversation", "turn %d: %v", m.open.Turn, err)
	}
	t.said, t.turn, t.halt = resume.Said{}, m.open.Turn, false
	m.counts, m.at, m.lost = -1, 0, e.Sent > 0 && w.happens(2*w.weather.fault)
	t.conn.apart = e.Passing && t.s.client.takesBack() != keepsReply
	m.stays = e.Passing && t.s.client.takesBack() == keepsAll
	return m.goes(messages.ModelRequest{Mode: messages.ModelResume, Session: e.Session, Sent: int64(len(m.prompt) - e.Sent)}, t)
}

// goes records that the request goes out, over a conversation or without.
func (m *model) goes(r messages.ModelRequest, over *talk) turn.Input {
	m.asked, m.line = true, over
	r.Provider, r.Model, r.Messages = "sim", m.name, int64(max(len(m.prompt), 2))
	return &turn.ModelOpened{Ident: m.open.Ident, Request: r}
}

// failed ends a request that the conversation's life gave up: another model is tried, or the same
// again, if nothing was shown.
func (m *model) failed() turn.Input {
	if m.at == 0 {
		switch m.s.host.w.rnd.IntN(4) {
		case 0:
			was := m.name
			m.began, m.asked, m.breaks, m.name = false, false, -1, "understudy"
			return &turn.ModelSwitched{Ident: m.open.Ident, Fallback: messages.ModelFallback{From: "sim/" + was, To: "sim/understudy", Reason: "503"}}
		case 1:
			m.began, m.asked = false, false
			return nil
		}
	}
	return m.end(messages.FinishError, "503: come back later")
}

// fails breaks a reply that comes over a conversation. What follows is the life's to say.
func (m *model) fails() {
	t, w := m.talk, m.s.host.w
	in := resume.Failed{Reason: "TRUNCATED", Elsewhere: true}
	switch n := w.rnd.IntN(5); {
	case m.stays:
		in = resume.Failed{Why: resume.Stays, Reason: "PASSING_STAYS", Gone: n == 0, Elsewhere: true}
	case m.lost:
		in = resume.Failed{Why: resume.Lost, Reason: "STATUS_400", Elsewhere: true}
	case n == 0 && m.at == 0:
		in.Why, in.Gone = resume.Limit, true
	case n == 1:
		in = resume.Failed{Reason: "STATUS_401"}
	case n < 4:
		in.Gone = true
	}
	t.conn.forgets()
	t.conn.gone = in.Gone
	if m.lost, m.stays = false, false; m.at == 0 && w.rnd.IntN(2) == 0 {
		m.breaks = -1 // the next time it goes well
	}
	t.halt = true
	m.todo, m.asked, m.line = t.step(in), false, nil
}

// says passes a piece of a reply on.
func (m *model) says(piece []byte) {
	t := m.line
	if t == nil {
		return
	}
	t.step(resume.Began{})
	t.conn.read = append(t.conn.read, piece...)
	t.said.Add(piece, m.counts)
}

// leaves ends the request that is in flight: read to its end, or given up.
func (m *model) leaves(ended bool) {
	t := m.talk
	if t == nil {
		return
	}
	w := m.s.host.w
	if t.used = m.s.host.now(); !ended {
		t.step(resume.Left{})
	} else {
		t.step(resume.Ended{})
	}
	if m.line == nil {
		return
	}
	m.line = nil
	var behind []byte
	if !ended && w.rnd.IntN(2) == 0 { // nobody told it in time
		behind = m.reply[m.at:][:w.rnd.IntN(len(m.reply)-m.at+1)]
	}
	t.conn.keeps(behind)
}

// rests closes a connection that was not used for a while, or whose session waits for approval, or
// that another session needs.
func (t *talk) rests(now time.Time) {
	reason := ""
	w := t.s.host.w
	switch {
	case t.s.machine.Phase() == turn.Suspended:
		reason = resume.ReasonSuspended
	case now.Sub(t.used) > talkIdle:
		reason = resume.ReasonIdle
	case w.happens(w.weather.fault):
		reason = resume.ReasonEvicted
	}
	if reason != "" && t.life.State() == resume.Paused {
		t.step(resume.Gone{Reason: reason})
	}
}

// close ends the conversation with its activation.
func (t *talk) close() {
	t.step(resume.Close{})
	if !t.s.host.w.over && (t.conn != nil || t.life.State() != resume.Closed) {
		t.s.host.w.violated("conversation", "session %d sleeps, and its connection stays", t.s.client.n)
	}
}

// dialogue is what a prompt tells of a session: read from the records alone, so that it is the same
// after a restart.
type dialogue []utterance

type utterance struct {
	run, turn int64
	text      string
	reply     messages.Digest // of a model; zero for what it is told
}

// tells takes what a record adds.
func (d *dialogue) tells(a *audit, r *messages.Record) {
	switch b := r.Body.(type) {
	case *messages.TurnBegin:
		text := ""
		if a.input != nil {
			text = a.input.Text
		}
		*d = append(*d, utterance{run: r.Run, turn: r.Turn, text: fmt.Sprintf("turn %d: %s", r.Turn, text)})
	case *messages.ModelReply:
		if !b.Blob.IsZero() {
			*d = append(*d, utterance{run: r.Run, turn: r.Turn, reply: b.Blob})
		}
	case *messages.TurnDecided:
		last := len(*d) - 1
		if last < 0 || (*d)[last].reply.IsZero() || b.Decision != messages.Halt {
			return
		}
		if r.Turn%2 == 0 { // a prompt tells otherwise what has failed
			(*d)[last].reply, (*d)[last].text = messages.Digest{}, "it failed"
		} else {
			*d = (*d)[:last]
		}
	case *messages.RunWithdrawn:
		*d = slices.DeleteFunc(*d, func(u utterance) bool { return u.run == r.Run })
	}
}

// prompt is what the model is told, with as much of the past as its window has.
func (s *shell) prompt() (ms []messages.Message) {
	w := s.host.w
	ms = append(ms, messages.Message{Role: messages.RoleSystem, Text: "Be brief."})
	all := s.audit.dialogue
	for _, u := range all[max(0, len(all)/windowStep-1)*windowStep:] {
		m := messages.Message{Role: messages.RoleUser, Text: u.text}
		if !u.reply.IsZero() {
			text, err := w.disk.Blob(bg, s.inc, u.reply)
			if err != nil {
				w.violated("forgotten", "the reply of turn %d: %v", u.turn, err)
			}
			m.Role, m.Text = messages.RoleAssistant, string(text)
		}
		ms = append(ms, m)
	}
	if s.client.passes() > 0 {
		ms = append(ms, messages.Message{Role: messages.RoleUser, Text: fmt.Sprintf("It is turn %d.", all[len(all)-1].turn), Holds: messages.HoldsFeeds})
	}
	return ms
}

// talking is what an audit knows of conversations.
type talking struct {
	dialogue
	everything bool  // the next request sends everything, and the records say so
	fell       bool  // the request before was given up, and no other made since
	gaveIn     bool  // a turn of the run was given up in its reply
	alone      int64 // run that goes on without a conversation, as far as its activation
}

// talks checks what the records say of conversations: a request that sends everything says why, one
// that goes on does not, and a run that goes on without keeps to it.
func (a *audit) talks(r *messages.Record) error {
	switch b := r.Body.(type) {
	case *messages.RunBegin:
		a.gaveIn, a.alone = false, 0
	case *messages.TurnBegin:
		a.everything, a.fell = false, false
	case *messages.TurnRestored:
		a.alone = 0
	case *messages.TurnDecided:
		if b.Resumed {
			a.alone = 0
		}
	case *messages.ModelSession:
		a.fell = b.What == messages.SessionFallback
		a.everything = b.What == messages.SessionConnected || b.What == messages.SessionSeeded
		if a.fell {
			a.alone = r.Run
		}
	case *messages.ModelRequest:
		whole := a.everything
		a.everything, a.fell = false, false
		switch {
		case b.Mode == messages.ModelReplay && cmp.Or(b.Session, b.Sent) == 0:
		case b.Mode != messages.ModelResume:
			return fmt.Errorf("a request in mode %s sends %d messages over conversation %d", b.Mode, b.Sent, b.Session)
		case a.alone == r.Run:
			return fmt.Errorf("run %d goes on without a conversation, and is asked over %d", r.Run, b.Session)
		case whole != (b.Sent == b.Messages) || b.Sent < 1 || b.Sent > b.Messages:
			return fmt.Errorf("%d of %d messages are sent, and the records say that it is all of them: %v", b.Sent, b.Messages, whole)
		}
	}
	return nil
}

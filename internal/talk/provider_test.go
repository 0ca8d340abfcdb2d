package talk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// say is how the provider answers one request. The zero value says "ok".
type say struct {
	text   []string // pieces
	behind string   // what the model goes on to say when the receiver has left
	fails  *llm.Failure
	gone   bool          // the connection ends with the failure
	hold   chan struct{} // waits in front of the last piece, and for the request's end
	mute   bool          // the stream ends without an end
}

// provider is a model that keeps conversations. It knows what its models wrote, and refuses to
// go on from a text that differs from that: nothing may be built upon what it does not have.
type provider struct {
	t testing.TB

	mu       sync.Mutex
	dial     func(ctx context.Context) error       // nil connects
	answer   func(n int) say                       // of the nth request, from 0; nil says "ok"
	settle   func(ctx context.Context) (dead bool) // before Settle answers
	expires  time.Time
	loose    bool          // dialects tell a reply in other words
	hang     chan struct{} // Close waits for it
	fixed    bool          // conversations only grow
	again    error         // why no other connection goes on with one
	unfit    bool          // connections were not made for the next request
	sessions []*conversation
	lines    []string // what the provider saw
	asked    int
}

func (p *provider) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// saw returns what the provider saw since the last call.
func (p *provider) saw() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.lines
	p.lines = nil
	return strings.Join(lines, " | ")
}

// open returns the number of connections that were not closed.
func (p *provider) open() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.sessions {
		if !c.closed {
			n++
		}
	}
	return n
}

func (p *provider) next() say {
	p.mu.Lock()
	n, answer := p.asked, p.answer
	p.asked++
	p.mu.Unlock()
	if answer == nil {
		return say{text: []string{"ok"}}
	}
	s := answer(n)
	if s.text == nil && s.fails == nil && !s.mute {
		s.text = []string{"ok"}
	}
	return s
}

// Stream implements llm.Model.
func (p *provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		p.note("whole %d", len(r.Messages))
		p.say(ctx, p.next(), yield)
	}
}

// say yields a reply, and returns what was yielded and whether it came to its end.
func (p *provider) say(ctx context.Context, s say, yield func(llm.Chunk, error) bool) (text string, ended bool) {
	for i, piece := range s.text {
		if s.hold != nil && i == len(s.text)-1 {
			select {
			case <-s.hold:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			return text, false
		}
		text += piece
		if !yield(llm.Chunk{Text: []byte(piece)}, nil) {
			return text, false
		}
	}
	switch {
	case s.fails != nil:
		yield(llm.Chunk{}, llm.Fail(*s.fails, "the provider fails"))
		return text, false
	case s.mute:
		return text, false
	}
	yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
	return text, true
}

// Connect implements llm.SessionModel.
func (p *provider) Connect(ctx context.Context, _ llm.Request) (llm.Session, error) {
	p.mu.Lock()
	dial := p.dial
	p.mu.Unlock()
	if dial != nil {
		if err := dial(ctx); err != nil {
			p.note("refused")
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connected(nil), nil
}

// connected returns a new conversation, or another connection to one. p.mu is held.
func (p *provider) connected(of *conversation) llm.Session {
	c := &conversation{p: p, n: len(p.sessions) + 1}
	how := "connected"
	if of != nil {
		c.latest, c.kept, how = of.latest, true, "again"
	}
	p.sessions = append(p.sessions, c)
	p.lines = append(p.lines, fmt.Sprint(how, " ", c.n))
	if p.fixed {
		return growing{c}
	}
	return c
}

// growing is a conversation that only grows.
type growing struct{ *conversation }

// Fits implements fixed.
func (c growing) Fits(llm.Request) bool { return !c.p.unfit }

// Again implements fixed.
func (c growing) Again(context.Context, llm.Request) (llm.Session, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.kept {
		c.p.t.Error("another connection to what was not kept")
	}
	if c.p.again != nil {
		return nil, c.p.again
	}
	return c.p.connected(c.conversation), nil
}

// conversation is one of a provider's.
type conversation struct {
	p              *provider
	n              int
	parent, latest []string // messages: before the last request, and after its reply
	kept           bool     // it has the last reply as that was yielded
	busy           bool
	dead, closed   bool
}

// bare returns a text without its white space, which dialects trim.
func bare(text string) string { return strings.Join(strings.Fields(text), "") }

func texts(ms []messages.Message) (all []string) {
	for i := range ms {
		all = append(all, string(ms[i].Role)+": "+bare(ms[i].Text))
	}
	return all
}

// Continue implements llm.Session.
func (c *conversation) Continue(ctx context.Context, r llm.Request, sent int) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		c.p.note("%d: %d of %d", c.n, len(r.Messages)-sent, len(r.Messages))
		has := texts(r.Messages[:sent])
		c.p.mu.Lock()
		switch {
		case c.busy, c.closed, c.dead:
			c.p.t.Errorf("asked while busy %v, closed %v, dead %v", c.busy, c.closed, c.dead)
		case c.p.fixed && c.latest != nil && !(c.kept && slices.Equal(has, c.latest)):
			c.p.t.Errorf("goes on from %q, but all that the conversation has is %q", has, c.latest)
		case sent > 0 && !c.p.loose && !(c.kept && slices.Equal(has, c.latest)) && !slices.Equal(has, c.parent):
			c.p.t.Errorf("goes on from\n%q, but the conversation has\n%q, and before\n%q", has, c.latest, c.parent)
		}
		c.busy = true
		c.p.mu.Unlock()
		s := c.p.next()
		failed := false
		said, ended := c.p.say(ctx, s, func(chunk llm.Chunk, err error) bool {
			if failed = err != nil; failed {
				c.p.mu.Lock()
				c.dead = s.gone
				c.p.mu.Unlock()
			}
			return yield(chunk, err)
		})
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.busy = false
		c.dead = c.dead || s.gone
		whole := strings.Join(s.text, "")
		if !ended {
			whole += s.behind
		}
		c.parent = has
		c.kept = bare(whole) == bare(said)
		c.latest = append(texts(r.Messages), "assistant: "+bare(whole))
		switch {
		case failed, s.mute:
			c.parent, c.latest, c.kept = nil, nil, false
		case s.fails != nil: // behind what the receiver took
			c.kept = false
		}
	}
}

// Settle implements llm.Session.
func (c *conversation) Settle(ctx context.Context) (bool, error) {
	c.p.mu.Lock()
	settle := c.p.settle
	c.p.mu.Unlock()
	if settle != nil && settle(ctx) {
		c.p.mu.Lock()
		c.dead = true
		c.p.mu.Unlock()
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.dead {
		return false, errors.New("it is over")
	}
	return c.kept, nil
}

// Ended implements llm.Session.
func (c *conversation) Ended() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.dead
}

// Expires implements llm.Session.
func (c *conversation) Expires() time.Time { return c.p.expires }

// Close implements llm.Session.
func (c *conversation) Close() error {
	if c.p.hang != nil {
		<-c.p.hang
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.closed {
		c.p.t.Errorf("connection %d is closed twice", c.n)
	}
	c.closed = true
	c.p.lines = append(c.p.lines, fmt.Sprint("closed ", c.n))
	return errors.New("an error that is dropped")
}

// prompt is a prompt of these texts: the user's and the model's, in turn.
func prompt(texts ...string) (ms []messages.Message) {
	ms = []messages.Message{{Role: messages.RoleSystem, Text: "Be brief."}}
	for i, text := range texts {
		role := messages.RoleUser
		if i%2 == 1 {
			role = messages.RoleAssistant
		}
		ms = append(ms, messages.Message{Role: role, Text: text})
	}
	return ms
}

// asker asks a Talk as a session does.
type asker struct {
	talk   *Talk
	model  llm.SessionModel
	name   string // of the model
	run    int64
	counts func() int64
	whole  bool // the turn before is told as it went
	turn   int64
	leave  string // the receiver leaves behind a piece with this text
	lines  []string
	modes  []string
	seen   *sightings
}

// sightings are what a pool says of its connections.
type sightings struct {
	mu   sync.Mutex
	all  []string
	open int
}

func (s *sightings) saw(what, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, strings.TrimSpace(what+" "+reason))
	switch what {
	case messages.SessionConnected:
		s.open++
	case messages.SessionExpired, messages.SessionGone:
		s.open--
	}
}

func (s *sightings) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.all, " | ")
}

// ask asks for a reply and reads it to its end, or until the receiver leaves.
func (a *asker) ask(ctx context.Context, texts ...string) (o llmtest.Outcome) {
	ms := prompt(texts...)
	marks := []messages.Digest{{}}
	for i := range ms {
		marks = append(marks, sha256.Sum256(fmt.Appendf(nil, "%x%s%s", marks[i], ms[i].Role, ms[i].Text)))
	}
	counts := a.counts
	if counts == nil {
		counts = func() int64 { return -1 }
	}
	left := false
	a.turn++
	for c, err := range a.talk.Stream(ctx, &Request{
		Request: llm.Request{Session: "s", Turn: a.turn, Provider: "fake", Model: a.name, Messages: ms},
		Model:   a.model, Run: max(a.run, 1), Marks: marks, Counts: counts, Whole: a.whole,
		Note: func(s messages.ModelSession) {
			a.lines = append(a.lines, strings.TrimSpace(fmt.Sprint(s.What, " ", s.Session, " ", s.Reason)))
		},
		Asked: func(mode string, session int64, sent []messages.Message) {
			a.modes = append(a.modes, fmt.Sprint(mode, " ", session, " ", len(sent)))
		},
	}) {
		o.Take(c, err)
		if left = a.leave != "" && string(c.Text) == a.leave; left {
			break
		}
	}
	if !left && o.Err == nil && o.Finish == "" {
		o.Broken = "the stream ended without an end"
	}
	return o
}

// noted returns what was recorded since the last call.
func (a *asker) noted() string {
	lines := a.lines
	a.lines = nil
	return strings.Join(lines, " | ")
}

// unseen does not look at what becomes of connections.
func unseen(string, string) {}

// newTalk returns a conversation of a pool of most connections, which the test's end closes.
func newTalk(t testing.TB, most int, c Config, p *provider) (*Pool, *asker) {
	t.Helper()
	seen := &sightings{}
	pool := NewPool(most, time.Now, seen.saw)
	a := &asker{talk: pool.New(c), model: p, name: "m", seen: seen}
	t.Cleanup(func() {
		a.talk.Close()
		pool.Wait()
		if pool.Open() != 0 || p.open() != 0 {
			t.Errorf("%d connections stay, the provider has %d", pool.Open(), p.open())
		}
		if seen.open != 0 {
			t.Errorf("%d connections are open by what was seen: %v", seen.open, seen)
		}
	})
	return pool, a
}

// good checks that a reply came whole.
func good(t testing.TB, o llmtest.Outcome, text string) {
	t.Helper()
	if o.Err != nil || o.Broken != "" || o.Text != text || o.Finish != messages.FinishComplete {
		t.Errorf("%+v, want %q", o, text)
	}
}

func is(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

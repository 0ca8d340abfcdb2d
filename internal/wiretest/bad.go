package wiretest

import (
	"encoding/binary"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// Bad checks what a model does with what no provider of conversations should send, and with a
// network that is gone. model makes a model that reaches its provider at url, by base if that is
// not nil.
//
// Where the kinds of bad input of conversations are tested, for Responses, Realtime and Live (S, R
// and L are TestSession..., TestRealtime... and TestLive... in llm/openai and llm/gemini; talk and
// tests are internal/talk and tests/resume_test.go):
//
//	a frame of 100 MB, in one piece and in many   Bad: over a socket, and what memory it takes
//	an event over its bound                       S R LFails "huge", LRefused "huge"
//	garbage: frames of WebSockets                 Bad
//	garbage: no JSON, no events, wrong members    S R LFails
//	wrong ids                                     S R LFails "another's ...", "wrong ids"
//	answers that were not asked for, late deltas  S R LFails "more than asked for", "late ...", Bad
//	two responses at once                         S R LFails "two at once"
//	silence                                       TestSessionSilence, TestLiveSilence, Refused "silence"
//	a cut at every byte                           TestSessionCutAnywhere, TestLiveCutAnywhere
//	another session's response or handle          tests: TestResumeKeepsSessionsApart
//	an invalid handle                             TestLiveHandles, TestLiveGoesOnOverAnother
//	a key that is refused in the middle           S R LFails, tests: TestAutoFallsBackForNothingElse
//	a network that is gone for a minute           Bad, tests: TestResumeWithoutNetwork
//	death in every state                          talk: TestDeath
func Bad(t *testing.T, model func(t testing.TB, url string, base http.RoundTripper) llm.SessionModel) {
	b := &bad{model}
	t.Run("a frame of 100 MB", b.long)
	t.Run("frames", b.frames)
	t.Run("a network that is gone", func(t *testing.T) {
		for name, c := range map[string]outage{
			"while it rests":     {wait: 30 * time.Second, kind: llm.KindNetwork},
			"when it is asked":   {asked: true, wait: 30 * time.Second, kind: llm.KindNetwork},
			"in the middle":      {begun: true, wait: time.Minute, kind: llm.KindTruncated},
			"while it connects":  {connects: true, wait: 30 * time.Second, kind: llm.KindNetwork},
			"when it is closed":  {closes: true, wait: 5 * time.Second},
			"for a moment alone": {short: true},
		} {
			t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { b.gone(t, c) }) })
		}
	})
}

// bad is a model under test.
type bad struct {
	model func(t testing.TB, url string, base http.RoundTripper) llm.SessionModel
}

// prompt is a prompt of these texts: the user's and the model's, in turn.
func prompt(texts ...string) llm.Request {
	r := llm.Request{Model: "m", Session: "s"}
	for i, text := range texts {
		r.Messages = append(r.Messages, messages.Message{Role: []messages.Role{messages.RoleUser, messages.RoleAssistant}[i%2], Text: text})
	}
	return r
}

// frame is the head of a frame with these first bits and as many bytes.
func frame(first byte, size uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte{first, 127}, size))
}

const (
	text, binaryFrame, more, ping, end = 0x81, 0x82, 0x80, 0x89, 0x88 // of one frame
	open, goesOn                       = 0x01, 0x00                   // of several
	huge                               = 100 << 20
)

// in opens a conversation, and reads its first reply: when a piece has come, during is called. It
// returns the reply, and the conversation.
func (b *bad) in(t *testing.T, p *Proxy, during func()) (o llmtest.Outcome, s llm.Session) {
	t.Helper()
	s, err := b.model(t, p.URL, p.Base).Connect(t.Context(), prompt("One"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return b.read(t, s, during, "One"), s
}

func (*bad) read(t *testing.T, s llm.Session, during func(), texts ...string) (o llmtest.Outcome) {
	t.Helper()
	for c, err := range s.Continue(t.Context(), prompt(texts...), len(texts)-1) {
		if o.Take(c, err); len(c.Text) > 0 && during != nil {
			during()
			during = nil
		}
	}
	if o.Broken != "" {
		t.Error(o.Broken)
	}
	return o
}

// failed checks that a reply has failed as it should.
func failed(t *testing.T, o llmtest.Outcome, kind llm.Kind, text string) {
	t.Helper()
	if f := llm.FailureOf(o.Err); messages.CodeOf(o.Err) != messages.ErrModel || f.Kind != kind || o.Text != text {
		t.Errorf("%+v, want %s behind %q: %+v", f, kind, text, o)
	}
}

// long: a frame that is longer than an event may be is refused by its bound, whenever it comes,
// and is not kept.
func (b *bad) long(t *testing.T) {
	for name, c := range map[string][2]string{ // what comes, again and again, behind a head
		"in one piece":    {frame(text, huge), "x"},
		"in many":         {frame(open, 0), frame(goesOn, 1000) + strings.Repeat("x", 1000)},
		"of endless size": {frame(binaryFrame, 1<<63-1), "x"},
	} {
		t.Run(name, func(t *testing.T) {
			step := make(chan struct{})
			srv := llmtest.NewProvider(t, func(r *llmtest.Request) llmtest.Response {
				if r.N == 1 {
					return llmtest.Response{Text: []string{"be", "gun"}, Step: step, Free: 1}
				}
				return llmtest.Response{Text: []string{"ok"}}
			})
			p := NewProxy(t, srv)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took := int64(0)
			o, s := b.in(t, p, func() { took = p.Say(c[0], c[1], huge) })
			<-p.Ended()
			runtime.ReadMemStats(&after)
			failed(t, o, llm.KindOversized, "be")
			if _, err := s.Settle(t.Context()); err == nil || !s.Ended() {
				t.Error("the conversation goes on")
			}
			if took >= huge/2 {
				t.Errorf("%d bytes were taken", took)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > huge/2 {
				t.Errorf("%d bytes of memory were made", grown)
			}
			// While nothing is asked for.
			o, s = b.in(t, p, nil)
			if o.Err != nil || o.Text != "ok" {
				t.Fatalf("%+v", o)
			}
			if took := p.Say(c[0], c[1], huge); took >= huge/2 {
				t.Errorf("%d bytes were taken", took)
			}
			<-p.Ended()
			if _, err := s.Settle(t.Context()); err == nil || !s.Ended() {
				t.Error("the conversation goes on")
			}
			if o := b.read(t, s, nil, "One", "ok", "Two"); messages.CodeOf(o.Err) != messages.ErrModel || o.Text != "" {
				t.Errorf("it is asked again: %+v", o)
			}
			// In place of what a connection begins with, where the provider says something then.
			var began bool
			srv.Setup = func(int) string {
				began = true
				p.Say(c[0], c[1], huge)
				return "1000 bye"
			}
			last, err := b.model(t, p.URL, p.Base).Connect(t.Context(), prompt("One"))
			if began && llm.FailureOf(err).Kind != llm.KindOversized || !began && err != nil {
				t.Errorf("connecting: %v", err)
			}
			if last != nil {
				_ = last.Close()
			}
		})
	}
}

// frames: what is no frame, or not the frame of an event, ends the conversation, and the next one
// knows nothing of it.
func (b *bad) frames(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		kind llm.Kind
	}{
		"no UTF-8":                  {frame(text, 8) + "{\"x\":\"\xff\"", llm.KindGarbage},
		"no JSON":                   {frame(binaryFrame, 4) + "\x00\x01\x02\x03", llm.KindGarbage},
		"nothing":                   {frame(text, 0), llm.KindGarbage},
		"a length beyond all":       {frame(text, 1<<64-1), llm.KindTruncated},
		"a bit that is reserved":    {frame(0xc1, 2) + "{}", llm.KindTruncated},
		"an unknown kind":           {frame(0x83, 2) + "{}", llm.KindTruncated},
		"a rest of nothing":         {frame(more, 2) + "{}", llm.KindTruncated},
		"a text in a text":          {frame(open, 1) + "{" + frame(text, 2) + "{}", llm.KindTruncated},
		"a long ping":               {frame(ping, 126) + strings.Repeat("x", 126), llm.KindTruncated},
		"a ping in pieces":          {"\x09\x01x", llm.KindTruncated},
		"an end without a code":     {"\x88\x01x", llm.KindTruncated},
		"an end with a wrong code":  {"\x88\x02\x00\x01", llm.KindTruncated},
		"a page":                    {"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", llm.KindTruncated},
		"half of a frame":           {frame(text, 9) + `{"type"`, llm.KindTruncated},
		"a frame of another's JSON": {frame(text, 4) + "null", llm.KindGarbage},
	} {
		t.Run(name, func(t *testing.T) {
			step := make(chan struct{})
			srv := llmtest.NewProvider(t, func(r *llmtest.Request) llmtest.Response {
				if r.N == 1 {
					return llmtest.Response{Text: []string{"be", "gun"}, Step: step, Free: 1}
				}
				return llmtest.Response{Text: []string{"ok"}}
			})
			p := NewProxy(t, srv)
			o, s := b.in(t, p, func() {
				p.Say(c.raw, "", 0)
				if name == "half of a frame" {
					srv.HangUp()
				}
			})
			<-p.Ended()
			failed(t, o, c.kind, "be")
			if _, err := s.Settle(t.Context()); err == nil || !s.Ended() {
				t.Error("the conversation goes on")
			}
			if o, _ := b.in(t, p, nil); o.Err != nil || o.Text != "ok" {
				t.Errorf("the next: %+v", o)
			}
		})
	}
}

// outage is a network that is gone at some time of a conversation.
type outage struct {
	asked, begun, connects, closes, short bool

	wait time.Duration // until that is a failure
	kind llm.Kind
}

// gone: a request over a network that is gone ends in its time. When the network is back, what was
// on its way belongs to nothing, and the next conversation is as any other.
func (b *bad) gone(t *testing.T, c outage) {
	var p *Proxy
	step := make(chan struct{})
	srv := llmtest.NewPipedProvider(t, func(r *llmtest.Request) llmtest.Response {
		switch {
		case c.asked && r.N == 2:
			p.Down()
		case c.begun && r.N == 2:
			return llmtest.Response{Text: []string{"re", "ply"}, Step: step, Free: 1}
		}
		return llmtest.Response{Text: []string{"re", "ply"}}
	})
	p = NewProxy(t, srv)
	o, s := b.in(t, p, nil)
	if o.Err != nil || o.Text != "reply" {
		t.Fatalf("%+v", o)
	}
	synctest.Wait() // all of it has come
	began := time.Now()
	switch {
	case c.connects:
		p.Down()
		_, err := b.model(t, p.URL, p.Base).Connect(t.Context(), prompt("One"))
		failed(t, llmtest.Outcome{Err: err}, c.kind, "")
	case c.closes:
		p.Down()
		_ = s.Close()
	case c.short:
		p.Down()
		time.AfterFunc(20*time.Second, p.Up)
		if o := b.read(t, s, nil, "One", "reply", "Two"); o.Err != nil || o.Text != "reply" {
			t.Errorf("%+v", o)
		}
		began = began.Add(20 * time.Second)
	case c.begun:
		failed(t, b.read(t, s, func() { p.Down(); close(step) }, "One", "reply", "Two"), c.kind, "re")
	case c.asked:
		failed(t, b.read(t, s, nil, "One", "reply", "Two"), c.kind, "")
	default:
		p.Down()
		failed(t, b.read(t, s, nil, "One", "reply", "Two"), c.kind, "")
	}
	if took := time.Since(began); took != c.wait {
		t.Errorf("it took %s, want %s", took, c.wait)
	}
	if ended := s.Ended(); ended == (c.short || c.connects) {
		t.Errorf("ended: %v", ended)
	}
	p.Up()
	synctest.Wait() // what was on its way is here
	if o, _ := b.in(t, p, nil); o.Err != nil || o.Text != "reply" {
		t.Errorf("the next: %+v", o)
	}
}

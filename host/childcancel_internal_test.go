package host

import (
	"context"
	"errors"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// stalled is a model that says nothing until it is stopped.
type stalled struct{}

// Stream implements llm.Model.
func (stalled) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		<-ctx.Done()
		yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
	}
}

// A host has the run of a child session cancelled at another one, with no token of a client: that run, and
// none of a session that has no parent.
func TestCancelOfAChild(t *testing.T) {
	secret := []byte(strings.Repeat("s", forward.MinSecret))
	worker := &stile.Agent{Manifest: manifest.Default("plain"), Model: stalled{}}
	worker.Manifest.Name = "worker"
	boss := &stile.Agent{Manifest: manifest.Default("cortex"), Agents: []*stile.Agent{worker}}
	boss.Manifest.Name, boss.Manifest.Import.Agents = "boss", []string{"worker"}
	boss.Model = scripted.New(`<action id="a" type="agent">{"name":"worker","parameters":{"message":"do"}}</action><response>got $a</response>`, "<response>again</response>")
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Agents: []*stile.Agent{boss, worker}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	s, err := New(Config{Runtime: rt})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{s: s, proofs: forward.Verifier{Secret: secret}}
	srv := httptest.NewServer(c.door())
	defer srv.Close()
	to := stile.Peer{Address: strings.TrimPrefix(srv.URL, "http://"), Left: time.Hour}
	from := &cluster{client: &forward.Client{
		Secret: secret, Self: func() string { return "" }, Peers: func() []stile.Peer { return []stile.Peer{to} }, Now: time.Now, Leaving: t.Context(), Count: func(forward.Event) {},
	}}
	defer from.client.Transport().CloseIdleConnections()

	p, err := rt.Open(t.Context(), "p", boss)
	if err != nil {
		t.Fatal(err)
	}
	run, err := p.Submit(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	child := ""
	for u, err := range p.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record == nil {
			continue
		}
		if b, ok := u.Record.Body.(*messages.ActionStarted); ok {
			child = b.Child
			break
		}
	}
	var kid *stile.Session
	for kid == nil {
		if kid, err = rt.Find(t.Context(), child); err != nil && !stile.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	link := messages.ChildLink{SID: child, Incarnation: kid.Incarnation().String(), Run: 1}
	other := link
	other.Incarnation = p.Incarnation().String()
	for _, one := range []struct {
		name string
		run  messages.ChildLink
		want messages.Code
	}{
		{"no child", messages.ChildLink{SID: p.SID(), Incarnation: p.Incarnation().String(), Run: 1}, messages.ErrInvalid},
		{"no session", messages.ChildLink{SID: "no:such:session", Incarnation: link.Incarnation, Run: 1}, ""},
		{"a session of another life", other, ""},
		{"no name", messages.ChildLink{SID: "a:b:c:d", Run: 1}, messages.ErrInvalid},
	} {
		err := from.cancelChildAt(t.Context(), to, one.run)
		if got := messages.CodeOf(err); got != one.want || one.want == "" && err != nil {
			t.Errorf("%s: %v, want %q", one.name, err, one.want)
		}
	}
	if h, err := kid.Head(t.Context()); err != nil || !h.Open && h.Queued == 0 && h.Run > 0 {
		t.Errorf("the child has ended: %+v, %v", h, err)
	}
	gone := to
	gone.ID = "another life of the host"
	var e *messages.Error
	if err := from.cancelChildAt(t.Context(), gone, link); !errors.As(err, &e) || e.Reason != stile.ReasonElsewhere {
		t.Errorf("a host that is not meant answers %v", err)
	}
	// The session of an action is no feed's, and that of another host no session of this one.
	of := messages.ParentLink{SID: p.SID(), Incarnation: p.Incarnation().String(), Action: "feed:news", Depth: 1}
	if _, err := from.submitToChildAt(t.Context(), to, child, of, messages.Input{Key: "k"}); messages.CodeOf(err) != messages.ErrInvalid {
		t.Errorf("a submit to the session of an action: %v", err)
	}
	if _, err := from.submitToChildAt(t.Context(), gone, child, of, messages.Input{Key: "k"}); !errors.As(err, &e) || e.Reason != stile.ReasonElsewhere {
		t.Errorf("a submit to a host that is not meant: %v", err)
	}
	for _, what := range []string{"the run", "a run that has ended"} {
		for {
			if err := from.cancelChildAt(t.Context(), to, link); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if o, ended, err := kid.Run(1).Outcome(t.Context()); err == nil && ended {
				if o.Reason != messages.ErrCancelled || !strings.Contains(o.Detail, "action a of "+p.SID()) {
					t.Errorf("the child ends %+v", o)
				}
				break
			}
		}
	}
	if o, err := run.Decision(t.Context()); err != nil || o.Decision != stile.Done {
		t.Errorf("%+v, %v", o, err)
	}
}

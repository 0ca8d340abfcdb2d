package host

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// A host has a run begun in the session of a feed at another one, with no token of a client. Asked twice with one
// key it begins one run. It submits nothing to a session with another parent, and knows none that is not open.
func TestSubmitToAChild(t *testing.T) {
	worker := &stile.Agent{Manifest: manifest.Default("plain"), Model: scripted.New("old", "new", "newer")}
	worker.Manifest.Name = "worker"
	reader := &stile.Agent{Manifest: manifest.Default("cortex"), Model: scripted.New("<response>read</response>"), Agents: []*stile.Agent{worker}}
	ttl := int64(3600)
	m := reader.Manifest
	m.Name, m.Import.Agents, m.Extensions = "reader", []string{"worker"}, []string{"remote_feeds"}
	m.ContextFeeds = []manifest.Feed{{ID: "news", CacheTTL: &ttl, Deadline: time.Minute, Source: manifest.FeedSource{Type: "agent", Name: "worker", Params: map[string]any{"message": "news?"}}}}
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Agents: []*stile.Agent{reader, worker}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	s, err := New(Config{Runtime: rt})
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte(strings.Repeat("s", forward.MinSecret))
	srv := httptest.NewServer((&cluster{s: s, proofs: forward.Verifier{Secret: secret}}).door())
	defer srv.Close()
	to := stile.Peer{Address: strings.TrimPrefix(srv.URL, "http://"), Left: time.Hour}
	from := &cluster{client: &forward.Client{
		Secret: secret, Self: func() string { return "" }, Peers: func() []stile.Peer { return []stile.Peer{to} }, Now: time.Now, Leaving: t.Context(), Count: func(forward.Event) {},
	}}
	defer from.client.Transport().CloseIdleConnections()

	p, err := rt.Open(t.Context(), "p", reader)
	if err != nil {
		t.Fatal(err)
	}
	run, err := p.Submit(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := run.Decision(t.Context()); err != nil || o.Decision != stile.Done {
		t.Fatalf("%+v, %v", o, err)
	}
	kid, err := rt.Find(t.Context(), p.SID()+".feed.news")
	if err != nil {
		t.Fatal(err)
	}
	in := childInput{
		SID: kid.SID(), Parent: messages.ParentLink{SID: p.SID(), Incarnation: p.Incarnation().String(), Action: "feed:news", Depth: 1},
		Input: messages.Input{Text: "news?", User: "local", Key: "a fetch", Policy: messages.Enqueue},
	}
	for range 2 {
		got, err := from.submitToChildAt(t.Context(), to, in.SID, in.Parent, in.Input)
		if want := (messages.ChildLink{SID: kid.SID(), Incarnation: kid.Incarnation().String(), Run: 2}); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
		if o, err := kid.Run(2).Decision(t.Context()); err != nil || o.Decision != stile.Done {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	none, stranger, action, keyless := in, in, in, in
	none.SID, stranger.Parent.Incarnation, action.Parent.Action, keyless.Input.Key = "local:local:none", kid.Incarnation().String(), "news", ""
	for what, one := range map[string]struct {
		in      childInput
		want    messages.Code
		because string
	}{
		"a session that is not open": {none, messages.ErrBusy, stile.ReasonElsewhere},
		"another life of the parent": {stranger, messages.ErrInvalid, ""},
		"an action":                  {action, messages.ErrInvalid, ""},
		"an input without a key":     {keyless, messages.ErrInvalid, ""},
	} {
		_, err := from.submitToChildAt(t.Context(), to, one.in.SID, one.in.Parent, one.in.Input)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != one.want || e.Reason != one.because {
			t.Errorf("%s: %v, want %s %s", what, err, one.want, one.because)
		}
	}
	if h, err := kid.Head(t.Context()); err != nil || h.Run != 2 {
		t.Errorf("the child has %d runs, %v", h.Run, err)
	}
}

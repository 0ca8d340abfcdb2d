package tests

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A session is described while a call of it is in flight: the record is signed and chained
// as all are, no prompt shows it, a replay passes over it, and it is there after a restart
// and in a fork.
func TestDescribeInFlight(t *testing.T) {
	dir := t.TempDir()
	begin := func(reply string) (*stile.Runtime, *stile.Session, *recorder) {
		var s *stile.Session
		describes := tool("describe", messages.Effectful, func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
			return neuroscript.String("ok"), s.Describe(ctx, "a title of its own", "arm=b", "desk=3")
		})
		m := &recorder{Model: says(reply)}
		a := agent(m, nil, describes)
		rt := start(t, stile.Config{Dir: dir, Agents: []*stile.Agent{a}})
		s = open(t, rt, "acme:ann:s", a)
		return rt, s, m
	}
	rt, s, _ := begin(program(`emit tool.describe()`, sayDone))
	wantDone(t, ask(t, s, "go"))
	recs := records(t, s)
	at := slices.IndexFunc(recs, func(r *stile.Record) bool { return r.Body.Kind() == messages.KindDescribed })
	ended := slices.IndexFunc(recs, func(r *stile.Record) bool { return r.Body.Kind() == "action.ended" })
	if at < 0 || ended < at || recs[at].Run != 0 || recs[at].Turn != 0 {
		t.Fatalf("%v", kinds(recs))
	}
	check := func(name string) {
		t.Helper()
		head, err := rt.Archive().Head(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if report, err := rt.Archive().Verify(t.Context(), head.Inc, stile.VerifyOptions{}); err != nil || !report.OK() {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		a := agent(says(""), nil, tool("describe", messages.Effectful, gives("ok")))
		if _, err := rt.Replay(t.Context(), name, a); err != nil {
			t.Errorf("replay of %s: %v", name, err)
		}
		if trial, err := rt.Archive().Try(t.Context(), head.Inc, a); err != nil {
			t.Errorf("trial of %s: %+v, %v", name, trial, err)
		}
		l, err := rt.Archive().Listing(t.Context(), head)
		if err != nil || l.Agent != "tested" || l.Title != "a title of its own" || !slices.Contains(l.Tags, "arm=b") || l.Updated.Before(recs[at].TS) {
			t.Errorf("%+v, %v", l, err)
		}
	}
	check("acme:ann:s")
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rt, s, m := begin(program(sayDone))
	if err := s.Amend(t.Context(), "bob", nil, nil, []string{"new"}, []string{"desk=3", "none"}); err != nil {
		t.Fatal(err)
	}
	wantDone(t, ask(t, s, "and again"))
	for _, req := range m.requests() {
		for _, msg := range req.Messages {
			if strings.Contains(msg.Text, "of its own") || strings.Contains(msg.Text, "arm=b") {
				t.Errorf("a prompt shows the description: %s", msg.Text)
			}
		}
	}
	if _, err := rt.Fork(t.Context(), "acme:ann:s", 2, "acme:ann:fork"); err != nil {
		t.Fatal(err)
	}
	check("acme:ann:s")
	check("acme:ann:fork")
	q := stile.SessionQuery("acme:ann:")
	q.Tags = []string{"new", "arm=b"}
	page, err := rt.Archive().Listings(t.Context(), q)
	if err != nil || len(page) != 2 || page[0].SID != "acme:ann:fork" || !slices.Equal(page[1].Tags, []string{"arm=b", "new"}) {
		t.Errorf("%+v, %v", page, err)
	}
	wantCode(t, s.Describe(t.Context(), "two\nlines"), messages.ErrInvalid)
	// Two that change at once: each change is there.
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() { done <- s.Amend(context.Background(), "", nil, nil, []string{"n=" + string(rune('a'+i))}, nil) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	l, err := rt.Archive().Listings(t.Context(), journal.Query{Inc: s.Incarnation()})
	if err != nil || len(l) != 1 || len(l[0].Tags) != 10 {
		t.Errorf("%+v, %v", l, err)
	}
}

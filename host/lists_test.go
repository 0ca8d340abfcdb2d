package host_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

type listed struct {
	ID, State, Agent, Title, Created, Updated string

	AgentKnown bool `json:"agent_known"`
	Tags       []string
}

type sessionPage struct {
	Sessions []listed
	Next     string
}

func (p *sessionPage) ids() string {
	var ids []string
	for _, s := range p.Sessions {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

// Sessions have a title and tags, are found by them, and the one that changed last comes
// first.
func TestListsOfSessions(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("clerk", speaks([]string{"hello"}, always())), agentOf("ledger", speaks([]string{"hello"}, always())))
	var ses listed
	d.call(201, &ses, "POST", "/v1/sessions", `{"agent": "clerk", "id": "a", "title": "Refund of Order 17", "tags": ["desk=3", "arm=b", "desk=3"]}`)
	if ses.Agent != "clerk" || !ses.AgentKnown || ses.Title != "Refund of Order 17" || !slices.Equal(ses.Tags, []string{"arm=b", "desk=3"}) || ses.State != "idle" {
		t.Fatalf("%+v", ses)
	}
	if at, err := time.Parse(time.RFC3339Nano, ses.Created); err != nil || time.Since(at) > time.Hour || ses.Updated < ses.Created {
		t.Errorf("created %s, updated %s", ses.Created, ses.Updated)
	}
	for i, id := range []string{"b", "c", "d", "e"} {
		d.call(201, nil, "POST", "/v1/sessions", fmt.Sprintf(`{"agent": %q, "id": %q}`, []string{"clerk", "ledger"}[i%2], id))
	}
	d.call(200, nil, "POST", "/v1/sessions/b/runs?wait=30s", `{"input": "hello"}`)
	d.call(200, &ses, "PATCH", "/v1/sessions/d", `{"title": "Ärger", "tags": ["arm=a", "old"]}`)
	d.call(200, &ses, "PATCH", "/v1/sessions/d", `{"add": ["new"], "remove": ["old", "none"]}`)
	if ses.Title != "Ärger" || !slices.Equal(ses.Tags, []string{"arm=a", "new"}) {
		t.Errorf("%+v", ses)
	}
	for query, want := range map[string]string{
		"": "d b e c a", "agent=ledger": "e c", "agent=none": "", "tag=arm": "d a", "tag=arm%3Da": "d", "tag=arm&tag=desk": "a", "tag=ar": "", "q=order": "a",
		"q=%C3%84RGER": "d", "q=%25": "", "state=idle": "d b e c a", "state=running": "", "state=suspended": "", "order=id": "a b c d e", "after=c": "d e",
		"updated_after=2100-01-01T00:00:00Z": "", "created_after=2020-01-01T00:00:00Z": "d b e c a", "tag=arm&agent=clerk": "d a",
	} {
		var page sessionPage
		d.call(200, &page, "GET", "/v1/sessions?"+query, "")
		if page.ids() != want || page.Next != "" {
			t.Errorf("%s: %s, next %q; want %s", query, page.ids(), page.Next, want)
		}
	}
	// A session that changes between two pages goes to the front; no other is lost.
	var got []string
	for after, n := "", 0; ; n++ {
		var page sessionPage
		d.call(200, &page, "GET", "/v1/sessions?limit=2&after="+url.QueryEscape(after), "")
		got = append(got, page.ids())
		if n == 0 {
			d.call(200, nil, "PATCH", "/v1/sessions/c", `{"title": "changed"}`)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if want := "d b, e a"; strings.Join(got, ", ") != want {
		t.Errorf("pages %q, want %s", got, want)
	}
	for body, field := range map[string]string{
		`{"title": "a\nb"}`: "body.title", `{"title": "a\u202eb"}`: "body.title", `{"tags": ["a b"]}`: "body.tags", `{"add": ["=x"]}`: "body.add",
		`{"tags": ["` + strings.Repeat("x", 65) + `"]}`: "body.tags", `{"title": "` + strings.Repeat("ü", 101) + `"}`: "body.title",
	} {
		p := d.refused(400, messages.ErrInvalid, "PATCH", "/v1/sessions/a", body)
		if p.Field != field && !(field == "body.add" && p.Field == "body.tags") {
			t.Errorf("%s: field %s", body, p.Field)
		}
	}
	d.refused(400, messages.ErrInvalid, "POST", "/v1/sessions", `{"agent": "clerk", "id": "never", "tags": ["a b"]}`)
	d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/never", "")
	d.refused(404, messages.ErrNotFound, "PATCH", "/v1/sessions/never", `{}`)
	for _, query := range []string{"after=~", "after=x~" + strings.Repeat("0", 36), "order=id&agent=clerk", "state=closed", "after=b&tag=x"} {
		if res := d.ask("GET", "/v1/sessions?"+query, ""); res.StatusCode != 400 && res.StatusCode != 422 {
			t.Errorf("%s: %s", query, res.Status)
		}
	}
	// What was deleted has left neither title nor tags.
	d.call(204, nil, "DELETE", "/v1/sessions/d", "")
	page, err := d.rt.Archive().Listings(t.Context(), retired())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range page {
		if strings.HasSuffix(l.SID, ":d") && (l.Title != "" || l.Tags != nil) {
			t.Errorf("erased: %+v", l)
		}
	}
}

// A session whose agent the host does not have is shown, says so, and takes no input.
func TestAgentIsGone(t *testing.T) {
	dir := t.TempDir()
	begin := func(names ...string) *door {
		var agents []*stile.Agent
		for _, name := range names {
			agents = append(agents, agentOf(name, speaks([]string{"hello"}, always())))
		}
		rt, err := stile.New(t.Context(), stile.Config{Dir: dir, Agents: agents})
		if err != nil {
			t.Fatal(err)
		}
		l, err := host.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return serveRuntime(t, l, rt, host.Config{}, agents...)
	}
	d := begin("clerk", "ledger")
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "clerk", "id": "a", "title": "a title"}`)
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "ledger", "id": "b"}`)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if err := d.rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = begin("ledger")
	var page sessionPage
	d.call(200, &page, "GET", "/v1/sessions", "")
	if len(page.Sessions) != 2 || page.Sessions[1].Agent != "clerk" || page.Sessions[1].AgentKnown || !page.Sessions[0].AgentKnown {
		t.Errorf("%+v", page)
	}
	var ses listed
	d.call(200, &ses, "GET", "/v1/sessions/a", "")
	if ses.Agent != "clerk" || ses.AgentKnown || ses.Title != "a title" || ses.State != "idle" {
		t.Errorf("%+v", ses)
	}
	p := d.refused(409, messages.ErrConflict, "POST", "/v1/sessions/a/runs", `{"input": "hello"}`)
	if p.Reason != stile.ReasonAgentGone || !strings.Contains(p.Detail, "clerk") || !strings.Contains(p.Detail, "register") {
		t.Errorf("%+v", p)
	}
	d.refused(409, messages.ErrConflict, "PATCH", "/v1/sessions/a", `{"title": "other"}`)
}

// The runs of a session, the newest first, page by page.
func TestListOfRuns(t *testing.T) {
	next := make(chan struct{}, 8)
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, next)))
	d.session("s", "talker")
	type runs struct {
		Runs []struct {
			Run, Turns                              int64
			State, Decision, Accepted, Began, Ended string
		}
		Next int64
	}
	var none runs
	d.call(200, &none, "GET", "/v1/sessions/s/runs", "")
	if none.Runs == nil || len(none.Runs) != 0 {
		t.Errorf("%+v", none)
	}
	for range 3 {
		next <- struct{}{}
		d.call(200, nil, "POST", "/v1/sessions/s/runs?wait=30s", `{"input": "hello"}`)
	}
	for range 2 {
		d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "hello", "policy": "enqueue"}`)
	}
	var got []string
	for before := int64(0); ; {
		var page runs
		d.call(200, &page, "GET", fmt.Sprintf("/v1/sessions/s/runs?limit=2&before=%d", before), "")
		for _, r := range page.Runs {
			got = append(got, fmt.Sprintf("%d %s%s", r.Run, r.State, r.Decision))
			if r.Accepted == "" || (r.Began == "") != (r.State == "queued") || (r.Ended == "") == (r.State == "ended") {
				t.Errorf("%+v", r)
			}
		}
		if before = page.Next; before == 0 {
			break
		}
	}
	if want := "5 queued, 4 running, 3 endedDONE, 2 endedDONE, 1 endedDONE"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	next <- struct{}{}
	next <- struct{}{}
}

func retired() journal.Query {
	q := stile.SessionQuery("")
	q.Retired = true
	return q
}

type foundPage struct {
	Found []struct {
		Session, Title, Agent, Role, Before, Match, After string

		Seq, Run int64
	}
	More, Behind bool
}

// What was said is found by its words: by its user alone, and not when it is erased.
func TestSearchOfTexts(t *testing.T) {
	k := newTokens(t)
	ann, _ := k.make("acme", "ann", "read", "submit", "admin")
	ben, _ := k.make("acme", "ben", "read", "submit", "admin")
	d := serve(t, host.Config{Access: k}, agentOf("clerk", speaks([]string{"The kestrel has landed."}, always())))
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "clerk", "id": "a", "title": "Birds"}`, auth(ann)...)
	d.call(200, nil, "POST", "/v1/sessions/a/runs?wait=30s", `{"input": "Where is the Heron?"}`, auth(ann)...)
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "clerk", "id": "b"}`, auth(ann)...)
	d.call(200, nil, "POST", "/v1/sessions/b/runs?wait=30s", `{"input": "and the heron, again"}`, auth(ann)...)
	var page foundPage
	d.call(200, &page, "GET", "/v1/search?q=HERON+the", "", auth(ann)...)
	if len(page.Found) != 2 || page.More || page.Behind || page.Found[0].Session != "b" {
		t.Fatalf("%+v", page)
	}
	if f := page.Found[1]; f.Session != "a" || f.Title != "Birds" || f.Agent != "clerk" || f.Role != "user" || f.Before != "Where is " || f.Match != "the" || f.After != " Heron?" || f.Run != 1 || f.Seq == 0 {
		t.Errorf("%+v", f)
	}
	for query, want := range map[string]int{"q=kestrel": 2, "q=kestrel&limit=1": 1, "q=kestrel&agent=none": 0, "q=heron+kestrel": 0, "q=": 0, "q=+": 0, "q=birds": 0, "q=%25": 0} {
		var page foundPage
		d.call(200, &page, "GET", "/v1/search?"+query, "", auth(ann)...)
		if len(page.Found) != want || page.More != (query == "q=kestrel&limit=1") {
			t.Errorf("%s: %+v", query, page)
		}
	}
	d.call(200, &page, "GET", "/v1/search?q=heron", "", auth(ben)...)
	if len(page.Found) != 0 {
		t.Errorf("another user finds %+v", page)
	}
	d.call(204, nil, "DELETE", "/v1/sessions/a", "", auth(ann)...)
	d.call(200, &page, "GET", "/v1/search?q=heron", "", auth(ann)...)
	if len(page.Found) != 1 || page.Found[0].Session != "b" {
		t.Errorf("once it is erased: %+v", page)
	}
}

// A fork may have a title of its own.
func TestForkHasATitle(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("clerk", speaks([]string{"hello"}, always())))
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "clerk", "id": "a", "title": "Birds"}`)
	d.call(200, nil, "POST", "/v1/sessions/a/runs?wait=30s", `{"input": "hello"}`)
	for body, want := range map[string]string{
		`{"stop": true}`: "Birds",
		`{"stop": true, "title": "Fork of Birds"}`:               "Fork of Birds",
		`{"turn": 1, "input": "again", "title": "Birds, again"}`: "Birds, again",
	} {
		var ses struct{ ID, Title, Origin string }
		d.call(201, &ses, "POST", "/v1/sessions/a/fork", body)
		if ses.Title != want || ses.Origin != "a" {
			t.Errorf("%s: %+v", body, ses)
		}
	}
	d.call(400, nil, "POST", "/v1/sessions/a/fork", `{"title": "two\nlines"}`)
}

package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// peerToken is the variable in which a host of these tests has its token for the other one.
const peerToken = "STILE_TEST_PEER_TOKEN"

// listening opens a listener whose address is known before its host is.
func listening(t *testing.T) (l net.Listener, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l, l.Addr().String()
}

// feeding is an agent in cortex with these feeds, as YAML.
func feeding(t *testing.T, name, feeds string, ts ...tools.Tool) *stile.Agent {
	t.Helper()
	m, err := manifest.Parse("a.yaml", []byte("dialect: cortex\nname: "+name+"\n"+feeds))
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range ts {
		m.Import.Tools = append(m.Import.Tools, own.Name)
	}
	return &stile.Agent{Manifest: m, Model: scripted.New(slices.Repeat([]string{"<response>ok</response>"}, 50)...), Tools: ts}
}

// counting gives "n1", "n2" …, by its calls.
func counting(n *atomic.Int64) tools.Tool {
	return tools.Tool{Name: "own.count", Class: messages.ReadOnly, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return neuroscript.String(fmt.Sprintf("n%d", n.Add(1))), nil
	}}
}

// peered is a runtime that may ask other hosts.
func peered(t *testing.T, ca []byte, remotes []string, agents ...*stile.Agent) *stile.Runtime {
	t.Helper()
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Shared: true, Agents: agents, Feeds: stile.Feeds{Remotes: remotes, RemoteCA: ca}})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// fedBy asks a session for a run and returns the records of its feeds.
func fedBy(t *testing.T, s *stile.Session) (all []*messages.FeedInjected) {
	t.Helper()
	run, err := s.Submit(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := run.Decision(t.Context()); err != nil || o.Decision != stile.Done {
		t.Fatalf("%+v, %v", o, err)
	}
	for r, err := range s.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := r.Body.(*messages.FeedInjected); ok && r.Run == run.Ordinal() {
			all = append(all, b)
		}
	}
	return all
}

func remoteFeed(id, url, session, feed, more string) string {
	return fmt.Sprintf("  - {id: %s, %ssource: {type: remote, url: %q, session: %q, feed: %s, secret: %s}}\n", id, more, url, session, feed, peerToken)
}

// A host has a feed of another one, over plain HTTP and over TLS: the value, where it comes
// from, and the same in a replay. What the peer has not fetched again is not sent again.
func TestRemoteFeed(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			k := newTokens(t)
			secret, _ := k.make("acme", "ann", "feeds")
			t.Setenv(peerToken, secret)
			var n atomic.Int64
			far := feeding(t, "far", "context_feeds:\n  - {id: now, cache_ttl: 3600, source: {type: tool, name: own.count}}\n", counting(&n))
			l, at := listening(t)
			cfg, url := host.Config{Access: k}, "http://"+at
			var ca []byte
			if secure {
				dir := t.TempDir()
				pair := goodNow(t, dir, "c.pem", "k.pem")
				cert, err := host.OpenCertificate(pair.Cert, pair.Key)
				if err != nil {
					t.Fatal(err)
				}
				if ca, err = os.ReadFile(pair.Cert); err != nil {
					t.Fatal(err)
				}
				cfg.Certificate, url = cert, "https://"+at
			}
			rt := peered(t, nil, nil, far)
			serveRuntime(t, l, rt, cfg, far)
			source, err := rt.Open(t.Context(), "acme:ann:main", far)
			if err != nil {
				t.Fatal(err)
			}
			if err := source.IngestFeed(t.Context(), "now", `"n1"`); err != nil { // what is ingested is there to be found at once
				t.Fatal(err)
			}

			near := feeding(t, "near", "extensions: [remote_feeds]\ncontext_feeds:\n"+remoteFeed("there", url, "acme:ann:main", "now", "")+remoteFeed("again", url, "far/main", "now", ""))
			here := peered(t, ca, []string{url}, near)
			t.Cleanup(func() { _ = here.Close(context.WithoutCancel(t.Context())) })
			s, err := here.Open(t.Context(), "local:local:s", near)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				fed := fedBy(t, s)
				if len(fed) != 2 {
					t.Fatalf("%d feeds", len(fed))
				}
				for _, b := range fed {
					value, err := s.Blob(t.Context(), b.Digest)
					if b.Error != "" || err != nil || string(value) != `"n1"` {
						t.Errorf("%+v: %s, %v", b, value, err)
					}
					if want := "acme:ann:main@" + source.Incarnation().String() + ", 1"; b.Origin != want {
						t.Errorf("from %q, want %q", b.Origin, want)
					}
				}
			}
			if n.Load() != 0 {
				t.Errorf("the source was asked %d times", n.Load())
			}
			if _, err := here.Replay(t.Context(), "local:local:s", near); err != nil {
				t.Error(err)
			}
			states, err := s.Feeds(t.Context())
			if err != nil || states[0].Source != "remote "+url+" acme:ann:main now" {
				t.Errorf("%+v, %v", states, err)
			}
			if secure { // without the certificate there is no answer
				other := peered(t, nil, []string{url}, near)
				t.Cleanup(func() { _ = other.Close(context.WithoutCancel(t.Context())) })
				s, err := other.Open(t.Context(), "local:local:s", near)
				if err != nil {
					t.Fatal(err)
				}
				if b := fedBy(t, s)[0]; b.Error != "timeout" || !strings.HasPrefix(b.Reason, "timeout: the peer does not answer") {
					t.Errorf("%+v", b)
				}
			}
		})
	}
}

// Two hosts whose feeds are each other's: neither goes in a circle, what is not the other's
// own comes through, and the failure says why.
func TestRemoteFeedsInACircle(t *testing.T) {
	k := newTokens(t)
	secret, _ := k.make("acme", "ann", "feeds")
	t.Setenv(peerToken, secret)
	var n atomic.Int64
	la, a := listening(t)
	lb, b := listening(t)
	feedsOf := func(other string) string {
		return "extensions: [remote_feeds, feed_references]\ncontext_feeds:\n" +
			"  - {id: own, cache_ttl: 3600, source: {type: tool, name: own.count}}\n" +
			remoteFeed("x", "http://"+other, "acme:ann:main", "x", "") +
			remoteFeed("y", "http://"+other, "acme:ann:main", "through", "") +
			remoteFeed("z", "http://"+other, "acme:ann:main", "own", "") +
			"  - {id: through, source: {type: tool, name: own.echo, params: {v: \"%{y}\"}}}\n"
	}
	echo := tools.Tool{Name: "own.echo", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "v", Type: "any"}}, Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
		return c.Args[0], nil
	}}
	var sessions []*stile.Session
	for _, side := range []struct {
		l     net.Listener
		other string
	}{{la, b}, {lb, a}} {
		agent := feeding(t, "one", feedsOf(side.other), counting(&n), echo)
		rt := peered(t, nil, []string{"http://" + side.other}, agent)
		serveRuntime(t, side.l, rt, host.Config{Access: k}, agent)
		s, err := rt.Open(t.Context(), "acme:ann:main", agent)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	for _, s := range sessions {
		got := map[string]string{}
		for _, b := range fedBy(t, s) {
			got[b.ID] = strings.TrimSpace(b.Error + " " + b.Reason)
		}
		const forwarded = "failed forwarded: the peer has it from another host itself"
		want := map[string]string{"own": "", "x": forwarded, "y": forwarded, "z": "", "through": "failed needs y: " + strings.TrimPrefix(forwarded, "failed ")}
		for id, w := range want {
			if got[id] != w {
				t.Errorf("%s: %q, want %q", id, got[id], w)
			}
		}
	}
	if n.Load() < 2 || n.Load() > 4 { // a value that a cache has just got may not be there yet
		t.Errorf("the sources were asked %d times", n.Load())
	}
}

// Two hosts whose feeds are answers of agents that read each other's: an agent that reads feeds of
// another host makes no value for a third party, and each is asked once.
func TestAgentsInACircleOfHosts(t *testing.T) {
	k := newTokens(t)
	secret, _ := k.make("acme", "ann", "feeds")
	t.Setenv(peerToken, secret)
	la, a := listening(t)
	lb, b := listening(t)
	for _, side := range []struct {
		l     net.Listener
		other string
	}{{la, b}, {lb, a}} {
		reader := feeding(t, "reader", "extensions: [remote_feeds]\ncontext_feeds:\n"+remoteFeed("theirs", "http://"+side.other, "acme:ann:main", "news", "cache_ttl: 60, "))
		agent := feeding(t, "one", "extensions: [remote_feeds]\nimport: {agents: [reader]}\ncontext_feeds:\n  - {id: news, cache_ttl: 60, deadline: 20s, source: {type: agent, name: reader, params: {message: sum up}}}\n")
		agent.Agents = []*stile.Agent{reader}
		rt := peered(t, nil, []string{"http://" + side.other}, agent)
		serveRuntime(t, side.l, rt, host.Config{Access: k}, agent)
		s, err := rt.Open(t.Context(), "acme:ann:main", agent)
		if err != nil {
			t.Fatal(err)
		}
		if side.l == la {
			continue // its peer does not answer yet
		}
		if b := fedBy(t, s)[0]; b.Error != "" {
			t.Errorf("%+v", b)
		}
		child, err := rt.Find(t.Context(), s.SID()+".feed.news")
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range child.Records(t.Context()) {
			if err != nil || r.Run > 1 {
				t.Fatalf("run %d, %v", r.Run, err)
			}
			if b, ok := r.Body.(*messages.FeedInjected); ok && !strings.HasPrefix(b.Reason, "forwarded: ") {
				t.Errorf("%+v", b)
			}
		}
	}
}

// A token of the scope feeds has values of named feeds of its user's sessions, and nothing
// else; no other scope has them, and a query that says two things has nothing.
func TestScopeFeeds(t *testing.T) {
	k := newTokens(t)
	secret, _ := k.make("acme", "ann", "feeds")
	wide, _ := k.make("acme", "bob", "feeds", "users")
	foreign, _ := k.make("evil", "ann", "feeds")
	var n atomic.Int64
	agent := feeding(t, "talker", "context_feeds:\n  - {id: now, source: {type: tool, name: own.count}}\n  - {id: \"true\", source: {type: internal, action: session}}\n  - {id: off, enabled: \"no\", source: {type: internal, action: session}}\n", counting(&n))
	d := serve(t, host.Config{Access: k, WrongTokens: 1 << 20}, agent)
	all, _ := k.make("acme", "ann", "read", "submit", "approve", "admin", "users", "metrics")
	d.call(http.StatusCreated, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(all)...)
	const path = "/v1/sessions/s/feeds?values="

	type list struct {
		Feeds       []map[string]any
		Session     string
		Agent       string
		Incarnation string
		Seq         int64
	}
	for _, headers := range [][]string{auth(secret), auth(wide, "X-Stile-User", "ann")} {
		var got list
		res := d.call(http.StatusOK, &got, "GET", path+"now,true,off,none", "", headers...)
		if len(got.Feeds) != 2 || got.Session != "acme:ann:s" || got.Agent != "talker" || got.Incarnation == "" || got.Seq == 0 {
			t.Fatalf("%+v", got)
		}
		for _, f := range got.Feeds {
			if f["value"] == nil || f["source"] != nil || f["reason"] != nil {
				t.Errorf("%+v", f)
			}
		}
		if res.Header.Get("ETag") == "" {
			t.Error("there is no tag")
		}
	}
	var one list
	res := d.call(http.StatusOK, &one, "GET", path+"true,", "", auth(secret)...)
	if len(one.Feeds) != 1 || one.Feeds[0]["id"] != "true" {
		t.Errorf("%+v", one)
	}
	if res := d.ask("GET", path+"true,", "", auth(secret, "If-None-Match", res.Header.Get("ETag"))...); res.StatusCode != http.StatusNotModified {
		t.Errorf("asked with the tag: %s", res.Status)
	}
	d.refused(http.StatusNotFound, messages.ErrNotFound, "GET", path+"now,", "", auth(foreign)...)
	d.refused(http.StatusForbidden, messages.ErrDenied, "GET", path+"now,", "", auth(secret, "X-Stile-User", "bob")...)
	d.refused(http.StatusForbidden, messages.ErrDenied, "GET", path+"now,&values=true", "", auth(all)...)
	d.refused(http.StatusForbidden, messages.ErrDenied, "GET", path+"true&values=now,", "", auth(secret)...)
	d.refused(http.StatusBadRequest, messages.ErrInvalid, "GET", path+strings.Repeat("a,", 40), "", auth(secret)...)
	for _, scope := range access.Scopes() {
		if scope == access.Feeds {
			continue
		}
		only, _ := k.make("acme", "ann", string(scope))
		d.refused(http.StatusForbidden, messages.ErrDenied, "GET", path+"now,", "", auth(only)...)
	}
	for _, r := range requests(t, d, "s", "abc") {
		if len(r.scopes) > 0 {
			if reason := d.denied(http.StatusForbidden, r, access.ReasonScope, auth(secret)...); reason != access.ReasonScope {
				t.Errorf("%s %s: %s", r.method, r.path, reason)
			}
		}
	}
	before := n.Load()
	var plain list // as it was, for those who read
	d.call(http.StatusOK, &plain, "GET", "/v1/sessions/s/feeds", "", auth(all)...)
	if len(plain.Feeds) != 3 || plain.Session != "" || n.Load() != before {
		b, _ := json.Marshal(plain)
		t.Errorf("the list is %s", b)
	}
}

// An agent whose feeds are of hosts that are not listed is refused.
func TestRemoteFeedsMustBeListed(t *testing.T) {
	agent := feeding(t, "near", "extensions: [remote_feeds]\ncontext_feeds:\n"+remoteFeed("there", "https://peer.example:8471", "a:b:c", "now", ""))
	for _, remotes := range [][]string{nil, {"https://other.example:8471", "10.0.0.0/8"}, {"http://peer.example:8471"}} {
		err := stile.Check(agent, stile.Config{Feeds: stile.Feeds{Remotes: remotes}})
		if err == nil || !strings.Contains(err.Error(), "context_feeds[0].source.url") || !strings.Contains(err.Error(), "feeds.remotes") {
			t.Errorf("%v: %v", remotes, err)
		}
	}
	if err := stile.Check(agent, stile.Config{Feeds: stile.Feeds{Remotes: []string{"https://PEER.example:8471/"}}}); err != nil {
		t.Error(err)
	}
	if _, err := stile.New(t.Context(), stile.Config{InMemory: true, Feeds: stile.Feeds{Remotes: []string{"peer"}}}); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{
		"{type: remote}", "{type: remote, url: 'https://h:1', session: s, feed: f, secret: S}", "{type: remote, url: 'https://h:1', session: 'a:b:c', feed: '1', secret: S}",
		"{type: remote, url: 'https://h:1/x', session: 'a:b:c', feed: f, secret: S}", "{type: remote, url: 'https://h:1', session: 'a:b:c', feed: f, secret: S, params: {a: 1}}",
		"{type: remote, name: n, url: 'https://h:1', session: 'a:b:c', feed: f, secret: S}", "{type: internal, action: session, secret: S}",
	} {
		m, err := manifest.Parse("a.yaml", []byte("dialect: cortex\nname: x\nextensions: [remote_feeds]\ncontext_feeds:\n  - {id: a, source: "+bad+"}\n"))
		if err == nil {
			err = stile.Check(&stile.Agent{Manifest: m, Model: scripted.New()}, stile.Config{Feeds: stile.Feeds{Remotes: []string{"https://h:1"}}})
		}
		if err == nil || !strings.Contains(err.Error(), "context_feeds[0].source") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A change at the peer is at hand without a fetch that anything here asked for, and a token that
// is revoked hears no more.
func TestRemoteFeedIsPushed(t *testing.T) {
	k := newTokens(t)
	secret, id := k.make("acme", "ann", "feeds")
	t.Setenv(peerToken, secret)
	// The same value however often it is fetched: a value that the cache has not taken in yet is
	// fetched again.
	one := tools.Tool{Name: "own.count", Class: messages.ReadOnly, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return neuroscript.String("n1"), nil
	}}
	far := feeding(t, "far", "context_feeds:\n  - {id: now, cache_ttl: 3600, source: {type: tool, name: own.count}}\n", one)
	l, at := listening(t)
	rt := peered(t, nil, nil, far)
	serveRuntime(t, l, rt, host.Config{Access: k}, far)
	source, err := rt.Open(t.Context(), "acme:ann:main", far)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + at
	near := feeding(t, "near", "extensions: [remote_feeds]\ncontext_feeds:\n  - {id: there, cache_ttl: 3600, source: {type: remote, push: true, url: \""+url+"\", session: far/main, feed: now, secret: "+peerToken+"}}\n")
	here := peered(t, nil, []string{url}, near)
	t.Cleanup(func() { _ = here.Close(context.WithoutCancel(t.Context())) })
	s, err := here.Open(t.Context(), "local:local:s", near)
	if err != nil {
		t.Fatal(err)
	}
	fedBy(t, s)
	arrives := func(want string) {
		t.Helper()
		for tries := 1; ; tries++ {
			if want == `"two"` && tries%200 == 0 { // a fetch that was under way has taken its place
				if err := source.IngestFeed(t.Context(), "now", want); err != nil {
					t.Fatal(err)
				}
			}
			states, err := s.Feeds(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if states[0].Value == want {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	arrives(`"n1"`)
	if err := source.IngestFeed(t.Context(), "now", `"two"`); err != nil {
		t.Fatal(err)
	}
	arrives(`"two"`)
	b := fedBy(t, s)[0]
	if value, err := s.Blob(t.Context(), b.Digest); err != nil || string(value) != `"two"` || b.Stale {
		t.Errorf("%s, %+v, %v", value, b, err)
	}
	if _, _, err := k.Revoke(access.Revocation{ID: id}); err != nil {
		t.Fatal(err)
	}
	d := http.Client{}
	defer d.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/sessions/main/feeds?values=now,&wait=30", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := d.Do(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

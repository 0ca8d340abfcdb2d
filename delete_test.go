package stile_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// gone checks that a session was deleted: nothing finds it, its chain verifies, no body
// or blob of it is left.
func gone(t *testing.T, rt *stile.Runtime, name string, inc messages.Incarnation) {
	t.Helper()
	ctx := context.Background()
	if _, err := rt.Find(ctx, name); !stile.IsNotFound(err) {
		t.Errorf("%s is found: %v", name, err)
	}
	if rep, err := rt.Archive().Verify(ctx, inc, stile.VerifyOptions{}); err != nil || !rep.OK() || len(rep.Erased) != 1 || rep.Erased[0][1] != rep.Records {
		t.Errorf("%s: %+v, %v", name, rep, err)
	}
	last := ""
	for r, err := range rt.Archive().Records(ctx, inc) {
		if err != nil || r.Raw != nil {
			t.Errorf("%s: record %d has a body: %v", name, r.Seq, err)
		}
		last = string(r.Body.Kind())
	}
	if last != "session.closed" {
		t.Errorf("%s ends with %s", name, last)
	}
	if err := rt.Delete(ctx, name, "test"); !stile.IsNotFound(err) {
		t.Errorf("%s is deleted twice: %v", name, err)
	}
}

// Of a person nothing is left: no session, whatever it was doing, nothing of an earlier one
// of the same id, no profile. Others have theirs.
func TestEraseUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		k := &keeps{answers: []string{aGardener}}
		a := profiled(t, k, "memory: {profile: true, profile_cadence: 1}\n")
		rt := start(t, ticking(stile.Config{}))
		told := opened(t, rt, "acme:ann:told", a)
		says(t, told, "I am a gardener")
		if p := profileOf(t, told); p.JSON != aGardener {
			t.Fatalf("%+v", p)
		}
		if err := rt.Delete(ctx, opened(t, rt, "acme:ann:again", a).SID(), "test"); err != nil {
			t.Fatal(err)
		}
		again, stuck, other := opened(t, rt, "acme:ann:again", a), opened(t, rt, "acme:ann:stuck", a), opened(t, rt, "acme:anna:told", a)
		submitted(t, stuck, "wait")
		says(t, other, "hello")
		names, err := rt.EraseUser(ctx, "acme", "ann", "test")
		if err != nil || !slices.Equal(names, []string{again.SID(), stuck.SID(), told.SID()}) {
			t.Fatalf("%q, %v", names, err)
		}
		for _, s := range []*stile.Session{told, again, stuck} {
			gone(t, rt, s.SID(), s.Incarnation())
		}
		synctest.Wait()
		if p, err := rt.Profile(ctx, "acme", "ann"); err != nil || p.Version != 0 || p.JSON != "" {
			t.Errorf("of the user is known %+v, %v", p, err)
		}
		if names, err := rt.EraseUser(ctx, "acme", "ann", "test"); err != nil || len(names) != 0 {
			t.Errorf("the second time: %q, %v", names, err)
		}
		if _, err := rt.Find(ctx, other.SID()); err != nil {
			t.Errorf("another user's session: %v", err)
		}
		if _, err := rt.EraseUser(ctx, "acme", "a:b", "test"); err == nil {
			t.Error("a user of no name is erased")
		}
	})
}

// A deleted session is erased, whatever it was doing; its name is free, and what is said
// under it then is another session's.
func TestDelete(t *testing.T) {
	for name, cfg := range map[string]stile.Config{"memory": {}, "sqlite": {Dir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			cfg.IdleTimeout = -1
			rt := start(t, cfg)
			const secret = "the password is swordfish"
			idle := &stile.Agent{Dialect: "plain", Model: said("I know: " + secret)}
			clean := &stile.Agent{Dialect: "plain", Model: said("good day")}
			s := opened(t, rt, "idle", idle)
			decided(t, submitted(t, s, secret))
			if err := rt.Delete(ctx, "idle", "ann"); err != nil {
				t.Fatal(err)
			}
			gone(t, rt, "idle", s.Incarnation())
			again := opened(t, rt, "idle", clean)
			if again.Incarnation() == s.Incarnation() {
				t.Error("the name leads to the deleted session")
			}
			decided(t, submitted(t, again, "hello"))
			for r, err := range again.Records(ctx) {
				if err != nil || strings.Contains(string(r.Raw), "swordfish") {
					t.Errorf("%s, %v", r.Raw, err)
				}
			}
			busy := &stile.Agent{Dialect: "plain", Model: &gated{open: make(chan struct{}), Model: said("never")}}
			b := opened(t, rt, "busy", busy)
			run := submitted(t, b, secret)
			queued := submitted(t, b, secret, stile.Policy(stile.Enqueue))
			if err := rt.Delete(ctx, "busy", "ann"); err != nil {
				t.Fatal(err)
			}
			for _, r := range []*stile.Run{run, queued} {
				if o, err := r.Decision(ctx); err == nil && o.Reason != messages.ErrCancelled {
					t.Errorf("%+v", o)
				}
			}
			gone(t, rt, "busy", b.Incarnation())
			if err := rt.Delete(ctx, "absent", "ann"); !stile.IsNotFound(err) {
				t.Errorf("%v", err)
			}
			if _, err := rt.Fork(ctx, "busy", 0, "fork"); err == nil {
				t.Error("a deleted session was forked")
			}
			if cfg.Dir == "" {
				return
			}
			closed(t, rt)
			files, err := filepath.Glob(filepath.Join(cfg.Dir, "journal.db*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if b, err := os.ReadFile(f); err != nil || strings.Contains(string(b), "swordfish") {
					t.Errorf("%s still has what was erased, %v", filepath.Base(f), err)
				}
			}
			// Asleep, and by a process that does not know its agent.
			rt = start(t, stile.Config{Dir: cfg.Dir})
			if err := rt.Delete(ctx, "idle", "ann"); err != nil {
				t.Fatal(err)
			}
			gone(t, rt, "idle", again.Incarnation())
		})
	}
}

// Pieces of a streamed result stay as long as their session, and go with it: none is left in a
// snapshot or in the file.
func TestDeleteStreamed(t *testing.T) {
	ctx := context.Background()
	const piece, kept = "swordfish", "c3dvcmRmaXNo" // as text, and as a record of the piece has it
	man, err := manifest.Parse("m.yaml", []byte("dialect: cortex\nextensions: [stream]\nimport: {tools: [tell]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	tell, err := stile.DefineToolCall("tell", "Tells.", messages.ReadOnly, func(ctx context.Context, c *stile.ToolCall, _ struct{}) (string, error) {
		return piece, c.Emit(ctx, piece)
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	has := func() (left bool) {
		files, err := filepath.Glob(filepath.Join(dir, "journal.db*"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			left = left || strings.Contains(string(b), piece) || strings.Contains(string(b), kept)
		}
		return left
	}
	rt := start(t, stile.Config{Dir: dir})
	s := opened(t, rt, "s", &stile.Agent{Manifest: man, Tools: []stile.Tool{tell}, Model: said(`<action id="a">{"name":"tell","stream":true}</action><response final="true">done</response>`)})
	decided(t, submitted(t, s, "go"))
	chunks := 0
	for r, err := range s.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := r.Body.(*messages.ActionChunk); ok && string(b.Bytes) == piece {
			chunks++
		}
	}
	closed(t, rt) // it sleeps, with a snapshot
	if chunks != 1 || !has() {
		t.Fatalf("%d pieces are on record", chunks)
	}
	rt = start(t, stile.Config{Dir: dir})
	if err := rt.Delete(ctx, "s", "ann"); err != nil {
		t.Fatal(err)
	}
	gone(t, rt, "s", s.Incarnation())
	closed(t, rt)
	if has() {
		t.Error("a piece is left")
	}
}

// Child sessions are deleted with their parent, and with no other session.
func TestDeleteChildren(t *testing.T) {
	ctx := context.Background()
	rt := start(t, stile.Config{})
	man, err := manifest.Parse("m.yaml", []byte("dialect: cortex\nname: boss\nimport: {agents: [helper]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	helper := &stile.Agent{Name: "helper", Dialect: "plain", Model: scripted.New("swordfish", "swordfish")}
	boss := &stile.Agent{Manifest: man, Agents: []*stile.Agent{helper}, Model: scripted.New(
		`<action type="agent" mode="sync" id="a">{"name": "helper", "parameters": {"message": "tell"}}</action>`, `<response final="true">done</response>`,
		`<action type="agent" mode="sync" id="a">{"name": "helper", "parameters": {"message": "tell"}}</action>`, `<response final="true">done</response>`)}
	for _, name := range []string{"one", "two"} {
		decided(t, submitted(t, opened(t, rt, name, boss), "go"))
	}
	heads := map[string]journal.Head{}
	for h, err := range rt.Archive().Sessions(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		heads[h.SID] = h
	}
	if len(heads) != 4 {
		t.Fatalf("%d sessions", len(heads))
	}
	if err := rt.Delete(ctx, "one", "ann"); err != nil {
		t.Fatal(err)
	}
	for sid, h := range heads {
		if strings.HasPrefix(sid, "local:local:one") {
			gone(t, rt, sid, h.Inc)
			continue
		}
		if rep, err := rt.Archive().Verify(ctx, h.Inc, stile.VerifyOptions{}); err != nil || !rep.OK() || len(rep.Erased) > 0 {
			t.Errorf("%s: %+v, %v", sid, rep, err)
		}
	}
}

// Sessions whose time is over are deleted, as many as were asked for; those that are
// younger, or in flight, stay.
func TestExpire(t *testing.T) {
	ctx := context.Background()
	var at atomic.Int64 // Unix seconds
	at.Store(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Unix())
	pass := func(d time.Duration) { at.Add(int64(d / time.Second)) }
	rt := start(t, stile.Config{Now: func() time.Time { return time.Unix(at.Load(), 0) }})
	quick := &stile.Agent{Dialect: "plain", Model: said("hello")}
	incs := map[string]messages.Incarnation{}
	for _, name := range []string{"a", "b", "c", "d"} {
		if name == "d" {
			pass(48 * time.Hour)
		}
		s := opened(t, rt, name, quick)
		decided(t, submitted(t, s, "hello"))
		incs[name] = s.Incarnation()
	}
	pass(-48 * time.Hour)
	stuck := opened(t, rt, "stuck", &stile.Agent{Dialect: "plain", Model: &gated{open: make(chan struct{}), Model: said("never")}})
	submitted(t, stuck, "hello")
	pass(72 * time.Hour)
	cut := time.Unix(at.Load(), 0).Add(-48 * time.Hour)
	for _, want := range []int{2, 1, 0} {
		if n, err := rt.Expire(ctx, cut, 2); n != want || err != nil {
			t.Errorf("%d, %v; want %d", n, err, want)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		gone(t, rt, name, incs[name])
	}
	for _, name := range []string{"d", "stuck"} {
		if _, err := rt.Find(ctx, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

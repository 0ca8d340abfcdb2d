package host_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A session whose receipts were taken away is refused over HTTP, by a run and by a fork, with
// a problem that names session and record and is not to be tried again. It can be read, and
// the sessions beside it go on.
func TestUnprovedSessionOverHTTP(t *testing.T) {
	dir := t.TempDir()
	agent := agentOf("talker", speaks([]string{"hello"}, always()))
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"forged", "honest"} {
		s, err := rt.Open(t.Context(), name, agent)
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Submit(t.Context(), "hello")
		if err == nil {
			_, err = run.Decision(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, stile.JournalFile))
	if err == nil {
		_, err = db.ExecContext(t.Context(), `UPDATE records SET kid = NULL, sig = NULL WHERE pos >> 32 = (SELECT id FROM sessions WHERE sid LIKE '%:forged')`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if rt, err = stile.New(t.Context(), stile.Config{Dir: dir, Agents: []*stile.Agent{agent}}); err != nil {
		t.Fatal(err)
	}
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := serveRuntime(t, l, rt, host.Config{}, agent)
	var p struct {
		Code, Reason, Detail string
		Retryable            bool
	}
	for _, path := range []string{"/v1/sessions/forged/runs", "/v1/sessions/forged/fork"} {
		body, done := `{"input":"go on"}`, 202
		if strings.HasSuffix(path, "fork") {
			body, done = `{}`, 201
		}
		d.call(409, &p, "POST", path, body)
		if p.Code != string(messages.ErrJournal) || p.Reason != journal.ReasonUnproved || p.Retryable || !strings.Contains(p.Detail, "forged: record 1 ") {
			t.Errorf("%s: %+v", path, p)
		}
		d.call(done, nil, "POST", strings.Replace(path, "forged", "honest", 1), body)
	}
	d.call(200, nil, "GET", "/v1/sessions/forged", "")
	d.call(200, nil, "GET", "/v1/sessions/forged/export", "")
}

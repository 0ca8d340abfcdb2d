package cluster

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A database that crashes forgets who runs what. What ran goes on without that anybody asked, once,
// and at no moment at two hosts.
func TestDatabaseCrash(t *testing.T) {
	f := launch(t, 1, time.Second, 2, *campaignLogs)
	if f == nil {
		return
	}
	const sessions = 6
	for i := range sessions {
		id := fmt.Sprint("s", i)
		for _, one := range []struct{ path, body string }{
			{"/v1/sessions", fmt.Sprintf(`{"agent":"talker","id":%q}`, id)}, {"/v1/sessions/" + id + "/runs", `{"input":"go on"}`},
		} {
			if a := f.request(http.MethodPost, one.path, one.body, ""); a.status >= 300 {
				t.Fatal(a)
			}
		}
	}
	f.server.Kill()
	if err := f.server.Restart(); err != nil {
		t.Fatal(err)
	}
	f.goOn()
	ended := 0
	for sid, h := range f.heads() {
		if ended++; h.Pending() {
			t.Errorf("%s is open", sid)
		}
	}
	if ended != sessions {
		t.Errorf("%d sessions", ended)
	}
	f.witness.mu.Lock()
	defer f.witness.mu.Unlock()
	if n := f.witness.overlaps; len(n) > 0 {
		t.Errorf("two hosts had a turn in flight: %v", n)
	}
	for _, p := range f.witness.problems {
		t.Error(p)
	}
}

// A server takes the place of the database that has not all that was committed. Hosts say it, to the
// first who wants something written of each, and to readers who have seen more than there is.
func TestDatabaseLosesCommits(t *testing.T) {
	f := launch(t, 1, time.Second, 2, *campaignLogs)
	if f == nil {
		return
	}
	ask := func(method, path, body string, want int) *outcome {
		t.Helper()
		a := f.request(method, path, body, "")
		if a.err != nil || a.status != want {
			t.Fatalf("%s %s: %v", method, path, a)
		}
		return a
	}
	back := func() {
		t.Helper()
		if err := f.server.Restart(); err != nil {
			t.Fatal(err)
		}
		for _, b := range f.berths {
			for b.ready() != http.StatusOK {
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	ask(http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"s1"}`, http.StatusCreated)
	ask(http.MethodPost, "/v1/sessions/s1/runs?wait=1m", `{"input":"one"}`, http.StatusOK)
	f.server.Quit()
	if err := f.server.Save(); err != nil {
		t.Fatal(err)
	}
	back()
	ask(http.MethodPost, "/v1/sessions/s1/runs?wait=1m", `{"input":"two"}`, http.StatusOK)
	seq := f.heads()["local:local:s1"].Seq
	f.reader = nil
	f.server.Kill()
	if err := f.server.GoBack(); err != nil {
		t.Fatal(err)
	}
	back()
	if a := ask(http.MethodGet, fmt.Sprintf("/v1/sessions/s1/events?after=%d", seq), "", http.StatusConflict); a.refusal().Code != string(messages.ErrConflict) {
		t.Errorf("a reader who has seen more than there is: %v", a)
	}
	ask(http.MethodGet, "/v1/sessions/s1/runs/2", "", http.StatusNotFound)
	said := func() bool {
		var log []byte
		for _, name := range []string{"a.log", "b.log"} {
			one, err := os.ReadFile(filepath.Join(f.logs, name))
			if err != nil {
				t.Fatal(err)
			}
			log = append(log, one...)
		}
		return bytes.Contains(log, []byte("ERR_JOURNAL/"+journal.ReasonLost))
	}
	for begun := time.Now(); !said(); time.Sleep(20 * time.Millisecond) { // a host looks once it is connected again
		if time.Since(begun) > patience {
			t.Fatal("no host has said that the database has lost commits")
		}
	}
	// Who wants something written first of that host is told. It is not known which host that is.
	a, refused := f.request(http.MethodPost, "/v1/sessions/s1/runs?wait=1m", `{"input":"three"}`, ""), 0
	for ; a.status != http.StatusOK && refused < 2; refused++ {
		if a.refusal().Reason != journal.ReasonLost {
			t.Fatal(a)
		}
		a = f.request(http.MethodPost, "/v1/sessions/s1/runs?wait=1m", `{"input":"three"}`, "")
	}
	ask(http.MethodPost, "/v1/sessions/s1/runs?wait=1m", `{"input":"four"}`, http.StatusOK)
}

package cluster

import (
	"fmt"
	"net/http"
	"testing"
	"time"
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

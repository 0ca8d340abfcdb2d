package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A host remembers which one has answered for a session, and asks that one first. Where the session runs
// elsewhere by now, or that host is dead, a submit gets to the session all the same, and once.
func TestWrongGuess(t *testing.T) {
	w := begin(t, "a", "b", "c")
	if w == nil {
		return
	}
	moved := func() string {
		for line := range strings.Lines(string(w.raw("a", http.MethodGet, "/metrics", "").body)) {
			if strings.HasPrefix(line, "stile_cluster_events_total") && strings.Contains(line, `"moved"`) {
				return line
			}
		}
		return ""
	}
	// submitted sends an input to a, and returns the host that runs it.
	submitted := func(id string, runs int) string {
		t.Helper()
		answer := w.later("a", http.MethodPost, "/v1/sessions/"+id+"/runs?wait=1m", `{"input":"one"}`)
		r := w.reply()
		r.say(t, "Hello.")
		r.end()
		if got := <-answer; got.err != nil || got.status != http.StatusOK || !strings.Contains(string(got.body), `"DONE"`) {
			t.Fatalf("%s: %d, %s, %v", id, got.status, got.body, got.err)
		}
		if all := w.ask("c", http.MethodGet, "/v1/sessions/"+id+"/runs", "", http.StatusOK)["runs"].([]any); len(all) != runs {
			t.Errorf("%s has %d runs, want %d: %v", id, len(all), runs, all)
		}
		return r.host
	}
	begins := func(host, id string) {
		t.Helper()
		w.ask(host, http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"agent":"talker","id":%q}`, id), http.StatusCreated)
	}
	for _, id := range []string{"ada", "bob"} {
		begins("b", id)
		if host := submitted(id, 1); host != "b" {
			t.Fatalf("the session of b runs at %s", host)
		}
	}
	// The name is free, and c has the session that bears it now.
	w.ask("b", http.MethodDelete, "/v1/sessions/ada", "", http.StatusNoContent)
	begins("c", "ada")
	was := moved()
	if host := submitted("ada", 1); host != "c" {
		t.Errorf("the session of c runs at %s", host)
	}
	if moved() == was {
		t.Error("a has not asked b first: nothing was guessed")
	}
	was = moved()
	if host := submitted("ada", 2); host != "c" || moved() != was {
		t.Errorf("the next submit goes to %s: before %q, now %q", host, was, moved())
	}
	w.hosts["b"].kill()
	if host := submitted("bob", 2); host == "b" {
		t.Error("a dead host asks")
	}
}

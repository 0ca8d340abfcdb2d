package host

import (
	"strings"
	"testing"
)

// Who wants to begin a session that another request is just beginning hears what came of
// that: that it exists, which is true then, or that it may.
func TestBeginningIsWaitedFor(t *testing.T) {
	s := serverOfTalker(t)
	p := principal{tenant: "local", user: "local"}
	for _, begun := range []bool{false, true} {
		id := map[bool]string{false: "given-up", true: "begun"}[begun]
		first, err := s.vacant(t.Context(), p, id)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		go func() {
			done, err := s.vacant(t.Context(), p, id)
			if err == nil {
				done()
			}
			second <- err
		}()
		if begun {
			if _, err := s.rt.Open(t.Context(), p.sid(id), s.offer.Load().agents["talker"]); err != nil {
				t.Fatal(err)
			}
		}
		first()
		err = <-second
		if begun && (err == nil || !strings.Contains(err.Error(), "exists already")) || !begun && err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

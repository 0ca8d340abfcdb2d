package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// The witness tells a call that was begun in time and comes late from one that was begun late.
func TestWitnessOfLateCalls(t *testing.T) {
	w := newWitness(1, t.Logf)
	does := func(turn, epoch int64, called time.Time) (late bool, problems int) {
		t.Helper()
		w.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/deed?"+url.Values{
			"host": {"a1"}, "session": {"s"}, "turn": {fmt.Sprint(turn)}, "epoch": {fmt.Sprint(epoch)}, "id": {"1"}, "key": {"k"}, "class": {"effectful"},
			"called": {fmt.Sprint(called.UnixNano())},
		}.Encode(), nil))
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.deeds[deedID("s", turn, "1")].late, len(w.problems)
	}
	w.begins("s", "a1", 1)
	w.ends("s", "a1")
	first := time.Now()
	if late, problems := does(1, 1, first); late || problems != 0 {
		t.Errorf("a call in its turn: late %v, %v", late, w.problems)
	}
	w.begins("s", "b1", 2)
	w.ends("s", "b1")
	if late, problems := does(1, 1, first); !late || problems != 0 {
		t.Errorf("a call that comes behind the next turn, and was begun before it: late %v, %v", late, w.problems)
	}
	if late, problems := does(1, 1, time.Now()); !late || problems != 1 {
		t.Errorf("a call that was begun in the next turn: late %v, %v", late, w.problems)
	}
	before := time.Now()
	if late, problems := does(3, 5, before); late || problems != 1 {
		t.Errorf("a call of a later epoch: late %v, %v", late, w.problems)
	}
	if late, problems := does(2, 4, before); !late || problems != 1 {
		t.Errorf("a call of the epoch before, begun in time: late %v, %v", late, w.problems)
	}
	if late, problems := does(2, 4, time.Now()); !late || problems != 2 {
		t.Errorf("a call of the epoch before, begun late: late %v, %v", late, w.problems)
	}
}

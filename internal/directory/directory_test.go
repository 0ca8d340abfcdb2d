package directory

import (
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// live enters a session.
func live(d *Directory, sid, pid string) *Session {
	ref := &Session{SID: sid, PID: actor.NewPID("here", pid)}
	d.Introduce(ref, pid)
	d.Put(ref)
	return ref
}

// A request is the session's once it has arrived. The others come back in their order when the
// session's actor has stopped.
func TestNoRequestIsLost(t *testing.T) {
	d := New()
	ref := live(d, "t:u:s", "p1")
	all := make([]*InTransit, 4)
	for i := range all {
		all[i] = &InTransit{Request: i}
		if d.Aim("t:u:s", all[i]) != ref {
			t.Fatal("another session is aimed at")
		}
	}
	d.Arrived(ref, all[1])
	d.Arrived(ref, all[1]) // says nothing new
	if !d.Remove(ref) || d.Remove(ref) || !ref.Removed() {
		t.Error("a session is removed once")
	}
	if d.Aim("t:u:s", all[1]) != nil || d.Find("t:u:s") != nil || d.Len() != 0 {
		t.Error("a session that was removed is found")
	}
	if d.Who("p1") != ref {
		t.Error("an actor that has not stopped knows who it is")
	}
	stranded := d.Forget(ref, "p1")
	if !slices.Equal(stranded, []*InTransit{all[0], all[2], all[3]}) || d.Who("p1") != nil {
		t.Errorf("%v came back", stranded)
	}
	if again := d.Forget(ref, "p1"); again != nil {
		t.Errorf("%v came back again", again)
	}
}

// The next activation of a session has its name, whatever becomes of the one before.
func TestRemoveLeavesTheNextActivation(t *testing.T) {
	d := New()
	before := live(d, "t:u:s", "p1")
	d.Remove(before)
	next := live(d, "t:u:s", "p2")
	if d.Remove(before) || d.Find("t:u:s") != next {
		t.Error("the next activation was taken out")
	}
	d.Forget(before, "p1")
	if d.Find("t:u:s") != next || d.Who("p2") != next {
		t.Error("the next activation was forgotten")
	}
}

func TestIdleBefore(t *testing.T) {
	d, begun := New(), time.Unix(1000, 0)
	a, b := live(d, "t:u:a", "p1"), live(d, "t:u:b", "p2")
	live(d, "t:u:c", "p3") // busy from the beginning
	a.IdleSince(begun)
	b.IdleSince(begun.Add(time.Minute))
	if idle := d.IdleBefore(begun.Add(time.Second)); !slices.Equal(idle, []*Session{a}) {
		t.Errorf("%d idle sessions", len(idle))
	}
	a.Busy()
	if idle := d.IdleBefore(begun.Add(time.Hour)); !slices.Equal(idle, []*Session{b}) {
		t.Errorf("%d idle sessions", len(idle))
	}
}

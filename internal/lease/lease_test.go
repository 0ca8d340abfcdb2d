package lease

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestTerm(t *testing.T) {
	const length = 2 * time.Second
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name    string
		renewed []int // moments at which renewals were sent
		refused bool
		now     int
		held    bool
	}{
		{"never joined", nil, false, 0, false},
		{"just joined", []int{0}, false, 0, true},
		{"before the margin", []int{0}, false, 1749, true},
		{"at the margin", []int{0}, false, 1750, false},
		{"renewed", []int{0, 500, 1000}, false, 2749, true},
		{"the last renewal counts from when it was sent", []int{0, 500, 1000}, false, 2750, false},
		{"answers out of order", []int{1000, 500}, false, 2749, true},
		{"the database refuses", []int{0, 500}, true, 501, false},
	} {
		term := Term{Length: length}
		for _, ms := range c.renewed {
			term.Renewed(at(ms))
		}
		if c.refused {
			term.Refused()
		}
		if held := term.Held(at(c.now)); held != c.held {
			t.Errorf("%s: held %v", c.name, held)
		}
		if c.held {
			continue
		}
		if term.Renewed(at(c.now)); term.Held(at(c.now)) {
			t.Errorf("%s: a lease that was over came back", c.name)
		}
	}
	term := Term{Length: length}
	term.Renewed(at(0))
	if got := term.Next(); !got.Equal(at(500)) {
		t.Errorf("renews at %v", got.Sub(start))
	}
}

func TestOwner(t *testing.T) {
	want := Host{ID: uuid.UUID{1}, Address: "10.0.0.2:8472"}
	if got, ok := Owner(Refuse("t:u:s", want)); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, err := range []error{nil, errors.New("x"), Lost()} {
		if _, ok := Owner(err); ok {
			t.Errorf("%v names an owner", err)
		}
	}
}

func TestKeeper(t *testing.T) {
	const length = 2 * time.Second
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	k := Keep(length, at(0))
	if !k.Next().Equal(at(500)) || !k.Until().Equal(at(1750)) || !k.Woken().Equal(at(62).Add(500*time.Microsecond)) {
		t.Errorf("renews at %v, woken at %v, until %v", k.Next(), k.Woken(), k.Until())
	}
	if !k.Send(at(500)) {
		t.Fatal("the lease is over")
	}
	if k.Failed(at(600)); !k.Next().Equal(at(725)) {
		t.Errorf("after a failure it renews at %v", k.Next())
	}
	if k.Failed(at(1700)); !k.Next().Equal(at(1750)) {
		t.Errorf("shortly before the end it renews at %v", k.Next())
	}
	if !k.Send(at(1000)) || !k.Renewed(at(1600)) || !k.Until().Equal(at(2750)) || !k.Next().Equal(at(1500)) {
		t.Errorf("a renewal counts from when it was sent: until %v, next %v", k.Until(), k.Next())
	}
	if !k.Send(at(2000)) || k.Renewed(at(2750)) || k.Send(at(2751)) {
		t.Error("an answer that comes when the lease is over counts")
	}
	k = Keep(length, at(0))
	if k.Refused(at(100)); k.Send(at(101)) || !k.Next().Equal(at(100)) {
		t.Error("a lease that the database does not know goes on")
	}
}

func TestSessions(t *testing.T) {
	at := time.Unix(1000, 0)
	var s Sessions
	if s.GiveUp("a") {
		t.Error("a session that the host does not have is given up")
	}
	s.Claimed("b")
	s.Claimed("a")
	if !s.GiveUp("b") || !s.GiveUp("a") || !slices.Equal(s.Leaving(), []string{"a", "b"}) {
		t.Errorf("leaving are %v", s.Leaving())
	}
	if mine, _ := s.Wants("a"); !mine || !slices.Equal(s.Leaving(), []string{"b"}) {
		t.Error("a session that is wanted again is given up")
	}
	// It is not known whether the database was told: it is asked again, not before the word is there.
	s.Unsure([]string{"b", "c"}, at)
	if mine, before := s.Wants("b"); mine || !before.Equal(at) {
		t.Errorf("a session whose release may be on its way is had: %v, %v", mine, before)
	}
	if _, before := s.Wants("c"); !before.IsZero() {
		t.Error("a session that the host does not have waits for a release")
	}
	s.Claimed("b")
	if mine, _ := s.Wants("b"); !mine {
		t.Error("a session that was claimed again is not had")
	}
	// One that has stopped in the middle stays the host's until it was looked at.
	s.Owe("a")
	if s.GiveUp("a") || !slices.Equal(s.Due(at), []string{"a"}) || len(s.Leaving()) != 0 {
		t.Errorf("owed are %v, leaving are %v", s.Due(at), s.Leaving())
	}
	s.Looks("a", at)
	if !s.Looked("a", Look{Found: Idle}, at) || !slices.Equal(s.Leaving(), []string{"a"}) {
		t.Errorf("a session that was looked at is kept: leaving are %v", s.Leaving())
	}
	s.GivenUp([]string{"a"})
	if s.Has("a") || s.Len() != 1 {
		t.Error("a session that was given up is had")
	}
	if s.Lost(); s.Len() != 0 || !slices.Equal(s.Due(at), []string{"b"}) {
		t.Errorf("without a lease the host has %d sessions, and looks at %v", s.Len(), s.Due(at))
	}
	if got := Settled(at, 8*time.Second); !got.Equal(at.Add(9 * time.Second)) {
		t.Errorf("a release is settled after %v", got.Sub(at))
	}
}

func TestAnswerAndDead(t *testing.T) {
	self, other := uuid.UUID{1}, Host{ID: uuid.UUID{2}, Left: -time.Second}
	if Answer("s", self, Host{ID: self}) != nil {
		t.Error("its own session is not the host's")
	}
	if owner, ok := Owner(Answer("s", self, other)); !ok || owner != other {
		t.Error("another's session is not the other's")
	}
	if err := Answer("s", self, Host{}); err == nil {
		t.Error("a host without a lease has the session")
	}
	all := []Host{{ID: self, Left: -time.Second}, other, {ID: uuid.UUID{3}, Left: time.Second}}
	if dead := Dead(self, all); len(dead) != 1 || dead[0] != other.ID {
		t.Errorf("dead are %v", dead)
	}
}

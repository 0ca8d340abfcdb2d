package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// looks are those that a host has at a session, each when it is due.
type looks struct {
	t   *testing.T
	s   Sessions
	now time.Time
}

// next has the host look at "s" when that is due, and find something. It returns how long that was.
func (l *looks) next(look Look) (after time.Duration) {
	l.t.Helper()
	for ; len(l.s.Due(l.now)) == 0; after += time.Millisecond {
		if l.now = l.now.Add(time.Millisecond); after > time.Hour {
			l.t.Fatal("the host does not look")
		}
	}
	l.s.Looks("s", l.now)
	if len(l.s.Due(l.now)) > 0 {
		l.t.Error("the host looks twice at once")
	}
	l.s.Looked("s", look, l.now)
	return after
}

func (l *looks) owes() bool { return len(l.s.Due(l.now.Add(time.Hour))) > 0 }

// A host looks at a session that it owes until the session rests or runs here, or another host has
// written to it since the host looked first.
func TestLooks(t *testing.T) {
	at := func(n byte) Look { return Look{HeldElsewhere, messages.Digest{n}} }
	for _, c := range []struct {
		name   string
		finds  []Look
		pauses []time.Duration // before each look
		owes   bool
	}{
		{"idle", []Look{{Found: Idle}}, []time.Duration{0}, false},
		{"runs", []Look{{Found: Runs}}, []time.Duration{0}, false},
		{"unknown", []Look{{}, {}}, []time.Duration{0, 0}, true},
		{"another host has it", []Look{at(1), at(1), at(1)}, []time.Duration{0, firstPause, 2 * firstPause}, true},
		{"another host goes on", []Look{at(1), at(1), at(2)}, []time.Duration{0, firstPause, 2 * firstPause}, false},
		{"another host gives it up", []Look{at(1), {Found: Runs}}, []time.Duration{0, firstPause}, false},
		{"another host dies", []Look{at(1), {}, at(1), {Found: Idle}}, []time.Duration{0, firstPause, 0, 2 * firstPause}, false},
	} {
		l := &looks{t: t, now: time.Unix(1000, 0)}
		l.s.Owe("s")
		for i, look := range c.finds {
			if got := l.next(look); got != c.pauses[i] {
				t.Errorf("%s: look %d comes after %v, not after %v", c.name, i+1, got, c.pauses[i])
			}
		}
		if l.owes() != c.owes {
			t.Errorf("%s: the host owes a look: %v", c.name, l.owes())
		}
	}
	l := &looks{t: t, now: time.Unix(1000, 0)}
	l.s.Owe("s")
	for last := time.Duration(0); last != lastPause; {
		pause := l.next(at(1))
		if pause > lastPause || pause <= last && last > 0 {
			t.Fatalf("a pause of %v, and then one of %v", last, pause)
		}
		last = pause
	}
	// One that stops again is looked at at once, and may be another host's in another place.
	l.s.Owe("s")
	if pause := l.next(at(2)); pause != 0 || !l.owes() {
		t.Errorf("a session that stopped again is looked at after %v", pause)
	}
}

// A session that stops while the host looks at it is looked at once more.
func TestStopsInALook(t *testing.T) {
	now := time.Unix(1000, 0)
	var s Sessions
	s.Claimed("s")
	s.Owe("s")
	s.Looks("s", now)
	s.Owe("s")
	if s.Looked("s", Look{Found: Idle}, now) || !slices.Equal(s.Due(now), []string{"s"}) {
		t.Error("the look that began before is enough")
	}
	s.GiveUp("s") // nothing of it runs any more
	s.Looks("s", now)
	if !s.Looked("s", Look{Found: Idle}, now) || len(s.Due(now)) != 0 || !slices.Equal(s.Leaving(), []string{"s"}) {
		t.Error("a session of which nothing is open or runs is kept")
	}
	// One that is opened meanwhile stays.
	s.Owe("s")
	s.GiveUp("s")
	s.Looks("s", now)
	s.Wants("s")
	if s.Looked("s", Look{Found: Idle}, now) || len(s.Leaving()) != 0 {
		t.Error("a session that runs is given up")
	}
	if s.Looked("another", Look{Found: Idle}, now) {
		t.Error("a session that is not owed is given up")
	}
}

// A claim without an answer may make the session the host's later, and the host does not know it. It
// looks behind that, and then gives up what does not run here.
func TestDoubt(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0) }
	for _, c := range []struct {
		name  string
		then  func(s *Sessions) // before the last look
		look  Look
		given bool
	}{
		{"it is idle", func(*Sessions) {}, Look{Found: Idle}, true},
		{"it runs here", func(s *Sessions) { s.Wants("s"); s.Claimed("s") }, Look{Found: Runs}, false},
		{"it ran here", func(s *Sessions) { s.Wants("s"); s.Claimed("s"); s.GiveUp("s") }, Look{Found: Idle}, true},
	} {
		var s Sessions
		s.Doubt("s", at(10))
		s.Doubt("s", at(9))
		for _, look := range []Look{{Found: Idle}, {HeldElsewhere, messages.Digest{1}}} {
			s = Sessions{}
			s.Doubt("s", at(10))
			s.Doubt("s", at(9))
			s.Looks("s", at(1))
			if s.Looked("s", look, at(11)) {
				t.Errorf("%s: the session is given up before the claim is settled", c.name)
			}
		}
		s.Looks("s", at(2))
		s.Looked("s", Look{HeldElsewhere, messages.Digest{2}}, at(2)) // another host goes on with it
		if len(s.Due(at(9))) != 0 || len(s.Due(at(10))) != 1 {
			t.Errorf("%s: looks at %v before the claim is settled, then at %v", c.name, s.Due(at(9)), s.Due(at(10)))
		}
		c.then(&s)
		s.Looks("s", at(10))
		if s.Looked("s", c.look, at(11)) != c.given || len(s.Due(at(3600))) != 0 {
			t.Errorf("%s: given up %v, due %v", c.name, !c.given, s.Due(at(3600)))
		}
	}
	// The release of a session that the host does not know to have may be late, too.
	var s Sessions
	s.Doubt("s", at(10))
	s.Looks("s", at(10))
	if !s.Looked("s", Look{Found: Idle}, at(10)) {
		t.Fatal("the session is not given up")
	}
	if s.Claimed("s"); len(s.Leaving()) != 0 {
		t.Error("a session that was claimed meanwhile leaves")
	}
	s.GiveUp("s")
	s.GivenUp([]string{"s"})
	s.Doubt("s", at(10))
	s.Looks("s", at(10))
	s.Looked("s", Look{Found: Idle}, at(10))
	s.Unsure(s.Leaving(), at(20))
	if mine, before := s.Wants("s"); mine || !before.Equal(at(20)) {
		t.Errorf("it is claimed from %v on", before)
	}
	s.Claimed("s")
	// Of a host without a lease the database makes nothing.
	s.Doubt("s", at(100))
	s.Lost()
	s.Looks("s", at(30))
	if s.Looked("s", Look{Found: Idle}, at(30)) || len(s.Due(at(3600))) != 0 {
		t.Error("a host that has lost its lease looks behind a claim from before")
	}
}

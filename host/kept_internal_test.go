package host

import (
	"math/rand/v2"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/messages"
)

// sessionsOf are the sessions of a tenant, which the hosts have in common.
type sessionsOf struct {
	t     *testing.T
	hosts []*sharer
	exist atomic.Int64
}

// begin begins a session at a host, to which the journal is some way off.
func (s *sessionsOf) begin(i int, fails bool) bool {
	h := s.hosts[i]
	h.mu.Lock()
	l := h.limits
	h.mu.Unlock()
	end, ok, err := h.shares.begin(s.t.Context(), "acme", l)
	if err != nil && messages.CodeOf(err) != messages.ErrBusy {
		s.t.Error(err)
	}
	if err != nil || !ok {
		return false
	}
	time.Sleep(h.far)
	if !fails {
		s.exist.Add(1)
	}
	time.Sleep(h.far)
	end(!fails)
	return !fails
}

func sessionsAt(t *testing.T, hosts []*sharer) *sessionsOf {
	s := &sessionsOf{t: t, hosts: hosts}
	hosts[0].Memory.Exist = func(string) int64 { return s.exist.Load() }
	return s
}

// As many sessions of a tenant exist as may, whichever hosts they were begun at, and also when their
// host is gone; one that is deleted, and one that failed, makes room at any host.
func TestSessionsOfAllHosts(t *testing.T) {
	for _, most := range []int{1, 3, 40} {
		synctest.Test(t, func(t *testing.T) {
			s := sessionsAt(t, sharersOf(t, 3, Limits{Sessions: most}))
			fill := func() {
				t.Helper()
				for range 2 * most {
					for i := range s.hosts {
						if _, held := s.hosts[i].Life(); held {
							s.begin(i, false)
						}
					}
				}
				if n := s.exist.Load(); n != int64(most) {
					t.Errorf("of %d sessions %d exist", most, n)
				}
			}
			var work sync.WaitGroup
			for i := range s.hosts {
				for range most + 2 {
					work.Go(func() { s.begin(i, false) })
				}
			}
			work.Wait()
			if n := s.exist.Load(); n > int64(most) || n < int64(most)-2 { // those that waited in vain may have just missed one
				t.Errorf("of %d sessions %d exist", most, n)
			}
			time.Sleep(time.Second)
			fill()
			for i := range s.hosts { // what is deleted is begun anew wherever
				s.exist.Add(-1)
				time.Sleep(time.Second)
				if !s.begin(i, false) {
					t.Errorf("a session is deleted, and host %d begins none", i)
				}
				time.Sleep(time.Second)
				if s.begin(i, false) {
					t.Errorf("host %d begins one more than %d", i, most)
				}
			}
			s.exist.Add(-1)
			time.Sleep(time.Second)
			if s.begin(0, true); s.begin(0, true) {
				t.Error("a session that fails has begun")
			}
			time.Sleep(time.Second)
			fill()
			// The sessions of a host that is gone exist.
			s.hosts[1].die()
			time.Sleep(time.Second)
			fill()
			if s.begin(1, false) {
				t.Error("a host without a lease begins a session")
			}
			s.hosts[1].rejoin()
			time.Sleep(time.Second)
			fill()
			s.exist.Store(0)
			time.Sleep(time.Second)
			if !s.begin(0, false) { // its place is used up, and the host does nothing more
				t.Error("no session exists, and none begins")
			}
			s.exist.Store(0)
			time.Sleep(time.Second)
			for n := range most { // one host may have all
				if !s.begin(2, false) {
					t.Errorf("session %d of %d at one host is refused, and the others begin none", n+1, most)
				}
			}
		})
	}
}

// A host that has used its part takes more while there is more: a request whose place another one
// took in the meantime is not refused for it.
func TestPlacesTakenByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 40
		s := sessionsAt(t, sharersOf(t, 1, Limits{Sessions: most}))
		h := s.hosts[0]
		if !s.begin(0, false) {
			t.Fatal("the first session is refused")
		}
		for { // as many as the host has places for
			end, ok := h.meter.begin("acme", most)
			if !ok {
				break
			}
			s.exist.Add(1)
			end(true)
		}
		if n := s.exist.Load(); n >= most {
			t.Fatalf("the host took %d of %d places for one session", n, most)
		}
		if !h.shares.mayCome("acme", share.Sessions, 1) {
			t.Errorf("%d of %d sessions exist, and the host looks for no more places", s.exist.Load(), most)
		}
	})
}

// While words are on their way, hosts come and go, and sessions begin, fail and are deleted, there
// are never more of them than the tenant may have.
func TestSessionsWhileWordsAreOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		s := sessionsAt(t, sharersOf(t, 3, Limits{Sessions: most}))
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var work sync.WaitGroup
		var got, full atomic.Int64
		for i, h := range s.hosts {
			h.far = time.Duration(7*(i+1)) * time.Millisecond
			alive := make(chan struct{}, 5) // a host that dies has nothing on its way to the journal: the fence sees to that
			for client := range cap(alive) {
				rnd := rand.New(rand.NewPCG(seed, uint64(10*i+client)))
				pause := func(most time.Duration) { time.Sleep(time.Duration(rnd.Int64N(int64(most)))) }
				work.Go(func() {
					for range 60 {
						if client == 0 && rnd.IntN(8) == 0 {
							for range cap(alive) {
								alive <- struct{}{}
							}
							h.die()
							pause(time.Second)
							h.rejoin()
							for range cap(alive) {
								<-alive
							}
						}
						alive <- struct{}{}
						begun := s.begin(i, rnd.IntN(5) == 0)
						<-alive
						n := s.exist.Load()
						if n > most {
							t.Errorf("%d sessions of %d", n, most)
						}
						if n == most {
							full.Add(1)
						}
						if begun {
							got.Add(1)
							pause(3 * time.Second)
							s.exist.Add(-1)
						}
						pause(500 * time.Millisecond)
					}
				})
			}
		}
		work.Wait()
		if got.Load() < 100 || full.Load() == 0 {
			t.Errorf("%d sessions in all, and %d times as many as may be", got.Load(), full.Load())
		}
	})
}

// What hosts write to the sessions of a tenant counts at all of them, whether its host is there or
// not, also at one that was idle, and it is measured seldom.
func TestJournalOfAllHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 16_000
		hosts := sharersOf(t, 3, Limits{JournalBytes: limit})
		var disc atomic.Int64
		measured := 0
		write := func(i int, n int64) {
			disc.Add(n)
			hosts[i].meter.observe(&messages.Record{SID: "acme:ann:s", Run: 1, Raw: make([]byte, n), Body: &messages.RunEnd{}})
		}
		kept := func(i int) int64 {
			t.Helper()
			if err := hosts[i].shares.hear(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			n, err := hosts[i].meter.journal("acme", limit, func() (int64, error) {
				measured++
				return disc.Load(), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		all := func(when string) {
			t.Helper()
			for i := range hosts {
				if _, held := hosts[i].Life(); !held {
					continue
				}
				if n := kept(i); n != disc.Load() {
					t.Errorf("%s host %d says that %d bytes are kept of %d", when, i, n, disc.Load())
				}
			}
		}
		disc.Store(500) // of the days before
		write(0, 100)
		time.Sleep(time.Second)
		all("at first")
		for range 3 {
			write(0, 100)
			write(1, 50)
			time.Sleep(time.Second) // all is said
			all("while two hosts write")
		}
		if measured != 3 {
			t.Errorf("the journal is measured %d times", measured)
		}
		before := hosts[0].Calls.Load()
		for range 100 {
			kept(2)
		}
		if n := hosts[0].Calls.Load() - before; n > 1 {
			t.Errorf("100 requests at one moment ask %d times", n)
		}
		write(0, 100)
		time.Sleep(time.Second)
		hosts[0].die()
		time.Sleep(time.Second)
		all("behind a host that is gone")
		if err := hosts[0].shares.hear(t.Context(), "acme"); messages.CodeOf(err) != messages.ErrBusy {
			t.Errorf("a host without a lease says %v", err)
		}
		write(1, 100)
		hosts[0].rejoin()
		time.Sleep(time.Second)
		all("beside a host that came back")
		write(0, 100)
		time.Sleep(time.Second)
		all("behind a host that came back")
		write(0, limit)
		synctest.Wait()
		time.Sleep(time.Second)
		all("after a run over the limit")
		disc.Store(1000)
		time.Sleep(recount)
		all("when sessions were deleted")
		write(0, 200) // of which idle hosts hear nothing on that day
		time.Sleep(time.Hour)
		write(2, 300)
		time.Sleep(time.Second)
		all("on the next day")
	})
}

// The table leaves out what this host calls ephemeral.
func TestUnnamedSessions(t *testing.T) {
	of := regexp.MustCompile(share.Unnamed)
	for _, id := range []string{ephemeralID(""), ephemeralID("key"), ephemeralPrefix + uuid.Nil.String(), ephemeralPrefix + "a", "s", ephemeralPrefix + uuid.Nil.String() + "a", "x" + ephemeralPrefix + uuid.Nil.String(), ephemeralPrefix + "urn:uuid:" + uuid.Nil.String()} {
		if got := of.MatchString("acme:ann:" + id); got != isEphemeral(id) {
			t.Errorf("%s: %v", id, got)
		}
	}
}

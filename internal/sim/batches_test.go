package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// script is a cluster of two hosts to which nothing happens by chance: a test says what does.
type script struct {
	t     *testing.T
	w     *world
	a, b  *host
	c     *client
	holds func(*statement) bool // statements that do not get on
}

func newScript(t *testing.T) *script {
	w := newWorld(1, true, nil)
	for _, h := range w.hosts {
		h.die()
	}
	w.hosts, w.weather, w.groups = w.hosts[:2], weather{}, 1
	for _, h := range w.hosts {
		h.boot()
	}
	x := &script{t: t, w: w, a: w.hosts[0], b: w.hosts[1], c: w.clients[0], holds: func(*statement) bool { return false }}
	x.until("both have a lease", func() bool { return x.a.held() && x.b.held() })
	return x
}

// until lets the hosts go on until something is so.
func (x *script) until(what string, so func() bool) {
	x.t.Helper()
	k := x.w.cluster
	for range 10_000 {
		if so() {
			return
		}
		for _, c := range slices.Clone(k.calls) {
			c.late = time.Time{}
			if c.moves() && !x.holds(c) {
				c.move()
			}
		}
		k.carry()
		x.w.now = x.w.now.Add(20 * time.Millisecond)
		for _, h := range x.w.hosts {
			h.attend()
		}
		x.w.alone()
	}
	x.t.Fatalf("it does not come to this: %s", what)
}

// submit has the client ask for a run at the first host.
func (x *script) submit(key string) {
	in, err := x.c.dialect.input(messages.Input{Text: "hello", User: "u", Key: key, Policy: messages.Enqueue})
	if err != nil {
		x.t.Fatal(err)
	}
	x.c.asks(x.a.shells[0], &asked{in: in, at: x.a.shells[0], req: &request{c: x.c}, back: func(came) {}})
}

// pending reports whether something of the session is open, by the journal.
func (x *script) pending() bool {
	head, err := x.w.disk.Head(bg, x.c.sid)
	return err == nil && head.Pending()
}

// commits has batches of the first host get to the journal until something is open, or nothing is.
func (x *script) commits(open bool) {
	x.t.Helper()
	for x.a.busy {
		if x.a.commit(); x.pending() == open {
			return
		}
	}
	x.t.Fatalf("behind all batches something is open: %v", !open)
}

// A host loses its lease with two batches of a session on the way: the first ends its run, the second
// begins another. The host that has taken the session over is refused between the two, looks, finds
// nothing to do, and has the session without running it. Whichever of the two comes first, the session
// goes on by itself.
func TestBatchesThatComeLate(t *testing.T) {
	for _, told := range []bool{false, true} { // whether the first host asks while the other still has the session
		t.Run(fmt.Sprint(told), func(t *testing.T) {
			x := newScript(t)
			defer x.w.bury()
			k, a, b := x.w.cluster, x.a, x.b
			a.open(x.c, func(error) {})
			x.until("the first host runs the session", func() bool { return a.shells[0] != nil })
			x.submit("h-1")
			x.commits(true)
			x.c.last++
			x.c.asked[x.c.last] = &asked{cancel: true}
			a.shells[0].step(&turn.Cancel{Handle: x.c.last, By: "user"})
			x.submit("h-2")
			a.frozen, a.thaw = true, x.w.now.Add(time.Hour)
			x.until("the second host takes the session over", func() bool { return b.shells[0] != nil })
			life := b.member.id
			x.commits(false)
			b.commit()
			b.acknowledge()
			x.holds = func(c *statement) bool { return c.h == b && c.what == "a release" }
			x.until("the second host has looked", func() bool { return b.shells[0] == nil && len(b.member.has.Due(b.mono())) == 0 })
			if !told {
				x.holds = func(*statement) bool { return false }
				x.until("the second host gives the session up", func() bool { return k.leases[x.c.sid] != b.member.id })
			}
			x.commits(true)
			asked := false
			if a.frozen = false; told {
				x.holds = func(c *statement) bool {
					asked = asked || c.h == a && c.done && strings.HasPrefix(c.what, "a claim of ")
					return c.h == b && c.what == "a release"
				}
				x.until("the first host asks for the session", func() bool { return asked && a.member.pays == 0 })
				x.holds = func(*statement) bool { return false }
			}
			x.until("a host goes on with the session", func() bool { return a.shells[0] != nil || b.shells[0] != nil })
			if b.member.id != life {
				t.Error("the second host has lost its lease")
			}
			x.w.rest()
			var digest [sha256.Size]byte
			x.w.judge(&digest)
		})
	}
}

package share_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/internal/share/sharetest"
)

// member is a host that heeds the rules of the package.
type member struct {
	id         uuid.UUID
	turn       int64
	used, held int64
	last       share.Share
}

// word is what a host has said, which may come late, or never.
type word struct {
	host uuid.UUID
	turn int64
	asks []share.Ask
}

// Whatever is lost, late or said twice, and whichever host dies, the parts of all hosts are never
// more than the limit; and once nothing is lost any more and the others give up what they do not
// use, a host gets all.
func TestPartsAreNeverMoreThanAll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		limit, day := 1+rnd.Int64N(30), ""
		if rnd.IntN(2) == 0 {
			day = "2026-11-27"
		}
		name := share.Name{Tenant: "acme", Kind: share.Tokens, Day: day}
		table := &sharetest.Memory{}
		hosts := make([]*member, 1+rnd.IntN(4))
		var dead int64 // what the table knows of hosts that are gone
		begin := func(m *member) {
			if m.id != (uuid.UUID{}) {
				table.End(m.id)
			}
			if day != "" {
				dead += table.UsedBy(m.id, name)
			}
			*m = member{id: uuid.New()}
			table.Join(m.id)
		}
		for i := range hosts {
			hosts[i] = &member{}
			begin(hosts[i])
		}
		var late []word
		sum := func() (all int64) {
			for _, m := range hosts {
				all += max(m.used, m.held)
			}
			return all + dead
		}
		ask := func(m *member, want int64) (w word) {
			m.turn++
			m.held = min(m.held, want)
			return word{m.id, m.turn, []share.Ask{{Name: name, Limit: limit, Used: m.used, Held: m.held, Want: want}}}
		}
		hear := func(m *member, w word, got []share.Share) {
			if len(got) == 1 && m.id == w.host && m.turn == w.turn {
				m.held, m.last = got[0].Held, got[0]
			}
		}
		for range 100 {
			m := hosts[rnd.IntN(len(hosts))]
			switch rnd.IntN(8) {
			case 0, 1: // it uses some of its part
				if m.used < m.held {
					m.used += 1 + rnd.Int64N(m.held-m.used)
				}
			case 2:
				if day == "" {
					m.used = rnd.Int64N(m.used + 1)
				}
			case 3:
				if rnd.IntN(4) == 0 {
					begin(m)
				}
			default:
				w := ask(m, share.Want(limit, m.used, rnd.Int64N(3), rnd.IntN(3) > 0, m.last, len(hosts)))
				switch rnd.IntN(5) {
				case 0: // it is lost, or comes late
					late = append(late, w)
				case 1: // its answer is lost
					_, _ = table.Share(t.Context(), w.host, w.turn, w.asks)
					late = append(late, w)
				default:
					got, _ := table.Share(t.Context(), w.host, w.turn, w.asks)
					hear(m, w, got)
				}
			}
			if n := len(late); n > 0 && rnd.IntN(3) == 0 {
				i := rnd.IntN(n)
				_, _ = table.Share(t.Context(), late[i].host, late[i].turn, late[i].asks)
				late[i] = late[n-1]
				late = late[:n-1]
			}
			if all := sum(); all > limit {
				t.Fatalf("the hosts have %d of %d", all, limit)
			}
		}
		used := dead
		for _, m := range hosts[1:] {
			w := ask(m, m.used)
			got, _ := table.Share(t.Context(), w.host, w.turn, w.asks)
			hear(m, w, got)
			used += m.used
		}
		w := ask(hosts[0], limit)
		got, _ := table.Share(t.Context(), w.host, w.turn, w.asks)
		hear(hosts[0], w, got)
		if hosts[0].held != limit-used {
			t.Fatalf("of %d, of which %d are used, a host gets %d", limit, used, hosts[0].held)
		}
	}
}

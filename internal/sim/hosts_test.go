package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Hosts that share a journal with leases hold the invariants, too. make sim plays fresh seeds.
func TestHosts(t *testing.T) {
	rep := run(t, Options{Seed: 4000000, Turns: 1000, Hosts: 1})
	t.Logf("%+v", rep.Stats)
	for name, n := range map[string]int64{
		"lost leases": rep.Lost, "takeovers": rep.Taken, "forwards": rep.Forwarded, "frozen hosts": rep.Frozen, "crashes of the database": rep.Forgotten,
	} {
		if n == 0 {
			t.Errorf("no %s in %d turns", name, rep.Turns)
		}
	}
}

// A seed says everything about a cluster, too.
func TestSameSeedSameCluster(t *testing.T) {
	first := run(t, Options{Seed: 7, Turns: 200, Hosts: 1, Workers: 1})
	if again := run(t, Options{Seed: 7, Turns: 200, Hosts: 1, Workers: 3}); again.Digest != first.Digest || again.Steps != first.Steps {
		t.Error("another run of the same seeds gives other journals")
	}
}

// The checks of a cluster can fail.
func TestChecksOfHostsCanFail(t *testing.T) {
	for name, c := range map[string]struct {
		how        sabotage
		want, says string
	}{
		"a lease is believed in for ever": {sabotage{believes: true}, "lease", "lease"},
		"what is left is not taken up":    {sabotage{abandons: true}, "rest", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				if f := simulateBroken(seed, true, nil, c.how).err; f != nil {
					if f.Invariant != c.want || !strings.Contains(f.Detail, c.says) {
						t.Errorf("seed %d: %s fails: %s", seed, f.Invariant, f.Detail)
					}
					return
				}
			}
			t.Error("no invariant failed")
		})
	}
}

// A key of the hosts' stands for one input, as long as the session remembers it.
func TestOnce(t *testing.T) {
	for between, twice := range map[int]bool{0: true, turn.KeyMemory - 1: true, turn.KeyMemory: false} {
		inputs := map[int64]*messages.Record{}
		for n := range between + 2 {
			key := fmt.Sprint("k", n)
			if n == 0 || n == between+1 {
				key = "h-1"
			}
			inputs[int64(2*n+1)] = &messages.Record{Body: &messages.Input{Key: key}}
		}
		if err := once(inputs); (err != nil) != twice {
			t.Errorf("with %d keys between: %v", between, err)
		}
	}
}

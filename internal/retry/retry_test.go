package retry

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/llm"
)

func TestPolicy(t *testing.T) {
	var p Policy
	passing := llm.Failure{Status: 503, Retryable: true}
	for _, c := range []struct {
		name string
		p    Policy
		a    Attempt
		f    llm.Failure
		want Step
	}{
		{"first", p, Attempt{N: 1}, passing, Step{Retry, 500 * time.Millisecond}},
		{"second", p, Attempt{N: 2}, passing, Step{Retry, time.Second}},
		{"third is the last", p, Attempt{N: 3}, passing, Step{}},
		{"third, another model", p, Attempt{N: 3, Models: 1}, passing, Step{Do: Fallback}},
		{"not retryable", p, Attempt{N: 1}, llm.Failure{Status: 401}, Step{}},
		{"not retryable, another model", p, Attempt{N: 1, Models: 2}, llm.Failure{Status: 401}, Step{Do: Fallback}},
		{"a byte was delivered", p, Attempt{N: 1, Delivered: 1, Models: 1}, passing, Step{}},
		{"asked to wait", p, Attempt{N: 1}, llm.Failure{Retryable: true, RetryAfter: 7 * time.Second}, Step{Retry, 7 * time.Second}},
		{"asked to wait less than we would", p, Attempt{N: 2}, llm.Failure{Retryable: true, RetryAfter: time.Millisecond}, Step{Retry, time.Second}},
		{"asked to wait the cap", p, Attempt{N: 1}, llm.Failure{Retryable: true, RetryAfter: DefaultCap}, Step{Retry, DefaultCap}},
		{"asked to wait too long", p, Attempt{N: 1}, llm.Failure{Retryable: true, RetryAfter: DefaultCap + 1}, Step{}},
		{"asked to wait too long, another model", p, Attempt{N: 1, Models: 1}, llm.Failure{Retryable: true, RetryAfter: time.Hour}, Step{Do: Fallback}},
		{"own numbers", Policy{Attempts: 9, Base: time.Second, Cap: 5 * time.Second}, Attempt{N: 3}, passing, Step{Retry, 4 * time.Second}},
		{"capped", Policy{Attempts: 9, Base: time.Second, Cap: 5 * time.Second}, Attempt{N: 4}, passing, Step{Retry, 5 * time.Second}},
		{"no overflow", Policy{Attempts: 1 << 30}, Attempt{N: 1 << 20}, passing, Step{Retry, DefaultCap}},
		{"one attempt", Policy{Attempts: 1}, Attempt{N: 1}, passing, Step{}},
		{"another key", p, Attempt{N: 3}, llm.Failure{Status: 429, NextKey: true, Keys: 2, RetryAfter: time.Second}, Step{Rotate, time.Second}},
		{"another key, at once", p, Attempt{N: 1}, llm.Failure{Status: 401, NextKey: true, Keys: 3}, Step{Do: Rotate}},
		{"all keys have had their turn", p, Attempt{N: 1, Rotations: 1}, llm.Failure{Status: 429, NextKey: true, Keys: 2, Retryable: true}, Step{Retry, 500 * time.Millisecond}},
		{"all keys were refused", p, Attempt{N: 1, Rotations: 1, Models: 1}, llm.Failure{Status: 401, NextKey: true, Keys: 2}, Step{Do: Fallback}},
		{"a byte was delivered, another key", p, Attempt{N: 1, Delivered: 1}, llm.Failure{NextKey: true, Keys: 2}, Step{}},
		{"another key, too long to wait", Policy{Cap: time.Second}, Attempt{N: 1}, llm.Failure{NextKey: true, Keys: 2, RetryAfter: 2 * time.Second}, Step{}},
		{"base over cap", Policy{Base: time.Hour}, Attempt{N: 1}, passing, Step{Retry, DefaultCap}},
	} {
		if got := c.p.Next(c.a, c.f); got != c.want {
			t.Errorf("%s: %v after %v, want %v after %v", c.name, got.Do, got.Wait, c.want.Do, c.want.Wait)
		}
	}
	if s := fmt.Sprint(GiveUp, Retry, Fallback, Rotate); s != "give up retry fallback rotate" {
		t.Error(s)
	}
}

// ring makes a ring of n keys.
func ring(t *testing.T, n int) *llm.Keys {
	t.Helper()
	keys, err := llm.FindKeys(llm.SecretNames("K")[:n], func(name string) (string, bool) { return "v" + name, true })
	if err != nil {
		t.Fatal(err)
	}
	return llm.NewKeys(keys...)
}

// However keys fail, a run's rotations end.
func TestKeysRotationEnds(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	synctest.Test(t, func(t *testing.T) {
		for range 300 {
			n := 1 + rng.IntN(llm.MaxKeys)
			k := ring(t, n)
			attempt, asked := Attempt{N: 1}, 0
			for {
				asked++
				var f llm.Failure
				if key, err := k.Take(); err != nil {
					f = llm.FailureOf(err)
				} else {
					f = llm.Failure{Kind: []llm.Kind{llm.KindAuth, llm.KindRateLimit, llm.KindOverloaded, llm.KindServer}[rng.IntN(4)], RetryAfter: time.Duration(rng.IntN(30)) * time.Second}
					f.Retryable = f.Kind != llm.KindAuth
					k.Report(key, &f)
				}
				step := Policy{}.Next(attempt, f)
				if step.Do == GiveUp {
					break
				}
				time.Sleep(step.Wait)
				if step.Do == Rotate {
					attempt.Rotations++
				} else {
					attempt.N++
				}
				if asked > n+DefaultAttempts {
					t.Fatalf("seed %d: %d requests with %d keys", seed, asked, n)
				}
			}
		}
	})
}

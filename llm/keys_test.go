package llm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func TestFindKeys(t *testing.T) {
	vars := map[string]string{
		"X_API_KEY": "plain", "X_API_KEY_2": " two \n", "X_KEY_1": "one", "X_API_KEY_20": "twenty", "X_API_KEY_21": "no", "X_API_KEY_0": "no",
		"X_KEY": "two", "Y_KEY_3": "three", "Y_API_KEY": "", "Z_API_KEY": "no",
	}
	got, err := FindKeys(KeyNames("X", "Y"), env(vars))
	if err != nil {
		t.Fatal(err)
	}
	var names, values []string
	for _, k := range got {
		names, values = append(names, k.Name), append(values, k.Value())
	}
	if want := []string{"X_API_KEY_2", "X_API_KEY_20", "X_KEY_1", "Y_KEY_3", "X_API_KEY"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if want := []string{"two", "twenty", "one", "three", "plain"}; !slices.Equal(values, want) {
		t.Errorf("%v, want %v", values, want)
	}
	for _, bad := range []string{"a b", "a\nb", "schlüssel", "a\x00", strings.Repeat("k", maxKeyLength+1)} {
		_, err := FindKeys(SecretNames("S"), env(map[string]string{"S_7": bad}))
		if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "S_7") || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	k := got[0]
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if s := fmt.Sprintf(verb, k); strings.Contains(s, "two") || strings.Contains(s, "74776f") {
			t.Errorf("%s prints the key: %s", verb, s)
		}
	}
}

func ringOf(n int) *Keys {
	var keys []Key
	for i := range n {
		keys = append(keys, Key{Name: fmt.Sprint("K", i), value: fmt.Sprint("v", i)})
	}
	return NewKeys(keys...)
}

func take(t *testing.T, k *Keys) Key {
	t.Helper()
	key, err := k.Take()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeysTakeTurns(t *testing.T) {
	if key := take(t, NewKeys()); key != (Key{}) {
		t.Errorf("an empty ring gives %v", key)
	}
	k := ringOf(3)
	first := []Key{take(t, k), take(t, k), take(t, k)}
	again := []Key{take(t, k), take(t, k), take(t, k)}
	if !slices.Equal(first, again) || first[0] == first[1] || first[1] == first[2] || first[0] == first[2] {
		t.Errorf("%v then %v", first, again)
	}
	starts := map[Key]bool{}
	for range 200 {
		starts[take(t, ringOf(3))] = true
	}
	if len(starts) != 3 {
		t.Errorf("200 rings start with %v alone", starts)
	}
}

func TestKeysRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ringOf(2)
		a := take(t, k)
		f := Failure{Kind: KindRateLimit, Status: 429, Retryable: true, RetryAfter: 30 * time.Second}
		k.Report(a, &f)
		if !f.NextKey || f.Keys != 2 || f.RetryAfter < time.Second || f.RetryAfter >= 2*time.Second {
			t.Fatalf("%+v", f)
		}
		b := take(t, k)
		if b == a || take(t, k) != b {
			t.Fatal("a resting key is handed out")
		}
		f = Failure{Kind: KindOverloaded, Status: 503, Retryable: true}
		k.Report(b, &f)
		if f.NextKey || f.RetryAfter < time.Second {
			t.Fatalf("%+v", f)
		}
		_, err := k.Take()
		f = FailureOf(err)
		if messages.CodeOf(err) != messages.ErrModel || f.Kind != KindOverloaded || !f.Retryable || f.NextKey || f.RetryAfter > 2*time.Second {
			t.Fatalf("%v: %+v", err, f)
		}
		time.Sleep(f.RetryAfter)
		if take(t, k) != b {
			t.Error("b is ready first")
		}
		time.Sleep(30 * time.Second)
		if x, y := take(t, k), take(t, k); x == y {
			t.Error("both are ready")
		}
		f = Failure{Kind: KindRateLimit, RetryAfter: 48 * time.Hour}
		k.Report(a, &f)
		time.Sleep(KeyRest)
		if x, y := take(t, k), take(t, k); x == y {
			t.Error("a key rests no longer than its bound")
		}
	})
}

// A rate limit is that of one model: another one's runs have the key, and a key that is
// refused is so for all. The longest rest is a setting, also of who has a view already.
func TestKeysRestForOneModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ringOf(1)
		large, small := k.For("large"), k.For("small")
		key := take(t, large)
		k.RestAtMost(20 * time.Second)
		large.Report(key, &Failure{Kind: KindRateLimit, Status: 429, Retryable: true, RetryAfter: time.Hour})
		if _, err := large.Take(); FailureOf(err).RetryAfter != 20*time.Second || FailureOf(err).Kind != KindRateLimit {
			t.Errorf("%v", err)
		}
		if take(t, small) != key || take(t, k) != key {
			t.Error("the key rests for other models")
		}
		time.Sleep(20 * time.Second)
		if take(t, large) != key {
			t.Error("the key rests longer than it may")
		}
		k.RestAtMost(0)
		large.Report(key, &Failure{Kind: KindRateLimit, RetryAfter: time.Hour})
		if _, err := large.Take(); FailureOf(err).RetryAfter != KeyRest {
			t.Errorf("%v", err)
		}
		two := ringOf(2)
		bad := take(t, two)
		two.For("large").Report(bad, &Failure{Kind: KindAuth})
		for range 4 {
			if take(t, two.For("small")) == bad {
				t.Fatal("a refused key is handed out for another model")
			}
		}
	})
}

func TestKeysRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ringOf(3)
		a := take(t, k)
		f := Failure{Kind: KindAuth, Status: 401}
		k.Report(a, &f)
		if !f.NextKey || f.RetryAfter != 0 {
			t.Fatalf("%+v", f)
		}
		for range 6 {
			if take(t, k) == a {
				t.Fatal("a refused key is handed out")
			}
		}
		time.Sleep(refusedRest)
		if keys := []Key{take(t, k), take(t, k), take(t, k)}; !slices.Contains(keys, a) {
			t.Error("after an hour it may have been mended")
		}
		var last Failure
		for range 3 {
			last = Failure{Kind: KindAuth, Status: 403}
			k.Report(take(t, k), &last)
		}
		if last.NextKey {
			t.Error("all are refused")
		}
		if keys := []Key{take(t, k), take(t, k), take(t, k)}; !slices.Contains(keys, a) {
			t.Error("all refused: the next run starts over")
		}
		// One rests, the others are refused: what is left rests.
		one, two, three := take(t, k), take(t, k), take(t, k)
		k.Report(one, &Failure{Kind: KindRateLimit, RetryAfter: 30 * time.Second, Retryable: true})
		k.Report(two, &Failure{Kind: KindAuth})
		k.Report(three, &last)
		if last.NextKey || !last.Retryable || last.RetryAfter != 30*time.Second {
			t.Errorf("a better key rests: %+v", last)
		}
		if _, err := k.Take(); FailureOf(err).Kind != KindRateLimit || FailureOf(err).RetryAfter != 30*time.Second {
			t.Errorf("%v", err)
		}
		k.Report(Key{Name: "of another ring"}, &last)
		other := Failure{Kind: KindRequest}
		k.Report(one, &other)
		if other.NextKey {
			t.Error("a bad request is bad with every key")
		}
	})
}

func TestPriceCost(t *testing.T) {
	p := Price{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000}
	for _, c := range []struct {
		p    Price
		u    messages.Usage
		want int64
	}{
		{p, messages.Usage{}, 0},
		{p, messages.Usage{Input: 1_000_000}, 3_000_000},
		{p, messages.Usage{Output: 1}, 15},
		{p, messages.Usage{Input: 1, CacheRead: 1}, 1}, // 0.3 rounded up
		{p, messages.Usage{Input: 10, CacheRead: 5, CacheWrite: 5, Output: 2}, 51},
		{Price{Input: 2_000_000}, messages.Usage{Input: 10, CacheRead: 5, CacheWrite: 5, Output: 9}, 20},
		{p, messages.Usage{Input: 1, CacheRead: 100, CacheWrite: 100}, 1}, // more cached than there is
		{p, messages.Usage{Input: -5, Output: -5, CacheRead: -1}, 0},
		{Price{Input: 1 << 52, Output: 1 << 52}, messages.Usage{Input: 1 << 50, Output: 1 << 50}, maxMicroUSD},
		{Price{Input: 1}, messages.Usage{Input: 1}, 1},
		{Price{}, messages.Usage{Input: 9, Output: 9}, 0},
	} {
		if got := c.p.Cost(c.u); got != c.want {
			t.Errorf("%+v of %+v: %d, want %d", c.p, c.u, got, c.want)
		}
	}
	// Against exact arithmetic.
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 2000 {
		n := func() int64 { return rng.Int64N(1 << (1 + rng.IntN(50))) }
		p, u := Price{1 + n(), 1 + n(), 1 + n(), 1 + n()}, messages.Usage{Input: n(), Output: n()}
		u.CacheRead = rng.Int64N(u.Input + 1)
		u.CacheWrite = rng.Int64N(u.Input - u.CacheRead + 1)
		sum := new(big.Int)
		for _, x := range [][2]int64{{u.Input - u.CacheRead - u.CacheWrite, p.Input}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}, {u.Output, p.Output}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(x[0]), big.NewInt(x[1])))
		}
		sum.Add(sum, big.NewInt(999_999)).Div(sum, big.NewInt(1_000_000))
		want := int64(maxMicroUSD)
		if sum.IsInt64() && sum.Int64() < math.MaxInt64 {
			want = min(sum.Int64(), maxMicroUSD)
		}
		if got := p.Cost(u); got != want {
			t.Fatalf("seed %d: %+v of %+v: %d, want %d", seed, p, u, got, want)
		}
	}
}

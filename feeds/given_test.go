package feeds

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A value that is given while its feed is fetched is newer than what that fetch brings, and stays,
// whether the fetch works or fails and whatever was there before. The next fetch replaces it.
func TestGivenBesideAFetch(t *testing.T) {
	for _, before := range []string{"", `"old"`, `"a longer one"`} {
		for _, given := range []string{`"new"`, `"another length"`} {
			for name, fetch := range map[string]string{"works": `"got"`, "works, another length": `"fetched"`, "fails": ""} {
				bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
					set := setOf(t, onDemand("a", ""))
					entry, _ := set.Get("a")
					if before != "" {
						if err := k.Put(s.Key, set, "a", before); err != nil {
							t.Fatal(err)
						}
					}
					f.set("a", after(time.Second, fetch))
					if fetch == "" {
						f.set("a", func(ctx context.Context, src Source) (string, error) {
							_, _ = after(time.Second, "")(ctx, src)
							return failing(ctx, src)
						})
					}
					go k.Prompt(t.Context(), s, set)
					time.Sleep(500 * time.Millisecond)
					if err := k.Put(s.Key, set, "a", given); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Second)
					synctest.Wait()
					if v, ok := k.Value(s.Key, entry); !ok || v.JSON != given || v.Failed {
						t.Errorf("before %s, given %s, the fetch %s: %+v", before, given, name, v)
					}
					f.set("a", after(0, `"next"`))
					k.Prompt(t.Context(), s, set)
					synctest.Wait()
					k.Settle()
					if v, _ := k.Value(s.Key, entry); v.JSON != `"next"` {
						t.Errorf("before %s, given %s: the next fetch leaves %+v", before, given, v)
					}
				})
			}
		}
	}
}

// A value that is given right behind the first one of its feed is the one that is kept, also while
// the cache has not taken in that first one.
func TestGivenBehindAFirstValue(t *testing.T) {
	k, err := NewKeeper(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	set := setOf(t, onDemand("a", ""))
	entry, _ := set.Get("a")
	for i := range 500 {
		session := fmt.Sprint("s", i)
		k.cache.set(valueKey(session, &entry), Value{JSON: `"fetched"`, At: time.Now()})
		if err := k.Put(session, set, "a", `"given"`); err != nil {
			t.Fatal(err)
		}
		if v, ok := k.Value(session, entry); !ok || v.JSON != `"given"` {
			t.Fatalf("%s has %q", session, v.JSON)
		}
	}
}

// A fetch that begins before the cache has what the one before it brought replaces that value, of
// whatever size: it was not given.
func TestFetchRightBehindAFetch(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		set := setOf(t, onDemand("a", ""))
		entry, _ := set.Get("a")
		for i := range 100 {
			name := Session{Key: fmt.Sprintf("s%d", i), Fetcher: s.Fetcher}
			k.Sync(name, set)
			for _, value := range []string{`1`, `2`, `34`, `5`} {
				f.set("a", after(0, value))
				k.Prompt(t.Context(), name, set)
			}
			k.Settle()
			if v, _ := k.Value(name.Key, entry); v.JSON != `5` {
				t.Fatalf("behind four fetches in session %d the value is %+v", i, v)
			}
		}
	})
}

package feeds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// What a record says of a failure has the words of typed errors and no others.
func TestWhy(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"none", nil, ""},
		{"typed", fail(messages.ErrQuota, ReasonValueTooLarge, "9 bytes, more than 8"), "9 bytes, more than 8"},
		{"wrapped", fmt.Errorf("secret: %w", fail(messages.ErrConfig, ReasonNeeds, "boom")), "boom"},
		{"chain", failCause(ReasonNeeds, fail(messages.ErrConfig, ReasonInvalidJSON, "the source gave no JSON value"), "needs a"), "needs a: the source gave no JSON value"},
		{"said twice", failCause(ReasonNeeds, fail(messages.ErrConfig, ReasonInvalidJSON, "no"), "it says no"), "it says no"},
		{"not typed", errors.New("/home/ada: token=x"), ""},
		{"cause not typed", failCause(ReasonTimeout, errors.New("/home/ada"), "the fetch was given up"), "the fetch was given up"},
		{"file", failCause(ReasonUnreachable, &fs.PathError{Op: "open", Path: "/home/ada", Err: syscall.ENOENT}, "%q cannot be opened", "a.txt"), `"a.txt" cannot be opened: no such file`},
		{"number", failCause(ReasonUnreachable, syscall.EACCES, "%q cannot be opened", "a.txt"), `"a.txt" cannot be opened: permission denied`},
		{"crash", &PanicError{Value: "password"}, "the source crashed"},
		{"lines", fail(messages.ErrConfig, "x", "a\n\tb\x01\xff"), "a b\x01\ufffd"},
	} {
		if got := Why(c.err); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := Why(fail(messages.ErrConfig, "x", "%s", strings.Repeat("ä", MaxReasonBytes))); len(got) > MaxReasonBytes || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes", len(got))
	}
}

// The reason of the last failure stays until a fetch succeeds, of feeds that tick and of
// others.
func TestReasons(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		refuses := func(context.Context, Source) (string, error) {
			return "", fail(messages.ErrConfig, ReasonUnreachable, "not today")
		}
		set := setOf(t, periodic("p", 60), onDemand("o", ""))
		f.set("p", refuses)
		f.set("o", refuses)
		want := func(p, o string) {
			t.Helper()
			for id, want := range map[string]string{"p": p, "o": o} {
				if e, _ := set.Get(id); k.Reason(s.Key, e) != want {
					t.Errorf("%s: %q, want %q", id, k.Reason(s.Key, e), want)
				}
			}
		}
		want("", "")
		k.Sync(s, set)
		els := wantSeen(t, k, s, set, "p=!failed o=!failed")
		if fd := els[1].Feed(); fd.Reason != "not today" {
			t.Errorf("%+v", fd)
		}
		want("not today", "not today")
		f.set("o", nil)
		wantSeen(t, k, s, set, "p=!failed o=o2")
		want("not today", "")
		f.set("p", nil)
		time.Sleep(61 * time.Second)
		want("", "")
		f.set("p", refuses)
		time.Sleep(60 * time.Second)
		want("not today", "")
		if els := k.Prompt(t.Context(), s, set); !els[0].Stale || els[0].Feed().Reason != "not today" {
			t.Errorf("%+v", els[0])
		}
		k.Sync(s, setOf(t, onDemand("x", ""), onDemand("o", "")))
		want("", "")
		f.set("o", refuses)
		k.Prompt(t.Context(), s, setOf(t, onDemand("x", ""), onDemand("o", "")))
		want("", "not today")
		k.Stop(s.Key)
		want("", "")
	})
}

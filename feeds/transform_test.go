package feeds

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
)

// A value is changed before it is kept, by fetches and from outside; what fails keeps nothing.
func TestTransform(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("x", func(context.Context, Source) (string, error) { return `"a\nb\nc"`, nil })
		spec := onDemand("x", "")
		spec.Transform = `[ {"op": "tail", "lines": 2} ]`
		set := setOf(t, spec)
		if got := set.entries[0].Spec().Transform; got != `[{"lines":2,"op":"tail"}]` {
			t.Errorf("the normal form is %s", got)
		}
		wantSeen(t, k, s, set, "x=b\nc")
		synctest.Wait()
		if err := k.Put(s.Key, set, "x", `"1\n2\n3"`); err != nil {
			t.Fatal(err)
		}
		if v, ok := k.Value(s.Key, set.entries[0]); !ok || v.JSON != `"2\n3"` {
			t.Errorf("kept %s", v.JSON)
		}
		if err := k.Put(s.Key, set, "x", `[1]`); err == nil || !strings.Contains(err.Error(), "transform[0] tail: type: ") {
			t.Errorf("put: %v", err)
		}
	})
}

func TestTransformsThatDoNotLoad(t *testing.T) {
	for steps, want := range map[string]string{
		`{}`:                        "transform[0]",
		`[{"op":"sort","by":1}]`:    "transform[0].by",
		`[{"op":"drop","re2":"("}]`: "transform[0].re2",
		`"` + strings.Repeat("x", MaxParamsBytes) + `"`: "transform",
	} {
		spec := onDemand("x", "")
		spec.Transform = steps
		if _, err := Normal(spec, "context_feeds[0]"); err == nil || !strings.Contains(err.Error(), "context_feeds[0]."+want+": ") {
			t.Errorf("%.40s: %v", steps, err)
		}
	}
}

package feeds

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ptr[T any](v T) *T { return &v }

// fetchFunc is a Fetcher.
type fetchFunc func(ctx context.Context, src Source) (string, error)

func (f fetchFunc) Fetch(ctx context.Context, src Source) (string, error) { return f(ctx, src) }

func tool(name, params string) SourceSpec {
	return SourceSpec{Type: "tool", Name: name, Params: params}
}

func onDemand(id, params string) Spec {
	return Spec{ID: id, Type: "on_demand", Source: tool(id, params)}
}

func periodic(id string, seconds int64) Spec {
	return Spec{ID: id, Type: "periodic", Interval: &seconds, Source: tool(id, "")}
}

func setOf(t testing.TB, specs ...Spec) Set {
	t.Helper()
	s, err := NewSet(specs, Rules{Env: []string{"HOME", "LANG"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mistakesOf lists the mistakes of a joined error as "field reason".
func mistakesOf(err error) (out []string) {
	if err == nil {
		return nil
	}
	for _, e := range flat(err) {
		out = append(out, e.Field+" "+e.Reason)
	}
	return out
}

func wantMistakes(t *testing.T, err error, want ...string) {
	t.Helper()
	if got := mistakesOf(err); !slices.Equal(got, want) {
		t.Errorf("mistakes %q, want %q\n%v", got, want, err)
	}
	var e *messages.Error
	if len(want) > 0 && (!errors.As(err, &e) || e.Code != messages.ErrConfig) {
		t.Errorf("%v is no ERR_CONFIG", err)
	}
}

package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

func nothing(context.Context, *tools.Call) (neuroscript.Value, error) {
	return neuroscript.Value{}, nil
}

func pureNothing(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
	return neuroscript.Value{}, nil
}

func TestNewRefuses(t *testing.T) {
	ok := tools.Tool{Name: "x.y", Run: nothing}
	with := func(change func(*tools.Tool)) tools.Tool {
		t := ok
		change(&t)
		return t
	}
	for name, c := range map[string]struct {
		tools []tools.Tool
		want  string // part of the detail
	}{
		"duplicate":        {[]tools.Tool{ok, with(func(t *tools.Tool) { t.Name = "X.Y" })}, "two tools"},
		"no name":          {[]tools.Tool{with(func(t *tools.Tool) { t.Name = "" })}, "identifiers"},
		"turn's group":     {[]tools.Tool{with(func(t *tools.Tool) { t.Name = "aeiou" })}, "aeiou"},
		"empty word":       {[]tools.Tool{with(func(t *tools.Tool) { t.Name = "x." })}, "identifiers"},
		"digit first":      {[]tools.Tool{with(func(t *tools.Tool) { t.Name = "x.1y" })}, "identifiers"},
		"blank":            {[]tools.Tool{with(func(t *tools.Tool) { t.Name = "x.y z" })}, "identifiers"},
		"long":             {[]tools.Tool{with(func(t *tools.Tool) { t.Name = "x." + strings.Repeat("y", 127) })}, "128"},
		"turn group":       {[]tools.Tool{with(func(t *tools.Tool) { t.Name = "Aeiou.magic" })}, "belongs to the turn"},
		"no func":          {[]tools.Tool{with(func(t *tools.Tool) { t.Run = nil })}, "needs its Run"},
		"pure without":     {[]tools.Tool{{Name: "x.y", Class: messages.Pure}}, "needs its Pure"},
		"pure with Run":    {[]tools.Tool{{Name: "x.y", Class: messages.Pure, Pure: pureNothing, Run: nothing}}, "no Run"},
		"effectful, Pure":  {[]tools.Tool{{Name: "x.y", Pure: pureNothing, Run: nothing}}, "no Pure"},
		"read_only, Pure":  {[]tools.Tool{{Name: "x.y", Class: messages.ReadOnly, Pure: pureNothing}}, "no Pure"},
		"class":            {[]tools.Tool{with(func(t *tools.Tool) { t.Class = "harmless" })}, "no class"},
		"gas":              {[]tools.Tool{with(func(t *tools.Tool) { t.Gas = -1 })}, "negative"},
		"time-out":         {[]tools.Tool{with(func(t *tools.Tool) { t.Timeout = -1 })}, "negative"},
		"calls":            {[]tools.Tool{with(func(t *tools.Tool) { t.MaxCalls = -1 })}, "negative"},
		"param name":       {[]tools.Tool{with(func(t *tools.Tool) { t.Params = []neuroscript.Param{req("a-b", "any")} })}, "identifier"},
		"param twice":      {[]tools.Tool{with(func(t *tools.Tool) { t.Params = []neuroscript.Param{req("a", "any"), req("a", "any")} })}, "two parameters"},
		"param type":       {[]tools.Tool{with(func(t *tools.Tool) { t.Params = []neuroscript.Param{req("a", "str")} })}, "unknown type"},
		"param list":       {[]tools.Tool{with(func(t *tools.Tool) { t.Params = []neuroscript.Param{req("a", "list<int")} })}, "unknown type"},
		"result type":      {[]tools.Tool{with(func(t *tools.Tool) { t.Returns = "str" })}, "no result type"},
		"optional between": {[]tools.Tool{with(func(t *tools.Tool) { t.Params = []neuroscript.Param{opt("a", "any"), req("b", "any")} })}, "follows an optional"},
	} {
		_, err := New(c.tools...)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || !strings.HasPrefix(e.Field, "tools.") || !strings.Contains(e.Detail, c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := New(with(func(t *tools.Tool) { t.Name = "x." + strings.Repeat("y", 126) })); err != nil {
		t.Error(err)
	}
}

func TestRegistry(t *testing.T) {
	r, err := New(tools.Tool{Name: "b.Two", Run: nothing}, tools.Tool{Name: "A.one", Class: messages.Pure, Pure: pureNothing})
	if err != nil {
		t.Fatal(err)
	}
	if got := namesIn(r); !slices.Equal(got, []string{"A.one", "b.Two"}) {
		t.Errorf("got %v", got)
	}
	tool, ok := r.Lookup("B.TWO")
	if !ok || tool.Name != "b.Two" || tool.Class != messages.Effectful {
		t.Errorf("got %+v", tool)
	}
	if _, ok := r.Lookup("b"); ok {
		t.Error("found a group")
	}
}

func TestDigest(t *testing.T) {
	a := tools.Tool{Name: "a.a", Class: messages.ReadOnly, Run: nothing, Description: "d", Params: []neuroscript.Param{req("p", "int")}}
	b := tools.Tool{Name: "b.b", Run: nothing}
	digest := func(tools ...tools.Tool) messages.Digest {
		r, err := New(tools...)
		if err != nil {
			t.Fatal(err)
		}
		return r.Digest()
	}
	base := digest(a, b)
	// Recorded turns carry digests: a new form needs a new first line in digestOf.
	if got, want := base.String(), "6b3599f0c91e1c854755c77b6332cbbbeb7d97d1346a97773f944b18e819b399"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if digest(b, a) != base {
		t.Error("the digest depends on the order")
	}
	if c := b; digest(a, tools.Tool{Name: c.Name, Run: nothing, Class: messages.Effectful}) != base {
		t.Error("an undeclared class is not effectful")
	}
	seen := map[messages.Digest]string{base: "base", digest(): "empty"}
	for name, change := range map[string]func(*tools.Tool){
		"name":     func(t *tools.Tool) { t.Name = "a.A" },
		"text":     func(t *tools.Tool) { t.Description = "e" },
		"class":    func(t *tools.Tool) { t.Class = messages.Keyed },
		"gas":      func(t *tools.Tool) { t.Gas = 1 },
		"time-out": func(t *tools.Tool) { t.Timeout = 1 },
		"calls":    func(t *tools.Tool) { t.MaxCalls = 1 },
		"param":    func(t *tools.Tool) { t.Params = []neuroscript.Param{req("q", "int")} },
		"type":     func(t *tools.Tool) { t.Params = []neuroscript.Param{req("p", "float")} },
		"optional": func(t *tools.Tool) { t.Params = []neuroscript.Param{opt("p", "int")} },
		"result":   func(t *tools.Tool) { t.Returns = "int" },
		"schema":   func(t *tools.Tool) { t.Form.Schema = "{}" },
	} {
		c := a
		change(&c)
		d := digest(c, b)
		if other, dup := seen[d]; dup {
			t.Errorf("changing %s gives the digest of %s", name, other)
		}
		seen[d] = name
	}
}

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{neuroscript.Errorf(2005, "x %d", 1), 2005, "x 1"},
		{errors.New("plain"), 21, "plain"},
		{errors.Join(neuroscript.Errorf(8, "in")), 8, "in"},
	} {
		if code, text := Failure(c.err); code != c.code || text != c.text {
			t.Errorf("got %d %q", code, text)
		}
	}
}

func TestResult(t *testing.T) {
	e := neuroscript.NewErrorValue
	for _, c := range []struct {
		returns string
		v       neuroscript.Value
		kind    neuroscript.Kind
	}{
		{"", neuroscript.Value{}, neuroscript.KindNil},
		{"", neuroscript.String("2026-01-02T03:04:05Z"), neuroscript.KindString},
		{"timedate", neuroscript.TimeDate(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)), neuroscript.KindTimeDate},
		{"timedate", neuroscript.Value{}, neuroscript.KindNil},
		{"", e(5, "m", neuroscript.Value{}), neuroscript.KindError},
		{"", e(5, "m", e(1, "in", neuroscript.Number(2))), neuroscript.KindError},
		{"timedate", e(5, "m", neuroscript.Value{}), neuroscript.KindError},
		{"map", userdata(t, `{"code":1,"message":"m"}`), neuroscript.KindMap},
		{"", userdata(t, `{"code":1.5,"message":"m"}`), neuroscript.KindMap},
		{"", userdata(t, `{"code":1,"message":2}`), neuroscript.KindMap},
		{"", userdata(t, `{"code":1,"message":"m","more":0}`), neuroscript.KindMap},
		{"", userdata(t, `{"code":1,"details":2}`), neuroscript.KindMap},
	} {
		b, err := neuroscript.AppendJSON(nil, c.v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Result(&tools.Tool{Returns: c.returns})(string(b))
		if err != nil || got.Kind() != c.kind {
			t.Errorf("%s: got a %s, %v", b, got.Kind(), err)
			continue
		}
		if again, err := neuroscript.AppendJSON(nil, got); err != nil || string(again) != string(b) {
			t.Errorf("%s came back as %s (%v)", b, again, err)
		}
	}
	for _, text := range []string{"", "{", `"yesterday"`} {
		if _, err := Result(&tools.Tool{Returns: "timedate"})(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func namesIn(r *Registry) []string {
	var all []string
	for _, s := range r.Specs(nil) {
		all = append(all, s.Name)
	}
	return all
}

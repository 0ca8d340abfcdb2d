package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func TestStates(t *testing.T) {
	for s := Waiting; s <= numStates; s++ {
		if got, ok := StateOf(messages.ActionState(s.String())); ok != s.Terminal() || ok && got != s {
			t.Errorf("StateOf(%q) = %v, %v", s, got, ok)
		}
		if s.Terminal() != (s.Ended() != "") || s.Terminal() && len(legal[s]) > 0 {
			t.Errorf("%s: terminal %v, ended %q", s, s.Terminal(), s.Ended())
		}
	}
	for _, s := range []messages.ActionState{messages.ActionOK, messages.ActionFailed, messages.ActionSkipped, messages.ActionCancelled, messages.ActionUnknown} {
		if got, ok := StateOf(s); !ok || got.Ended() != s {
			t.Errorf("StateOf(%q) = %v, %v", s, got, ok)
		}
	}
	if State(200).String() != "?" || State(200).Terminal() || State(200).may(OK) {
		t.Error("a state that does not exist")
	}
	if EffectKind(99).String() != "?" || Failure(99).String() != "?" {
		t.Error("kinds that do not exist")
	}
}

func TestErrors(t *testing.T) {
	p := New(Options{})
	_, err := p.Declare(nil, &messages.Action{ID: "a"})
	var illegal *IllegalError
	if !errors.As(err, &illegal) || illegal.Ref.ID != "a" || messages.CodeOf(err) != messages.ErrCrash {
		t.Errorf("before Begin: %v", err)
	}
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	for field, a := range map[string]*messages.Action{
		"id":         {},
		"mode":       {ID: "a", Mode: "now"},
		"on_error":   {ID: "a", OnError: "never"},
		"parameters": {ID: "a", Args: `{"a":1,"a":2}`},
	} {
		_, err := p.Declare(nil, a)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if got := p.Generation(); len(got) != 0 {
		t.Errorf("refused actions are there: %v", got)
	}
}

// An error leaves the effects that came before as they were.
func TestEffectsAreAppended(t *testing.T) {
	p := New(Options{})
	_ = p.Begin()
	effs, err := p.Declare(nil, &messages.Action{ID: "a", Mode: messages.ModeAsync})
	if err != nil || len(effs) != 1 {
		t.Fatal(effs, err)
	}
	again, err := p.Declare(effs, &messages.Action{ID: "a"})
	if err == nil || !slices.Equal(again, effs) {
		t.Errorf("%v, %v", again, err)
	}
}

func TestPolicyBounds(t *testing.T) {
	for _, c := range []struct{ in, want Policy }{
		{Policy{}, Policy{DefaultTimeout, 0, DefaultRetryDelay, 1}},
		{Policy{time.Millisecond, 3, 2 * time.Second, 0}, Policy{time.Millisecond, 3, 2 * time.Second, 1}},
		{Policy{time.Hour + 1, 6, time.Hour, 0}, Policy{MaxTimeout, MaxRetries, MaxRetryDelay, 1}},
		{Policy{-1, -1, -5, 0}, Policy{DefaultTimeout, 0, NoDelay, 1}},
		{Policy{Delay: NoDelay}, Policy{DefaultTimeout, 0, NoDelay, 1}},
	} {
		if got := c.in.Bounded(); got != c.want || got.Bounded() != got {
			t.Errorf("%+v is bounded to %+v, want %+v", c.in, got, c.want)
		}
	}
	now := time.Unix(1000, 0)
	p := Policy{Timeout: 30 * time.Second}
	if got := p.Deadline(now, time.Time{}); !got.Equal(now.Add(30 * time.Second)) {
		t.Errorf("without a turn: %v", got)
	}
	if got := p.Deadline(now, now.Add(7*time.Second)); !got.Equal(now.Add(7 * time.Second)) {
		t.Errorf("the turn ends first: %v", got)
	}
	if got := p.Deadline(now, now.Add(time.Hour)); !got.Equal(now.Add(30 * time.Second)) {
		t.Errorf("the attempt ends first: %v", got)
	}
}

func TestAfterAttempt(t *testing.T) {
	now := time.Unix(1000, 0)
	two := Policy{Retries: 2, Delay: 3 * time.Second}
	again := func(n int) Next { return Next{Retry: true, N: n, At: now.Add(3 * time.Second), State: Running} }
	for _, c := range []struct {
		name string
		p    Policy
		a    Attempt
		want Next
	}{
		{"an error is tried again", two, Attempt{N: 1, Failure: Erred, Class: messages.ReadOnly}, again(2)},
		{"and again", two, Attempt{N: 2, Failure: Erred}, again(3)},
		{"the last one counts", two, Attempt{N: 3, Failure: Erred, Reason: "no disk"}, Next{N: 3, State: Failed, Reason: "no disk"}},
		{"without retries", Policy{}, Attempt{N: 1, Failure: Erred}, Next{N: 1, State: Failed, Reason: "error"}},
		{"a time-out of what may be repeated", two, Attempt{N: 1, Failure: TimedOut, Class: messages.Idempotent}, again(2)},
		{"and its end", two, Attempt{N: 3, Failure: TimedOut, Class: messages.Idempotent}, Next{N: 3, State: Failed, Reason: "timeout"}},
		{"an effect without an answer", two, Attempt{N: 1, Failure: TimedOut, Class: messages.Effectful}, Next{N: 1, State: Unknown, Reason: "timeout"}},
		{"a class without a name is an effect", two, Attempt{N: 1, Failure: Panicked}, Next{N: 1, State: Unknown, Reason: "panic"}},
		{"an effect that said no", two, Attempt{N: 1, Failure: Erred, Class: messages.Effectful}, again(2)},
		{"keyed is repeated under its key", two, Attempt{N: 1, Failure: Lost, Class: messages.Keyed}, again(2)},
		{"keyed without an answer at last", two, Attempt{N: 3, Failure: Lost, Class: messages.Keyed}, Next{N: 3, State: Unknown, Reason: "lost"}},
		{"keyed that said no at last", two, Attempt{N: 3, Failure: Erred, Class: messages.Keyed}, Next{N: 3, State: Failed, Reason: "error"}},
		{"denied", two, Attempt{N: 1, Failure: Denied, Class: messages.Effectful}, Next{N: 1, State: Failed, Reason: "denied"}},
		{"no target", two, Attempt{N: 1, Failure: NoTarget}, Next{N: 1, State: Failed, Reason: "unknown_target"}},
		{"stopped", two, Attempt{N: 1, Failure: Stopped, Class: messages.Effectful}, Next{N: 1, State: Cancelled, Reason: "cancelled"}},
		{"the turn is over first", two, Attempt{N: 1, Failure: Erred, Until: now.Add(3 * time.Second)}, Next{N: 1, State: Failed, Reason: "error"}},
		{"the turn lasts", two, Attempt{N: 1, Failure: Erred, Until: now.Add(3*time.Second + 1)}, again(2)},
		{"no delay", Policy{Retries: 1, Delay: NoDelay}, Attempt{N: 1, Failure: Erred}, Next{Retry: true, N: 2, At: now, State: Running}},
	} {
		c.a.Now = now
		if got := c.p.After(c.a); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestPasses(t *testing.T) {
	p := New(Options{})
	_ = p.Begin()
	passing := func(waiting bool) (out []Part) {
		for part := PartThought; part <= PartFeed; part++ {
			if p.Passes(part, waiting) {
				out = append(out, part)
			}
		}
		return out
	}
	if got := passing(false); len(got) != 6 {
		t.Errorf("an open gate lets through %v", got)
	}
	if got := passing(true); len(got) != 0 {
		t.Errorf("%v overtakes what waits", got)
	}
	_, _ = p.Declare(nil, &messages.Action{ID: "a"})
	if got := passing(false); !slices.Equal(got, []Part{PartThought, PartError, PartText}) {
		t.Errorf("a closed gate lets through %v", got)
	}
}

func TestReferences(t *testing.T) {
	long := strings.Repeat("n", MaxReferenceBytes-1)
	for _, c := range []struct {
		in    string
		whole bool
		want  reference
	}{
		{"$", false, reference{kind: refMore}},
		{"$", true, reference{kind: refText, n: 1}},
		{"$$", false, reference{kind: refDollar, n: 2}},
		{"$a", false, reference{kind: refMore}},
		{"$a", true, reference{kind: refName, n: 2, name: "a"}},
		{"$_a1-b", false, reference{kind: refName, n: 4, name: "_a1"}},
		{"$1", false, reference{kind: refText, n: 1}},
		{"$é", false, reference{kind: refText, n: 1}},
		{"$a.b", false, reference{kind: refName, n: 2, name: "a"}},
		{"${", false, reference{kind: refMore}},
		{"${", true, reference{kind: refText, n: 1}},
		{"${a}", false, reference{kind: refName, n: 4, name: "a"}},
		{"${a.b}x", false, reference{kind: refName, n: 6, name: "a", path: "b"}},
		{"${a.b c.0}", false, reference{kind: refName, n: 10, name: "a", path: "b c.0"}},
		{"${a.b", false, reference{kind: refMore}},
		{"${a.b", true, reference{kind: refText, n: 1}},
		{"${a.}", false, reference{kind: refText, n: 1}},
		{"${.a}", false, reference{kind: refText, n: 1}},
		{"${1}", false, reference{kind: refText, n: 1}},
		{"${a b}", false, reference{kind: refText, n: 1}},
		{"${a.$b}", false, reference{kind: refText, n: 1}},
		{"${a.\n}", false, reference{kind: refText, n: 1}},
		{"$" + long, false, reference{kind: refMore}},
		{"$" + long + "n", false, reference{kind: refText, n: 1}},
		{"$" + long[1:], false, reference{kind: refMore}},
		{"$" + long, true, reference{kind: refName, n: MaxReferenceBytes, name: long}},
		{"$" + long + " ", false, reference{kind: refName, n: MaxReferenceBytes, name: long}},
		{"$" + long + "n", true, reference{kind: refText, n: 1}},
		{"${" + long[3:] + ".", false, reference{kind: refMore}},
		{"${" + long[2:] + "}", false, reference{kind: refName, n: MaxReferenceBytes, name: long[2:]}},
		{"${" + long + "}", false, reference{kind: refText, n: 1}},
	} {
		got := refAt(c.in, c.whole)
		if c.want.braced = c.want.kind == refName && strings.HasPrefix(c.in, "${"); got != c.want {
			t.Errorf("%.40q (%v): %+v, want %+v", c.in, c.whole, got, c.want)
		}
		if again := refAt([]byte(c.in), c.whole); again != got {
			t.Errorf("%.40q: bytes give %+v", c.in, again)
		}
	}
}

func TestSteps(t *testing.T) {
	const v = ` { "a" : [ 10 , "x,y]" , { "b}" : null } , [ ] ] , "\u0062" : { } , "c" : "d" , "a\"" : 1.5e3 } `
	for _, c := range []struct {
		path, want string
		ok         bool
	}{
		{"a.0", "10", true},
		{"a.1", `"x,y]"`, true},
		{"a.2.b}", "null", true},
		{"a.3", "[ ]", true},
		{"a.3.0", "", false},
		{"a.4", "", false},
		{"a.-1", "", false},
		{"a.00", "", false},
		{"a.9999999999", "", false},
		{"b", "{ }", true},
		{"b.x", "", false},
		{"c", `"d"`, true},
		{"c.0", "", false},
		{`a"`, "1.5e3", true},
		{"z", "", false},
		{"a.0.x", "", false},
	} {
		budget := MaxPathBytes
		if got, ok := step(v, c.path, &budget); got != c.want || ok != c.ok {
			t.Errorf("%s: %q, %v, want %q, %v", c.path, got, ok, c.want, c.ok)
		}
	}
	budget := 10
	if _, ok := step(v, "a.0", &budget); ok {
		t.Error("a path costs nothing")
	}
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		deps         [][]int
		order, cycle []int
	}{
		{nil, nil, nil},
		{[][]int{{}, {}, {}}, []int{0, 1, 2}, nil},
		{[][]int{{2}, {}, {1}}, []int{1, 2, 0}, nil},
		{[][]int{{3}, {}, {}, {1}}, []int{1, 2, 3, 0}, nil},
		{[][]int{{0}}, nil, []int{0}},
		{[][]int{{1}, {2}, {3}, {1}}, nil, []int{1, 2, 3}},
		{[][]int{{9, -1}, {0, 0}}, []int{0, 1}, nil},
	} {
		order, cycle := Order(len(c.deps), func(i int) []int { return c.deps[i] })
		if !slices.Equal(order, c.order) || !slices.Equal(cycle, c.cycle) {
			t.Errorf("%v: %v, %v, want %v, %v", c.deps, order, cycle, c.order, c.cycle)
		}
	}
}

// The work does not grow faster than the edges: a response full of references, to
// what is stuck and into a large value, ends in time that no test has to measure,
// because what it may look at is counted.
func TestPathsAreCounted(t *testing.T) {
	p := New(Options{})
	_ = p.Begin()
	_, _ = p.Declare(nil, &messages.Action{ID: "a", Mode: messages.ModeAsync})
	big := `{"x":"` + strings.Repeat("x", 4<<20) + `","y":1}`
	_, _ = p.Started(nil, Ref{1, "a"})
	if _, err := p.Ended(nil, Ref{1, "a"}, Outcome{State: OK, Value: big}); err != nil {
		t.Fatal(err)
	}
	text := p.Text()
	out := text.End(text.Push(nil, []byte(strings.Repeat("${a.y}", 100))))
	known := strings.Count(string(out), "1")
	if want := MaxPathBytes / len(big); known < want-1 || known > want+1 {
		t.Errorf("%d paths were followed, want about %d", known, want)
	}
	if !strings.HasSuffix(string(out), "${a.y}") {
		t.Errorf("the rest is not left as written: %.60q", out[len(out)-60:])
	}
}

// An action waits for those it names until they have ended, also while they run; Met counts when
// one has.
func TestWaits(t *testing.T) {
	p := New(Options{})
	_ = p.Begin()
	_, _ = p.Declare(nil, &messages.Action{ID: "a", Mode: messages.ModeAsync})
	_, _ = p.Declare(nil, &messages.Action{ID: "b", Mode: messages.ModeAsync})
	_, _ = p.Declare(nil, &messages.Action{ID: "c", Mode: messages.ModeAsync, DependsOn: []string{"b", "a"}})
	want := func(met int, ids ...string) {
		t.Helper()
		if got := p.Waits(Ref{1, "c"}); !slices.Equal(got, ids) || p.Met() != met {
			t.Errorf("waits for %v, %d met; want %v, %d", got, p.Met(), ids, met)
		}
	}
	end := func(id string) {
		if _, err := p.Ended(nil, Ref{1, id}, Outcome{State: OK, Value: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	want(0, "b", "a")
	_, _ = p.Started(nil, Ref{1, "b"})
	_, _ = p.Started(nil, Ref{1, "a"})
	want(0, "b", "a")
	end("b")
	want(1, "a")
	end("a")
	want(2)
}

// The values a plan hands out are those it got, however often they are asked for.
func TestViews(t *testing.T) {
	p := New(Options{})
	_ = p.Begin()
	_, _ = p.Declare(nil, &messages.Action{ID: "a", Mode: messages.ModeAsync, Type: messages.TypeInternal, Retry: 3})
	v, ok := p.Action(Ref{1, "a"})
	if !ok || v.Mode != messages.ModeSync || v.Retry != 0 || v.Timeout != DefaultTimeout || v.Generation != 1 {
		t.Errorf("%+v", v)
	}
	if _, ok := p.Action(Ref{2, "a"}); ok {
		t.Error("an action of a generation that was not")
	}
	if _, ok := p.Action(Ref{1, "b"}); ok {
		t.Error("an action that was not declared")
	}
}

func TestNamesAndWhole(t *testing.T) {
	for _, c := range []struct{ text, whole, names string }{
		{"", "", ""},
		{"$a", "a", "a"},
		{"${a.b.0}", "a", "a"},
		{"$a ", "", "a"},
		{"$$a", "", ""},
		{"$5 ${a-b} $", "", ""},
		{"x $b and ${a.x}$b$_c", "", "b a _c"},
	} {
		name, ok := Whole(c.text)
		if name = map[bool]string{true: name}[ok]; name != c.whole || strings.Join(Names(c.text), " ") != c.names {
			t.Errorf("%q: %q, %q", c.text, name, Names(c.text))
		}
	}
}

// The source of a feed that an action adds or changes is left as it is written, and what it
// refers to is not waited for.
func TestFeedSources(t *testing.T) {
	const args = `{"id":"$a","source":{"name":"$a","params":{"v":"x $a"}},"z":"$a"}`
	for _, c := range []struct {
		typ  messages.ActionType
		name string
		on   bool
		want string
	}{
		{messages.TypeInternal, messages.InternalAddFeed, true, `{"id":1,"source":{"name":"$a","params":{"v":"x $a"}},"z":1}`},
		{messages.TypeInternal, messages.InternalUpdateFeed, true, `{"id":1,"source":{"name":"$a","params":{"v":"x $a"}},"z":1}`},
		{messages.TypeInternal, messages.InternalAddFeed, false, `{"id":1,"source":{"name":1,"params":{"v":"x 1"}},"z":1}`},
		{messages.TypeTool, messages.InternalAddFeed, true, `{"id":1,"source":{"name":1,"params":{"v":"x 1"}},"z":1}`},
		{messages.TypeInternal, messages.InternalSetVariable, true, `{"id":1,"source":{"name":1,"params":{"v":"x 1"}},"z":1}`},
	} {
		p := New(Options{Sources: c.on})
		_ = p.Begin()
		_, _ = p.Declare(nil, &messages.Action{ID: "a", Name: "t", Mode: messages.ModeAsync})
		_, _ = p.Started(nil, Ref{1, "a"})
		_, _ = p.Ended(nil, Ref{1, "a"}, Outcome{State: OK, Value: "1"})
		effects, err := p.Declare(nil, &messages.Action{ID: "f", Type: c.typ, Name: c.name, Args: args})
		if err != nil || len(effects) != 1 || effects[0].Parameters != c.want {
			t.Errorf("%s %s %v: %v %v", c.typ, c.name, c.on, effects, err)
		}
	}
	p := New(Options{Sources: true})
	_ = p.Begin()
	_, _ = p.Declare(nil, &messages.Action{ID: "a", Name: "t", Mode: messages.ModeAsync})
	effects, _ := p.Declare(nil, &messages.Action{ID: "f", Type: messages.TypeInternal, Name: messages.InternalAddFeed, Args: `{"source":{"v":"$a"}}`})
	if len(effects) != 1 || effects[0].Kind != Dispatch {
		t.Errorf("it waits: %v", effects)
	}
}

// A response reports whether it shows what an action of its own generation gave.
func TestTextQuotes(t *testing.T) {
	p := New(Options{})
	ok := func(id string) {
		_, _ = p.Declare(nil, &messages.Action{ID: id, Name: "t"})
		_, _ = p.Started(nil, Ref{p.Generation()[0].Generation, id})
		_, _ = p.Ended(nil, Ref{p.Generation()[0].Generation, id}, Outcome{State: OK, Value: "1"})
	}
	_ = p.Begin()
	ok("old")
	_, _ = p.End(nil)
	_ = p.Begin()
	ok("own")
	for text, want := range map[string]bool{
		"plain": false, "$old": false, "$$own": false, "$missing": false, "$own": true, "a ${own} b": true, "$old $own": true, "${own.x}": false,
	} {
		r := p.Text()
		r.End(r.Push(nil, []byte(text)))
		if r.Quotes() != want {
			t.Errorf("%q quotes: %v", text, r.Quotes())
		}
	}
}

// An action may say that nothing in its parameters is a reference.
func TestLiteral(t *testing.T) {
	p := New(Options{Environment: mapped{"x": {"1", Present}}})
	_ = p.Begin()
	for id, want := range map[string]string{"a": `{"v":"$x ${x} $$"}`, "b": `{"v":"1 1 $"}`} {
		effects, _ := p.Declare(nil, &messages.Action{ID: id, Name: "t", Mode: messages.ModeAsync, Args: `{"v":"$x ${x} $$"}`, Literal: id == "a"})
		if len(effects) != 1 || effects[0].Parameters != want {
			t.Errorf("%s: %v", id, effects)
		}
	}
}

// A feed without a value is said to be none in a response, and unknown to parameters.
func TestVoidFeed(t *testing.T) {
	p := New(Options{Environment: mapped{"repo": {"", Void}}})
	_ = p.Begin()
	r := p.Text()
	text := r.Push(nil, []byte("a $repo b $other c"))
	if got := string(r.End(text)); got != "a [unavailable: repo] b $other c" {
		t.Errorf("%q", got)
	}
	effects, _ := p.Declare(nil, &messages.Action{ID: "a", Name: "t", Args: `{"v":"x $repo"}`})
	if len(effects) != 1 || effects[0].Parameters != `{"v":"x $repo"}` {
		t.Errorf("%v", effects)
	}
}

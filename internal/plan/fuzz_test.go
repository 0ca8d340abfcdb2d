package plan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// known is a plan with one value under the key k and the id a, a running action b
// and a failed one c. It is nil when the value is not JSON.
func known(t testing.TB, value string) *Plan {
	p := New(Options{Environment: mapped{"env": {"[1]", Present}}})
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*messages.Action{{ID: "a", Mode: messages.ModeAsync, OutputKey: "k"}, {ID: "b", Mode: messages.ModeAsync}, {ID: "c", Mode: messages.ModeAsync}} {
		if _, err := p.Declare(nil, a); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Started(nil, Ref{1, a.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Ended(nil, Ref{1, "a"}, Outcome{State: OK, Value: value}); err != nil {
		return nil // not a value
	}
	_, _ = p.Ended(nil, Ref{1, "c"}, Outcome{State: Failed, Reason: "x"})
	return p
}

// shown feeds a response in pieces; b ends when everything was read.
func shown(t testing.TB, p *Plan, pieces [][]byte) []byte {
	text := p.Text()
	out := []byte{} // not nil: what is shown is copied
	for _, piece := range pieces {
		piece = bytes.Clone(piece)
		out = text.Push(out, piece)
		for i := range piece {
			piece[i] = '!' // an alias of it would show
		}
		if _, waits := text.Waits(); !waits && text.Held() > MaxReferenceBytes {
			t.Fatalf("holds %d bytes", text.Held())
		}
	}
	out = text.End(out)
	if _, waits := text.Waits(); waits {
		if text.Done() {
			t.Fatal("it waits and is done")
		}
		if v, _ := p.Action(Ref{1, "b"}); v.State == Running {
			_, _ = p.Ended(nil, Ref{1, "b"}, Outcome{State: OK, Value: `"B"`})
		}
		out = text.Resume(out)
	}
	if !text.Done() || text.Held() != 0 {
		t.Fatalf("not done, holds %d", text.Held())
	}
	return out
}

var texts = []string{
	"", "plain", "$", "$$", "$$$", "$a", "$k!", "${a}", "${a.x}", "${a.x.0}", "x$a$b$c$d", "$5 and $HOME ${HOME:-x} ${",
	"${a.x", "$env ${env.0} ${env.1}", "$b$b", "a$" + strings.Repeat("n", 600), "${" + strings.Repeat("n.", 400) + "}", "é$aé$é",
}

// A response gives the same bytes at every cut.
func TestTextEveryCut(t *testing.T) {
	for _, s := range texts {
		want := shown(t, known(t, `{"x":["v"]}`), [][]byte{[]byte(s)})
		for i := 0; i <= len(s); i++ {
			for j := i; j <= len(s); j += 1 + len(s)/24 {
				if got := shown(t, known(t, `{"x":["v"]}`), [][]byte{[]byte(s[:i]), []byte(s[i:j]), []byte(s[j:])}); string(got) != string(want) {
					t.Fatalf("%q cut at %d and %d: %q, want %q", s, i, j, got, want)
				}
			}
		}
		var single [][]byte
		for i := range len(s) {
			single = append(single, []byte(s[i:i+1]))
		}
		if got := shown(t, known(t, `{"x":["v"]}`), single); string(got) != string(want) {
			t.Fatalf("%q in single bytes: %q, want %q", s, got, want)
		}
	}
}

func FuzzReference(f *testing.F) {
	for _, s := range texts {
		f.Add(s, `{"x":["v"]}`, uint64(1))
	}
	f.Add("${a.x.1}", ` { "x" : [ 1 , "\u0024b" ] } `, uint64(2))
	f.Fuzz(func(t *testing.T, s, value string, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var pieces [][]byte
		for rest := s; rest != ""; {
			n := 1 + rng.IntN(len(rest))
			pieces = append(pieces, []byte(rest[:n]))
			rest = rest[n:]
		}
		p := known(t, value)
		if p == nil {
			return
		}
		whole := shown(t, p, [][]byte{[]byte(s)})
		if got := shown(t, p, pieces); !bytes.Equal(got, whole) {
			t.Fatalf("%q in pieces: %q, want %q", s, got, whole)
		}
		if strings.IndexByte(s, '$') < 0 && string(whole) != s {
			t.Fatalf("%q without a reference became %q", s, whole)
		}
		// The same text as a parameter. What is there is JSON again, and keys stay.
		q, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			return // not a text
		}
		src := fmt.Sprintf(`{"$a":%s,"l":[%s]}`, q, q)
		out, err := p.Resolve(src)
		if err != nil {
			return
		}
		if !valid(out) {
			t.Fatalf("%s became %s", src, out)
		}
		if _, ok := step(out, "$a", new(int)); ok {
			t.Fatal("a path without budget")
		}
		budget := MaxPathBytes
		if _, ok := step(out, "$a", &budget); !ok {
			t.Fatalf("the key is gone: %s", out)
		}
	})
}

func FuzzStep(f *testing.F) {
	f.Add(`{"a":[1,{"b":"c"}]}`, "a.1.b")
	f.Add(`[[],{},"",0]`, "2")
	f.Add(`{"a`, "a")
	f.Add(`{"a":`, "a")
	f.Add(`}{`, "x")
	f.Fuzz(func(t *testing.T, value, path string) {
		budget := 1 << 20
		got, ok := step(value, path, &budget)
		appendEmbedded(nil, value)
		if ok && valid(value) && !valid(got) {
			t.Fatalf("%q of %q is %q", path, value, got)
		}
	})
}

// FuzzCalls makes any sequence of calls. Whatever comes, the plan's counts are
// right, an action ends once, and when everything was answered it is complete.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0, 3, 4, 20, 21, 30, 31, 60, 61, 90})
	f.Add([]byte("declare and end, declare and end, again and again"))
	f.Add(bytes.Repeat([]byte{0, 7, 1, 3, 200, 40, 80, 120, 160}, 30))
	f.Fuzz(func(t *testing.T, program []byte) {
		env := mapped{}
		p := New(Options{Actions: 24, Parallel: 3, Environment: env})
		gen := 1
		_ = p.Begin()
		ended := map[Ref]bool{}
		live := map[Ref]bool{}
		var order []Ref
		see := func(effs []Effect, err error) {
			for _, e := range effs {
				switch e.Kind {
				case Dispatch:
					live[e.Ref] = true
					if !valid(e.Parameters) {
						t.Fatalf("%v is dispatched with %q", e.Ref, e.Parameters)
					}
				case End:
					if ended[e.Ref] || !e.State.Terminal() {
						t.Fatalf("%v ends as %s, again %v", e.Ref, e.State, ended[e.Ref])
					}
					ended[e.Ref] = true
				}
			}
			if err != nil && len(effs) > 0 {
				t.Fatalf("an error with effects: %v %v", err, effs)
			}
			checkInvariants(t, p)
		}
		next := func() byte {
			if len(program) == 0 {
				return 0
			}
			b := program[0]
			program = program[1:]
			return b
		}
		id := func() string { return fmt.Sprintf("i%d", next()%12) }
		ref := func() Ref {
			if len(order) == 0 {
				return Ref{gen, "i0"}
			}
			return order[int(next())%len(order)]
		}
		answer := func(r Ref, s State) {
			effs, err := p.Ended(nil, r, Outcome{State: s, Value: `{"x":"$i1"}`})
			if err == nil {
				if ended[r] {
					t.Fatalf("%v ended twice", r)
				}
				ended[r] = true
			}
			see(effs, err)
		}
		for len(program) > 0 {
			switch next() % 16 {
			case 0, 1, 2, 3:
				a := &messages.Action{ID: id(), Mode: []string{messages.ModeAsync, messages.ModeAsync, messages.ModeSync, messages.ModeFireAndForget}[next()%4], Name: id(), OutputKey: []string{"", "i1", "k"}[next()%3]}
				for range next() % 4 {
					a.DependsOn = append(a.DependsOn, id())
				}
				a.Args = fmt.Sprintf(`{"v":"$%s","w":["a ${%s.x} b"]}`, []string{id(), "k", "feed"}[next()%3], id())
				if next()%3 == 0 {
					a.OnError = messages.OnErrorSkip
				}
				effs, err := p.Declare(nil, a)
				if err == nil {
					order = append(order, Ref{gen, a.ID})
				}
				see(effs, err)
			case 4:
				see(p.Reject(nil, id()))
			case 5, 6:
				see(p.Started(nil, ref()))
			case 7, 8:
				answer(ref(), []State{OK, OK, Failed, Cancelled, Unknown}[next()%5])
			case 9:
				see(p.Park(nil, ref()))
			case 10:
				see(p.Resume(nil, ref()))
			case 11:
				see(p.Cancel(nil, ref(), "x"))
			case 12:
				see(p.End(nil))
			case 13:
				if p.Begin() == nil {
					gen++
				}
			case 14:
				env["feed"] = struct {
					value  string
					status Status
				}{`"f"`, Status(next() % 3)}
				see(p.FeedReady(nil, "feed"), nil)
			case 15:
				if next() > 250 {
					see(p.CancelAll(nil, "over", next()%2 == 0), nil)
				} else {
					text := p.Text()
					text.End(text.Push(nil, []byte("$"+id()+" ${"+id()+".x} $feed")))
				}
			}
		}
		// All that was asked for is answered: then no action waits.
		if effs, err := p.End(nil); err == nil {
			see(effs, nil)
		}
		env["feed"] = struct {
			value  string
			status Status
		}{"", Absent}
		see(p.FeedReady(nil, "feed"), nil)
		for again := true; again; {
			again = false
			for _, r := range order {
				v, _ := p.Action(r)
				switch v.State {
				case Dispatched:
					see(p.Started(nil, r))
					again = true
				case Running:
					answer(r, OK)
					again = true
				case Parked:
					see(p.Resume(nil, r))
					again = true
				}
			}
		}
		for _, r := range order {
			if v, ok := p.Action(r); !ok || !v.State.Terminal() || !ended[r] {
				t.Fatalf("%v is left %s", r, v.State)
			}
		}
		if !p.Complete() {
			t.Fatal("not complete")
		}
	})
}

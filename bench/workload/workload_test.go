package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func TestBuiltin(t *testing.T) {
	for _, name := range Builtin() {
		data, ok := BuiltinFile(name)
		if !ok {
			t.Fatalf("%s has no file", name)
		}
		w, err := Parse(name, data)
		if err != nil {
			t.Fatal(err)
		}
		if w.Name != name || w.About == "" {
			t.Errorf("%s is called %q and is about %q", name, w.Name, w.About)
		}
		b, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		var again Workload
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if back, err := json.Marshal(again); err != nil || string(back) != string(b) {
			t.Errorf("%s as JSON and back is another: %v\n%s\n%s", name, err, b, back)
		}
		if !reflect.DeepEqual(w.Schedule(), again.Schedule()) {
			t.Errorf("%s as JSON and back has other arrivals", name)
		}
	}
	entries, err := files.ReadDir("builtin")
	if err != nil || len(entries) != len(Builtin()) {
		t.Errorf("%d files, %d names: %v", len(entries), len(Builtin()), err)
	}
	if _, ok := BuiltinFile("../workload"); ok {
		t.Error("a path is a name")
	}
}

func TestMistakes(t *testing.T) {
	const rest = "\nname: x\nagents: [{name: a}]\njobs: [{agent: a}]\n"
	for _, c := range []struct{ doc, want string }{
		{"name: [", "1:"},
		{"{}", "1:1 agents is missing|1:1 jobs is missing|1:1 name is missing"},
		{"- a", "1:1  want a mapping of keys|1:1 agents|1:1 jobs|1:1 name"},
		{"arivals: {}" + rest, "1:1 arivals is no key here; there are about, agents"},
		{"seed: -1" + rest, "1:7 seed want a whole number"},
		{"seed: 1\nseed: 2" + rest, "2:1 seed is there twice"},
		{"arrivals: {rate: 0}" + rest, "1:18 arrivals.rate want a number from 0.001"},
		{"arrivals: {rate: .nan}" + rest, "1:18 arrivals.rate want a number"},
		{"arrivals: {for: 5}" + rest, "1:17 arrivals.for want a time span"},
		{"arrivals: {ramp: 20s}" + rest, "1:11 arrivals.ramp is longer than arrivals.for"},
		{"arrivals: {rate: 100000, for: 24h}" + rest, "1:11 arrivals would be 8640000000 submits"},
		{"arrivals: {process: bursts}" + rest, "1:21 arrivals.process want one of poisson, even"},
		{"version: 2" + rest, "1:10 version want a whole number from 1 to 1"},
		{"name: x\nagents: [{name: a}, {name: a}]\njobs: [{agent: a}]", "2:21 agents[1].name another agent is called"},
		{"name: x\nagents: [{name: a}]\njobs: [{agent: b}]", `3:8 jobs[0].agent no agent is called "b"`},
		{"name: x\nagents: [{name: a}]\njobs: []", "3:7 jobs want 1 to 64 items; there are 0"},
		{"name: x\nagents: [{name: a}]\njobs: [{agent: a, cuts: 2}]", "3:8 jobs[0].cuts goes with reader: reconnect"},
		{"name: x\nagents: [{name: a, approval: true}]\njobs: [{agent: a}]", "2:10 agents[0].approval a person is asked about calls"},
		{"name: x\nagents: [{name: a, calls: 1, approval: true}]\njobs: [{agent: a, reader: wait}]", "3:8 jobs[0].reader an agent that asks a person wants reader: stream or reconnect"},
		{"name: x\nagents: [{name: a, gap: {dist: normal}}]\njobs: [{agent: a}]", "2:32 agents[0].gap.dist want one of constant"},
		{"name: x\nagents: [{name: a, gap: {mean: 5ms}}]\njobs: [{agent: a}]", "2:25 agents[0].gap.dist is missing"},
		{"name: x\nagents: [{name: a, gap: {dist: exponential, median: 5ms}}]\njobs: [{agent: a}]", "2:25 agents[0].gap exponential takes mean"},
		{"name: x\nagents: [{name: a, gap: {dist: lognormal, median: 5ms, p99: 1ms}}]\njobs: [{agent: a}]", "2:25 agents[0].gap want a median above 0"},
		{"name: x\nagents: [{name: a, gap: {dist: uniform, min: 5ms, max: 1ms}}]\njobs: [{agent: a}]", "2:25 agents[0].gap min is above max"},
	} {
		_, err := Parse("w.yaml", []byte(c.doc))
		var said []string
		for _, e := range flat(err) {
			said = append(said, fmt.Sprintf("%d:%d %s %s", e.Line, e.Col, e.Field, e.Detail))
			if e.Code != messages.ErrConfig || e.File != "w.yaml" {
				t.Errorf("%q: %+v", c.doc, e)
			}
		}
		slices.Sort(said)
		want := strings.Split(c.want, "|")
		if len(said) != len(want) {
			t.Errorf("%q: %q, want %q", c.doc, said, want)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(said[i], want[i]) {
				t.Errorf("%q: %q, want %q", c.doc, said[i], want[i])
			}
		}
	}
}

func flat(err error) (all []*messages.Error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, flat(e)...)
		}
		return all
	}
	var e *messages.Error
	if errors.As(err, &e) {
		all = append(all, e)
	}
	return all
}

func load(t *testing.T, text string) *Workload {
	t.Helper()
	w, err := Parse("w.yaml", []byte("name: x\nagents: [{name: a}]\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSchedule(t *testing.T) {
	const jobs = "\njobs: [{name: one, agent: a, weight: 3}, {name: two, agent: a, reader: reconnect, cuts: 3}]"
	w := load(t, "arrivals: {rate: 500, ramp: 4s, for: 20s}\nseed: 7"+jobs)
	all := w.Schedule()
	if !reflect.DeepEqual(all, w.Schedule()) {
		t.Error("the same seed gives other arrivals")
	}
	// 9,000 are expected; five standard deviations are 474.
	if n, want := float64(len(all)), w.Arrivals.Expected(); math.Abs(n-want) > 5*math.Sqrt(want) {
		t.Errorf("%v arrivals, want about %v", n, want)
	}
	var ramp, second int
	for i, a := range all {
		if i > 0 && a.At < all[i-1].At {
			t.Fatalf("arrival %d comes before the one before it", i)
		}
		if a.At < time.Duration(w.Arrivals.Ramp) {
			ramp++
		}
		if a.Job == 1 {
			second++
			if len(a.Cut) != 3 || !slices.IsSorted(a.Cut) || a.Cut[0] < 0 || a.Cut[2] >= 1 {
				t.Fatalf("cuts at %v", a.Cut)
			}
		} else if a.Cut != nil {
			t.Fatalf("job %d is cut", a.Job)
		}
	}
	if math.Abs(float64(ramp)-1000) > 5*math.Sqrt(1000) {
		t.Errorf("%d arrivals in the ramp, want about 1000", ramp)
	}
	if share := float64(second) / float64(len(all)); math.Abs(share-0.25) > 0.03 {
		t.Errorf("a share of %.3f is of the second job, want 0.25", share)
	}
	w.Seed = 8
	if reflect.DeepEqual(all, w.Schedule()) {
		t.Error("another seed gives the same arrivals")
	}

	even := load(t, "arrivals: {rate: 4, for: 2s, process: even}\njobs: [{agent: a}]").Schedule()
	for i, a := range even {
		if want := time.Duration(i+1) * 250 * time.Millisecond; a.At != want {
			t.Errorf("arrival %d at %s, want %s", i, a.At, want)
		}
	}
	if len(even) != 7 {
		t.Errorf("%d arrivals in [0, 2s)", len(even))
	}
}

func TestDraw(t *testing.T) {
	w := &Workload{Seed: 3}
	for _, c := range []struct {
		d            Dist
		median, mean time.Duration
	}{
		{Dist{}, 0, 0},
		{Dist{Kind: Constant, Value: Duration(time.Second)}, time.Second, time.Second},
		{Dist{Kind: Uniform, Min: Duration(time.Second), Max: Duration(3 * time.Second)}, 2 * time.Second, 2 * time.Second},
		{Dist{Kind: Exponential, Mean: Duration(time.Second)}, 693 * time.Millisecond, time.Second},
		{Dist{Kind: LogNormal, Median: Duration(time.Second), P99: Duration(10 * time.Second)}, time.Second, 1632 * time.Millisecond},
	} {
		const n = 20000
		all := make([]time.Duration, n)
		var sum time.Duration
		for i := range all {
			all[i] = c.d.Draw(w.Rand("test", i))
			sum += all[i]
		}
		slices.Sort(all)
		near := func(what string, got, want time.Duration) {
			if math.Abs(float64(got-want)) > 0.05*float64(want) {
				t.Errorf("%s: %s %s, want %s", c.d.Kind, what, got, want)
			}
		}
		near("median", all[n/2], c.median)
		near("mean", sum/n, c.mean)
		if c.d.Kind == LogNormal {
			near("p99", all[n*99/100], 10*time.Second)
		}
	}
	if d := (Dist{Kind: Exponential, Mean: Duration(MaxDraw)}); slices.MaxFunc(draws(w, d, 100), func(a, b time.Duration) int { return int(a - b) }) > MaxDraw {
		t.Error("a draw is beyond the bound")
	}
}

func draws(w *Workload, d Dist, n int) (all []time.Duration) {
	for i := range n {
		all = append(all, d.Draw(w.Rand("", i)))
	}
	return all
}

func TestNumber(t *testing.T) {
	for _, n := range []int{0, 7, 12345678} {
		for _, size := range []int{1, 32, 1000} {
			in := Input(n, Job{Input: size})
			if got, ok := Number(in); !ok || got != n {
				t.Errorf("%q: %d, %v", in, got, ok)
			}
			if len(in) < size {
				t.Errorf("%d bytes, want %d", len(in), size)
			}
		}
	}
	for _, text := range []string{"", "hello", "submit ", "submit x"} {
		if n, ok := Number(text); ok {
			t.Errorf("%q is number %d", text, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Builtin() {
		data, _ := BuiltinFile(name)
		f.Add(data)
	}
	f.Add([]byte("name: x\nagents: [{name: a, gap: {dist: lognormal, median: 1ns, p99: 10m}}]\njobs: [{agent: a}]"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		w, err := Parse("w.yaml", doc)
		if err != nil {
			for _, e := range flat(err) {
				if e.File != "w.yaml" {
					t.Errorf("no file in %v", e)
				}
			}
			return
		}
		w.Arrivals.Rate = min(w.Arrivals.Rate, 100)
		w.Arrivals.For = min(w.Arrivals.For, Duration(10*time.Second))
		w.Arrivals.Ramp = min(w.Arrivals.Ramp, w.Arrivals.For)
		for _, a := range w.Schedule() {
			if a.At < 0 || a.At >= time.Duration(w.Arrivals.For) || a.Job < 0 || a.Job >= len(w.Jobs) {
				t.Errorf("%+v", a)
			}
		}
	})
}

package tests

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// job is an action of a random graph as a scheduler sees it.
type job struct {
	id      string
	mode    string
	release time.Duration // when its closing tag is there
	takes   time.Duration
	fails   bool
	skips   bool // on_error: skip
	deps    []int
	quotes  []int // dependencies by $id in the parameters
}

// jobState is how far a job is.
type jobState int

const (
	unseen jobState = iota
	waiting
	running
	ok
	failed
	skipped
)

// schedule is an independent list scheduler: when does a generation end whose stream
// releases jobs in order, where a sync job shuts the gate until it is over, jobs wait
// for their dependencies, and at most limit run, those ready first in document order?
// It works out everything again at each instant at which anything happens.
func schedule(jobs []job, streamEnds time.Duration, limit int) (end time.Duration) {
	state := make([]jobState, len(jobs))
	ends := make([]time.Duration, len(jobs))
	begun := make([]bool, len(jobs)) // it has its slot, and the gate let it pass
	over := func(i int) bool { return state[i] >= ok }
	// fulfilled and hopeless are what a dependency means to the actions that wait for it.
	fulfilled := func(i int) bool {
		if jobs[i].mode == messages.ModeFireAndForget {
			return begun[i] // whatever becomes of it
		}
		return state[i] == ok || state[i] == failed && jobs[i].skips
	}
	hopeless := func(i int) bool { return over(i) && !fulfilled(i) }
	next := 0 // of the document
	gate := -1
	now := time.Duration(0)
	for {
		slots := limit
		for i := range jobs {
			if state[i] == running {
				if ends[i] > now {
					slots--
				} else if state[i] = ok; jobs[i].fails {
					state[i] = failed
				}
			}
		}
		var asked []int // the gate, in order
		for changed := true; changed; {
			changed = false
			for i := range jobs {
				if state[i] != waiting {
					continue
				}
				all := append(slices.Clone(jobs[i].deps), jobs[i].quotes...)
				switch {
				case slices.ContainsFunc(all, hopeless):
					state[i], changed = skipped, true
				case slots > 0 && !slices.ContainsFunc(all, func(d int) bool { return !fulfilled(d) }):
					state[i], ends[i], changed = running, now+jobs[i].takes, true
					asked = append(asked, i)
					slots--
				}
			}
			if gate >= 0 && over(gate) {
				gate = -1
			}
			// What waited behind the gate comes all at once; what is said at this moment comes
			// one by one, each when the one before it has begun.
			if gate < 0 && next < len(jobs) && !changed && (jobs[next].release < now || jobs[next].release == now && len(asked) == 0) {
				state[next], changed = waiting, true
				if jobs[next].mode == messages.ModeSync {
					gate = next
					if slices.ContainsFunc(jobs[next].deps, func(d int) bool { return d > next }) {
						state[next] = skipped // forward_dependency
					}
				}
				next++
			}
			// What has a slot begins, one after the other, when nothing more of the document
			// comes with it.
			if !changed && len(asked) > 0 {
				begun[asked[0]], asked, changed = true, asked[1:], true
			}
		}
		if next == len(jobs) && streamEnds <= now && !slices.ContainsFunc(jobs, func(j job) bool {
			i := slices.IndexFunc(jobs, func(o job) bool { return o.id == j.id })
			return !over(i) && (j.mode != messages.ModeFireAndForget || state[i] != running)
		}) {
			return now
		}
		at := time.Duration(-1)
		soonest := func(t time.Duration) {
			if t > now && (at < 0 || t < at) {
				at = t
			}
		}
		for i := range jobs {
			if state[i] == running {
				soonest(ends[i])
			}
		}
		if next < len(jobs) {
			soonest(jobs[next].release)
		}
		soonest(streamEnds)
		if at < 0 {
			panic("the scheduler waits for nothing")
		}
		now = at
	}
}

// graph makes a random one. Dependencies on what comes later are on jobs that wait for
// nothing, and no sync job waits for one that does: it would wait behind its own gate.
func graph(rng *rand.Rand) (jobs []job, streamEnds time.Duration) {
	n := 1 + rng.IntN(24)
	jobs = make([]job, n)
	at := time.Duration(0)
	later := make([]bool, n) // waits for something later, also by way of others
	free := make([]bool, n)  // an earlier action waits for it
	for i := range jobs {
		j := &jobs[i]
		j.id = fmt.Sprintf("j%d", i)
		at += time.Duration(rng.IntN(40)) * time.Millisecond
		j.release = at
		j.takes = time.Duration(1 + rng.Int64N(int64(200*time.Millisecond)))
		j.fails, j.skips = rng.IntN(8) == 0, rng.IntN(3) == 0
		j.mode = []string{messages.ModeAsync, messages.ModeAsync, messages.ModeAsync, messages.ModeSync, messages.ModeFireAndForget}[rng.IntN(5)]
		if !free[i] {
			for range rng.IntN(3) {
				if i == 0 {
					break
				}
				d := rng.IntN(i)
				if j.mode == messages.ModeSync && later[d] || slices.Contains(j.deps, d) || slices.Contains(j.quotes, d) {
					continue
				}
				later[i] = later[i] || later[d]
				if rng.IntN(2) == 0 && jobs[d].mode != messages.ModeFireAndForget {
					j.quotes = append(j.quotes, d)
				} else {
					j.deps = append(j.deps, d)
				}
			}
			if i+1 < n && rng.IntN(6) == 0 {
				d := i + 1 + rng.IntN(n-i-1)
				if j.mode == messages.ModeSync {
					free[d] = true // it is skipped at once
					j.deps = append(j.deps, d)
				} else if !free[d] {
					free[d], later[i] = true, true
					j.deps = append(j.deps, d)
				}
			}
		}
	}
	return jobs, at + time.Duration(rng.IntN(300))*time.Millisecond
}

// text is the action of a job.
func (j *job) text(jobs []job) string {
	var deps, quotes []string
	for _, d := range j.deps {
		deps = append(deps, fmt.Sprintf("%q", jobs[d].id))
	}
	for _, d := range j.quotes {
		quotes = append(quotes, fmt.Sprintf("%q", "$"+jobs[d].id))
	}
	onError := ""
	if j.skips {
		onError = `,"on_error":"skip"`
	}
	return fmt.Sprintf(`<action id="%s" mode="%s">{"name":"own.job","parameters":{"ns":%d,"fails":%t,"of":[%s]},"depends_on":[%s]%s}</action>`,
		j.id, j.mode, j.takes, j.fails, strings.Join(quotes, ","), strings.Join(deps, ","), onError)
}

// A thousand random graphs of actions, in virtual time: each generation ends to the
// nanosecond when the list scheduler's does.
func TestRandomGraphsEndOnTime(t *testing.T) {
	const graphs = 1000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 4))
		rt := start(t, stile.Config{})
		m := manifest.Default("cortex")
		m.Import.Tools = []string{"own.job"}
		works := tools.Tool{
			Name: "own.job", Class: messages.ReadOnly,
			Params: []neuroscript.Param{{Name: "ns", Type: "int"}, {Name: "fails", Type: "bool"}, {Name: "of", Type: "list"}},
			Run: func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				ns, _ := c.Args[0].AsInt()
				select {
				case <-time.After(time.Duration(ns)):
				case <-ctx.Done():
					return neuroscript.Value{}, ctx.Err()
				}
				if fails, _ := c.Args[1].AsBool(); fails {
					return neuroscript.Value{}, fmt.Errorf("as it should")
				}
				return neuroscript.String("done"), nil
			},
		}
		m.Receipts = manifest.ReceiptsOff
		var graphOf llm.Model // one after the other
		agent := &stile.Agent{Manifest: m, Tools: []tools.Tool{works}, Model: model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
			return graphOf.Stream(ctx, req)
		})}
		sessions := 0
		measure := func(jobs []job, streamEnds time.Duration) time.Duration {
			var script strings.Builder
			script.WriteString(`{"chunks":[`)
			for i := range jobs {
				fmt.Fprintf(&script, `{"at_ms":%d,"text":%q},`, jobs[i].release.Milliseconds(), jobs[i].text(jobs))
			}
			fmt.Fprintf(&script, `{"at_ms":%d,"text":" "}]}`+"\n"+`{"chunks":[{"text":"<response>end</response>"}]}`+"\n", streamEnds.Milliseconds())
			var err error
			if graphOf, err = scripted.Parse("graph.jsonl", []byte(script.String())); err != nil {
				t.Fatal(err)
			}
			sessions++
			s := open(t, rt, fmt.Sprint("g", sessions), agent)
			wantDone(t, ask(t, s, "go"))
			var began, ended time.Time
			for _, r := range stored(t, s) {
				if r.Turn != 1 {
					continue
				}
				switch r.Body.(type) {
				case *messages.TurnBegin:
					began = r.TS
				case *messages.TurnDecided:
					ended = r.TS
				}
			}
			return ended.Sub(began)
		}
		for g := range graphs {
			jobs, streamEnds := graph(rng)
			if measure(jobs, streamEnds) == schedule(jobs, streamEnds, 5) {
				continue
			}
			for i := len(jobs) - 1; i >= 0; i-- { // to what is needed for it
				if less := without(jobs, i); measure(less, streamEnds) != schedule(less, streamEnds, 5) {
					jobs = less
				}
			}
			for i := range jobs {
				t.Log(jobs[i].release, jobs[i].text(jobs))
			}
			t.Fatalf("graph %d of seed %d, as far as is needed: it ends after %s, the scheduler's after %s (stream %s)", g, seed, measure(jobs, streamEnds), schedule(jobs, streamEnds, 5), streamEnds)
		}
	})
}

// without is a graph that lacks a job.
func without(jobs []job, i int) []job {
	renumber := func(deps []int) (out []int) {
		for _, d := range deps {
			switch {
			case d < i:
				out = append(out, d)
			case d > i:
				out = append(out, d-1)
			}
		}
		return out
	}
	var less []job
	for k := range jobs {
		if k == i {
			continue
		}
		j := jobs[k]
		j.deps, j.quotes = renumber(j.deps), renumber(j.quotes)
		less = append(less, j)
	}
	return less
}

package plan

import (
	"fmt"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// The loads are generations of 64 actions: a chain, where each waits for the one
// before it, a fan of one and 63 that wait for it, and diamonds of four. Every
// action is declared, started and ended; ns and allocations are per generation of
// 64. The floor does the same calls on actions that depend on nothing, and the peer
// counts unmet dependencies in maps, without references, states, slots and reasons:
// the least that gives the same order.
func BenchmarkGeneration64(b *testing.B) {
	const n = 64
	shapes := []struct {
		name string
		deps func(i int) []int
	}{
		{"floor/no-edges", func(int) []int { return nil }},
		{"chain", func(i int) []int {
			if i == 0 {
				return nil
			}
			return []int{i - 1}
		}},
		{"fan", func(i int) []int {
			if i == 0 {
				return nil
			}
			return []int{0}
		}},
		{"diamond", func(i int) []int {
			switch i % 4 {
			case 0:
				if i == 0 {
					return nil
				}
				return []int{i - 1}
			case 3:
				return []int{i - 1, i - 2}
			}
			return []int{i - i%4}
		}},
	}
	for _, shape := range shapes {
		for _, refs := range []bool{false, true} {
			name := shape.name
			if refs {
				if shape.deps(1) == nil {
					continue
				}
				name += "-by-reference"
			}
			actions := make([]messages.Action, n)
			for i := range actions {
				a := &actions[i]
				*a = messages.Action{ID: fmt.Sprintf("a%d", i), Name: "tool", Mode: messages.ModeAsync, Args: `{"q":"some text"}`}
				for _, d := range shape.deps(i) {
					if refs {
						a.Args = fmt.Sprintf(`{"q":"some text","v":"$a%d"}`, d)
					} else {
						a.DependsOn = append(a.DependsOn, fmt.Sprintf("a%d", d))
					}
				}
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				var effs, work []Effect
				for b.Loop() {
					p := New(Options{})
					_ = p.Begin()
					done := 0
					effs = effs[:0]
					for i := range actions {
						effs, _ = p.Declare(effs, &actions[i])
					}
					for len(effs) > 0 {
						work = append(work[:0], effs...)
						effs = effs[:0]
						for i := range work {
							effs, _ = p.Started(effs, work[i].Ref)
							effs, _ = p.Ended(effs, work[i].Ref, Outcome{State: OK, Value: `{"x":1}`})
							done++
						}
					}
					if done != n {
						b.Fatal(done)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/action")
			})
		}
		b.Run("peer/"+shape.name, func(b *testing.B) {
			ids := make([]string, n)
			deps := make([][]string, n)
			for i := range n {
				ids[i] = fmt.Sprintf("a%d", i)
				for _, d := range shape.deps(i) {
					deps[i] = append(deps[i], fmt.Sprintf("a%d", d))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				unmet, users := map[string]int{}, map[string][]string{}
				var ready []string
				for i := range n {
					for _, d := range deps[i] {
						unmet[ids[i]]++
						users[d] = append(users[d], ids[i])
					}
					if unmet[ids[i]] == 0 {
						ready = append(ready, ids[i])
					}
				}
				done := 0
				for ; len(ready) > 0; done++ {
					id := ready[0]
					ready = ready[1:]
					for _, u := range users[id] {
						if unmet[u]--; unmet[u] == 0 {
							ready = append(ready, u)
						}
					}
				}
				if done != n {
					b.Fatal(done)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/action")
		})
	}
}

// A response that passes untouched, and one with a reference every 64 bytes.
func BenchmarkResponse64KiB(b *testing.B) {
	p := known(b, `"value"`)
	plain := make([]byte, 64<<10)
	for i := range plain {
		plain[i] = "the quick brown fox "[i%20]
	}
	dense := append([]byte(nil), plain...)
	for i := 0; i+64 <= len(dense); i += 64 {
		copy(dense[i:], "$a ")
	}
	for _, c := range []struct {
		name string
		text []byte
	}{{"no-reference", plain}, {"reference-every-64B", dense}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			var dst []byte
			for b.Loop() {
				text := p.Text()
				dst = text.End(text.Push(dst[:0], c.text))
			}
		})
	}
	b.Run("floor/copy", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(plain)))
		var dst []byte
		for b.Loop() {
			dst = append(dst[:0], plain...)
		}
	})
}

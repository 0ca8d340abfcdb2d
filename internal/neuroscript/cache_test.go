package neuroscript

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

func TestCache(t *testing.T) {
	src := func(i int) []byte { return []byte(program(fmt.Sprintf("emit %d", 1000+i))) }
	p, err := Compile(src(0))
	if err != nil {
		t.Fatal(err)
	}
	cost := p.Bytes() + entryBytes
	c := NewCache(3*cost + cost/2)
	get := func(i int) *Program {
		t.Helper()
		p, err := c.Compile(src(i))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := get(0)
	get(1)
	get(2)
	if get(0) != first || c.Stats() != (CacheStats{3, 3 * cost, 1, 3}) {
		t.Errorf("%+v", c.Stats())
	}
	get(3) // drops 1, which was used least recently
	if s := c.Stats(); s.Programs != 3 || s.Bytes != 3*cost {
		t.Errorf("%+v", s)
	}
	if get(0) != first {
		t.Error("a recently used program was dropped")
	}
	if before := c.Stats().Misses; get(1) == nil || c.Stats().Misses != before+1 {
		t.Error("the oldest program stayed")
	}
	if _, err := c.Compile([]byte("emit")); err == nil || c.Stats().Programs != 3 {
		t.Error("an error was kept")
	}
	none := NewCache(0)
	if _, err := none.Compile(src(0)); err != nil || none.Stats().Programs != 0 {
		t.Error("a cache without room kept a program")
	}
	exact := NewCache(cost)
	if _, err := exact.Compile(src(0)); err != nil || exact.Stats().Bytes != cost {
		t.Error("a program that just fits was not kept")
	}
}

// TestSharedProgram runs one program, out of a cache, in many goroutines at once.
func TestSharedProgram(t *testing.T) {
	c := NewCache(1 << 20)
	src := []byte(program("set m = {\"a\": [1, 2]} / for each x in [1, 2, 3] / set m.a[x] = sid + x / endfor / emit eval(\"{{m}}\")"))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 50 {
				p, err := c.Compile(src)
				if err != nil {
					t.Error(err)
					return
				}
				sid := fmt.Sprint(g)
				want := fmt.Sprintf(`{"a": [1, "%[1]s1", "%[1]s2", "%[1]s3"]}`, sid)
				p.Run(context.Background(), &Env{SID: sid, Emit: func(s string) {
					if s != want {
						t.Errorf("got %s", s)
					}
				}})
			}
		})
	}
	wg.Wait()
}

func TestMetadata(t *testing.T) {
	p, err := Compile([]byte(":: title: x\ncommand\n:: by: y\nendcommand"))
	if err != nil || fmt.Sprint(p.Metadata()) != "[{title x} {by y}]" {
		t.Errorf("%v %v", p.Metadata(), err)
	}
}

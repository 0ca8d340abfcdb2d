package mcp

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Connections of one tenant leave room for those of others, are used again, and end when
// has no calls.
func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{})
		defer p.Close()
		cfg := Config{Name: "desk", URL: "http://127.0.0.1:1"}
		take := func(tenant, key string) (*Server, func()) {
			s, done, err := p.Apart(cfg, tenant, key)
			if err != nil {
				return nil, nil
			}
			return s, done
		}
		has := func(tenant string, want int) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.ofTenant[tenant] != want {
				t.Errorf("%s has %d connections, want %d", tenant, p.ofTenant[tenant], want)
			}
		}
		base, err := p.Server(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ann, doneAnn := take("acme", "ann")
		again, doneAgain := take("acme", "ann")
		bob, doneBob := take("acme", "bob")
		if ann != again || ann == bob || ann == base {
			t.Error("who has a connection with whom")
		}
		doneAgain()
		var busy []func()
		for i := range 300 {
			if _, done := take("evil", fmt.Sprint(i)); done != nil {
				busy = append(busy, done)
			}
		}
		has("evil", len(busy))
		if len(busy) != (maxApart-2+fairness)/(fairness+1) {
			t.Errorf("one tenant has %d connections", len(busy))
		}
		for i := range 8 {
			for j := range 300 {
				take(fmt.Sprint("greedy", i), fmt.Sprint(j))
			}
		}
		if s, _ := take("new", "zoe"); s == nil {
			t.Error("a tenant that has none gets none")
		}
		if s, done := take("acme", "ann"); s != ann {
			t.Error("who has one does not get it again")
		} else {
			done()
		}
		for _, done := range busy[1:] {
			done()
		}
		if s, done := take("evil", "another"); s == nil { // one that rests makes room
			t.Error("nothing makes room")
		} else {
			done()
		}
		has("evil", len(busy))
		time.Sleep(apartIdle + time.Second)
		has("evil", 1) // that is in use
		has("acme", 2)
		busy[0]()
		doneAnn()
		doneBob()
		time.Sleep(apartIdle - time.Second)
		has("acme", 2)
		time.Sleep(2 * time.Second)
		has("acme", 0)
		has("evil", 0)
	})
}

// Two users have two programs, and that of a connection that makes room ends.
func TestProgramsApart(t *testing.T) {
	p := pool(t, Options{})
	pid := func(user string) (string, *connection) {
		s, done, err := p.Apart(self("on"), "acme", user)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		got := call(t, s, "pid", `{"text":""}`)
		s.mu.Lock()
		defer s.mu.Unlock()
		return got, s.live
	}
	ann, live := pid("ann")
	if again, _ := pid("ann"); again != ann {
		t.Error("a connection that rests is not used again")
	}
	if bob, _ := pid("bob"); bob == ann {
		t.Error("two users have one program")
	}
	p.mu.Lock()
	p.endResting("acme") // ann's, which has rested for the longest
	p.unlock()
	<-live.done
	if again, _ := pid("ann"); again == ann {
		t.Error("the program did not end")
	}
}

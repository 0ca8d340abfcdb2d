// Package boardtest has a board.Port in memory, and what every port is held to.
package boardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/board"
)

// Memory is a port in memory. The zero value is empty. Watchers are called by Tell alone, and in
// its goroutine.
type Memory struct {
	// Down, if not nil, is the error of every call.
	Down func() error
	// Clock, if not nil, is what the clock of the place shows.
	Clock func() time.Time

	mu       sync.Mutex
	boards   map[string]*state
	watchers []*watcher
	reads    int
}

type state struct {
	notes            []board.Note // in their order
	version, dropped int64
}

type watcher struct {
	kind string
	look func(ctx context.Context, at time.Time, version int64, lost bool)
}

var _ board.Port = (*Memory)(nil)

func (m *Memory) down() error {
	if m.Down == nil {
		return nil
	}
	return m.Down()
}

func (m *Memory) of(kind string) *state {
	if m.boards == nil {
		m.boards = map[string]*state{}
	}
	if m.boards[kind] == nil {
		m.boards[kind] = &state{}
	}
	return m.boards[kind]
}

// Read implements board.Port.
func (m *Memory) Read(_ context.Context, kind string, after int64) (all []board.Note, version int64, whole bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if err := m.down(); err != nil {
		return nil, 0, false, err
	}
	s := m.of(kind)
	if whole = after == 0 || after > s.version || after < s.dropped; whole {
		after = 0
	}
	for _, n := range s.notes {
		if n.Version > after {
			all = append(all, n)
		}
	}
	return all, s.version, whole, nil
}

// Reads counts calls of Read.
func (m *Memory) Reads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads
}

// Now implements board.Port.
func (m *Memory) Now() time.Time {
	if m.Clock == nil {
		return time.Now()
	}
	return m.Clock()
}

// Change implements board.Port.
func (m *Memory) Change(_ context.Context, kind string, f func([]board.Note) ([]board.Note, []string, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.down(); err != nil {
		return err
	}
	s := m.of(kind)
	put, drop, err := f(slices.Clone(s.notes))
	if err != nil || len(put)+len(drop) == 0 {
		return err
	}
	s.version++
	if len(drop) > 0 {
		s.dropped = s.version
	}
	s.notes = slices.DeleteFunc(s.notes, func(n board.Note) bool { return slices.Contains(drop, n.ID) })
	for _, n := range put {
		n.Version = s.version
		if i := slices.IndexFunc(s.notes, func(has board.Note) bool { return has.ID == n.ID }); i >= 0 {
			s.notes[i] = n
		} else {
			s.notes = append(s.notes, n)
		}
	}
	return nil
}

// Watch implements board.Port.
func (m *Memory) Watch(kind string, look func(ctx context.Context, at time.Time, version int64, lost bool)) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &watcher{kind, look}
	m.watchers = append(m.watchers, w)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers = slices.DeleteFunc(m.watchers, func(has *watcher) bool { return has == w })
	}
}

// Lose takes back all that was put up after a version, as a server does that takes over from
// another one. What was taken away meanwhile stays away.
func (m *Memory) Lose(kind string, after int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(kind)
	s.version, s.dropped = after, min(s.dropped, after)
	s.notes = slices.DeleteFunc(s.notes, func(n board.Note) bool { return n.Version > after })
}

// Tell calls the watchers.
func (m *Memory) Tell(lost bool) {
	m.mu.Lock()
	all := slices.Clone(m.watchers)
	m.mu.Unlock()
	for _, w := range all {
		m.mu.Lock()
		v := m.of(w.kind).version
		m.mu.Unlock()
		w.look(context.Background(), time.Now(), v, lost)
	}
}

// Run holds a port that is empty to what board.Port says.
func Run(t *testing.T, p board.Port) {
	ctx := t.Context()
	secret := board.Secret("a secret of the hosts, for tests only")
	put := func(kind string, notes ...board.Note) {
		t.Helper()
		if err := p.Change(ctx, kind, func([]board.Note) ([]board.Note, []string, error) { return notes, nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(kind string, ids ...string) {
		t.Helper()
		if err := p.Change(ctx, kind, func([]board.Note) ([]board.Note, []string, error) { return nil, ids, nil }); err != nil {
			t.Fatal(err)
		}
	}
	look := func(kind string, after int64, want string) (version int64) {
		t.Helper()
		all, version, whole, err := p.Read(ctx, kind, after)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(whole)
		for i := range all {
			got += " " + all[i].ID + "=" + string(all[i].Body)
			if !secret.Genuine(kind, &all[i]) {
				t.Errorf("note %s has lost its seal", all[i].ID)
			}
		}
		if got != want {
			t.Errorf("after %d %s are %q, want %q", after, kind, got, want)
		}
		return version
	}
	note := func(kind, id, body string) board.Note { return secret.Sealed(kind, id, []byte(body)) }

	look("x", 0, "true")
	put("x", note("x", "b", "1"), note("x", "a", "1"))
	put("y", note("y", "b", "other"))
	one := look("x", 0, "true b=1 a=1")
	look("x", one, "false")
	put("x", note("x", "c", ""), note("x", "b", "2"))
	two := look("x", one, "false b=2 c=")
	look("x", 0, "true b=2 a=1 c=")
	put("x")
	if look("x", two, "false") != two {
		t.Error("a change of nothing has a version")
	}
	drop("x", "a", "none")
	three := look("x", two, "true b=2 c=")
	look("x", three, "false")
	look("x", three+100, "true b=2 c=") // a place that has lost changes
	look("y", 0, "true b=other")

	why := errors.New("refused")
	err := p.Change(ctx, "x", func(all []board.Note) ([]board.Note, []string, error) {
		if len(all) != 2 {
			t.Errorf("a change sees %d notes", len(all))
		}
		return []board.Note{note("x", "d", "")}, []string{"b"}, why
	})
	if !errors.Is(err, why) {
		t.Errorf("a change that was refused: %v", err)
	}
	if look("x", 0, "true b=2 c=") != three {
		t.Error("a change that was refused has a version")
	}

	// Changes are made one after the other.
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			err := p.Change(ctx, "n", func(all []board.Note) ([]board.Note, []string, error) {
				return []board.Note{note("n", fmt.Sprint(len(all)), fmt.Sprint(i))}, nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if all, _, _, err := p.Read(ctx, "n", 0); err != nil || len(all) != 8 {
		t.Errorf("of 8 changes at once %d are there: %v", len(all), err)
	}
}

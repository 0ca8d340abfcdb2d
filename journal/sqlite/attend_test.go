package sqlite

import (
	"path/filepath"
	"testing"
	"time"
)

// The first host is alone, the second is not, and when both are gone no host attends.
// Looking is not attending.
func TestAttend(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	open := func() *store {
		t.Helper()
		s, err := openStore(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	at := time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC)
	reader := open()
	want := func(since time.Time, attended bool) {
		t.Helper()
		got, ok, err := reader.Attended()
		if err != nil || ok != attended || !got.Equal(since) {
			t.Fatalf("attended %v since %v, %v; want %v since %v", ok, got, err, attended, since)
		}
	}
	attend := func(now time.Time, alone bool) (leave func() error) {
		t.Helper()
		got, leave, err := open().Attend(now)
		if err != nil || got != alone {
			t.Fatalf("alone %v, %v; want %v", got, err, alone)
		}
		return leave
	}
	gone := func(leave func() error) {
		t.Helper()
		for range 2 { // once is enough
			if err := leave(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want(time.Time{}, false)
	one := attend(at, true)
	want(at, true)
	two := attend(at.Add(time.Hour), false)
	want(at, true)
	gone(one)
	want(at, true)
	gone(two)
	want(time.Time{}, false)
	three := attend(at.Add(2*time.Hour), true)
	want(at.Add(2*time.Hour), true)
	gone(three)
	want(time.Time{}, false)
}

// A host that attends sees when the others have gone, and is seen all the while.
func TestAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	one, two := open(t, Options{Path: path}), open(t, Options{Path: path})
	want := func(s *store, alone bool) {
		t.Helper()
		for range 2 {
			if got, err := s.Alone(); err != nil || got != alone {
				t.Fatalf("alone %v, %v; want %v", got, err, alone)
			}
		}
	}
	want(one, false) // it does not attend
	now := time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC)
	_, leaveOne, err := one.Attend(now)
	if err != nil {
		t.Fatal(err)
	}
	want(one, true)
	_, leaveTwo, err := two.Attend(now)
	if err != nil {
		t.Fatal(err)
	}
	want(one, false)
	want(two, false)
	if err := leaveOne(); err != nil {
		t.Fatal(err)
	}
	want(two, true)
	if _, attended, err := one.Attended(); err != nil || !attended {
		t.Errorf("the other is not seen: %v", err)
	}
	if err := leaveTwo(); err != nil {
		t.Fatal(err)
	}
	want(two, false)
}

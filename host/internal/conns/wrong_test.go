package conns

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// An address has so many wrong tokens in ten seconds, then waits for its turn, and goes
// without an answer when that is far; another address has its own, and all of them
// together wait in a bounded number. What is remembered is bounded too.
func TestWrongTokensAreSlowed(t *testing.T) {
	w := NewWrongTokens(10)
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	one, two := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/64")
	for i := range 10 {
		if pause, ok, _ := w.Show(one, true, now); pause != 0 || !ok {
			t.Fatalf("the %dth: %v %v", i+1, pause, ok)
		}
	}
	for i := range 5 {
		if pause, ok, _ := w.Show(one, true, now); pause != time.Duration(i+1)*time.Second || !ok {
			t.Fatalf("beyond: %v %v", pause, ok)
		}
	}
	if _, ok, _ := w.Show(one, true, now); ok {
		t.Error("one waits longer than it may")
	}
	if pause, ok, _ := w.Show(one, false, now); pause != 0 || !ok {
		t.Errorf("a token that lacks a right waits %v", pause)
	}
	if pause, ok, _ := w.Show(two, true, now); pause != 0 || !ok {
		t.Errorf("another address: %v %v", pause, ok)
	}
	now = now.Add(time.Minute)
	if pause, ok, _ := w.Show(one, true, now); pause != 0 || !ok {
		t.Errorf("later: %v %v", pause, ok)
	}
	for range 5 {
		w.Done()
	}
	if w.paused != 0 {
		t.Errorf("%d wait", w.paused)
	}
	// Many addresses, each beyond its own.
	waiting := 0
	for i := range 2 * maxPaused {
		from := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
		for range 10 {
			w.Show(from, true, now)
		}
		if pause, _, _ := w.Show(from, true, now); pause > 0 {
			waiting++
		}
	}
	if waiting != maxPaused {
		t.Errorf("%d wait at once", waiting)
	}
	for i := range 3 * wrongPeers {
		w.Show(netip.PrefixFrom(netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)}), 32), true, now)
	}
	if len(w.peers) != wrongPeers || w.seen.Len() != wrongPeers {
		t.Errorf("%d addresses are remembered", len(w.peers))
	}
}

// The log has the first wrong token of an address, then once a minute how many there were,
// and is not filled by many addresses.
func TestWrongTokensAreTold(t *testing.T) {
	w := NewWrongTokens(10)
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	one := netip.MustParsePrefix("192.0.2.1/32")
	var told []int
	for range 500 {
		if _, _, tell := w.Show(one, true, now); tell > 0 {
			told = append(told, tell)
		}
	}
	now = now.Add(tellWrong)
	if _, _, tell := w.Show(one, true, now); tell > 0 {
		told = append(told, tell)
	}
	if fmt.Sprint(told) != "[1 500]" {
		t.Errorf("told of %v", told)
	}
	lines := 0
	for i := range 2000 {
		if _, _, tell := w.Show(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32), true, now); tell > 0 {
			lines++
		}
	}
	if lines > wrongLines {
		t.Errorf("%d lines at once", lines)
	}
}

package forward

import (
	"fmt"
	"testing"

	"github.com/seed14be6753/stile"
)

// A guess is a live host other than this one that takes sessions; there are at most so many.
func TestGuess(t *testing.T) {
	peers := []stile.Peer{{ID: "self", Self: true, Left: 1}, {ID: "live", Left: 1}, {ID: "over"}, {ID: "draining", Left: 1, Draining: true}}
	var g Guesses
	if _, ok := g.Guess("a", peers); ok {
		t.Error("a guess of a session that is not known")
	}
	for _, c := range []struct {
		id   string
		want bool
	}{{"self", false}, {"live", true}, {"over", false}, {"draining", false}, {"gone", false}} {
		g.Learn("a", c.id)
		if p, ok := g.Guess("a", peers); ok != c.want || ok && p.ID != c.id {
			t.Errorf("%s: the guess is %v, %v", c.id, p.ID, ok)
		}
	}
	g.Learn("a", "live")
	g.Forget("a")
	if _, ok := g.Guess("a", peers); ok {
		t.Error("a guess that was dropped")
	}
	for i := range maxGuesses + 10 {
		g.Learn(fmt.Sprint(i), "live")
	}
	if len(g.of) != maxGuesses {
		t.Errorf("%d guesses, want %d", len(g.of), maxGuesses)
	}
	if _, ok := g.Guess(fmt.Sprint(maxGuesses+9), peers); !ok {
		t.Error("the last one is not there")
	}
}

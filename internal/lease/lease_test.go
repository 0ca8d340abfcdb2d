package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestTerm(t *testing.T) {
	const length = 2 * time.Second
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name    string
		renewed []int // moments at which renewals were sent
		refused bool
		now     int
		held    bool
	}{
		{"never joined", nil, false, 0, false},
		{"just joined", []int{0}, false, 0, true},
		{"before the margin", []int{0}, false, 1749, true},
		{"at the margin", []int{0}, false, 1750, false},
		{"renewed", []int{0, 500, 1000}, false, 2749, true},
		{"the last renewal counts from when it was sent", []int{0, 500, 1000}, false, 2750, false},
		{"answers out of order", []int{1000, 500}, false, 2749, true},
		{"the database refuses", []int{0, 500}, true, 501, false},
	} {
		term := Term{Length: length}
		for _, ms := range c.renewed {
			term.Renewed(at(ms))
		}
		if c.refused {
			term.Refused()
		}
		if held := term.Held(at(c.now)); held != c.held {
			t.Errorf("%s: held %v", c.name, held)
		}
		if c.held {
			continue
		}
		if term.Renewed(at(c.now)); term.Held(at(c.now)) {
			t.Errorf("%s: a lease that was over came back", c.name)
		}
	}
	term := Term{Length: length}
	term.Renewed(at(0))
	if got := term.Next(); !got.Equal(at(500)) {
		t.Errorf("renews at %v", got.Sub(start))
	}
}

func TestOwner(t *testing.T) {
	want := Host{ID: uuid.UUID{1}, Address: "10.0.0.2:8472"}
	if got, ok := Owner(Refuse("t:u:s", want)); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, err := range []error{nil, errors.New("x"), Lost()} {
		if _, ok := Owner(err); ok {
			t.Errorf("%v names an owner", err)
		}
	}
}
